"""Lilliefors statistics of one layer of BERT-base, 6,144 rows of 768 values: ours against a statsmodels loop."""

import time

import numpy as np
import pytest
import torch
from statsmodels.stats.diagnostic import lilliefors as by_statsmodels

from analysis.representations.normality import lilliefors

SECONDS, RATIO = 0.060, 30


def best(function, rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_lilliefors_is_fast_and_exact(one_thread, capsys):
    rows = torch.randn(6144, 768, generator=torch.Generator().manual_seed(0))
    fifth = rows[::5].double().numpy()  # a fifth of the rows tells how long the loop takes
    ours = best(lambda: lilliefors(rows), 10)
    theirs = best(lambda: [by_statsmodels(row)[0] for row in fifth], 2) * len(rows) / len(fifth)
    gap = np.abs(lilliefors(rows)[::5].numpy() - [by_statsmodels(row)[0] for row in fifth]).max()
    with capsys.disabled():
        print(f"\nlilliefors 6,144 x 768: {1e3 * ours:.0f} ms, statsmodels loop {1e3 * theirs:.0f} ms, "
              f"ratio {theirs / ours:.0f}, largest difference {gap:.1e}")
    assert gap < 1e-12
    assert ours <= SECONDS
    assert theirs / ours >= RATIO
