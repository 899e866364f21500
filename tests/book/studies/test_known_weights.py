"""Measurements of layers whose weights are simple enough that the answer is known by hand."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.core.attention_layer import AttentionLayer
from analysis.maps import gates
from book.studies.bert_similarity import asymmetry, cone, controls, terms
from book.studies.patterns_and_messages import forms
from book.studies.semi_bias import tilt
from book.studies.shared import map_counts
from book.studies.weighted_mean import identities

EYE = torch.eye(2, dtype=torch.float64)


def layer_of(W_Q, W_K, W_V, *, heads: int = 1) -> AttentionLayer:
    """Return a layer without biases whose heads are all alike."""
    W_Q, W_K, W_V = (W.expand(heads, *W.shape[-2:]).clone() for W in (W_Q, W_K, W_V))
    none = torch.zeros(heads, W_Q.shape[-1], dtype=torch.float64)
    return AttentionLayer(W_Q, W_K, W_V, W_V.mT.contiguous(), none, none, none, 0 * W_Q[0, :, 0])


class Observed(SimpleNamespace):
    """The states of one text, the rows of ``x`` before each layer and after the last."""

    def rows(self, layer: int) -> torch.Tensor:
        return self.states[0][layer]


def observed(x: torch.Tensor, *attention: AttentionLayer) -> Observed:
    return Observed(states=[torch.stack([x] * (len(attention) + 1))], attention=list(attention))


def subjects_of(x: torch.Tensor, *attention: AttentionLayer) -> SimpleNamespace:
    each = observed(x, *attention)
    return SimpleNamespace(trained=each, control=each, both={"trained": each, "control": each})


DOUBLED = layer_of(2 * EYE, EYE / 2, EYE)


def test_rows_grow_by_the_factor_of_a_multiple_of_the_unit_matrix():
    found = asymmetry.measure_stretching(subjects_of(3 * EYE, DOUBLED), SimpleNamespace(layer=0, head=0))
    assert found.norms["trained"].tolist() == [[3, 3], [6, 6], [1.5, 1.5], [3, 3]]
    assert found.largest["trained"].flatten().tolist() == pytest.approx([2, 0.5, 1])
    assert found.growth["control"].tolist() == [[[2, 2]], [[0.5, 0.5]], [[1, 1]]]
    assert found.over["trained"] == found.joint["trained"] == [1, 0, 0]
    assert [share.value for share in found.alone["trained"]] == [1, 0, 0]
    assert (found.furthest, found.amplified_V) == ([2, 0.5, 1], 0)


def test_rows_on_the_axis_of_a_stretch_are_its_cone():
    long = layer_of(torch.diag(torch.tensor([2.0, 1.0], dtype=torch.float64)), EYE, EYE)
    found = cone.measure_cone(subjects_of(EYE, long))
    assert found.positions["trained"].tolist() == [[1, 0.5], [1, 1], [1, 1]]
    assert (found.best, found.middle["trained"]) == ([1, 1, 1], [0.5, 1, 1])
    assert (found.pairs, found.narrow) == (6, pytest.approx(5 / 6))
    assert found.half == [0, 0, 0]
    assert 0.5 < found.middle["isotropic"][0] < 1


def test_heads_amplify_a_row_together_where_their_squares_add_up_to_more_than_one():
    shrinking = layer_of(0.6 * EYE, 0.8 * EYE, 2 * EYE, heads=2)  # 0.36 and 0.36; 0.64 and 0.64
    found = asymmetry.measure_stretching(subjects_of(EYE, shrinking), SimpleNamespace(layer=0, head=0))
    assert found.joint["trained"] == [0, 1, 1]
    assert [share.value for share in found.alone["trained"]] == [0, 0, 1]


def test_half_of_the_rows_lie_within_an_aperture():
    long = layer_of(torch.diag(torch.tensor([4.0, 1.0], dtype=torch.float64)), EYE, EYE)
    found = cone.measure_cone(subjects_of(torch.tensor([[0.0, 1], [0, 2], [1, 0]]).double(), long))
    assert found.positions["trained"][0].tolist() == [0.25, 0.25, 1]
    assert found.half == [pytest.approx(0.75), 0, 0]


def test_the_last_singular_value_is_over_the_first_in_the_worst_head():
    W_Q = torch.diag(torch.tensor([4.0, 1.0], dtype=torch.float64))
    layer = layer_of(W_Q, EYE, EYE, heads=2)
    layer.W_Q[1] = EYE
    found = terms.measure_form(subjects_of(EYE, layer), SimpleNamespace(layer=0, head=0))
    assert found.last_singular_value == pytest.approx(0.25)
    assert (found.channel, found.next_singular_value) == (2, 0)
    assert found.signs["trained"] == [(2, 0)]


def test_a_symmetric_table_of_scores_has_no_antisymmetric_share():
    scores = torch.tensor([[[1.0, 2.0], [2.0, -3.0]]])
    share, _, spread, negative = asymmetry.measure_scores(scores)
    assert (share, negative) == (0, 0.5)
    assert spread == pytest.approx(3.25**0.5)  # off the rows' means 1.5 and -0.5: .5, .5, 2.5, 2.5
    assert asymmetry.measure_scores(torch.tensor([[[0.0, 1.0], [0.0, 0.0]]]))[0] == 0.5
    found = asymmetry.measure_forms(observed(EYE, DOUBLED, DOUBLED), lambda x, layer: {"one": scores})
    assert found["one"].shape == (1, 2, 4)
    assert found["one"][0, 1].tolist() == asymmetry.measure_scores(scores)


def test_a_nilpotent_form_has_one_eigenvalue_of_each_sign_and_is_half_antisymmetric():
    across = layer_of(EYE[:, :1], EYE[:, 1:], EYE[:, :1])
    found = terms.measure_form(subjects_of(EYE, across), SimpleNamespace(layer=0, head=0))
    assert sorted(found.eigenvalues["trained"].tolist()) == pytest.approx([-0.5, 0.5])
    assert found.signs["trained"] == [(1, 1)]
    assert found.antisymmetric["trained"].tolist() == [[pytest.approx(0.5)]]
    assert (found.channel, found.last_singular_value, found.next_singular_value) == (1, 1, 0)
    assert found.negative_if_equal == 0


def test_a_key_bias_moves_no_attention_and_a_query_bias_does():
    biased = replace(DOUBLED, b_K=3 * EYE[:1], b_Q=-EYE[:1])
    found = terms.measure_terms(subjects_of(EYE, biased), 0)
    assert (found.model_error, found.dropped_gap) == (pytest.approx(0, abs=1e-12), pytest.approx(0, abs=1e-12))
    assert found.key_bias_ratio == pytest.approx(3)
    assert found.without_b_K[0].value == pytest.approx(0, abs=1e-12)
    # the scores of (1, 0), (0, 1) are 1 and 0 without the bias, and the bias takes 1/2 from the first, over sqrt(2)
    own, other = (1 / (1 + np.exp(-gap / 2**0.5)) for gap in (1, 0.5))
    second, third = (1 / (1 + np.exp(gap / 2**0.5)) for gap in (1, 1.5))
    assert found.without_b_Q[0].value == pytest.approx((own - other + second - third) / 2)


def test_a_table_of_positions_is_described_by_its_shortest_and_longest_row(monkeypatch):
    table = torch.tensor([[3.0, 0, 0, 0], [0, 5.0, 0, 0]], dtype=torch.float64)
    monkeypatch.setattr(cone, "load", lambda *_, **__: SimpleNamespace(positions=table))
    found = cone.measure_positions(SimpleNamespace(checkpoint=SimpleNamespace(name="two rows")))
    assert found.learned_norms == (3, 5)
    assert found.sines_norm_spread == pytest.approx(0, abs=1e-12)  # each pair of a sine and a cosine has length 1
    assert found.sines_defect == pytest.approx(0, abs=1e-12)
    assert found.learned_defect > 0.1
    assert list(found.tables) == ["fixed sines", "two rows", "random"]


def test_two_heads_may_amplify_together_what_neither_amplifies():
    found = controls.measure_layer(3 * EYE, layer_of(0.8 * EYE, EYE / 2, 2 * EYE, heads=2))
    assert found["sigma"].tolist() == pytest.approx([0.8, 0.5, 2])
    assert found["sigma above 1"].tolist() == found["amplified"].tolist() == [0, 0, 1]
    assert found["amplified jointly"].tolist() == [1, 0, 1]  # .64 + .64, .25 + .25, 4 + 4
    assert found["cone"].tolist() == pytest.approx([1, 1, 1])
    assert (found["lengths"], found["negative"], found["moved"]) == (0, 0, 0)


def test_a_map_is_composed_if_it_has_two_patterns():
    n = 32
    both = (gates.backward(n, 1) + gates.forward(n, 1)) / 2
    numbers = map_counts.count_patterns(gates.read_gates(torch.stack([both, gates.backward(n, 1), gates.closed(n)])))
    assert [numbers[name].item() for name in ("maps", "patterned", "composed")] == [3, 2, 1]


def test_the_first_row_of_a_layer_that_doubles_is_off_by_its_input():
    doubles = replace(layer_of(0 * EYE, EYE, EYE), W_O=2 * EYE[None])
    found = identities.measure_random_layer(doubles, torch.tensor([[1.0, -3.0], [2.0, 5.0]], dtype=torch.float64))
    assert found.first_row_off == 3
    assert found.visible.tolist() == [[1, 0.5, 0.5]]
    assert found.future.tolist() == [[0]]
    assert max(found.errors.values()) < 1e-12


def test_a_layer_without_keys_is_uniform_and_one_with_them_is_not():
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [3.0, 3.0]], dtype=torch.float64)
    even = identities.measure_case(layer_of(EYE, 0 * EYE, EYE), x)
    assert (even.uniform, even.distance) == (True, pytest.approx(0, abs=1e-12))
    assert not identities.measure_case(layer_of(EYE, EYE, EYE), x).uniform


def test_the_own_share_of_a_row_behind_the_mean_layer():
    x = torch.randn(9, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = identities.measure_mean_layer(x)
    assert max(found.error, found.one_head_error, found.attention_error) < 1e-12
    assert found.own_share.tolist() == pytest.approx([(1 + 1 / n) / 2 for n in range(1, 13)])
    assert found.narrow_rank == 8  # two heads of width 4
    assert found.rows_apart > 0


def test_dropped_weights_leave_a_bias_that_is_missing():
    x = torch.randn(9, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    biased = replace(layer_of(EYE, EYE, EYE, heads=3), b_V=torch.ones(3, 2, dtype=torch.float64))
    found = identities.measure_dropout(biased, x)
    low, high = found.row_sums
    assert low < 1 < high
    assert found.repaired < 1e-12
    # each of three heads adds (sum of its row - 1) times the bias of ones
    assert found.error == pytest.approx((found.attention.sum(-1) - 1).sum(0).abs().max().item())


@pytest.mark.parametrize(("heads", "ratio"), [(1, 0.5), (12, 6.0)])
def test_merging_two_matrices_halves_the_cost_of_one_wide_head_and_raises_that_of_narrow_ones(heads, ratio):
    assert identities.merging_ratio(768, heads) == ratio


def test_rewritten_heads_are_the_module():
    x = torch.randn(1, 6, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    layer = identities.random_layer(3, 12, 4)
    assert max(forms.measure_rewriting(layer, x).values()) < 1e-12
    gauge = forms.measure_gauge(layer, x)
    assert max(gauge.unchanged.values()) < 1e-9 < gauge.moved
    assert gauge.pattern_ranks.tolist() == gauge.message_ranks.tolist() == [4, 4, 4]


class Scores(SimpleNamespace):
    """A record of semi-biases: lines over 40 positions, tokens as wide as a position."""

    def array(self, name: str) -> np.ndarray:
        return self.arrays[name]


def lines() -> Scores:
    p = np.arange(40.0)
    late = np.where(p == 0, 1.0, 0.05 * p)  # rises, but key 0 is first until 0.05 p = 1
    curves = np.stack([0.1 * p, -0.1 * p, 0.2 * p, late])
    return Scores(
        arrays={
            **{f"semi_{name}": curves for name in ("raw", "folded", "sigma")},
            "semi_query_bias": curves / 4,
            "sigma_p": np.ones(40),
        }
    )


def test_a_line_of_slope_a_tenth_doubles_every_ten_logarithms_of_two():
    found, wide = tilt.measure_tilt(lines()), 2**0.5  # of tokens as wide as a position
    assert found.marks == (2, 4, 13, 20, 38)
    assert (found.rising_heads, found.falling_heads) == ((0, 2, 3), (1,))
    assert (found.rising, found.heads, found.odd, found.weak, found.steepest) == (3, 4, 1, 3, 2)
    assert (found.rho_odd, found.odd_first, found.odd_50) == (-1, 0, -0.2)
    assert (found.ratio_50_low, found.ratio_50_high) == pytest.approx((np.exp(0.1 / wide), np.exp(0.4 / wide)))
    assert (found.doubling, found.doubling_3) == pytest.approx((10 * wide * np.log(2), 5 * wide * np.log(2)))
    assert (found.turn_low, found.turn_high) == (0, 1)  # the fourth head is lowest at position 1


def test_key_0_is_first_until_a_rising_line_reaches_it():
    found = tilt.measure_first_key(lines(), tilt.measure_tilt(lines()))
    assert found.until.tolist() == found.until_wide.tolist() == found.until_without_tokens.tolist() == [-1, 39, -1, 20]
    assert (found.first_low, found.first_high, found.first_weak) == (-1, -1, 20)
    assert found.first_wide_never == "0 and 2"
    assert found.lead[0, 0].tolist() == pytest.approx([0.1 * p / 2**0.5 for p in range(20)])


def test_the_rise_is_parted_between_the_biases():
    found = tilt.measure_rise(lines(), tilt.measure_tilt(lines()), (0,))
    assert found.shares.tolist() == pytest.approx([0.75] * 4)
    assert (found.query_bias + found.ln_bias)[0] == pytest.approx(3.4 / 2**0.5)
    assert (found.beta_local_low, found.beta_other_high) == pytest.approx((0.75, 0.75))
