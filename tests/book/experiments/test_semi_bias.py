"""The records on the semi-bias, on tiny models."""

import numpy as np
import torch

from book.experiments import semi_bias_mixer
from book.publish.records import Result
from book.viewers import mixer
from tests.analysis.tiny import draw, random_layer


def test_factors_of_full_rank_are_exact():
    y, layer = draw(9, 12), random_layer()
    left, right = semi_bias_mixer.factors(y, layer, rank=4)
    due = (y @ layer.W_Q) @ (y @ layer.W_K).mT / 2
    torch.testing.assert_close(left @ right.mT, due)


def test_the_viewer_starts_where_its_picture_is():
    found = {"sigma": np.ones(800), "left": np.ones((4, 800, 1)), "right": np.eye(800, 1)[None].repeat(4, 0)}
    found["own"] = np.arange(800.0)[None].repeat(4, 0)
    weights = mixer.mixtures(Result({}, found, {}))
    assert len(weights["circle alone"]) == mixer.QUERY + 1
    assert weights["circle alone"].argmax() == 0
    assert weights["ramp and circle"].argmax() == mixer.QUERY
