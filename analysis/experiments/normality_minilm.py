"""Gaussian rows, cone index, singular values and entropy of a BERT, layer by layer and text by text, with the control.

`survey` does it for any model of the BERT family; the record is MiniLM on all bundled passages.
"""

from collections.abc import Sequence

import numpy as np
import torch

from analysis import bert, checkpoints, entropy, geometry, models, normality, texts
from analysis.encoder import encode
from analysis.records import Experiment, Result
from analysis.stations import Stations, normalise, pass_through

PADDED, ABLATED, LONGEST_ABLATED = 12, 8, 96
EXTREME = 4.0  # a coordinate of a sum further out than this many deviations is extreme


def survey(name: str, passages: Sequence[str]) -> dict[str, np.ndarray]:
    """Measure a model and its control on the passages; arrays by name, the control's after ``control_``.

    Axes: ``text layer`` for rows and sums, ``text layer head`` for heads, ``layer coordinate`` for sizes.
    """
    checkpoint = checkpoints.find(name)
    tokenizer = models.tokenizer(checkpoint)
    found = {}
    for prefix, seed in (("", None), ("control_", 0)):
        model = models.load(checkpoint, control_seed=seed)
        measured = _measure_layers(model, tokenizer, passages)
        measured |= _measure_padding(model, tokenizer, passages[:PADDED])
        measured["effect"] = ablate(model, tokenizer, passages[:ABLATED])
        found.update({prefix + key: value for key, value in measured.items()})
    return found


def _measure_layers(model: torch.nn.Module, tokenizer, passages: Sequence[str]) -> dict[str, np.ndarray]:
    layers = bert.encoder_layers(model)
    rows: dict[str, list] = {}
    per_text: list[dict] = []
    for states in bert.hidden_states(model, tokenizer, passages):
        passed = [pass_through(x, layer) for x, layer in zip(states, layers)]
        per_text.append(_measure_text(passed))
        for layer, stations in enumerate(passed):
            rows.setdefault("first", [[] for _ in layers])[layer].append(stations.first)
            rows.setdefault("bare", [[] for _ in layers])[layer].append(normalise(stations.before_first))
    found = {key: np.stack([text[key] for text in per_text]) for key in per_text[0]}
    lengths = [len(x) for x in rows["first"][0]]
    for kind, by_layer in rows.items():
        for key, value in _measure_rows([torch.cat(parts) for parts in by_layer], lengths).items():
            found[f"{kind}_{key}"] = value
    return {"tokens": np.array(lengths), **found}


def _measure_text(passed: Sequence[Stations]) -> dict[str, np.ndarray]:
    """Measure one text: an array (layer,) or (layer, head) a name."""
    second = torch.stack([s.second for s in passed])
    bare = torch.stack([normalise(s.before_second) for s in passed])
    spectra = [geometry.head_output_spectrum(s.attention, s.values) for s in passed]
    sums = second.sum(1)
    dropped = [normality.standing_out(row[None], EXTREME) for row in sums]
    kept = [normality.without(row, drop) for row, drop in zip(sums, dropped)]
    total, bare_total = second.sum((0, 1)), bare.sum((0, 1))
    found = {
        "D_sum": normality.lilliefors(sums), "D_sum_kept": torch.cat([normality.lilliefors(row[None]) for row in kept]),
        "dropped": torch.tensor([len(drop) for drop in dropped]),
        "D_sum_bare": normality.lilliefors(bare.sum(1)),
        "D_sum_unit": normality.lilliefors(geometry.unit(second).sum(1)),
        "D_total": normality.lilliefors(total[None]), "D_total_bare": normality.lilliefors(bare_total[None]),
        "mean_total": total.mean()[None] / total.std(), "mean_total_bare": bare_total.mean()[None] / bare_total.std(),
        "cone": geometry.cone_index(second), "cone_bare": geometry.cone_index(bare),
        "ratio": geometry.alignment_ratio(second), "resultant": geometry.resultant_length(second),
        "resultant_bare": geometry.resultant_length(bare), "cosine": geometry.mean_pairwise_cosine(second),
        "cosine_bare": geometry.mean_pairwise_cosine(bare),
        "largest": torch.stack([s.largest for s in spectra]),
        "stable_rank": torch.stack([s.stable_rank for s in spectra]),
        "entropy": torch.stack([entropy.relative_entropy(s.attention).mean(-1) for s in passed]),
        "sink": torch.stack([s.attention[..., [0, -1]].sum(-1).mean(-1) for s in passed]),  # mass on first and last
        "histogram": torch.stack([entropy.histogram_entropy(s.attention) for s in passed]),
    }
    return {key: value.double().numpy() for key, value in found.items()}


def _measure_rows(by_layer: Sequence[torch.Tensor], lengths: Sequence[int]) -> dict[str, np.ndarray]:
    """Measure the rows of all texts a layer: shares that fail, with and without the coordinates that stand out."""
    failing, kept, sizes, tails, tails_kept, outliers = [], [], [], [], [], []
    for rows in by_layer:
        out = normality.standing_out(rows)
        less = normality.without(rows, out)
        for which, into in ((rows, failing), (less, kept)):
            failed = normality.lilliefors(which) > normality.critical_value(which.shape[-1])
            into.append([part.double().mean() for part in failed.split(list(lengths))])
        sizes.append((rows - rows.mean(-1, keepdim=True)).square().mean(0).sqrt())
        tails.append(normality.excess_kurtosis(rows).mean())
        tails_kept.append(normality.excess_kurtosis(less).mean())
        outliers.append(len(out))
    return {"failing": np.array(failing).T, "failing_kept": np.array(kept).T, "size": torch.stack(sizes).numpy(),
            "kurtosis": np.array(tails), "kurtosis_kept": np.array(tails_kept), "outliers": np.array(outliers)}


def _measure_padding(model: torch.nn.Module, tokenizer, passages: Sequence[str]) -> dict[str, np.ndarray]:
    """Pad each text to the model's limit, as the paper's pipeline does, and take the cone with and without padding."""
    found = {"pad_cone_in": [], "pad_cone_out": [], "pad_resultant_in": [], "pad_resultant_out": []}
    limit = model.config.max_position_embeddings
    for text in passages:
        ids = tokenizer(text, truncation=True, padding="max_length", max_length=limit, return_tensors="pt")
        with torch.no_grad():
            states = torch.cat(model(**ids, output_hidden_states=True).hidden_states[1:])
        keep = ids["attention_mask"].bool().expand(states.shape[:2])
        for key, form in (("cone", geometry.cone_index), ("resultant", geometry.resultant_length)):
            found[f"pad_{key}_in"].append(form(states).double().numpy())
            found[f"pad_{key}_out"].append(form(states, keep).double().numpy())
    return {key: np.stack(value) for key, value in found.items()}


def ablate(model: torch.nn.Module, tokenizer, passages: Sequence[str]) -> np.ndarray:
    """Make one head after another uniform; return 1 minus the cosine of the mean rows at the end: text layer head.

    In float64: the control's heads are so near to uniform that float32 would show its rounding.
    """
    layers = [layer.to(torch.float64) for layer in bert.encoder_layers(model)]
    heads, longest = layers[0].attention.heads, min(LONGEST_ABLATED, model.config.max_position_embeddings)
    effect = np.zeros((len(passages), len(layers), heads))
    for i, read in enumerate(bert.hidden_states(model, tokenizer, passages, longest)):
        states = encode(read[0].double(), layers)
        end = states[-1].mean(0)
        for level, layer in enumerate(layers):
            maps = pass_through(states[level], layer).attention
            for head in range(heads):
                edited = maps.clone()
                edited[head] = 1 / maps.shape[-1]
                x = pass_through(states[level], layer, edited).second
                for later in layers[level + 1:]:
                    x = pass_through(x, later).second
                effect[i, level, head] = 1 - torch.cosine_similarity(x.mean(0), end, dim=0)
    return effect


def _tolerance(name: str) -> float:
    """Say how far an array may differ on another machine: float32 sums, and rows at the brink of the test."""
    name = name.removeprefix("control_")
    if "failing" in name:
        return 0.03
    if name in ("tokens", "dropped", "first_outliers", "bare_outliers"):
        return 0
    if name.startswith(("cone", "pad_cone")):
        return 0.5  # in lengths of rows: of several thousand
    return 0.05 if name.startswith(("largest", "histogram", "stable")) else 5e-3


def compute(device: torch.device) -> Result:
    """Survey MiniLM on the bundled passages."""
    arrays = survey("minilm", texts.passages())
    return Result(arrays={key: value.astype(np.float32) if value.dtype.kind == "f" else value
                          for key, value in arrays.items()},
                  tolerances={key: _tolerance(key) for key in arrays})


EXPERIMENT = Experiment(
    name="normality-minilm", models=("minilm",), compute=compute, minutes=1.5, seed=0,
    summary="Gaussian rows, cone index, singular values and entropy of MiniLM and its control on 48 passages")
