"""The sum of the rows of a layer, and the sum over all layers."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import kstest

from analysis.models.reading import load
from analysis.statistics import normality
from analysis.transformer.layernorm import normalise
from book.lab.mathematics import layer_profile
from book.studies.bert_normality.rows import DrawnText, over_texts
from book.studies.shared.ladder import Arrays

KINDS = {
    "trained": ("trained", "D_sum"),
    "plain": ("trained", "D_sum_bare"),
    "unit rows": ("trained", "D_sum_unit"),
    "kept": ("trained", "D_sum_kept"),
    "control": ("control", "D_sum"),
}
SILENT = 1e-6  # a gain below this lets nothing through


@dataclass(frozen=True)
class Independent:
    """The sum of independent rows: how probable so large a distance from the uniform is, and the statistic."""

    p_uniform: float
    D: float


@dataclass(frozen=True)
class Sums:
    """The statistic of the sum of a layer's rows."""

    independent: Mapping[str, Independent]
    """By the distribution of the rows."""
    statistics: Mapping[str, Float[np.ndarray, "layer 3"]]
    """Means with intervals over texts. ``trained`` and ``control`` are sums of rows as written, ``plain`` without gain
    and bias, ``unit rows`` of rows of length 1, ``kept`` without the sum's extreme coordinates."""
    failing: Mapping[str, Float[np.ndarray, " layer"]]
    """By network: the share of texts whose sum fails."""
    dropped: Float[np.ndarray, " layer"]
    """How many coordinates of a sum are extreme, on average."""
    failing_kept: Float[np.ndarray, " layer"]
    """The share of texts whose sum fails without them."""
    vectors: Mapping[str, tuple[str, Float[np.ndarray, " model"]]]
    """The sums of the text that is drawn, by the title of their panel, each with the name of its network."""
    silent: list[int]
    """The coordinates that the gain of the last layer sets to zero."""
    silent_share: float
    """How much of the squared length of the last plain sum they hold, in the text that is drawn."""

    @property
    def vector_statistics(self) -> dict[str, float]:
        """The statistic of each of the vectors."""
        return {
            title: normality.lilliefors(torch.from_numpy(vector)[None]).item()
            for title, (_, vector) in self.vectors.items()
        }


@dataclass(frozen=True)
class Total:
    """The sum of all rows of all layers; arrays by network."""

    vectors: Mapping[str, Float[np.ndarray, " model"]]
    """Of the text that is drawn."""
    statistics: Mapping[str, float]
    """Of these vectors."""
    D: Mapping[str, Float[np.ndarray, "text 1"]]
    D_padded: Mapping[str, Float[np.ndarray, "padded 1"]]
    """With the rows of padding counted in."""
    plain_mean: Mapping[str, float]
    """The largest mean over deviation of a text's sum without gain and bias."""


def measure_sums(text: DrawnText, arrays: Arrays, critical: float) -> Sums:
    """Test sums of independent rows and of the rows of each layer."""
    tokens, width = text.states["trained"].shape[1:]
    trained = arrays["trained"]
    cut = np.array([[normality.critical_value(int(width - k)) for k in row] for row in trained["dropped"]])
    silent = (load(text.networks["trained"]).encoder_layers()[-1].norm_mlp.gain.abs() < SILENT).nonzero().flatten()
    plain = normalise(text.stations["trained"][-1].before_second).sum(0).square()
    return Sums(
        independent=_sum_independent(tokens, width),
        statistics={kind: over_texts(arrays[network][name]) for kind, (network, name) in KINDS.items()},
        failing={network: (values["D_sum"] > critical).mean(0) for network, values in arrays.items()},
        dropped=trained["dropped"].mean(0),
        failing_kept=(trained["D_sum_kept"] > cut).mean(0),
        vectors=_drawn_sums(text),
        silent=silent.tolist(),
        silent_share=(plain[silent].sum() / plain.sum()).item(),
    )


def _sum_independent(tokens: int, width: int) -> dict[str, Independent]:
    """Add up independent rows, and test whether the sum, stretched to lie between 0 and 1, is uniform."""
    generator, tests = np.random.default_rng(0), {}
    for name, rows in (
        ("Gaussian", generator.standard_normal((tokens, width))),
        ("uniform", generator.uniform(-1, 1, (tokens, width))),
    ):
        total = torch.from_numpy(rows).sum(0)
        uniform = kstest((total - total.min()) / (total.max() - total.min()), "uniform")
        tests[name] = Independent(float(uniform.pvalue), normality.lilliefors(total[None]).item())
    return tests


def _drawn_sums(text: DrawnText) -> dict[str, tuple[str, np.ndarray]]:
    vectors = {
        f"layer {layer}": ("trained", text.stations["trained"][layer].second.sum(0).cpu().numpy())
        for layer in text.layers
    }
    return vectors | {"control": ("control", text.stations["control"][text.layers[-1]].second.sum(0).cpu().numpy())}


def measure_total(text: DrawnText, arrays: Arrays) -> Total:
    """Test the sum of all rows of all layers."""
    totals = {network: layer_profile.sums(stations)["total"] for network, stations in text.stations.items()}
    return Total(
        vectors={network: vector.cpu().numpy() for network, vector in totals.items()},
        statistics={network: normality.lilliefors(vector).item() for network, vector in totals.items()},
        D={network: values["D_total"] for network, values in arrays.items()},
        D_padded={network: values["pad_D_total"] for network, values in arrays.items()},
        plain_mean={network: float(np.abs(values["mean_total_bare"]).max()) for network, values in arrays.items()},
    )
