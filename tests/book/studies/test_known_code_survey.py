"""One sequence measured as the model and as the released code compute it, on inputs whose answer is known by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from book.studies.text_and_code import survey
from tests.book.studies.known import double, no_norm, plain

LN3, LN9 = math.log(3), math.log(9)
KEEP = torch.tensor([True, True, False])


def two_heads(**weights):
    """Return a layer of two heads of one channel, from the matrices of both."""
    layer = plain(2, 2, W_Q=torch.zeros(2, 1), W_K=torch.zeros(2, 1), W_V=torch.zeros(2, 1), W_O=torch.zeros(1, 2))
    for name, values in weights.items():
        getattr(layer, name).copy_(torch.tensor(values))
    return layer


def passage_of(layer, x, second, **stations):
    station = SimpleNamespace(x=x, second=second, **stations)
    return survey.Passage([SimpleNamespace(attention=layer, norm_attention=no_norm(2, 0.25))], [station], KEEP)


@pytest.fixture
def passage():
    """Two tokens and a row of padding; the query of every row is b_Q = 1, and the key is the first coordinate."""
    keys = [[[1.0], [0.0]], [[1.0], [0.0]]]  # the code's columns are (1, 1) and (0, 0)
    values = [[[1.0], [0.0]], [[5.0], [0.0]]]  # and here (1, 5) and (0, 0)
    layer = two_heads(W_K=keys, W_V=values, b_Q=[[1.0], [1.0]], b_V=[[10.0], [10.0]])
    x, second = double([LN3, 0], [0, LN9], [math.log(4), 0]), double([0, 1], [LN3, 2], [0, 3])
    attention = double([0.75, 0.25, 0]).expand(2, 3, 3)
    return passage_of(layer, x, second, attention=attention, values=double([[4], [8], [100]], [[0], [4], [100]]))


def test_each_difference_moves_the_attention_as_it_must(passage):
    found = survey.compare_attention(passage)
    # the model: 3/4 and 1/4. Without b_Q even; with padding 3, 1 and 4 of 8; on the output 1 and 3 of 4
    assert found["distance"][:3, 0].tolist() == pytest.approx(np.array([[1 / 4] * 2, [1 / 2] * 2, [1 / 2] * 2]))
    # the code's columns: 3 and 9 of 12 in the first head, even in the second; all four: even over three rows
    assert found["distance"][3, 0].tolist() == pytest.approx([1 / 2, 1 / 4])
    assert found["distance"][4, 0].tolist() == pytest.approx([5 / 12] * 2)
    # S V of the model: twice the row 5, twice the row 1; of the code: three times the mean of 5, 10 + ln 3 and 15
    assert found["largest"].tolist() == [pytest.approx([50**0.5, 2**0.5])]
    assert found["code_largest"].tolist() == [pytest.approx([3**0.5 * (30 + LN3) / 3, 0], abs=1e-6)]


def test_all_four_differences_are_on_the_layers_output_without_a_mask():
    """The query is the first coordinate, 1 in every row of the output; keys are the sums ln 3, 0 and 0."""
    keys, queries = [[[1.0], [0.0]], [[1.0], [0.0]]], [[[1.0], [0.0]], [[0.0], [0.0]]]
    layer = two_heads(W_K=keys, W_Q=queries, b_Q=[[7.0], [7.0]])
    passage = passage_of(layer, double([5, 1], [0, 2], [3, 3]), double([1, LN3 - 1], [1, -1], [1, -1]))
    found = survey.attend_with_fault("all four", passage, 0)
    assert found[0].flatten().tolist() == pytest.approx([0.6, 0.2, 0.2] * 3)
    assert found[1].flatten().tolist() == pytest.approx([1 / 3] * 9)


def test_entries_are_compared_on_tokens_only(passage, monkeypatch):
    faulty = torch.zeros(2, 3, 3).double()
    faulty[:, :2, :2] = double([0.25, 0.75], [0.25, 0.75])
    faulty[:, 2] = faulty[:, :, 2] = 5
    monkeypatch.setattr(
        survey, "attend_with_fault", lambda fault, passage, layer: faulty if fault == "all four" else 1 - faulty
    )
    assert survey.compare_attention(passage)["alike"].tolist() == [pytest.approx([-1, -1])]


def test_rows_that_are_longer_are_counted_in_the_models_and_in_the_codes_maps():
    keys = [[[2.0], [0.0]], [[0.5], [0.5]]]  # the code's columns are (2, 0.5) and (0, 0.5)
    layer = two_heads(W_K=keys, b_Q=[[3.0], [3.0]])
    x, second = double([1, 0], [0, 1], [5, 5]), double([2, 0], [3, 1], [9, 9])
    found = survey.count_grown_rows(passage_of(layer, x, second))
    assert found["grown"][:, 0].tolist() == [[1, 1], [0.5, 0], [0, 0]]
    assert found["code_grown"][:, 0].tolist() == [[0, 0], [1, 0], [0, 0]]


def test_rows_are_tested_and_summed_with_padding_and_without(monkeypatch):
    """A row fails here by its first coordinate; the code's first rows are twice the model's."""
    monkeypatch.setattr(survey.normality, "critical_value", {2: 0.5}.__getitem__)
    monkeypatch.setattr(survey.normality, "lilliefors", lambda rows: rows[..., 0])
    monkeypatch.setattr(survey, "_first_rows", lambda passage, layer: 2 * passage.stations[layer].first)
    x, second = double([3, 0], [0, 4], [8, 8]), double([0, 1], [0, 2], [0, 5])
    first = double([0.5, 1], [0.3, 1], [0.6, 1])
    found = survey.measure_rows(passage_of(None, x, second, first=first))
    assert found["cone"].tolist() == pytest.approx([5, 3])
    assert found["padded_cone"].tolist() == pytest.approx([(11**2 + 12**2) ** 0.5, 8])
    assert found["code_cone"].tolist() == pytest.approx([2**0.5, 2])
    assert found["padded_code_cone"].tolist() == pytest.approx([1 + 2**0.5, 3])
    assert (found["failing"].tolist(), found["padded_failing"].tolist()) == ([0], [pytest.approx(1 / 3)])
    assert (found["code_failing"].tolist(), found["padded_code_failing"].tolist()) == ([1], [1])


def test_the_codes_first_rows_have_its_columns_no_mask_and_the_layers_input(passage):
    """No bias and no query: even attention over three rows; its values are x_0 + 5 x_1 and 0."""
    found = survey._first_rows(passage, 0)
    x = passage.states[0]
    rows = x + torch.stack([(x[:, 0] + 5 * x[:, 1]).mean().expand(3), torch.zeros(3).double()], 1)
    centred = rows - rows.mean(1, keepdim=True)
    expected = centred / (centred.square().mean(1, keepdim=True) + 0.25).sqrt()
    assert found.flatten().tolist() == pytest.approx(expected.flatten().tolist())


def test_maps_are_those_of_tokens_and_the_last_one_is_blanked():
    attention = torch.zeros(1, 4, 4)
    attention[0, :3, :3] = torch.tensor([[0.005, 0.662, 0.333], [1, 0, 0], [0.5, 0.5, 0]])
    attention[0, 3] = 0.25
    keep = torch.arange(4) < 3
    found = survey.measure_maps(survey.Passage([], [SimpleNamespace(attention=attention)], keep))
    first = -(0.005 * math.log(0.005) + 0.662 * math.log(0.662) + 0.333 * math.log(0.333))
    assert found["row_entropy"].item() == pytest.approx((first + math.log(2)) / 3 / LN3)
    # sixteen cells in the code's square: 14 in the lowest of 20 bins, 0.662 and 1 in two others
    assert found["value_entropy"].item() == pytest.approx(-7 / 8 * math.log(7 / 8) + 1 / 8 * math.log(16))
    assert found["last"].item() == pytest.approx(0.333 / 3)
    assert found["seen"].item() == pytest.approx(1.662 / 3)  # 0.005 is too faint, the last row and column blank


def test_keys_are_of_the_output_and_the_cone_of_the_input(monkeypatch):
    """The recomputed maps are given: even rows need four keys of four, rows of the identity one."""
    even, eye = torch.full((4, 4), 0.25), torch.eye(4)
    monkeypatch.setattr(survey, "attend_as_coded", lambda x, weights: x)
    own = torch.zeros(2, 4, 4)
    own[0, :3, :3], own[1, :3, :3] = 1 / 3, torch.tensor([[0.95, 0.05, 0], [0.5, 0.45, 0.05], [0.4, 0.3, 0.3]])
    mixed = torch.stack([even[0], even[0], eye[0], even[0]])  # the median of 4, 4, 1 and 4
    layers = [SimpleNamespace(attention=None)] * 2
    stations = [
        SimpleNamespace(second=torch.stack([mixed, eye]), x=torch.stack([even, eye]), attention=own),
        SimpleNamespace(second=torch.stack([eye, eye]), x=torch.stack([eye, even]), attention=own),
    ]
    found = survey.measure_coded_maps(survey.Passage(layers, stations, torch.arange(4) < 3))
    assert found["minimal_keys"].tolist() == [[4, 1], [1, 1]]
    assert found["own_minimal_keys"][0].tolist() == [3, 2]
    assert found["softmax_cone"].tolist() == pytest.approx([4, 2])
    assert found["singular_values"].tolist() == [1, 4]


def test_ranks_are_of_every_third_head_on_the_layers_output(monkeypatch):
    eye, even = torch.eye(4), torch.full((4, 4), 0.25)
    maps = torch.stack([eye, even, eye, even])
    values = torch.stack([even, eye, eye, eye])[..., :2]
    monkeypatch.setattr(survey, "attend", lambda x, weights, keep=None: maps * x[0, 0])
    monkeypatch.setattr(survey, "project", lambda x, W, b: values * x[0, 0])
    monkeypatch.setattr(survey.code, "with_stored_blocks", lambda weights: SimpleNamespace(W_V=None, b_V=None))
    stations = [SimpleNamespace(second=each) for each in (eye, even)]
    found = survey.measure_ranks(survey.Passage([SimpleNamespace(attention=None)] * 2, stations, None))
    assert found["rank_maps"][0].tolist() == [4, 1]
    assert found["rank_outputs"][0].tolist() == [1, 1]
    assert found["rank_layers"].tolist() == [4, 1]


def test_a_passage_goes_through_the_layers_one_after_the_other(monkeypatch):
    monkeypatch.setattr(survey, "load", lambda model: SimpleNamespace(encoder_layers=lambda: [1.0, 10.0]))
    seen = []

    def run_layer(x, layer, keep):
        seen.append(keep.tolist())
        return SimpleNamespace(x=x, second=x + layer)

    monkeypatch.setattr(survey, "run_layer", run_layer)
    model = SimpleNamespace(embeddings=lambda ids: ids[..., None].double(), device="cpu")
    found = survey.run(model, torch.tensor([[3, 5]]), torch.tensor([[1, 0]]))
    assert [state.flatten().tolist() for state in found.states] == [[3, 5], [4, 6], [14, 16]]
    assert seen == [[True, False]] * 2


def test_singular_values_are_those_of_tall_and_wide_matrices():
    wide = torch.tensor([[3.0, 0, 0], [0, 0, 4]])
    assert survey.singular_values(wide).tolist() == pytest.approx([3, 4])
    assert survey.singular_values(wide.mT).tolist() == pytest.approx([3, 4])
    assert survey.rank(torch.diag(torch.tensor([1.0, 1e-3, 1e-8]))) == 2
