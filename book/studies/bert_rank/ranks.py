"""Ranks on the way through the LayerNorms of a trained model and of its control."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.matrices import rank
from analysis.matrices.rank import NormRanks
from analysis.models import extraction
from analysis.transformer.attention import attend
from analysis.transformer.encoder import run_layer

DROPPED = 1e-14  # below this share of the largest, singular values do not count
DEAD = 1e-6  # a gain below this lets nothing through


@dataclass(frozen=True)
class Ranks:
    """Ranks on the way through the LayerNorms after attention, by ``(trained or control, number of tokens)``."""

    width: int
    limit: int  # tokens of the longer input
    short: int  # tokens of the shorter one
    through: Mapping[tuple[str, int], list[NormRanks]]
    apart: Mapping[tuple[str, int], list[float]]  # sine of the angle between the all-one row and the row space
    reads: Mapping[str, Float[Tensor, "row model"]]  # what the first LayerNorm reads, by title of the panel
    last: NormRanks  # through the last LayerNorm of the trained model, for the longer input
    dead_gains: int  # its gains below 1e-6

    @property
    def all_steps(self) -> list[NormRanks]:
        """The ranks of all layers, models and inputs."""
        return [steps for of_layers in self.through.values() for steps in of_layers]

    @property
    def clear(self) -> bool:
        """Whether every singular value lies far from the tolerance, above or below."""
        counts = [count for steps in self.all_steps for count in steps]
        return min(c.kept for c in counts) > 1e-9 and max(c.dropped for c in counts) < DROPPED

    @property
    def lawful(self) -> bool:
        """Whether centring costs a rank exactly where the all-one row lies in the row space."""
        return all(
            steps.centred.rank == steps.read.rank - (distance < 1e-7)
            for key, of_layers in self.through.items()
            for steps, distance in zip(of_layers, self.apart[key], strict=True)
        )

    def of(self, step: str, tokens: int, which: str = "trained") -> list[int]:
        """Return the different ranks after one step of the LayerNorms, over all layers."""
        return sorted({getattr(steps, step).rank for steps in self.through[which, tokens]})

    def added_by_bias(self, which: str) -> list[int]:
        """Return by how much the bias changes the rank for the longer input, over all layers."""
        return sorted({steps.with_bias.rank - steps.with_gain.rank for steps in self.through[which, self.limit]})


def measure_ranks(networks: Mapping[str, torch.nn.Module], tokenizer, passages: Sequence[str]) -> Ranks:
    """Take ranks through the LayerNorms after attention: of fewer tokens than dimensions, and of all there can be."""
    config = networks["trained"].config
    width, limit = config.hidden_size, config.max_position_embeddings
    short = max(2, min(width // 3, limit // 2))
    joined = " ".join(passages)[: 20 * limit]
    through, apart, reads = {}, {}, {}
    for (which, network), tokens in product(networks.items(), (short, limit)):
        o = extraction.observe(network, tokenizer, [joined], tokens)
        read = [o.rows(i) + attend(o.rows(i), layer.attention).output for i, layer in enumerate(o.layers)]
        through[which, tokens] = [
            rank.ranks_through_norm(x, layer.norm_attention) for x, layer in zip(read, o.layers, strict=True)
        ]
        apart[which, tokens] = [rank.distance_of_ones(x) for x in read]
        if which == "trained":
            reads[f"n = {len(read[0])}, d = {width}"] = read[0].cpu()
            stations, norm = run_layer(o.rows(len(o.layers) - 1), o.layers[-1]), o.layers[-1].norm_mlp
            last = rank.ranks_through_norm(stations.before_second, norm)
            dead_gains = int((norm.gain.abs() < DEAD).sum())
    return Ranks(width, limit, short, through, apart, reads, last, dead_gains)
