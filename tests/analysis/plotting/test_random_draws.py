"""Trained values over random draws: every draw is there, and the trained value is a triangle above its own head."""

import numpy as np
import pytest
import torch

from analysis.plotting import style
from analysis.plotting.random_draws import draw_beside_random

RNG = np.random.default_rng(0)


def test_each_draw_and_each_head_is_drawn():
    own, drawn = torch.tensor([3.0, 5.0, 4.0]), RNG.random((7, 3)).astype(np.float32)
    lines = draw_beside_random({"a": (own, drawn), "b": (own, drawn)}).axes[1].lines
    grey = [
        line.get_ydata() for line in lines if line.get_color() == style.COLOURS["control"] and len(line.get_ydata())
    ]
    np.testing.assert_array_equal(grey, drawn)
    assert lines[-1].get_marker() == "^"
    assert lines[-1].get_ydata().tolist() == [3, 5, 4]


def test_draws_of_other_heads_are_refused():
    with pytest.raises(ValueError, match=r"'a' must be \(head,\) and \(draw, head\) of one size, got \(2,\), \(7, 3\)"):
        draw_beside_random({"a": (np.ones(2), np.ones((7, 3)))})
