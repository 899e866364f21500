"""Lilliefors statistics of one layer of BERT-base, 6,144 rows of 768 values: ours against a statsmodels loop."""

import numpy as np
import torch
from statsmodels.stats.diagnostic import lilliefors as by_statsmodels

from analysis.statistics.normality import lilliefors
from tests.benchmarks.machine import race

ROWS, COLUMNS = 6144, 768
PART = 20  # the loop is measured on one row in so many


def test_lilliefors_is_fast_and_exact(say, promises):
    """It takes a small part of the loop's time, and a few times that of sorting the rows, without which no way does."""
    rows = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0))
    part = rows[::PART].double().numpy()
    scale = len(rows) / len(part)

    def loop():
        return [by_statsmodels(row)[0] for row in part]

    found = race({"ours": lambda: lilliefors(rows), "sorting": lambda: np.sort(rows), "loop": loop})
    gap = np.abs(lilliefors(rows)[::PART].numpy() - loop()).max()
    say(
        f"lilliefors {ROWS:,} x {COLUMNS}: {1e3 * found.least('ours'):.0f} ms; sorting the rows "
        f"{1e3 * found.least('sorting'):.0f} ms; statsmodels loop {1e3 * found.least('loop') * scale:.0f} ms; "
        f"largest difference {gap:.1e}"
    )
    assert gap < 1e-12
    promises.at_least("lilliefors: statsmodels loop / ours", found.ratio("loop", "ours") * scale)
    promises.at_most("lilliefors: ours / sorting the rows", found.ratio("ours", "sorting"))
