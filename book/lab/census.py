"""A census of gates: what every head of a model reads as, over many texts, gathered while the model runs.

Whatever model of the BERT or GPT-2 family. All sums are whole numbers, so that they do not depend on the order. For
what each head of any model does, see :func:`analysis.census`.
"""

import string
from collections.abc import Sequence

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from analysis.maps import gates, streaming
from analysis.models import attention_hooks
from analysis.models.reading import load
from analysis.statistics import exact_sums
from analysis.statistics.intervals import Interval
from book.lab.map_counts import (
    KINDS,
    NEAR,
    correlate,
    count_patterns,
    measure_columns,
    measure_lines,
    measure_points,
    measure_residual,
)
from book.publish.records import Result, Value

MOSTLY = 0.3  # a head is directional, for the study of its columns, from this share on
NULL = 4  # the maps of every fourth text are also read with their rows shuffled
NUMBERS = [
    *[
        "maps",
        "patterned",
        "composed",
        "backward",
        "forward",
        "both",
        "either",
        "either_open",
        "company",
        "open_maps",
        "diagonal",
        "diagonal_end",
        "directional_mass",
        "directional_short",
        "vertical_mass",
        "vertical_short",
        "lines",
        "run_share",
        "points",
        "points_weak",
        "point_mass",
        "rows",
        "row_points",
        "residual_mass",
        "residual_quiet",
        "residual_near",
        "near_cells",
        "loud",
        "told",
        "loud_above",
        "loud_pairs",
        "bias_maps",
        "bias_correlation",
        "bias_other",
        "bias_top",
        "bias_chance",
    ],
    *(f"tokens_{kind}" for kind in KINDS),
    *(f"columns_{kind}" for kind in KINDS),
    *(f"attention_{kind}" for kind in KINDS),
]


class Census(streaming.Sums):
    """Sums over texts: scores and names by head, numbers by text, and the statistics of all maps."""

    def __init__(self, texts: int, layers: int, heads: int, positions: int, device: torch.device | str = "cpu"):
        """Start with nothing counted."""
        self.scores = exact_sums.Moments((layers, heads, len(gates.GATES)), device)
        self.maps = streaming.MapStatistics(layers, heads, positions, device)

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(*shape, dtype=torch.long, device=device)

        self.state = {f"scores/{name}": total for name, total in self.scores.state.items()}
        self.state |= {f"maps/{name}": total for name, total in self.maps.state.items()}
        self.state |= {
            "names": zeros(layers, heads, len(gates.GATES)),
            "offsets": zeros(layers, heads, 2 * NEAR + 1),
            "kinds": zeros(layers, heads, len(KINDS)),
            "bias": zeros(layers, heads, 2),
            "numbers": zeros(texts, len(NUMBERS)),
            "lengths": zeros(texts),
            "by_text": zeros(texts, len(gates.GATES)),
            "null": zeros(texts, len(gates.GATES)),
            "null_names": zeros(len(gates.GATES)),
        }

    def number(self, name: str) -> np.ndarray:
        """Return one number for every text."""
        return (self.state["numbers"][:, NUMBERS.index(name)].double() / streaming.UNIT).cpu().numpy()

    def ratio(self, part: str, whole: str) -> Interval:
        """Return a ratio of totals over texts with its 95 % interval (delta method, texts independent)."""
        return ratio_interval(self.number(part), self.number(whole))


def ratio_interval(part: np.ndarray, whole: np.ndarray, level: float = 0.95) -> Interval:
    """Return ``sum(part) / sum(whole)`` over independent units, with its interval by the delta method.

    >>> [round(v, 3)
    ...  for v in ratio_interval(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0]))]
    [0.5, 0.5, 0.5]
    """
    if whole.sum() == 0:
        return Interval(float("nan"), float("nan"), float("nan"))
    ratio, n = part.sum() / whole.sum(), len(whole)
    error = np.sqrt(n / (n - 1) * np.square(part - ratio * whole).sum()) / whole.sum() if n > 1 else np.inf
    half = stats.t.ppf((1 + level) / 2, max(n - 1, 1)) * error
    return Interval(float(ratio), float(ratio - half), float(ratio + half))


def take_census(model: torch.nn.Module, tokenizer, texts: Sequence[str]) -> Census:
    """Count the gates of a model on texts, one text at a time, layer by layer.

    The model and its tokenizer are as ``pretrained`` gives them; texts are cut to what the model takes.
    """
    if not texts:
        raise ValueError("texts is empty: there is nothing to take a census of")
    config = model.config
    attention_hooks.keep_heap_whole()
    census = Census(
        len(texts), config.num_hidden_layers, config.num_attention_heads, config.max_position_embeddings, model.device
    )
    biases = [layer.b_Q for layer in load(model).layers]
    for index, text in enumerate(texts):
        inputs = tokenizer(text, truncation=True, max_length=config.max_position_embeddings, return_tensors="pt")
        ids = inputs["input_ids"]
        if ids.shape[1] < gates.SHORTEST:
            raise ValueError(f"text {index} has {ids.shape[1]} tokens; a map to read needs at least {gates.SHORTEST}")
        kinds = token_kinds(tokenizer, ids[0].tolist()).to(model.device)
        with torch.no_grad(), attention_hooks.with_attention(model, _Reader(census, index, kinds, biases)):
            model(**inputs.to(model.device))
    return census


def token_kinds(tokenizer, ids: Sequence[int]) -> Tensor:
    """Return for each token the index of its kind in ``KINDS``: the first, a separator, punctuation, or another."""
    kinds = [
        1
        if i in (tokenizer.sep_token_id, tokenizer.eos_token_id)
        else 2
        if token.strip("#Ġ▁") and not token.strip("#Ġ▁").strip(string.punctuation)
        else 3
        for i, token in zip(ids, tokenizer.convert_ids_to_tokens(ids), strict=True)
    ]
    return torch.tensor([0, *kinds[1:]])


class _Reader:
    """The attention of one text: counts its maps, reads their gates, and gives the model its output."""

    def __init__(self, census: Census, text: int, kinds: Tensor, biases: list[Tensor]):
        self.census, self.text, self.kinds, self.biases = census, text, kinds, biases
        self.causal, self.semi_bias = False, None
        self.reads = torch.zeros(*census.state["names"].shape, dtype=torch.float64, device=kinds.device)
        census.state["lengths"][text] = len(kinds)

    def __call__(self, layer, query, key, value, *, scale, causal=False, lengths=None):
        self.causal = causal
        self.semi_bias = torch.einsum("hkc,gc->ghk", key[0], self.biases[layer]) * scale  # b_Q of head g, keys of h
        self.census.maps.attend(layer, query, key, value, scale=scale, causal=causal, lengths=lengths)
        return streaming.visit_maps(self.visit)(layer, query, key, value, scale=scale, causal=causal, lengths=lengths)

    def visit(self, layer: int, attention: Tensor) -> None:
        """Read one layer's maps and add what they show."""
        maps, state = attention[0], self.census.state
        reading = gates.read_gates(maps, causal=self.causal)
        self.reads[layer] = reading.scores
        if layer == len(self.reads) - 1:
            self.census.scores.add(self.reads)
        state["by_text"][self.text] += streaming.fixed(reading.scores.sum(0))
        if self.text % NULL == 0:
            seeded = torch.Generator().manual_seed(1000 * self.text + layer)
            chance = gates.read_gates(gates.shuffle_rows(maps, seeded, causal=self.causal), causal=self.causal)
            state["null"][self.text] += streaming.fixed(chance.scores.sum(0))
            for name in chance.names():
                state["null_names"][gates.GATES.index(name)] += 1
        for head, name in enumerate(reading.names()):
            state["names"][layer, head, gates.GATES.index(name)] += 1
        n = maps.shape[-1]
        near = min(NEAR, n - 1)
        state["offsets"][layer, :, NEAR - near : NEAR + near + 1] += streaming.fixed(
            reading.offsets[:, n - 1 - near : n + near]
        )
        one_hot = torch.nn.functional.one_hot(self.kinds, len(KINDS)).to(maps)
        state["kinds"][layer] += streaming.fixed(maps.mean(-2) @ one_hot)
        numbers = count_patterns(reading) | measure_lines(maps, reading) | measure_points(maps, reading)
        numbers |= measure_residual(maps, reading)
        numbers |= measure_columns(maps, reading, one_hot) | self.follow_bias(layer, maps, reading)
        for name, total in numbers.items():
            state["numbers"][self.text, NUMBERS.index(name)] += streaming.fixed(torch.as_tensor(total))

    def follow_bias(self, layer: int, maps: Tensor, reading: gates.GateReading) -> dict[str, Tensor]:
        """Correlate, in directional heads, what columns get with the key semi-bias; and with another head's ``b_Q``."""
        heads = len(maps)
        own = self.semi_bias.diagonal(dim1=0, dim2=1).T
        other = self.semi_bias[(torch.arange(heads) + 1) % heads, torch.arange(heads)]
        got = maps.mean(-2).clamp_min(1e-12).log()
        follows, strays = correlate(got, own), correlate(got, other)
        told = (own.std(-1) > 1e-9) & (reading.score("directional") >= MOSTLY)
        self.census.state["bias"][layer, :, 0] += streaming.fixed(torch.where(told, follows, 0))
        self.census.state["bias"][layer, :, 1] += told
        top = reading.columns.argmax(-1) == own.argmax(-1)
        return {
            "bias_maps": told.sum(),
            "bias_correlation": follows[told].sum(),
            "bias_other": strays[told].sum(),
            "bias_top": top[told].sum(),
            "bias_chance": told.sum() / maps.shape[-1],
        }


RATIOS = {
    "composed": ("composed", "maps"),
    "patterned": ("patterned", "maps"),
    "both_of_either": ("both", "either"),
    "open_with_either": ("either_open", "either"),
    "in_company": ("company", "either"),
    "short_verticals": ("vertical_short", "vertical_mass"),
    "residual": ("residual_mass", "maps"),
    "residual_quiet": ("residual_quiet", "residual_mass"),
    "residual_near": ("residual_near", "residual_mass"),
    "near_cells": ("near_cells", "maps"),
    "loud": ("loud", "told"),
    "loud_below": ("loud_pairs", "loud_above"),
    "diagonal": ("diagonal", "open_maps"),
    "diagonal_end": ("diagonal_end", "open_maps"),
    "end_of_diagonal": ("diagonal_end", "diagonal"),
    "short_columns": ("directional_short", "directional_mass"),
    "run_covers": ("run_share", "lines"),
    "weak_points": ("points_weak", "points"),
    "points_a_map": ("points", "maps"),
    "point_mass": ("point_mass", "maps"),
    "rows_a_map": ("rows", "maps"),
    "points_a_row": ("row_points", "rows"),
    "bias_correlation": ("bias_correlation", "bias_maps"),
    "bias_other": ("bias_other", "bias_maps"),
    "bias_top": ("bias_top", "bias_maps"),
    "bias_chance": ("bias_chance", "bias_maps"),
    **{f"tokens_{kind}": (f"tokens_{kind}", "maps") for kind in KINDS},
    **{f"attention_{kind}": (f"attention_{kind}", "maps") for kind in KINDS},
    **{f"columns_{kind}": (f"columns_{kind}", "directional_mass") for kind in KINDS},
}


def summarise(census: Census, prefix: str = "") -> Result:
    """Turn a census into a result: ratios with intervals over texts, mean scores by head, statistics of the maps."""
    values = {}
    for name, (part, whole) in RATIOS.items():
        ratio = census.ratio(part, whole)
        if np.isfinite(ratio.value):
            bounds = [bound if np.isfinite(bound) else None for bound in (ratio.low, ratio.high)]
            values[prefix + name] = Value(
                round(ratio.value, 9), 0.01 * max(1, ratio.value), *bounds, n=int((census.number(whole) > 0).sum())
            )
    for name in ("maps", "either", "open_maps", "lines", "points", "bias_maps"):
        values[f"{prefix}count_{name}"] = Value(
            int(census.number(name).sum().round()), 3.0 + 0.01 * float(census.number(name).sum())
        )
    heads = census.state["names"].shape[0] * census.state["names"].shape[1]
    arrays = {
        "scores": census.scores.mean(),
        "score_deviation": census.scores.deviation(),
        "names": census.state["names"] / len(census.state["lengths"]),
        "offsets": census.state["offsets"].double() / streaming.UNIT / len(census.state["lengths"]),
        "kinds": census.state["kinds"].double() / streaming.UNIT / len(census.state["lengths"]),
        "bias": torch.where(
            census.state["bias"][..., 1] > 0,
            census.state["bias"][..., 0].double() / streaming.UNIT / census.state["bias"][..., 1].clamp_min(1),
            torch.nan,
        ),
        "entropy": census.maps.entropy(),
        "lengths": census.state["lengths"],
        "by_text": census.state["by_text"].double() / streaming.UNIT / heads,
        "null": census.state["null"][::NULL].double() / streaming.UNIT / heads,
        "null_names": census.state["null_names"] / (heads * len(census.state["lengths"][::NULL])),
    }
    arrays = {
        prefix + name: tensor.cpu().numpy().astype(np.int64 if name == "lengths" else np.float32)
        for name, tensor in arrays.items()
    }
    wide = {"names": 0.15, "null_names": 0.02, "bias": 0.05, "lengths": 0.0, "entropy": 1e-4}
    return Result(values, arrays, {name: wide.get(name.removeprefix(prefix), 0.01) for name in arrays})
