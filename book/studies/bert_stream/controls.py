"""What a layer of MiniLM mixes, what the layers of its controls mix, and what the ladder says of it.

Cosines are by document. The rest is measured on the rows of all documents together, and in the trained network on
those of every kind as well. What can be read back is read on all documents in every network: a reader that learns from
fewer of them finds less.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.weights import EncoderLayer
from analysis.decomposition.block_mixing import additive_share, block_coupling, interaction, off_diagonal_share
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.controls import LARGE, PERMUTED, SEEDS, make_controls
from analysis.models.reading import load
from analysis.representations.anisotropy import mean_pairwise_cosine
from analysis.transformer.activations import LayerActivations
from analysis.transformer.attention_only import composition_scores
from analysis.transformer.encoder import run_layer
from analysis.transformer.head_layout import concatenate, split, stack
from analysis.transformer.layernorm import apply_norm, normalise
from analysis.transformer.mlp import apply_mlp
from book.lab.documents import KINDS, load_documents
from book.publish import Inputs, Numbers
from book.publish.phrases import enumerated, percent
from book.publish.records import Experiment, Result
from book.studies.bert_stream.minilm import explained, fit_ridge
from book.studies.shared.documents import CONTROLS, LADDER, DocumentLadder, Rungs, load_rungs

# ---- What a layer of MiniLM mixes, on documents of four kinds, and what the layers of its controls mix

LONGEST, EACH = 128, 3  # tokens of a document, and documents of every kind for the controls
SAMPLES, PAIRS, POINTS = 240, 4, 1  # rows for shares of variance, pairs of blocks, rows for Jacobians
RIDGE = 0.1
STATIONS = ("read", "first LayerNorm", "second without the MLP", "second LayerNorm", "plain first", "plain second")
POOLED = ("additive", "linear", "interaction", "coupling of W_O", "coupling of the MLP", "peak")
READ = (("heads", "x"), ("heads", "second"), ("heads", "x and second"), ("first", "second"))


def compute(device: torch.device) -> Result:
    """Survey the documents."""
    checkpoint, arrays = checkpoints.find("minilm"), {}
    tokenizer = pretrained.tokenizer(checkpoint)

    def load(seed: int | None) -> torch.nn.Module:
        return pretrained.load(checkpoint, control_seed=seed, device=device)

    arrays |= measure_network(load(None), tokenizer, by_kind=True)
    controls = make_controls(load(None), load, rungs=LADDER)
    means = [measure_network(control.network, tokenizer, each=EACH) for control in controls]
    for name in means[0]:
        values = np.stack([one[name].mean(0) for one in means])
        arrays[name + CONTROLS] = values.reshape(len(SEEDS), len(LADDER), *values.shape[1:]).swapaxes(0, 1)
    return Result({}, {name: values.astype(np.float32) for name, values in arrays.items()}, dict.fromkeys(arrays, 0.02))


def measure_network(
    network: torch.nn.Module, tokenizer, *, each: int | None = None, by_kind: bool = False
) -> dict[str, np.ndarray]:
    """Measure one network.

    Returns
    -------
    dict
        ``cosine`` (document, layer, activation); ``pooled`` (group, layer, measure), of which the first group is all
        documents and the others, with ``by_kind``, those of each kind; ``read`` (1, layer, pair).
    """
    chosen = {document.text for document in load_documents(each=each)}
    texts = [document.text for document in load_documents()]
    states = extraction.hidden_states(network, tokenizer, texts, LONGEST)
    layers = load(network).encoder_layers()
    whole = [[run_layer(text[level], layer) for text in states] for level, layer in enumerate(layers)]
    by_layer = [[passed for passed, text in zip(of_texts, texts) if text in chosen] for of_texts in whole]
    cosines = [[_cosines(passed, layer) for passed in of_texts] for of_texts, layer in zip(by_layer, layers)]
    pooled = []
    for level, (of_texts, layer) in enumerate(zip(by_layer, layers)):
        groups, peak = [of_texts, *(_by_kind(of_texts) if by_kind else ())], _peak(layers[level - 1], layer)
        pooled.append([[*_pool(group, layer.to(torch.float64)), peak] for group in groups])
    read = [_read_back(of_texts) for of_texts in whole]
    return {
        "cosine": np.array(cosines).swapaxes(0, 1),
        "pooled": np.array(pooled).swapaxes(0, 1),
        "read": np.array(read)[None],
    }


def _by_kind(of_texts: Sequence[LayerActivations]) -> list[Sequence[LayerActivations]]:
    each = len(of_texts) // len(KINDS)
    return [of_texts[k * each : (k + 1) * each] for k in range(len(KINDS))]


def _cosines(passed: LayerActivations, layer: EncoderLayer) -> list[float]:
    """Return the mean cosine of two rows after each step in ``STATIONS``; without an MLP its output is 0."""
    rows = (
        passed.x,
        passed.first,
        apply_norm(passed.first, layer.norm_mlp),
        passed.second,
        normalise(passed.before_first),
        normalise(passed.before_second),
    )
    return [mean_pairwise_cosine(r).item() for r in rows]


def _pool(of_texts: Sequence[LayerActivations], layer: EncoderLayer) -> list[float]:
    """Return the first measures of ``POOLED``."""
    seeded, heads, mlp = torch.Generator().manual_seed(0), layer.attention.heads, layer.mlp
    rows = {name: torch.cat([getattr(p, name) for p in of_texts]).double() for name in ("x", "heads", "first")}
    picked = torch.randperm(len(rows["x"]), generator=seeded)
    x, first = rows["x"], rows["first"]

    def function(row: Tensor) -> Tensor:
        return apply_mlp(row, mlp)

    fit, test = picked[: len(picked) // 2], picked[len(picked) // 2 :]
    linear = explained(fit_ridge(first[fit], function(first[fit]), first[test], 1e-3), function(first[test])).item()
    additive = additive_share(function, first[picked[:SAMPLES]], heads, seeded)
    a, b = first[picked[: SAMPLES // 2]], first[picked[SAMPLES // 2 : SAMPLES]]
    mixed = []
    for _ in range(PAIRS):
        i, j = torch.randperm(heads, generator=seeded)[:2].tolist()
        swapped = split(a, heads).clone()
        swapped[i] = split(b, heads)[i]
        effect = (function(concatenate(swapped)) - function(a)).norm(dim=-1)
        mixed.append((interaction(function, a, b, heads, (i, j)).norm(dim=-1) / effect).mean().item())
    W_O, b_O = stack(layer.attention.W_O), layer.attention.b_O
    joined, through = torch.zeros(2, heads, heads, dtype=torch.float64, device=x.device)
    for i in picked[:POINTS].tolist():
        joined += block_coupling(
            lambda row, i=i: apply_norm(row @ W_O + b_O + x[i], layer.norm_attention), rows["heads"][i][None], heads
        )
        through += block_coupling(
            lambda row: apply_norm(row + function(row[None])[0], layer.norm_mlp), first[i][None], heads
        )
    return [
        additive,
        linear,
        float(np.mean(mixed)),
        *(off_diagonal_share(total / total.sum()) for total in (joined, through)),
    ]


def _peak(before: EncoderLayer, layer: EncoderLayer) -> float:
    """Return the largest composition score with the heads of the layer before over the median one."""
    scores = composition_scores(before.attention.W_O, layer.attention.W_Q)
    return (scores.max() / scores.median()).item()


def _read_back(of_texts: Sequence[LayerActivations]) -> list[float]:
    """Read ``READ`` back on every third document, fitted on the others."""
    rows = {name: [getattr(p, name).double() for p in of_texts] for name in ("x", "heads", "first", "second")}
    rows["x and second"] = [torch.cat(both, 1) for both in zip(rows["x"], rows["second"])]
    fit, test = (
        {name: torch.cat([x for i, x in enumerate(texts) if (i % 3 == 0) == held_out]) for name, texts in rows.items()}
        for held_out in (False, True)
    )
    return [
        explained(fit_ridge(fit[station], fit[what], test[station], RIDGE), test[what]).item() for what, station in READ
    ]


# ---- What the ladder of controls says of what a layer mixes

PANELS = ("interaction of two blocks", "explained by a sum", "off the diagonal, MLP", "added by the MLP")
PLACES = {
    **{station: ("cosine", k) for k, station in enumerate(STATIONS)},
    "explained by a sum": ("pooled", POOLED.index("additive")),
    "explained by a linear map": ("pooled", POOLED.index("linear")),
    "interaction of two blocks": ("pooled", POOLED.index("interaction")),
    "off the diagonal, W_O": ("pooled", POOLED.index("coupling of W_O")),
    "off the diagonal, MLP": ("pooled", POOLED.index("coupling of the MLP")),
    **{pair: ("read", k) for k, pair in enumerate(READ)},
}
BOTH = ("heads", "x and second")
READ_NAMES = {
    ("heads", "x"): "head outputs from the layer's input",
    ("heads", "second"): "head outputs from the layer's output",
    ("heads", "x and second"): "head outputs from both",
    ("first", "second"): "the MLP's input from the layer's output",
}


@dataclass(frozen=True)
class Anisotropy:
    """What the second half of each MiniLM layer does to the mean cosine of two rows, mean over documents."""

    whole: Float[np.ndarray, " layer"]  # from the first to the second LayerNorm
    norm: Float[np.ndarray, " layer"]  # by the second LayerNorm without the MLP
    mlp: Float[np.ndarray, " layer"]  # what the MLP changes of that
    plain: Float[np.ndarray, " layer"]  # the whole on plain rows
    mlp_rises: Float[np.ndarray, " layer"]  # the share of documents in which the MLP raises it


@dataclass(frozen=True)
class LadderPhrases(Numbers):
    """The page's text, ranges over layers; ``large`` and ``permuted`` are means over seeds."""

    plain: str
    rising_layer: str
    rising_share: str
    interaction_trained: str
    interaction_large: str
    interaction_permuted: str
    sum_trained: str
    sum_large: str
    told_trained: str  # of what heads wrote, by layer input and output together
    told_last: str  # in the last layer of the trained network
    told_large: str
    told_permuted: str
    mlp_mixed_trained: str
    mlp_mixed_large: str


def measure_rungs(inputs: Inputs) -> Rungs:
    """Read the ladder; pooled measures have all documents first, then every kind, and only these are units here."""
    rungs = load_rungs("bert-stream-ladder", inputs, PLACES)
    for name, measure in rungs.measures.items():
        if name not in STATIONS and name not in READ:
            rungs.measures[name] = DocumentLadder(measure.documents[1:], measure.controls)
    without, written = rungs["second without the MLP"], rungs["second LayerNorm"]
    rungs.measures["added by the MLP"] = DocumentLadder(
        written.documents - without.documents,
        {rung: values - without.controls[rung] for rung, values in written.controls.items()},
    )
    return rungs


def read_back_table(rungs: Rungs) -> pd.DataFrame:
    """Tabulate what is read back in MiniLM and in its controls, means over layers; of a control the range of seeds."""
    columns = {"MiniLM": {READ_NAMES[pair]: f"{rungs[pair].documents.mean():.2f}" for pair in READ}}
    for rung in LADDER:
        columns[rung] = {READ_NAMES[pair]: "{:.2f} to {:.2f}".format(*rungs[pair].range_of(rung)) for pair in READ}
    return pd.DataFrame(columns).rename_axis("share of the variance of")


def measure_anisotropy(rungs: Rungs) -> Anisotropy:
    """Split what the second half of a layer does to the mean cosine between its LayerNorm and its MLP."""
    first, norm, written, plain_first, plain_second = (rungs[name].documents for name in STATIONS[1:])
    by_mlp = written - norm
    return Anisotropy(
        *(
            (after - before).mean(0)
            for before, after in ((first, written), (first, norm), (norm, written), (plain_first, plain_second))
        ),
        (by_mlp > 0).mean(0),
    )


def phrase_rungs(rungs: Rungs, anisotropy: Anisotropy) -> LadderPhrases:
    """Write the ranges."""

    def signed(values: np.ndarray) -> str:
        return enumerated(values, "+.2f").replace("-", "\u2212")

    def span(values: np.ndarray, form: str = ".2f") -> str:
        return f"{values.min():{form}} to {values.max():{form}}"

    def control(name: str, rung: str) -> np.ndarray:
        return rungs[name].controls[rung].mean(0)

    interaction, additive, mixed = (rungs[name].documents.mean(0) for name in PANELS[:3])
    top, told = int(anisotropy.mlp.argmax()), rungs[BOTH].documents.mean(0)
    return LadderPhrases(
        plain=signed(anisotropy.plain),
        rising_layer=str(top),
        rising_share=percent(anisotropy.mlp_rises[top]),
        interaction_trained=span(interaction),
        interaction_large=span(control(PANELS[0], LARGE)),
        interaction_permuted=span(control(PANELS[0], PERMUTED)),
        sum_trained=span(additive),
        sum_large=span(control(PANELS[1], LARGE)),
        told_trained=span(told[:-1]),
        told_last=f"{told[-1]:.2f}".replace("-", "\u2212"),
        told_large=span(control(BOTH, LARGE)),
        told_permuted=span(control(BOTH, PERMUTED)),
        mlp_mixed_trained=span(mixed),
        mlp_mixed_large=span(control(PANELS[2], LARGE)),
    )


EXPERIMENTS = {
    "ladder": Experiment(
        "What a layer of MiniLM mixes, and what the layers of the ladder of its controls mix",
        compute,
        models=("minilm",),
        minutes=8,
        seed=0,
    )
}
