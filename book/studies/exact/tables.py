"""The tables of the page on families."""

from collections.abc import Mapping

import pandas as pd

from analysis.core.attention_layer import AttentionLayer
from analysis.core.positions import Rotary
from book.studies.exact.findings import EXACT
from book.studies.exact.measure import Biases, Row

NORMS = {"layer": "LayerNorm", "rms": "RMSNorm", "l2": "L2 norm", "affine": "affine map"}
PLACES = {"input": "before", "update": "after attention", "sum": "after the sum"}
NOTHING = "–"
FIRST = (
    ("GPT-2", ""),
    ("BERT", ""),
    ("GPT-NeoX, Pythia", ""),
    ("Llama, Mistral, Mixtral", ""),
    ("Qwen2, Qwen2.5", ""),
    ("Gemma 3", ""),
    ("gpt-oss", ""),
    ("T5, mT5, umT5", "decoder"),
    ("Whisper", "encoder"),
    ("ViT", ""),
)
"""The families that are shown before a search."""


def families(rows: tuple[Row, ...]) -> pd.DataFrame:
    """Return the table of families, those of `FIRST` first: what each has, and the errors measured."""
    by_name = {(row.family, row.stack): row for row in rows}
    rows = tuple(by_name[key] for key in dict.fromkeys((*FIRST, *by_name)))
    lines = [
        {
            "model types": ", ".join(row.model_types),
            "positions": positions(row.layers),
            "biases": row.layers[0].biases or "none",
            "norm": norms(row.layers),
            "besides": besides(row.layers),
            "exact": exact(row),
            "error": f"{row.in_double:.0e}",
            "padded": NOTHING if row.padded is None else f"{row.padded:.0e}",
            "as it runs": f"{row.as_it_is:.0e}",
        }
        for row in rows
    ]
    return pd.DataFrame(lines, index=pd.Index([name(row) for row in rows], name="family"))


def name(row: Row) -> str:
    """Name a family, and the stack where it has several."""
    return f"{row.family}, {row.stack}" if row.stack else row.family


def positions(layers: tuple[AttentionLayer, ...]) -> str:
    """Say how layers know positions; ``/`` stands between kinds that alternate."""
    return " / ".join(dict.fromkeys(_position(layer) for layer in layers))


def _position(layer: AttentionLayer) -> str:
    at = layer.positions
    if not isinstance(at, Rotary):
        return at.kind
    share = "" if at.coordinates == at.channel else f" {at.coordinates / at.channel:.0%}"
    scaling = "" if at.scaling == "default" else f", {at.scaling}"
    return f"rotary{share}, {at.pairing}{scaling}"


def norms(layers: tuple[AttentionLayer, ...]) -> str:
    """Say which norms stand where."""
    kinds = [f"{NORMS[norm.kind]} {PLACES[norm.place]}" for norm in layers[-1].norms]
    return "; ".join(kinds) or "none"


def besides(layers: tuple[AttentionLayer, ...]) -> str:
    """Say what else is inside the attention: groups, windows, norms of queries and keys, caps, sinks."""
    words = {
        "grouped queries": lambda layer: layer.groups < layer.heads,
        "window": lambda layer: layer.mask.reach,
        "blocks": lambda layer: layer.mask.chunk,
        "QK-norm": lambda layer: layer.qk_norm,
        "soft cap": lambda layer: layer.soft_cap,
        "sinks": lambda layer: layer.sinks is not None,
    }
    return ", ".join(word for word, applies in words.items() if any(map(applies, layers))) or NOTHING


def exact(row: Row) -> str:
    """Say what of the biases cancels or folds, as it was tried, and where parts of scores add up."""
    return " / ".join(dict.fromkeys(_exact(*each) for each in zip(row.layers, row.biases, strict=True)))


def _exact(layer: AttentionLayer, biases: Biases) -> str:
    words = ["b_K counts"]
    if biases.key < EXACT:
        words = ["b_K cancels"]
    elif biases.unturned is not None and biases.unturned < EXACT:
        words = [f"{1 - layer.positions.coordinates / layer.channel:.0%} of b_K cancels"]
    words.append("b_V folds" if biases.value is not None and biases.value < EXACT else "b_V does not fold")
    return "; ".join(
        [
            *words,
            *["parts add up before the cap"] * bool(layer.soft_cap),
            *["parts are divided by norms"] * bool(layer.qk_norm),
        ]
    )


def refusals(reasons: Mapping[str, str]) -> pd.DataFrame:
    """Return the table of what is refused, a line for each reason."""
    models: dict[str, list[str]] = {}
    for model_type, reason in reasons.items():
        models.setdefault(reason, []).append(model_type)
    return pd.DataFrame(
        {"models": [", ".join(names) for names in models.values()]},
        index=pd.Index([reason[0].upper() + reason[1:] for reason in models], name="reason"),
    )
