"""Heads from formulas and the real heads nearest to them: the tokens they read, their gates, and maps to draw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from analysis.maps import gates
from book.publish.records import Record, Result
from book.studies.one_score_four_parts import parts
from book.studies.one_score_four_parts.parts import FAMILIES, Survey

POSITIONS, VOCABULARY = 48, 12  # of the random text that the formulas read
VISIBLE = 0.1  # a gate with less of a map than this is not counted
GPT2 = "GPT-2, positions"

Map = Float[np.ndarray, "query key"]


@dataclass(frozen=True)
class Atlas:
    """Maps to draw side by side: ``columns`` holds one map for each of ``rows``, ``labels`` what stands above them."""

    rows: Sequence[str]
    columns: Mapping[str, Sequence[Map]]
    labels: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Distances:
    """Total variation from each family of formulas to the nearest trained head and to the nearest control."""

    trained: Float[np.ndarray, " family"]
    control: Float[np.ndarray, " family"]

    def of(self, family: str) -> tuple[float, float]:
        """Return the distances to one family: of the nearest trained head, and of the nearest control."""
        index = list(FAMILIES).index(family)
        return float(self.trained[index]), float(self.control[index])


def random_tokens() -> Int[Tensor, " position"]:
    """Draw the text that the formulas read."""
    return torch.randint(VOCABULARY, (POSITIONS,), generator=torch.Generator().manual_seed(0))


def gate_shares(attention: Float[Tensor, "query key"], *, causal: bool) -> dict[str, float]:
    """Return the gates that have more than a tenth of a map, with their shares, the largest first."""
    scores = gates.read_gates(attention, causal=causal).scores.tolist()
    shares = {gate: share for gate, share in zip(gates.GATES, scores) if share > VISIBLE}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def coarse_map(attention: np.ndarray, most: int = POSITIONS) -> Map:
    """Reduce a map to at most some positions: the first ones, or those of a long map in blocks.

    A cell of a block map is the attention to a block of keys, averaged over a block of queries.

    Examples
    --------
    >>> coarse_map(np.full((4, 4), 0.25), most=2)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    attention, size = np.asarray(attention, dtype=float), min(most, len(attention))
    step = max(1, len(attention) // most)
    blocks = attention[: size * step, : size * step].reshape(size, step, size, step)
    return blocks.sum(3).mean(1).round(4)


def measure_distances(
    gpt2: Record | Result, surveys: Mapping[str, Survey], controls: Mapping[str, Survey]
) -> dict[str, Distances]:
    """Return each model's distances to the formulas, GPT-2's positions first."""
    recorded = Distances(gpt2.array("distance").min(0), gpt2.array("control_distance").min(0))
    return {GPT2: recorded} | {
        name: Distances(surveys[name].distance.min((0, 1)), controls[name].distance.min((0, 1))) for name in surveys
    }


def measure_atlas(tokens: Int[Tensor, " position"], gpt2: Record | Result, surveys: Mapping[str, Survey]) -> Atlas:
    """Collect the formulas' maps and, of each model, the maps of the heads nearest to them."""
    columns = {}
    for title, causal in (("no mask", False), ("causal", True)):
        members = parts.members(tokens, causal=causal)
        columns[title] = [coarse_map(members[family][0]) for family in FAMILIES]
    columns[GPT2] = [coarse_map(attention) for attention in gpt2.array("maps")]
    distance = gpt2.array("distance")
    labels = {GPT2: [_label(0, head, distance[head, i]) for i, head in enumerate(distance.argmin(0))]}
    for name, survey in surveys.items():
        nearest = [survey.nearest(family) for family in FAMILIES]
        columns[name] = [coarse_map(survey.maps[layer, head]) for layer, head, _ in nearest]
        labels[name] = [_label(*head) for head in nearest]
    return Atlas(list(FAMILIES.values()), columns, labels)


def _label(layer: int, head: int, distance: float) -> str:
    return f"head {layer}.{head}: {distance:.2f}"
