"""What the survey of all layers says: couplings, sums over blocks, what can be read back, patterns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from book.studies.bert_stream.minilm import COUPLINGS, READ_BACK
from book.studies.shared.ladder import Arrays
from book.studies.shared.layer_lines import over_units

DRAWN = {
    "skip connection": "skip",
    "LayerNorm": "LN",
    "$W_O$": "W_O",
    "$W_O$ and LayerNorm": "W_O and LN",
    "MLP": "MLP",
    "MLP with skip connection\nand LayerNorm": "MLP, skip and LN",
}  # titles of bars, and what they are called in the survey


@dataclass(frozen=True)
class Coupling:
    """Which block moves which, from exact Jacobians."""

    blocks: Mapping[str, Float[np.ndarray, "layer map to source"]]
    """By network; the maps are those of ``names``. Every matrix has the sum 1."""
    mixed: float
    """The share off the diagonal of fully mixed blocks."""
    names: ClassVar[Sequence[str]] = COUPLINGS

    def off_diagonal(self, network: str, name: str) -> Float[np.ndarray, " layer"]:
        """Return the share of a map's coupling that is off the diagonal, in every layer."""
        coupling = self.blocks[network][:, self.names.index(name)]
        return 1 - np.trace(coupling, axis1=1, axis2=2)

    def between_blocks(self) -> dict[str, dict[str, Float[np.ndarray, " layer"]]]:
        """Return the shares off the diagonal that are drawn, by network and title."""
        return {
            network: {title: self.off_diagonal(network, name) for title, name in DRAWN.items()}
            for network in self.blocks
        }


@dataclass(frozen=True)
class Sums:
    """The MLP held to sums over blocks and to linear maps, and the mean cosine of rows, in every layer.

    Each is by network, ``(layer,)`` but for the cosines.
    """

    product_error: Mapping[str, np.ndarray]
    """Of (5.14), relative to the perceptron's output."""
    interaction: Mapping[str, np.ndarray]
    """Of two blocks, relative to the effect of one."""
    additive: Mapping[str, np.ndarray]
    """The share of variance that the best sum of functions of single blocks explains."""
    linear: Mapping[str, np.ndarray]
    """The share that the best linear map explains."""
    additive_linear: Mapping[str, np.ndarray]
    """The first share for the linear map W_1 W_2, of which it is 1 up to the sampling error."""
    cosine: Mapping[str, Float[np.ndarray, "layer station interval"]]
    """The mean over texts with its interval: before attention, after the first LayerNorm, of what the perceptron adds,
    after the second LayerNorm."""

    @property
    def rise(self) -> Float[np.ndarray, " layer"]:
        """How much the first half of the trained layer raises the mean cosine of rows."""
        return self.cosine["trained"][:, 1, 0] - self.cosine["trained"][:, 0, 0]

    def fall(self, network: str = "trained") -> Float[np.ndarray, " layer"]:
        """Return how much the second half of a layer lowers the mean cosine of rows."""
        return self.cosine[network][:, 1, 0] - self.cosine[network][:, 3, 0]


@dataclass(frozen=True)
class ReadBack:
    """What ridge regression reads back from an activation, as a share of the variance on held-out texts."""

    shares: Mapping[str, Float[np.ndarray, "layer pair block"]]
    """By network; the pairs of what is read and from where are ``READ_BACK``."""
    least_singular: float
    """The smallest singular value of the trained perceptrons' Jacobians, over layers."""

    def band(self, what: str, station: str, network: str = "trained") -> Float[np.ndarray, "layer 3"]:
        """Return the mean over blocks, the worst block and the best, in every layer."""
        blocks = self.shares[network][:, READ_BACK.index((what, station))]
        return np.stack([blocks.mean(1), blocks.min(1), blocks.max(1)], 1)

    def added(self, network: str = "trained") -> Float[np.ndarray, " layer"]:
        """Return how much more of the heads the layer's input and output tell together than the input alone."""
        return self.band("heads", "x and second", network)[:, 0] - self.band("heads", "x", network)[:, 0]

    @property
    def input_better(self) -> Int[np.ndarray, " better"]:
        """The layers whose input tells more of the heads than their output."""
        return np.flatnonzero(self.band("heads", "x")[:, 0] > self.band("heads", "second")[:, 0])


@dataclass(frozen=True)
class Patterns:
    """What the reader of gates makes of the attention, in every layer."""

    unexplained: Mapping[str, Float[np.ndarray, "layer interval"]]
    """By network: the share that no pattern explains, mean over texts with its interval."""
    closed: Mapping[str, Float[np.ndarray, " layer"]]
    """By network: the share that is uniform."""


def measure_coupling(arrays: Arrays) -> Coupling:
    """Take the couplings out of the survey."""
    blocks = {network: values["coupling"] for network, values in arrays.items()}
    return Coupling(blocks, 1 - 1 / blocks["trained"].shape[-1])


def measure_sums(arrays: Arrays) -> Sums:
    """Take what concerns the MLP as a sum, and the mean cosines of rows, out of the survey."""
    names = ("product_error", "interaction", "additive", "linear", "additive_linear")
    return Sums(
        **{name: {network: values[name] for network, values in arrays.items()} for name in names},
        cosine={
            network: np.array([over_units(layer) for layer in values["cosine"]]) for network, values in arrays.items()
        },
    )


def measure_read_back(arrays: Arrays) -> ReadBack:
    """Take what can be read back out of the survey."""
    return ReadBack(
        {network: values["read_back"] for network, values in arrays.items()},
        float(arrays["trained"]["least_singular"].min()),
    )


def measure_patterns(arrays: Arrays) -> Patterns:
    """Average what the reader of gates leaves over, and what it calls closed, over heads and texts."""
    unexplained = {network: over_units(values["residual"][0].mean(2)) for network, values in arrays.items()}
    return Patterns(unexplained, {network: values["residual"][1].mean((0, 2)) for network, values in arrays.items()})
