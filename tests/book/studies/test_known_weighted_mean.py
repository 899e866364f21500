"""The study of the weighted mean on inputs whose answer is known by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.models.controls import RUNGS
from book.studies.weighted_mean import dial, experiments, identities, sentence
from tests.book.studies.known import double, plain, record

EYE = torch.eye(2, dtype=torch.float64)


def test_zero_scores_have_the_whole_entropy_at_every_dial_and_sharp_ones_none():
    x = double([[1, 0], [0, 1], [1, 0]])
    share, own = experiments.curves(x, plain(2))
    assert share.flatten().tolist() == pytest.approx([1] * len(experiments.DIALS))
    assert own.tolist() == pytest.approx([(1 / 2 + 1 / 3) / 2])  # of the rows with two and with three keys
    sharp = plain(2, W_Q=1e3 * EYE, W_K=EYE)
    share, own = experiments.curves(x, sharp)
    assert share[0].item() == pytest.approx(1)  # the dial at 0
    # the second row sees one key like itself, the third two of its three
    assert own.tolist() == pytest.approx([(1 + 1 / 2) / 2])
    assert experiments._share_of_entropy(x, sharp).tolist() == pytest.approx([(0 + math.log(2) / math.log(3)) / 2])


def test_entropy_that_is_lost_is_an_eighth_of_the_square():
    assert dial.entropy_lost(2.0) == 0.5


def test_phrases_name_the_extremes_and_the_head_that_its_input_moves_most():
    rows = {"positions": np.array([0.5, 0.9]), "stand-ins": np.array([0.6, 0.3]), "text": np.array([0.123, 0.98])}
    found = dial.phrase_shares(rows, {"a": np.array([0.7, 0.8]), "b": np.array([0.6543, 1])}, np.array([0.1, 0.25]))
    assert found == {
        "control": "0.654",
        "sharpest": "0.123",
        "flattest": "0.98",
        "swing": "0.60",
        "swing_head": "1",
        "swing_self": "25%",
    }


def test_the_ladder_counts_rows_in_which_random_weights_are_flatter_or_as_sharp(monkeypatch):
    """Three models of one layer and two heads each; of each rung two seeds."""
    trained = {"gpt2": [[0.2, 0.4]], "gpt2-mini": [[0.0, 0.0]], "minilm": [[0.8, 1.0]]}
    arrays = {name: np.array(values) for name, values in trained.items()}
    for name in trained:
        arrays[f"{name}-controls"] = np.ones((len(RUNGS), 2, 1, 2))
    arrays["gpt2-controls"][1, :, 0] = (0.6, 0.7)  # flatter than trained in both seeds: .65 against .3
    arrays["gpt2-mini-controls"][1, :, 0] = (0.5, 0.5)
    arrays["minilm-controls"][1, :, 0] = (0.5, 0.6)  # sharper than trained: .55 against .9
    seeds = np.array([[[0.1, 0.3]], [[0.4, 0.8]]])
    records = {"weighted-mean-ladder": record(**arrays), "weighted-mean-seeds": record(shares=seeds)}
    monkeypatch.setattr(dial.publish, "live_or_record", lambda name, *_, **__: (records[name], ""))
    found = dial.measure_ladder(None)
    assert (found["ladder_rows"], found["ladder_scaled"], found["ladder_permuted"]) == (3, 1, 0)
    assert found["ladder_flatter"] == 1  # gpt2's; of gpt2-mini one training has .6, more than the random .5
    assert found["ladder_sharper"] == "minilm's layer 0 (0.550 against 0.900)"
    assert (found["seeds"], found["seeds_low"], found["seeds_high"]) == (2, pytest.approx(0.2), pytest.approx(0.6))
    assert (found["spread_trained"], found["spread_scaled"]) == (pytest.approx(0.2), pytest.approx(0.1))
    assert found["spread_ratio"] == pytest.approx(2)


def test_the_share_of_the_previous_token_is_the_least_text(monkeypatch):
    maps = torch.zeros(2, 1, 3, 4, 4).double()
    maps[0, 0, 2].diagonal(-1)[:], maps[1, 0, 2].diagonal(-1)[:] = double(0.9, 0.8, 0.7), double(1, 0.5, 0.75)
    monkeypatch.setattr(dial, "log_maps", lambda *_, **__: maps.log())
    monkeypatch.setattr(dial.checkpoints, "find", lambda _: None)
    assert dial.previous_token_share(SimpleNamespace(texts=None, device="cpu")) == "75.0 %"


def test_one_head_is_turned_from_even_to_sharp():
    scores = np.zeros((1, 1, sentence.HEAD + 1, 2, 2))
    scores[0, 0, sentence.HEAD] = [[0, -math.log(3)], [0, 0]]
    found = sentence.turn_head(record(minilm_scores=scores, minilm_tokens='["a", "b"]'))
    assert found.maps[:, 1].tolist() == [[0.5, 0.5]] * 4
    by_hand = [[1 / 2, 1 / 2], [3**0.5 / (1 + 3**0.5), 1 / (1 + 3**0.5)], [3 / 4, 1 / 4], [81 / 82, 1 / 82]]
    assert found.maps[:, 0].flatten().tolist() == pytest.approx(np.ravel(by_hand))
    assert (found.tokens, found.start()["t"]) == (("a", "b"), 0)


def test_the_word_is_averaged_over_its_prefixes_and_the_second_listing_is_shifted_by_one():
    found = identities.measure_word("bab")
    assert found.rows.tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0]]
    means = [[0, 1, 0], [1 / 2, 1 / 2, 0], [1 / 3, 2 / 3, 0]]
    for listed, shift in zip(vars(found).values(), (None, None, 0, None, 0, 0, 1), strict=True):
        if shift is not None:
            np.testing.assert_allclose(listed, np.add(means, shift))


def test_a_random_layer_is_held_to_itself_and_a_bent_one_is_not(monkeypatch):
    x = double([1, 2], [3, 0], [0, 5])
    layer = plain(2, heads=2, W_Q=EYE, W_K=EYE, W_V=EYE, W_O=2 * EYE, b_V=double(1, 0), b_O=double(0, 7))
    found = identities.measure_random_layer(layer, x)
    assert max(found.errors.values()) < 1e-12
    # the first row attends to itself: 2 heads of 2 (x + b_V), and b_O; less x that is (7, 13)
    assert found.first_row_off == pytest.approx(13)
    attend = identities.attend
    monkeypatch.setattr(
        identities,
        "attend",
        lambda *given: SimpleNamespace(attention=attend(*given).attention * 1.1, output=attend(*given).output),
    )
    assert identities.measure_random_layer(layer, x).errors["row sums"] == pytest.approx(0.1)


def test_a_case_is_as_far_from_uniform_as_its_last_row():
    x = double([1, 0], [1, 0], [0, 1])
    even = identities.measure_case(plain(2, W_Q=EYE), x)
    assert even.uniform
    assert (even.content, even.constant) == (0, 0)
    sharp = identities.measure_case(plain(2, W_Q=1e3 * EYE, W_K=EYE), x)
    assert not sharp.uniform
    assert sharp.distance == pytest.approx(2 / 3)  # the third row attends to itself alone
