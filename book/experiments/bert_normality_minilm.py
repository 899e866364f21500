"""Rows, sums, cone index, singular values and entropy of MiniLM and its control on bundled passages, text by text.

The same on documents of four kinds, in MiniLM and in its controls.
"""

from collections.abc import Sequence

import numpy as np
import torch

from analysis.data import texts
from analysis.maps import entropy
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.transformer.encoder import encode, run_layer
from analysis.transformer.layernorm import normalise
from book.lab.ablation import change_each_head
from book.lab.document_ladder import survey_documents
from book.lab.mathematics import layer_profile
from book.publish.records import Experiment, Result

PADDED, ABLATED = 12, 8  # texts
LONGEST_ABLATED = 96  # tokens
BY_LAYER = ("first_failing", "bare_failing", "D_sum", "D_sum_bare", "cosine", "cosine_bare", "resultant")
BY_HEAD = ("stable_rank", "entropy")


def survey(
    name: str,
    passages: Sequence[str],
    device: torch.device | str = "cpu",
    *,
    padded: int = PADDED,
    ablated: int = ABLATED,
) -> dict[str, np.ndarray]:
    """Measure a model and its control on the passages; arrays by name, the control's after ``control_``.

    Names as in `layer_profile.measure`, after ``pad_`` with the rows of padding counted in (the first ``padded``
    texts, each padded to the model's limit), and as in `layer_profile.outstanding`, after ``first_`` and ``bare_``. Of
    the first ``ablated`` texts also what `ablate` measures. None are padded or ablated where a page does not need it.
    Axes: ``text layer`` for rows and sums, ``text layer head`` for heads, ``layer coordinate`` for sizes.
    """
    checkpoint = checkpoints.find(name)
    tokenizer = pretrained.tokenizer(checkpoint)
    found = {}
    for prefix, seed in (("", None), ("control_", 0)):
        model = pretrained.load(checkpoint, control_seed=seed, device=device)
        measured = _measure_layers(model, tokenizer, passages)
        if padded:
            with_padding = measure_padded(model, tokenizer, passages[:padded])
            measured |= {f"pad_{key}": value for key, value in with_padding.items()}
        if ablated:
            measured |= ablate(model, tokenizer, passages[:ablated])
        found.update({prefix + key: value for key, value in measured.items()})
    return found


def _measure_layers(model: torch.nn.Module, tokenizer, passages: Sequence[str]) -> dict[str, np.ndarray]:
    layers = load(model).encoder_layers()
    kinds = {"first": lambda s: s.first, "bare": lambda s: normalise(s.before_first)}
    rows = {kind: [[] for _ in layers] for kind in kinds}
    per_text = []
    for states in extraction.hidden_states(model, tokenizer, passages):
        passed = [run_layer(x, layer) for x, layer in zip(states, layers)]
        per_text.append(layer_profile.measure(passed))
        for kind, take in kinds.items():
            for into, stations in zip(rows[kind], passed):
                into.append(take(stations))
    found = {key: np.stack([text[key] for text in per_text]) for key in per_text[0]}
    lengths = [len(x) for x in rows["first"][0]]
    for kind, by_layer in rows.items():
        for key, value in layer_profile.outstanding([torch.cat(parts) for parts in by_layer], lengths).items():
            found[f"{kind}_{key}"] = value
    return {"tokens": np.array(lengths), **found}


def measure_padded(model: torch.nn.Module, tokenizer, passages: Sequence[str]) -> dict[str, np.ndarray]:
    """Measure texts padded to the model's limit, as the paper's pipeline pads, with the rows of padding counted in."""
    layers, limit = load(model).encoder_layers(), model.config.max_position_embeddings
    per_text = []
    for text in passages:
        ids = tokenizer(text, truncation=True, padding="max_length", max_length=limit, return_tensors="pt").to(
            model.device
        )
        keep = ids["attention_mask"][0].bool()
        with torch.no_grad():
            states = torch.cat(model(**ids, output_hidden_states=True).hidden_states)
        passed = [run_layer(x, layer, keep=keep) for x, layer in zip(states, layers)]
        per_text.append(layer_profile.measure(passed, keep, padding=True))
    return {key: np.stack([text[key] for text in per_text]) for key in per_text[0]}


def ablate(model: torch.nn.Module, tokenizer, passages: Sequence[str]) -> dict[str, np.ndarray]:
    """Make one head after another uniform, on texts that are cut at ``LONGEST_ABLATED`` tokens.

    Returns
    -------
    dict
        ``(text, layer, head)`` each: ``effect``, 1 minus the cosine of the mean rows at the end; ``effect_entropy`` and
        ``effect_sink``, row entropy relative to ln n and the mass on the first and the last key, of the very maps that
        were made uniform. In float64: the control's heads are so near to uniform that float32 would show its rounding.
    """
    layers = [layer.to(torch.float64) for layer in load(model).encoder_layers()]
    heads, longest = layers[0].attention.heads, min(LONGEST_ABLATED, model.config.max_position_embeddings)
    found = {
        name: np.zeros((len(passages), len(layers), heads)) for name in ("effect", "effect_entropy", "effect_sink")
    }
    for i, read in enumerate(extraction.hidden_states(model, tokenizer, passages, longest)):
        states = encode(read[0].double(), layers)
        end = states[-1].mean(0)
        for level, layer in enumerate(layers):
            maps = run_layer(states[level], layer).attention
            found["effect_entropy"][i, level] = entropy.relative_entropy(maps).mean(-1).cpu()
            found["effect_sink"][i, level] = maps[..., [0, -1]].sum(-1).mean(-1).cpu()
            means = change_each_head(states[level], layers[level:], 1 / maps.shape[-1]).mean(1)
            found["effect"][i, level] = 1 - torch.cosine_similarity(means, end, dim=-1).cpu()
    return found


def _tolerance(name: str) -> float:
    """Say how far an array may differ on another machine: float32 sums, and rows at the brink of the test."""
    name = name.removeprefix("control_").removeprefix("pad_")
    if "failing" in name:
        return 0.03
    if name in ("tokens", "rows", "dropped", "first_outliers", "bare_outliers"):
        return 0
    if name.startswith("cone"):
        return 0.5  # in lengths of rows: of several thousand
    return 0.05 if name.startswith(("largest", "histogram", "stable")) else 5e-3


def compute(device: torch.device) -> Result:
    """Gaussian rows, cone index, singular values and entropy of MiniLM and its control on 48 passages."""
    arrays = survey("minilm", texts.passages(), device)
    return Result(
        arrays={key: value.astype(np.float32) if value.dtype.kind == "f" else value for key, value in arrays.items()},
        tolerances={key: _tolerance(key) for key in arrays},
    )


def survey_ladder(device: torch.device) -> Result:
    """Normality, cone index, singular values and entropy of MiniLM and the ladder of its controls."""
    tokenizer = pretrained.tokenizer(checkpoints.find("minilm"))

    def measure(network: torch.nn.Module, text: str, _: torch.nn.Module) -> dict[str, np.ndarray]:
        layers = load(network).encoder_layers()
        (states,) = extraction.hidden_states(network, tokenizer, [text])
        profile = layer_profile.measure([run_layer(x, layer) for x, layer in zip(states, layers)])
        tokens = states.shape[1]
        return {
            **{name: profile[name] for name in BY_LAYER},
            "D_total": profile["D_total"],
            **{name: profile[name].mean(1) for name in BY_HEAD},
            "cone": profile["cone"] / tokens,
            "cone_bare": profile["cone_bare"] / tokens,
            "largest": profile["largest"].mean(1) / tokens**0.5,
        }

    return survey_documents(measure, each_of_controls=3, device=device, tolerance=0.02)


EXPERIMENTS = {
    "bert-normality-minilm": Experiment(compute, models=("minilm",), minutes=1.5, seed=0),
    "bert-normality-ladder": Experiment(survey_ladder, models=("minilm",), minutes=3, seed=0),
}
