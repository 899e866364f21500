"""Everything that a report shows of one model, measured: its parameters always, what it does on texts where it runs."""

import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.positions import Positions, Rotary, StreamPositions
from analysis.models.checkpoints import Checkpoint
from analysis.models.controls import LARGE, LEVELS, PERMUTED, RANDOM, fresh_model, permute_into, scale_in_place
from analysis.models.reading import BIASES, AnyModel, Model, load
from analysis.reporting.observations import Observations, SplitBiases, add_text, draw_repeats, read_repeats
from analysis.reporting.origins import Means, kernel, mean_queries_and_keys
from analysis.reporting.parameters import LayerParameters, measure_layer, position_curves
from analysis.reporting.progress import count_steps
from analysis.reporting.state import State
from analysis.transformer.rotary import rotate

FEW = 8
"""How many texts the parts of the scores are measured on."""
BESIDE = 4
"""How many texts the controls read: what they are compared with is what the model does on the same ones."""
SEEDS = 5
"""Random seeds per control level."""
PICTURE = 40
"""Tokens of the text whose maps are drawn."""


@dataclass(frozen=True)
class SinkKeys:
    """The key that gets most in each head, by text."""

    positions: Int[np.ndarray, "text layer head"]
    tokens: np.ndarray
    """What stands there, ``(text, layer, head)``."""


@dataclass
class Measurement:
    """What was measured of one model."""

    about: dict[str, str]
    """What it is and where it came from."""
    parameters: list[LayerParameters]
    """The numbers of each layer."""
    position_curves: np.ndarray | None = None
    """The semi-bias of a table of positions in the first layer, where there is a table."""
    trained: Observations | None = None
    """What was seen on texts; none where the model was not run."""
    beside: Observations | None = None
    """The same on the first :data:`BESIDE` texts, which the controls read as well."""
    controls: dict[str, list[Observations]] = field(default_factory=dict)
    """What was seen of each control on the same few texts, by control level."""
    not_run: str = ""
    """Why the model was not run."""
    sounds: str = ""
    """What stood in for texts, where the model reads sounds."""
    lengths: str = ""
    """How many texts were left out or cut."""
    not_split: str = ""
    """Why its scores were not split into parts."""
    mean_kernels: list[np.ndarray] = field(default_factory=list)
    """With rotary positions, of each layer the kernel of the mean query and key, ``(head, distance)``, in nats."""
    maps: np.ndarray | None = None
    """``(layer, head, query, key)`` of one text."""
    tokens: list[str] = field(default_factory=list)
    """The tokens of that text."""
    sinks: SinkKeys | None = None
    """Which keys get most, on the texts that the controls read as well."""
    causal: bool = False
    provenance: dict[str, str] = field(default_factory=dict)
    """What repeats the report."""
    viewer: Any = None
    """Maps of that text to look through, where they are not too many."""


def describe(checkpoint: Checkpoint, read: Model) -> dict[str, str]:
    """Describe what a model is, in words for a table."""
    first = read.layers[0]
    norm, qk = first.norm() or (first.norms[0] if first.norms else None), first.qk_norm
    groups = "" if first.groups == first.heads else f", {first.groups} sets of keys and values"
    heads = f"{first.heads} heads{groups}; width {first.model}, heads of {first.channel}"
    rows = {
        "Model": checkpoint.label(),
        "Family": f"{read.family.name} ({read.config.model_type})",
        "Found": checkpoint.source + (f", revision {checkpoint.revision}" if checkpoint.revision else ""),
        "Licence": checkpoint.licence,
        "Layers": f"{len(read.layers)}, each of {heads}",
        "Positions": _name_positions(first),
        "Mask": _name_mask(first),
        "Biases": ", ".join(BIASES[letter] for letter in first.biases) or "none",
        "Norm of a layer": {None: "none"}.get(norm) or f"{norm.kind}, on its {norm.place}",
        "Scale of the scores": f"{first.scale:.6g}",
    }
    rows |= {"Part": read.family.stack} if read.family.stack else {}
    rows |= {"Norm of queries and keys": qk.query.kind} if qk else {}
    rows |= {"Soft cap": f"{first.soft_cap:g}"} if first.soft_cap else {}
    rows |= {"Sinks": "a learned score beside the keys"} if first.sinks is not None else {}
    about = checkpoint.provenance()
    return rows | {f"sha256 of {name}": digest for name, digest in (about["sha256"] | about["settings"]).items()}


def _name_positions(layer: AttentionLayer) -> str:
    positions = layer.positions
    if not isinstance(positions, Rotary):
        return positions.kind
    scaling = "" if positions.scaling == "default" else f", scaling {positions.scaling}"
    return (
        f"rotary: {positions.coordinates} of {positions.channel} coordinates, pairs of {positions.pairing}, "
        f"base {positions.base:g}{scaling}"
    )


def _name_mask(layer: AttentionLayer) -> str:
    mask = layer.mask
    return (
        ("causal" if mask.causal else "every position")
        + (f", at most {mask.reach} away" if mask.reach else "")
        + (f", in blocks of {mask.chunk}" if mask.chunk else "")
    )


def measure_parameters(checkpoint: Checkpoint, read: Model, *, show: bool = False) -> Measurement:
    """Measure what the parameters say, layer by layer.

    Raises
    ------
    ValueError
        If some layers have no attention.
    """
    if where := read.where_attention():
        raise ValueError(
            f"a {read.config.model_type} has {where}, and a report compares every layer with the next: census reads "
            "the heads that there are"
        )
    bar = count_steps(len(read.layers), f"parameters of {checkpoint.name}", "layer", show=show)
    measured = Measurement(describe(checkpoint, read), [])
    for number in range(len(read.layers)):
        measured.parameters.append(measure_layer(read.layers[number]))
        bar.update()
    bar.close()
    measured.causal, positions = read.causal, read.positions
    if positions is not None and positions.shape[1] == read.width:  # an ALBERT's are narrower, and widened later
        measured.position_curves = position_curves(read.layers[0], positions)
    return measured


def reasons_not_to_split(read: Model) -> str:
    """Explain why the scores of a model are not split into four parts; nothing where they are."""
    first = read.layers[0]
    rotary = isinstance(first.positions, Rotary)
    return "; ".join(reason for reason in first.reasons() if not (rotary and "positions act" in reason))


def read_biases(layer: AttentionLayer) -> tuple[Tensor, Tensor]:
    """Return query and key bias of a layer, ``(head, channel)``, that of a group once for each head."""
    return tuple(layer.per_head(b).to(torch.promote_types(b.dtype, torch.float32)) for b in (layer.b_Q, layer.b_K))


def splitter(vectors: Means, positions: Sequence[Positions]) -> SplitBiases:
    """Return what splits the scores of a model into four parts, counted from a query and a key of each head.

    These, the biases or the means, are ``(head, channel)``, before ``positions`` turn them.
    """
    read = [(query[:, None], key[:, None], of) for (query, key), of in zip(vectors, positions, strict=True)]

    def split(number: int, length: int) -> tuple[Tensor, Tensor]:
        b_Q, b_K, positions = read[number]
        if isinstance(positions, StreamPositions):
            return b_Q, b_K
        return tuple(rotate(b.expand(-1, length, -1), positions) for b in (b_Q, b_K))

    return split


@dataclass(frozen=True)
class _Sight:
    """What is measured of each network, on the same inputs."""

    texts: Sequence[Tensor]
    shape: tuple[int, int]
    rotaries: Sequence[tuple[Rotary, float]]
    """Of each layer how it turns queries and keys, and the scale of its scores; empty where there is no kernel."""
    repeats: Tensor | None
    """Random tokens that are read twice, for a causal model."""

    def start(self, network: AnyModel) -> Observations:
        """Return observations that no text was added to."""
        observed = Observations.empty(*self.shape)
        if self.repeats is not None:
            observed.repeats[:] = read_repeats(network, self.repeats, self.shape)
        if self.rotaries:
            kernels = mean_kernels(network, self.rotaries, self.texts)
            observed.ranges[:] = [np.ptp(of, axis=-1).max() for of in kernels]
        return observed

    def __call__(self, network: torch.nn.Module) -> Observations:
        network = load(network)
        observed = self.start(network)
        for ids in self.texts:
            add_text(observed, network, ids)
        return observed


def observe(
    measured: Measurement,
    model: torch.nn.Module,
    texts: Sequence[Tensor],
    state: State,
    *,
    seeds: int = SEEDS,
    longest: int = 128,
    first: int | None = None,
    show: bool = False,
) -> None:
    """Run the model and its controls on texts, ids ``(1, position)`` each, and fill in what was seen.

    Scores are split on the first :data:`FEW`; the first :data:`BESIDE` are those that the controls read as well. Random
    text has at most ``longest`` tokens and begins with ``first``, if there is such a token.
    """
    # What is measured on these texts: the parts of scores, where they can be split, and random repeats.
    read = load(model)
    measured.not_split = reasons_not_to_split(read)
    splits = [] if measured.not_split else make_splits(measured, read, texts[:FEW])
    rotaries = [(layer.positions, layer.scale) for layer in read.layers] if measured.mean_kernels else []
    repeats = draw_repeats(first, model.config.vocab_size, longest).to(texts[0].device) if read.causal else None
    see = _Sight(texts[:BESIDE], (len(read.layers), read.heads), rotaries, repeats)
    bar = count_steps(len(texts), "texts", "text", show=show)

    def read_on(part: str, observed: Observations, end: int) -> Observations:
        observed = state.load(part) or observed
        bar.update(observed.texts - bar.n)  # those that an interrupted report had read
        for number in range(observed.texts, end):
            add_text(observed, read, texts[number], *(splits if number < FEW else []))
            state.save(part, observed)
            bar.update()
        return observed

    # The trained model, text by text, each kept in case of an interruption; then three controls for each seed.
    measured.beside = read_on("beside", see.start(read), len(see.texts))
    measured.trained = read_on("trained", copy.deepcopy(measured.beside), len(texts))
    bar.close()
    bar = count_steps(len(LEVELS) * seeds, "controls", "model", show=show)
    for seed in range(seeds):
        parts = {level: state.load(f"{level} {seed}") for level in LEVELS}
        if all(part is not None for part in parts.values()):
            bar.update(len(parts))
        else:
            for level, observed in observe_controls(model, see, seed):
                parts[level] = observed
                state.save(f"{level} {seed}", observed)
                bar.update()
        for level, observed in parts.items():
            measured.controls.setdefault(level, []).append(observed)
    bar.close()


def observe_controls(
    model: torch.nn.Module, see: Callable[[torch.nn.Module], Observations], seed: int
) -> Iterator[tuple[str, Observations]]:
    """Yield each control level of a seed with what ``see``, which keeps no network, measures of it.

    All three are made in one network, so that beside the model no more than one is alive.
    """
    network = fresh_model(model, seed)
    yield RANDOM, see(network)
    scale_in_place(network, model)
    yield LARGE, see(network)
    permute_into(network, model, seed)
    yield PERMUTED, see(network)


def mean_kernels(
    model: AnyModel, rotaries: Sequence[tuple[Rotary, float]], texts: Sequence[Tensor]
) -> list[np.ndarray]:
    """Return of each layer the kernel of the mean query and key on texts, ``(head, distance)``, in nats."""
    means = mean_queries_and_keys(model, texts)
    return [kernel(*of, *rotary) for of, rotary in zip(means, rotaries, strict=True)]


def make_splits(measured: Measurement, read: Model, texts: Sequence[Tensor]) -> list[SplitBiases]:
    """Return what splits the scores counted from 0, and from the mean input of the texts; keep the latter's kernels."""
    each = [(layer.positions, layer.scale, read_biases(layer)) for layer in read.layers]  # once: every text needs them
    positions, scales, biases = zip(*each, strict=True)
    means = mean_queries_and_keys(read, texts)
    if all(isinstance(of, Rotary) for of in positions):
        measured.mean_kernels = [
            kernel(*of, rotary, scale) for of, rotary, scale in zip(means, positions, scales, strict=True)
        ]
    return [splitter(biases, positions), splitter(means, positions)]


def to_json(measured: Measurement) -> dict[str, Any]:
    """Return all numbers of a measurement as lists, six digits each, under the names of their fields."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return [plain(row) for row in value]
        if isinstance(value, float | np.floating):
            return float(f"{value:.6g}") if np.isfinite(value) else None
        if isinstance(value, np.integer):
            return int(value)
        if isinstance(value, dict):
            return {key: plain(entry) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            return [plain(entry) for entry in value]
        return plain(dataclasses.asdict(value)) if dataclasses.is_dataclass(value) else value

    kept = {f.name: getattr(measured, f.name) for f in dataclasses.fields(measured) if f.name not in ("maps", "viewer")}
    return plain(kept)
