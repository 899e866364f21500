"""The records on the semi-bias, on tiny models."""

import numpy as np
import pytest
import torch

from analysis.models import checkpoints
from book.experiments import semi_bias_emergence, semi_bias_mixer
from book.publish.records import Result
from book.viewers import mixer
from tests.analysis.tiny import GPT2, draw, random_layer, write_model


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = write_model(tmp_path_factory.mktemp("gpt2") / "tiny", GPT2 | {"n_positions": 40})
    return checkpoints.find(str(folder))


def test_the_last_level_of_a_trained_layer_keeps_its_biases_and_the_first_two_have_none():
    ladder = semi_bias_emergence.measure_ladder(checkpoints.find("gpt2-mini").folder)
    correlation, spread, alone, both = (ladder[:, :, k] for k in range(4))
    assert ladder.shape == (3, 5, 4, 8)
    assert (np.abs(correlation) <= 1).all()
    assert (spread > 0).all()
    assert ((alone > 0) & (alone < 1) & (both > 0) & (both < 1)).all()


def test_the_end_of_a_training_is_measured_on_the_passages():
    folder = checkpoints.find("gpt2-mini").folder
    end = semi_bias_emergence.measure(folder, torch.arange(2048.0))
    assert {name: array.shape for name, array in end.items()} == {
        "tilt": (4, 8),
        "overlap": (8,),
        "tokens": (2, 8),
        "losses": (2,),
    }
    assert end["losses"][1] > end["losses"][0]


def test_factors_of_full_rank_are_exact():
    y, layer = draw(9, 12), random_layer()
    left, right = semi_bias_mixer.factors(y, layer, rank=4)
    due = (y @ layer.W_Q) @ (y @ layer.W_K).mT / 2
    torch.testing.assert_close(left @ right.mT, due)


def test_the_viewer_starts_where_its_picture_is():
    found = {"sigma": np.ones(800), "left": np.ones((4, 800, 1)), "right": np.eye(800, 1)[None].repeat(4, 0)}
    found["own"] = np.arange(800.0)[None].repeat(4, 0)
    weights = mixer.mixtures(Result({}, found, {}))
    assert len(weights["circle alone"]) == mixer.start()["query"] + 1
    assert weights["circle alone"].argmax() == 0
    assert weights["ramp and circle"].argmax() == mixer.start()["query"]
