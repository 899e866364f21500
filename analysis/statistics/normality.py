r"""Is a vector shaped like a Gaussian sample? The Lilliefors test, for batches of rows."""

import math

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.random import Generator
from scipy.special import ndtr
from torch import Tensor

from analysis.core.checks import check_floating, check_tensor
from analysis.core.scaling import scale_to_one
from analysis.core.signatures import checked

CHUNK = 1 << 17  # values handled at a time: small enough to stay in the cache
HUGE = 1e150  # values beyond this or below its inverse are scaled before they are squared
SAFETY = 4e-6  # how far a float32 difference may be from the float64 one, with room

SIZES = (4, 5, 6, 7, 8, 10, 14, 20, 30, 50, 100, 200, 400, 768, 2000, 10_000)
LEVELS = (0.9, 0.75, 0.5, 0.3, 0.2, 0.15, 0.1, 0.05, 0.025, 0.01, 0.005, 0.001)
TABLE = np.array(
    [
        (0.4505, 0.5343, 0.6238, 0.6890, 0.7314, 0.7764, 0.8340, 0.9066, 0.9559, 0.9981, 1.0184, 1.0449),  # 4
        (0.4596, 0.5273, 0.6079, 0.6953, 0.7547, 0.7896, 0.8316, 0.8951, 0.9586, 1.0344, 1.0784, 1.1431),  # 5
        (0.4570, 0.5182, 0.6089, 0.6952, 0.7485, 0.7828, 0.8280, 0.9012, 0.9624, 1.0333, 1.0818, 1.1777),  # 6
        (0.4507, 0.5156, 0.6095, 0.6915, 0.7459, 0.7815, 0.8289, 0.9001, 0.9630, 1.0370, 1.0889, 1.1857),  # 7
        (0.4477, 0.5154, 0.6074, 0.6898, 0.7450, 0.7803, 0.8267, 0.8980, 0.9626, 1.0392, 1.0896, 1.1938),  # 8
        (0.4470, 0.5145, 0.6045, 0.6874, 0.7420, 0.7776, 0.8238, 0.8962, 0.9611, 1.0390, 1.0933, 1.2008),  # 10
        (0.4460, 0.5130, 0.6028, 0.6850, 0.7397, 0.7755, 0.8223, 0.8940, 0.9589, 1.0383, 1.0939, 1.2150),  # 14
        (0.4455, 0.5118, 0.6011, 0.6830, 0.7375, 0.7728, 0.8194, 0.8926, 0.9580, 1.0376, 1.0939, 1.2133),  # 20
        (0.4467, 0.5125, 0.6015, 0.6828, 0.7379, 0.7735, 0.8197, 0.8918, 0.9568, 1.0385, 1.0958, 1.2109),  # 30
        (0.4486, 0.5142, 0.6032, 0.6846, 0.7390, 0.7749, 0.8215, 0.8940, 0.9603, 1.0414, 1.0981, 1.2197),  # 50
        (0.4509, 0.5169, 0.6055, 0.6870, 0.7416, 0.7771, 0.8242, 0.8977, 0.9634, 1.0443, 1.1023, 1.2226),  # 100
        (0.4545, 0.5203, 0.6089, 0.6900, 0.7447, 0.7801, 0.8270, 0.9001, 0.9670, 1.0500, 1.1085, 1.2277),  # 200
        (0.4572, 0.5225, 0.6108, 0.6917, 0.7461, 0.7814, 0.8281, 0.9022, 0.9682, 1.0497, 1.1102, 1.2290),  # 400
        (0.4588, 0.5241, 0.6126, 0.6933, 0.7478, 0.7832, 0.8299, 0.9030, 0.9698, 1.0523, 1.1092, 1.2318),  # 768
        (0.4606, 0.5259, 0.6146, 0.6957, 0.7499, 0.7854, 0.8314, 0.9052, 0.9725, 1.0570, 1.1142, 1.2384),  # 2000
        (0.4624, 0.5281, 0.6168, 0.6981, 0.7523, 0.7879, 0.8349, 0.9082, 0.9752, 1.0565, 1.1156, 1.2356),  # 10000
    ]
)
"""Critical values of ``D * scale_of(n)``: one row per size, one column per level.

Quantiles of 400,000 simulated samples each, made by ``make_table``. Standard error: below 0.001 at levels from 0.9 to
0.01, about 0.004 at 0.001.
"""


@checked(finite=True, gradient=False)
def lilliefors(rows: Float[Tensor, "*rows coordinate"]) -> Float[Tensor, "*rows"]:
    r"""Measure how far each row's distribution function is from that of the Gaussian with its mean and deviation.

    .. math::  D = \sup_t \left| F_n(t) - \Phi\!\left(\frac{t - \bar x}{s}\right) \right|
               = \frac{1}{2n} + \max_i \left| \Phi(z_{(i)}) - \frac{i - 1/2}{n} \right|

    with :math:`z_{(1)} \le \dots \le z_{(n)}` the sorted standardised coordinates and s with divisor n - 1. The
    second form is the usual pair of one-sided maxima in one pass.

    Parameters
    ----------
    rows
        Any number of rows of n coordinates, float32 or float64. Each row is one sample.

    Returns
    -------
    Float[Tensor, "*rows"]
        D in [1/(2n), 1], float64: sorted in the dtype of ``rows``, compared in float64.

    Raises
    ------
    TypeError, ValueError
        If ``rows`` is not a float32 or float64 tensor, or a row has fewer than 4 coordinates, an entry that is not
        finite, or no spread.

    Notes
    -----
    Lilliefors 1967. D is the same for ``a x + b``, so a LayerNorm without gain and bias cannot change it
    ("The geometry of BERT", section 5.1).

    Examples
    --------
    >>> lilliefors(torch.tensor([[-1.0, -1.0, 1.0, 1.0]])).item()  # Phi(0.866) - 0.5
    0.30676...
    """
    n = rows.shape[-1]
    if n < SIZES[0]:
        raise ValueError(f"rows must have at least {SIZES[0]} coordinates, got shape {tuple(rows.shape)}")
    flat = np.ascontiguousarray(rows.detach().cpu().numpy().reshape(-1, n))
    step = max(1, CHUNK // n)
    parts = [_statistic(flat[start : start + step]) for start in range(0, len(flat), step)]
    return torch.from_numpy(np.concatenate([*parts, np.empty(0)])).reshape(rows.shape[:-1]).to(rows.device)


def _statistic(rows: np.ndarray) -> np.ndarray:
    """Find each row's largest difference in float32, then compute the candidates for it in float64.

    The float32 differences are right to 1e-6, so the true maximum is among those within ``SAFETY`` of the largest: the
    result is that of float64 throughout, at the price of one float64 normal cdf per row instead of n.
    """
    n = rows.shape[-1]
    # Standardise the sorted rows.
    z = np.sort(rows, axis=-1).astype(np.float64, copy=False)
    if (z[:, 0] == z[:, -1]).any():
        raise ValueError("rows holds a row without spread: all its coordinates are equal")
    largest = np.maximum(-z[:, 0], z[:, -1])
    if not 1 / HUGE < largest.min(initial=1) <= largest.max(initial=1) < HUGE:
        z /= largest[:, None]
    z -= z.mean(-1, keepdims=True)
    z /= np.sqrt(np.einsum("rc,rc->r", z, z) / (n - 1))[:, None]
    # Differences from the normal curve, in float32; the candidates again, exactly.
    middle = (np.arange(n) + 0.5) / n
    rough = (z / math.sqrt(2)).astype(np.float32)
    torch.from_numpy(rough).erf_()  # in place, on the same memory: erf(z / sqrt 2) = 2 Phi(z) - 1
    rough -= (2 * middle - 1).astype(np.float32)
    np.abs(rough, out=rough)
    row, column = np.divmod(np.flatnonzero(rough >= rough.max(-1, keepdims=True) - SAFETY), n)
    exact = np.abs(ndtr(z[row, column]) - middle[column])
    return np.maximum.reduceat(exact, np.searchsorted(row, np.arange(len(z)))) + 0.5 / n


def simulate_null(n: int, draws: int, generator: Generator) -> Float[Tensor, " draw"]:
    """Draw the statistic of ``draws`` Gaussian samples of size n, sorted: what D looks like when nothing is wrong.

    >>> bool(simulate_null(50, 2000, np.random.default_rng(0)).diff().min() >= 0)
    True
    """
    if n < SIZES[0]:
        raise ValueError(f"n must be at least {SIZES[0]}, got {n}")
    if draws < 1:
        raise ValueError(f"draws must be at least 1, got {draws}")
    step = max(1, (1 << 22) // n)
    parts = [
        lilliefors(torch.from_numpy(generator.standard_normal((min(step, draws - start), n), dtype=np.float32)))
        for start in range(0, draws, step)
    ]
    return torch.cat(parts).sort().values


def scale_of(n: int) -> float:
    r"""Return the factor :math:`\sqrt n - 0.01 + 0.85/\sqrt n` that makes D nearly free of n (Stephens 1974)."""
    return math.sqrt(n) - 0.01 + 0.85 / math.sqrt(n)


def make_table(draws: int = 400_000) -> np.ndarray:
    """Simulate ``TABLE`` again: about four minutes on one core; other numpy versions may draw other samples."""
    samples = (simulate_null(n, draws, np.random.default_rng([1967, n])).numpy() * scale_of(n) for n in SIZES)
    return np.stack([np.quantile(sample, 1 - np.array(LEVELS)) for sample in samples])


def _row_of_table(n: int) -> np.ndarray:
    """Interpolate the table's rows at size n (linear in 1/sqrt(n)), one scaled critical value per level."""
    if not SIZES[0] <= n <= SIZES[-1]:
        raise ValueError(f"n must be between {SIZES[0]} and {SIZES[-1]} (the simulated sizes), got {n}")
    at = -1 / np.sqrt(np.array(SIZES))
    return np.array([np.interp(-1 / math.sqrt(n), at, column) for column in TABLE.T])


def critical_value(n: int, level: float = 0.05) -> float:
    """Return the D that a Gaussian sample of size n exceeds with probability ``level``.

    From ``TABLE``; between its levels linear in log(level). The error is below 0.5 % of the value at levels down
    to 0.01: tests compare it with fresh simulations and with the sizes that statsmodels simulated.

    Raises
    ------
    ValueError
        If n or the level lies outside the table: n from 4 to 10,000, level from 0.001 to 0.9.

    Examples
    --------
    >>> round(critical_value(768), 3)  # "The geometry of BERT" has 0.032
    0.033
    """
    if not LEVELS[-1] <= level <= LEVELS[0]:
        raise ValueError(f"level must be between {LEVELS[-1]} and {LEVELS[0]}, got {level}")
    row = _row_of_table(n)
    return float(np.interp(-math.log(level), -np.log(LEVELS), row) / scale_of(n))


@checked(finite=True)
def standardise(rows: Float[Tensor, "*rows coordinate"]) -> Float[Tensor, "*rows coordinate"]:
    """Give each row mean 0 and mean square 1, however large or small its coordinates; raise for one without spread.

    Examples
    --------
    >>> standardise(torch.tensor([-1e30, 1e30]))  # its square would overflow
    tensor([-1.,  1.])
    """
    if (rows.amax(-1) == rows.amin(-1)).any():
        raise ValueError("rows holds a row without spread: all its coordinates are equal")
    scaled, _ = scale_to_one(rows, -1)
    centred, _ = scale_to_one(scaled - scaled.mean(-1, keepdim=True), -1)
    return centred / centred.square().mean(-1, keepdim=True).sqrt()


def excess_kurtosis(rows: Float[Tensor, "*rows coordinate"]) -> Float[Tensor, "*rows"]:
    """Return each row's fourth standardised moment minus 3: 0 for a Gaussian, large where few coordinates are huge.

    >>> excess_kurtosis(torch.tensor([-1.0, 1.0, -1.0, 1.0])).item()
    -2.0
    """
    return standardise(rows).pow(4).mean(-1) - 3


@checked(finite=True)
def outlier_dimensions(rows: Float[Tensor, "row coordinate"], threshold: float = 3.0) -> Int[Tensor, " outlier"]:
    """List the coordinates whose root mean square, over standardised rows, exceeds ``threshold``; largest first.

    A Gaussian row has root mean square 1 in every coordinate.

    Examples
    --------
    >>> outlier_dimensions(torch.tensor([[9.0] + [0.0, 0.1] * 10,
    ...                                  [-9.0] + [0.1, 0.0] * 10])).tolist()
    [0]
    """
    size = standardise(rows).square().mean(0).sqrt()
    outliers = torch.nonzero(size > threshold).flatten()
    return outliers[size[outliers].argsort(descending=True)]


def without(rows: Float[Tensor, "*rows coordinate"], outliers: Int[Tensor, " outlier"]) -> Float[Tensor, "*rows rest"]:
    """Return the rows without the listed coordinates, of which there may be none.

    >>> without(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([1]))
    tensor([[1., 3.]])
    """
    check_floating("rows", rows, "coordinate")
    check_tensor("outliers", outliers)
    if (
        outliers.ndim != 1
        or outliers.dtype not in (torch.int64, torch.int32)
        or (len(outliers) and not 0 <= outliers.min() <= outliers.max() < rows.shape[-1])
    ):
        raise ValueError(
            f"outliers must be one axis of whole numbers in 0..{rows.shape[-1] - 1}, got "
            f"{tuple(outliers.shape)} of {outliers.dtype}"
        )
    keep: Bool[Tensor, " coordinate"] = torch.ones(rows.shape[-1], dtype=torch.bool, device=rows.device)
    keep[outliers] = False
    return rows[..., keep]
