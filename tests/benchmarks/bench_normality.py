"""Lilliefors statistics of one layer of BERT-base, 6,144 rows of 768 values: ours, the formula as it stands, a loop."""

import numpy as np
import torch
from scipy.special import ndtr
from statsmodels.stats.diagnostic import lilliefors as by_statsmodels

from analysis.statistics.normality import lilliefors
from tests.benchmarks.machine import race

ROWS, COLUMNS = 6144, 768
PART = 20  # the loop is measured on one row in so many


def as_it_stands(rows):
    """Compute the statistic of all rows at once by its formula, in float64 throughout."""
    z = np.sort((rows - rows.mean(-1, keepdims=True)) / rows.std(-1, ddof=1, keepdims=True), axis=-1)
    n = rows.shape[-1]
    return 0.5 / n + np.abs(ndtr(z) - (np.arange(n) + 0.5) / n).max(-1)


def test_lilliefors_is_fast_and_exact(say, at_least):
    """It takes a small part of the loop's time, and less than its formula in float64.

    Sorting, which no way does without, is printed only: numpy sorts ten times as fast where there is AVX-512.
    """
    rows = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0))
    part = rows[::PART].double().numpy()
    scale = len(rows) / len(part)

    def loop():
        return [by_statsmodels(row)[0] for row in part]

    double = rows.double().numpy()
    found = race(
        {
            "ours": lambda: lilliefors(rows),
            "formula": lambda: as_it_stands(double),
            "sorting": lambda: np.sort(rows),
            "loop": loop,
        }
    )
    statistics = lilliefors(rows).numpy()
    gap = max(np.abs(statistics[::PART] - loop()).max(), np.abs(statistics - as_it_stands(double)).max())
    say(
        f"lilliefors {ROWS:,} x {COLUMNS}: {1e3 * found.least('ours'):.0f} ms; the formula "
        f"{1e3 * found.least('formula'):.0f} ms; sorting the rows {1e3 * found.least('sorting'):.0f} ms; "
        f"largest difference {gap:.1e}"
    )
    assert gap < 1e-12
    at_least("lilliefors: statsmodels loop / ours", found.ratio("loop", "ours") * scale)
    at_least("lilliefors: the formula in float64 / ours", found.ratio("formula", "ours"))
