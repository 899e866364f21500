"""Masked k-mers: how many are hidden, and by what, to half a percent."""

import pytest
import torch

from book.lab.training import masked_kmers

WORDS = range(4, 1000)


def test_of_the_words_15_percent_are_chosen_and_of_these_80_masked_10_exchanged_10_kept():
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(WORDS.start, WORDS.stop, (1000, 1000), generator=generator)
    real = torch.rand(ids.shape, generator=generator) < 0.9
    shown, due = masked_kmers.hide(ids, real, WORDS, 3, generator)
    chosen = due != masked_kmers.IGNORED
    assert not (chosen & ~real).any()
    assert (due[chosen] == ids[chosen]).all()
    assert (shown[~chosen] == ids[~chosen]).all()
    assert chosen[real].double().mean().item() == pytest.approx(0.15, abs=0.002)
    masked, kept = (shown[chosen] == 3).double().mean().item(), (shown == ids)[chosen].double().mean().item()
    assert masked == pytest.approx(0.8, abs=0.005)
    assert kept == pytest.approx(0.1 + 0.1 / len(WORDS), abs=0.005)
    others = shown[chosen & (shown != 3) & (shown != ids)]
    assert (others.min().item(), others.max().item()) == (WORDS.start, WORDS.stop - 1)
