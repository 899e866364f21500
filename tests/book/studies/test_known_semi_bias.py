"""The study of the semi-bias on inputs whose answer is known by hand."""

import math
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from book.studies.semi_bias import claims, experiments, first_layer, gpt2, locality, tilt, tokens
from book.studies.semi_bias.first_layer import FirstLayer
from tests.book.studies.known import double, hand_over, no_norm, plain, record

EYE = torch.eye(2, dtype=torch.float64)


def stored(monkeypatch, **tensors: torch.Tensor):
    """Let the study find these parameters in the checkpoint."""
    need = lambda name: tensors[name.removeprefix("h.0.attn.").replace(".", "_")]  # noqa: E731
    monkeypatch.setattr(first_layer, "load", lambda *_, **__: SimpleNamespace(tensors=SimpleNamespace(need=need)))


def test_equations_hold_for_the_parameters_that_were_read_and_say_how_far_others_are(monkeypatch):
    weights = {"W_Q": EYE, "W_K": 2 * EYE, "W_V": EYE, "W_O": 3 * EYE}
    layer = plain(2, causal=True, **weights, b_Q=double(1, 0), b_K=double(0, 4), b_O=double(1, 1))
    W_QKV, b_QKV = torch.cat([EYE, 2 * EYE, EYE], 1), double(1, 0, 0, 4, 0, 0)
    x = double([1, 0], [0, 2])
    parts = first_layer.score_terms(x, layer)
    stored(monkeypatch, c_attn_weight=W_QKV, c_attn_bias=b_QKV, c_proj_weight=3 * EYE)
    found = first_layer.measure_identities(x, parts, None, layer)
    exact = ("output_rows", "input_columns", "concatenation", "sum_over_heads", "later_keys", "row_sums")
    exact += ("key_bias_along_rows", "query_bias_across_queries", "shifted_scores", "content_without_biases")
    assert max(getattr(found, name) for name in exact) < 1e-12
    # by hand, times sqrt 2: scores [[4, 0], [10, 16]], content [[2, 0], [0, 8]]
    assert found.content_with_biases == pytest.approx(10 / 8)
    assert found.content_asymmetry == 0
    stored(monkeypatch, c_attn_weight=W_QKV + 0.5, c_attn_bias=b_QKV, c_proj_weight=2 * EYE)
    found = first_layer.measure_identities(x, parts, None, layer)
    assert (found.output_rows, found.input_columns) == (1, 0.5)
    # the last row of the heads' outputs is a mean of x; two of its three parts arrive, beside b_O
    assert found.concatenation > 0.2
    assert found.sum_over_heads > 0.2
    stored(monkeypatch, c_attn_weight=W_QKV, c_attn_bias=b_QKV - 3, c_proj_weight=3 * EYE)
    assert first_layer.measure_identities(x, parts, None, layer).input_columns == 3


def test_content_that_is_not_symmetric_says_how_far():
    turn = double([0, 1], [-1, 0])
    parts = first_layer.score_terms(EYE, plain(2, W_Q=turn, W_K=EYE))
    difference = parts.content - parts.content.mT
    assert (difference.norm() / parts.content.norm()).item() == pytest.approx(2)


def test_products_without_biases_are_scaled():
    layer = plain(2, W_Q=EYE, W_K=3 * EYE, b_Q=double(5, 5), b_K=double(7, 7))
    torch.testing.assert_close(first_layer.plain_scores(EYE, layer)[0], 3 * EYE / math.sqrt(2))


def test_misprints_are_off_by_what_their_lines_say():
    layer = plain(2, heads=3, causal=True, W_V=EYE, W_O=EYE, b_V=double(1, 0))
    x, even = double([2, 0], [0, 4]), double([[1, 0], [0.5, 0.5]]).expand(3, 2, 2)
    wrong = first_layer._misprints(x, layer, even)
    assert wrong["value_at_query"].tolist() == [[9, 0], [3, 12]]  # 3 heads of x_i + b_V
    assert wrong["bias_in_sum_over_keys"].tolist() == [[9, 0], [9, 6]]  # 3 (mean + number of keys times b_V)
    assert wrong["bias_outside"].tolist() == [[9, 0], [6, 6]]  # b_V of each head once
    assert wrong["bias_in_sum_over_heads"].tolist() == [[15, 0], [12, 6]]  # and three times too often


def test_a_semi_bias_is_held_to_the_module_and_twice_of_it_is_off_by_one(monkeypatch):
    layer = plain(2, W_Q=EYE, W_K=EYE, b_Q=double(1, 2), b_K=double(3, 0))
    places = double([1, 0], [0, 1], [2, 2])
    assert first_layer.map_error(places, layer) < 1e-12
    right = first_layer.semi_bias
    monkeypatch.setattr(first_layer, "semi_bias", lambda *given: 2 * right(*given))
    assert first_layer.map_error(places, layer) == pytest.approx(1)


@pytest.mark.parametrize(("part", "kept"), [(None, 6), ("b_Q", 5), ("b_K", 4), ("b_V", 3)])
def test_a_loss_is_without_the_bias_that_is_named(part, kept):
    """The logit of token 1 is the sum of the biases that are left, that of token 0 is 0."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            bias = torch.nn.Parameter(double(1, 2, 3), requires_grad=False)
            attention = SimpleNamespace(c_attn=SimpleNamespace(bias=bias))
            self.transformer = SimpleNamespace(h=[SimpleNamespace(attn=attention)])

        def forward(self, ids, use_cache):
            one = torch.nn.functional.one_hot(torch.ones_like(ids), 2)
            return SimpleNamespace(logits=one * self.transformer.h[0].attn.c_attn.bias.sum())

    model = Model()
    found = first_layer.loss_without(model, torch.ones(2, 4, dtype=torch.int64), part)
    assert found == pytest.approx(math.log1p(math.exp(-kept)))
    assert model.transformer.h[0].attn.c_attn.bias.tolist() == [1, 2, 3]


def test_locality_reads_medians_over_heads_and_the_heads_that_look_far_back():
    mass = np.zeros((3, 2, 3, 3))
    mass[1, 1, 0], mass[1, 1, 2] = (0.1, 0.2, 0.9), (0.3, 0.4, 0.8)
    mass[0, 1, 2], mass[2, 1, 2] = (0.5, 0.6, 0.7), (0.15, 0.25, 0.35)
    mass[1, 0, 0], mass[1, 0, 2] = (0.01, 0.02, 0.03), (0.2, 0.34, 0.9)
    peaks = np.zeros((3, 3, 13), dtype=int)
    peaks[1, 1], peaks[1, 2] = 9, 2  # head 1 peaks 9 back, head 2 nearby
    peaks[1, 1, 6] = 1
    marks = tilt.Marks(apart=1, early=3, third=4, half=6, late=10)
    given = record(mass=mass, uniform=np.array([0.1, 0.2]), peak=peaks)
    of = SimpleNamespace(marks=marks, heads=3, odd=0, weak=0)
    found = locality.measure_locality(given, of, SimpleNamespace(departs=False))
    assert (found.mass_p, found.mass_u, found.mass_sum) == (0.2, 0.2, 0.4)
    assert (found.mass_w0, found.mass_w2, found.near_p, found.near_sum) == (0.6, 0.25, 0.02, 0.34)
    assert (found.local_heads, found.near_heads) == ((1, 2), "1 and 2")
    assert (found.alias, found.period) == (1, 9)
    assert found.alias_low == found.alias_high == pytest.approx(1 / 8)  # one of the queries 4 to 11
    assert found.alias_sum_low == 1
    peaks[2, 2, 6:] = 1
    with pytest.raises(AssertionError):
        locality.measure_locality(record(mass=mass, uniform=np.ones(2), peak=peaks), of, SimpleNamespace(departs=False))


def first(layer, positions: int = 24) -> FirstLayer:
    g = torch.Generator().manual_seed(0)
    return FirstLayer(layer, no_norm(2, 1e-9), *torch.randn(2, positions, 2, generator=g, dtype=torch.float64))


def test_attention_without_queries_overlaps_wholly_with_that_of_positions():
    texts = torch.arange(48).view(2, 24) % 24
    of_positions, of_uniform = locality.overlap_with_text(first(plain(2, causal=True, W_V=EYE)), texts)
    assert of_positions.tolist() == pytest.approx([1.0])
    assert of_uniform.tolist() == pytest.approx([1.0])
    sharp = first(plain(2, causal=True, W_Q=100 * EYE, W_K=EYE))
    assert locality.overlap_with_text(sharp, texts)[1].item() < 0.75
    own, near = locality.attention_of_positions(first(plain(2, causal=True, W_V=EYE)))
    assert own.tolist() == [[0.0] * 24]
    # with equal weights query i puts 3 / (i + 1) on its nearest three keys, from query 16 on
    assert near.mass[0].flatten().tolist() == pytest.approx([np.mean(3 / np.arange(17, 25))] * 3)


def test_random_query_biases_of_one_channel_are_all_as_monotone_as_the_keys():
    of = SimpleNamespace(weights=plain(1, heads=2, W_K=double([1])), tokens=double([3], [1], [2]))
    found = tokens._random_correlations(of, of.tokens.norm(dim=1))
    assert found.tolist() == [[-1, -1], [1, 1]]


def test_token_norms_correlate_as_they_are_ordered(monkeypatch):
    """Three heads over five tokens of growing norm: a rising semi-bias, a falling one, and one that never moves."""
    table = double([1, 0], [2, 0], [3, 0], [4, 0], [5, 0])
    layer = plain(2, heads=2, W_Q=EYE, W_K=EYE)
    layer.b_Q[0, 0], layer.b_Q[1, 0] = 1, -1
    hand_over(monkeypatch, tokens, per_million=np.array([5.0, 1.0, 4.0, 2.0, 3.0]), never=7)
    monkeypatch.setattr(tokens, "_scatter_of_tokens", lambda *_: None)
    monkeypatch.setattr(tokens, "TOKEN_POSITION", 0)
    mini = SimpleNamespace(tokens=table, positions=double([0, 1]), weights=layer, folded=layer)
    found = tokens.measure_tokens(mini, None, SimpleNamespace(device="cpu"))
    assert found.correlations[0].tolist() == [1, -1]
    assert (found.tok_low, found.tok_high, found.tok_never) == (-1, 1, 7)
    assert found.tok_freq == pytest.approx(-0.3)  # 1 - 6 (16 + 1 + 1 + 4 + 4) / (5 * 24), by Spearman
    assert (found.tok_positive, found.tok_partial_positive, found.tok_flipped) == (1, 1, 0)
    assert found.tok_outside == 0  # random biases of these heads give the whole range from -1 to 1
    # divided by a width that grows with the token, |e| / sigma(e + p) falls: 1/0, 2/.5, 3/1, 4/1.5, 5/2
    assert found.tok_exact_positive == 1
    assert (found.tok_exact_low, found.tok_exact_high) == (-1, 1)


def test_heads_whose_correlation_turns_at_equal_frequency_are_counted(monkeypatch):
    table = double([1, 0], [2, 0], [3, 0], [4, 0], [5, 0])
    layer = plain(2, heads=3, W_Q=EYE, W_K=EYE)
    layer.b_Q[:, 0] = double(1, -1, 1)
    hand_over(monkeypatch, tokens, per_million=np.array([5.0, 1.0, 4.0, 2.0, 3.0]), never=7)
    monkeypatch.setattr(tokens, "_scatter_of_tokens", lambda *_: None)
    monkeypatch.setattr(tokens, "TOKEN_POSITION", 0)
    partial = iter([-0.5, 0.25, 0.75])
    monkeypatch.setattr(tokens, "partial_rank_correlation", lambda *_: next(partial))
    mini = SimpleNamespace(tokens=table, positions=double([0, 1]), weights=layer, folded=layer)
    found = tokens.measure_tokens(mini, None, SimpleNamespace(device="cpu"))
    assert (found.tok_flipped, found.tok_partial_positive, found.tok_positive) == (2, 2, 2)
    assert (found.tok_partial_low, found.tok_partial_high) == (-0.5, 0.75)


def test_scatter_of_heads_without_a_semi_bias_has_a_correlation_of_zero(monkeypatch):
    table = first_layer.TokenTable(np.arange(5.0), np.array([np.zeros(5), -np.arange(5.0)]), np.ones(5))
    monkeypatch.setattr(tokens.first_layer, "token_table", lambda *_, **__: table)
    monkeypatch.setattr(tokens.texts, "passages", lambda **_: ["a"])
    found = tokens._scatter_of_tokens(None, SimpleNamespace(texts=None, device="cpu"))
    assert found.titles == ["head 0: 0.00", "head 1: -1.00"]


def test_chance_reads_medians_over_heads_and_extremes_over_controls():
    rungs, seeds, layers, heads = 3, 2, 2, 3
    std, rho = np.zeros((rungs, seeds, layers, heads)), np.zeros((rungs, seeds, layers, heads))
    std[1, 1, 0], rho[-1, 0, 0], rho[-1, 1, 0] = (0.1, 0.7, 0.9), (1, -1, 1), (-1, -1, 1)
    given = record(
        null_quantiles=np.array([[0.0, 0, 0], [0.3, 0.4, 0.5], [1, 1, 1]]),
        null_share=[0.01, 0.02, 0.03],
        spread_ratio=[4.0, 5.0, 6.0],
        ladder_effective_std=std,
        ladder_effective_rho=rho,
        random_share=[[0.1, 0.2], [0.5, 0.6]],
        direction_share=[[0, 0, 0.7], [0, 0, 0.8], [0, 0, 0.1]],
        effective_std=[[1.0, 2.0, 3.0], [9, 9, 9]],
        rho=[0.9, 0.9, -0.9],
    )
    control = SimpleNamespace(positions=EYE, weights=plain(2, W_Q=EYE, W_K=math.sqrt(2) * EYE, b_Q=double(3, -12)))
    found = first_layer.measure_chance(given, control)
    assert found.control == "12"
    assert (found.ramp, found.ramp_null, found.ramp_null_high) == (0.7, 0.2, 0.6)
    assert (found.ladder_spread_high, found.trained_spread) == (0.7, 2.0)
    assert (found.permuted_low, found.permuted_high) == (1, 2)
    assert (found.null_low, found.null_high, found.null_share_low, found.null_share_high) == (0.3, 0.5, 0.01, 0.03)
    assert (found.spread_low, found.spread_high) == (4, 6)


def test_cosines_of_local_heads_stand_beside_those_of_all_other_pairs():
    cosines = np.array([[1, 0.9, 0.2, 0.7], [0, 1, 0.3, 0.8], [0, 0, 1, 0.4], [0, 0, 0, 1]])
    random = np.stack([0 * cosines, cosines / 10])
    found = first_layer.measure_shared_direction(record(direction_cosines=cosines, random_cosines=random), (0, 1, 3))
    assert (found.cosine_low, found.cosine_high) == (0.7, 0.9)
    assert found.cosine_null == pytest.approx(0.09)
    assert found.cosine_others == 0.3  # of .2, .3, .4


def test_losses_are_differences_and_times_a_quotient(monkeypatch):
    losses = {None: 2.0, "b_K": 2.0, "b_Q": 2.5}
    monkeypatch.setattr(first_layer, "loss_without", lambda _, __, part=None, layers=(0,): losses[part])
    times = {"semi_bias/keys_first/seconds": 6.0, "semi_bias/ours/seconds": 2.0}
    hand_over(monkeypatch, first_layer, **times)
    found = first_layer.measure_losses(record(error_no_query_bias=0.25), None, None, None)
    assert (found.loss, found.loss_bq, found.no_bq, found.keys_first) == (2, 0.5, 0.25, 3)
    losses["b_K"] = 1.9
    with pytest.raises(AssertionError):
        first_layer.measure_losses(record(error_no_query_bias=0.25), None, None, None)


def test_a_mean_state_that_is_the_position_has_a_cosine_of_one():
    places = double([1, 0], [0, 1], [-1, -1])
    noise = double([[1, 2]], [[-1, -2]])
    assert tilt._cosine_with_positions(5 + places + noise, places) == pytest.approx(1)
    assert tilt._cosine_with_positions(5 - 2 * places + noise, places) == pytest.approx(-1)


def test_layers_count_the_heads_in_which_key_0_is_ahead():
    lead = np.array([[1.0, -1], [1, 1], [-1, 2], [3, -1]])
    controls = np.zeros((3, 2, 4, 2))
    controls[0, 0, 2:], controls[2, 1, 3] = 1.0, 1.0
    given = record(
        effective_std=[[1.0, 3], [2, 2], [0, 0], [0.5, 0.7]],
        first_lead=lead,
        ladder_first_lead=controls,
        effective_rho=0 * lead,
        first_beaten_by=[[0, 0], [0, 0], [3, 0], [0, 0]],
    )
    places = double([1, 0], [0, 1], [-1, -1])
    states = (places + double([[1, 0]], [[-1, 0]]), -places.expand(2, 3, 2))
    model = SimpleNamespace(transformer=lambda *_, **__: SimpleNamespace(hidden_states=states))
    found = tilt.measure_layers(given, SimpleNamespace(positions=places), model, torch.zeros(2, 4))
    assert found.ahead.tolist() == [1, 2, 1, 1]
    assert (found.deep_0, found.deep_6) == (2, 0.6)
    assert (found.ahead_all, found.deep_heads, found.top_all) == (2, 4, 3)
    assert (found.ahead_control_low, found.ahead_control_high) == (0, 4)
    # variance of the mean states 1 + 1 less half of the 2 between the texts, over that and the 2
    assert (found.share_0, found.share_1) == (pytest.approx(1 / 3), 1)
    assert (found.cos_0, found.cos_1) == (pytest.approx(1), pytest.approx(-1))


def test_a_straight_line_of_positions_has_one_axis_that_rises():
    line = torch.arange(200.0).double()[:, None] * double(0, 2, 0, 0, 0, 0, 0)
    found = gpt2._table(line)
    assert found["pc_share"][0].item() == pytest.approx(1)
    assert found["pc_recency"][0].item() == pytest.approx(1)
    assert found["table_steps"][:, 1].max() == 127
    assert found["table_steps"].shape == (25, 7)
    assert found["pc_scores"][-1, 0].item() == pytest.approx(2 * 198 - 198)  # from the mean of 0 .. 198


def test_one_effective_semi_bias_leads_by_what_it_leads():
    """Positions that differ along one axis: over sigma(p) every one is at 1, -1 or its opposite."""
    places = double([1, -1], [-1, 1], [-2, 2], [3, -3], [9, -9])
    layer = plain(2, W_Q=EYE, W_K=math.sqrt(2) * EYE, b_Q=double(2, 0))
    found = gpt2._effective(places, [layer], [no_norm(2)])
    assert found["first_lead"].item() == pytest.approx(2 - (-2 - 2 + 2) / 3)
    assert found["first_beaten_by"].item() == 0
    assert found["effective_std"].item() == pytest.approx(np.std([2, -2, -2, 2], ddof=1))


def test_a_key_direction_along_an_axis_has_its_whole_share_there():
    g = torch.Generator().manual_seed(0)
    places = torch.randn(60, 6, generator=g, dtype=torch.float64) * double(6, 5, 4, 3, 2, 1)
    layer = plain(6, heads=2, W_Q=torch.eye(6), W_K=torch.eye(6))
    axes = torch.linalg.svd(places[:-1] - places[:-1].mean(0), full_matrices=False)[2]
    layer.b_Q[0], layer.b_Q[1] = 3 * axes[2], (axes[2] + axes[4]) * 7
    found = gpt2._directions(places, layer, layer)
    torch.testing.assert_close(found["direction_share"], double([0, 0, 1, 0, 0, 0], [0, 0, 0.5, 0, 0.5, 0]))
    assert found["direction_cosines"][0, 1].item() == pytest.approx(0.5**0.5)
    # of six directions, the median of a squared share is that of a Beta(1/2, 5/2): 0.08
    assert found["random_share"][0].tolist() == pytest.approx([0.08, 0.08], abs=0.02)
    assert (found["random_cosines"][1, 0, 1] > found["random_cosines"][0, 0, 1]).item()
    assert found["random_cosines"][0, 1, 1].item() == pytest.approx(1)


def test_factors_of_a_first_layer_become_the_weights_of_one_query(monkeypatch):
    monkeypatch.setattr(gpt2, "HEAD", 0)
    monkeypatch.setattr(gpt2, "QUERY", 2)
    # tokens as wide as the median position: sqrt(4 + 4), so every score shrinks by 2 / sqrt 8, pairs twice
    width = np.array([2.0, 2.0, 2.0, 10.0])
    left, right = np.zeros((1, 4, 1)), np.array([[[0.0], [2.0], [4.0], [100.0]]])
    left[0, 2] = math.log(2)
    given = record(sigma=width, left=left, right=right, own=np.zeros((1, 4)), curve=np.zeros((4, 3)))
    found = gpt2.mixtures(given)
    assert found.weights["circle alone"].tolist() == pytest.approx([1 / 7, 2 / 7, 4 / 7])
    assert (found.far, found.start()) == (2, {"head": 0, "query": 2, "Tp": 0})
    own = np.array([[math.log(4) * 2**0.5, 0, 0, 0]])
    ramped = gpt2.mixtures(record(sigma=width, left=left, right=right, own=own, curve=np.zeros((4, 3))))
    assert ramped.weights["ramp and circle"].tolist() == pytest.approx([0.4, 0.2, 0.4])


def test_a_position_that_is_wider_than_its_token_keeps_more_of_its_score(monkeypatch):
    monkeypatch.setattr(gpt2, "HEAD", 0)
    monkeypatch.setattr(gpt2, "QUERY", 2)
    width = np.array([3.0, 4, 8, 4, 10])  # of their median 4 are the tokens
    kept = np.array([3 / 5, 4 / 32**0.5, 8 / 80**0.5])
    left, right = np.ones((1, 5, 1)), np.array([[[1.0], [2.0], [-1.0], [7.0], [7.0]]])
    found = gpt2.mixtures(record(sigma=width, left=left, right=right, own=np.zeros((1, 5)), curve=np.zeros((5, 3))))
    weights = np.exp(np.array([1, 2, -1]) * kept * kept[2])
    assert found.weights["circle alone"].tolist() == pytest.approx((weights / weights.sum()).tolist())


def test_principal_axes_of_a_curve_end_positive():
    points = torch.stack([-torch.arange(120.0), (torch.arange(120.0) % 2) / 10], 1).double()
    found = gpt2.curve(torch.cat([points, 0 * points], 1))
    assert found[:, 0].tolist() == pytest.approx(
        [59.5 - i for i in range(120)] if found[0, 0] > 0 else [i - 59.5 for i in range(120)], abs=1e-3
    )
    assert found[-100:].sum(0)[0] > 0


def test_the_errors_of_both_models_stand_under_one_name(monkeypatch):
    measure = import_module("book.studies.semi_bias.measure")
    monkeypatch.setattr(measure.first_layer, "equality", lambda e, p, *_: {"output": float(e.sum() + p.sum())})
    monkeypatch.setattr(measure.first_layer, "map_error", lambda *_: 0.5)
    mini = SimpleNamespace(tokens=double([1, 2], [10, 20]), positions=double([100, 0], [1000, 0]), weights=0, ln=0)
    found = measure.measure_errors({"error_output": 1.0, "error_map": 2.0}, mini, torch.tensor([1]))
    assert found == {"gpt2-mini": {"output": 130.0, "map": 0.5}, "GPT-2": {"output": 1.0, "map": 2.0}}


def test_tokens_are_counted_per_million_and_those_that_never_occur(monkeypatch):
    counted = SimpleNamespace(ids=[0, 2, 2, 2])
    tokenizer = SimpleNamespace(backend_tokenizer=SimpleNamespace(encode=lambda _: counted))
    monkeypatch.setattr(experiments.pretrained, "tokenizer", lambda _: tokenizer)
    monkeypatch.setattr(experiments.texts, "corpus", lambda: "")
    monkeypatch.setattr(experiments, "load", lambda _: SimpleNamespace(tokens=range(5)))
    found = experiments.count_tokens("cpu")
    assert found.arrays["per_million"].tolist() == [250_000, 0, 750_000, 0, 0]
    assert (found.values["tokens"].value, found.values["never"].value) == (4, 3)
    assert (found.values["tokens"].tolerance, found.values["never"].tolerance) == (pytest.approx(0.4), 100)
    assert (found.values["never"].n, found.tolerances) == (5, {"per_million": 2000})


def test_the_factors_of_scores_that_have_few_axes_are_the_scores(monkeypatch):
    """Twelve axes carry a table of width 4 whole, so what is kept in half precision is off by rounding alone."""
    g = torch.Generator().manual_seed(0)
    places = torch.randn(40, 4, generator=g, dtype=torch.float64) * torch.linspace(0.3, 3, 40).double()[:, None]
    layer = plain(4, causal=True, W_Q=torch.eye(4), W_K=torch.eye(4), b_Q=double(1, 0, 0, 0))
    model = SimpleNamespace(norm=lambda _: no_norm(4), layers=[layer], positions=places)
    monkeypatch.setattr(gpt2.checkpoints, "find", lambda _: None)
    monkeypatch.setattr(gpt2, "load", lambda *_, **__: model)
    found = gpt2.compute_mixer(torch.device("cpu"))
    assert 0 < found.values["score_error"].value < 0.01
    assert 0 < found.values["total_variation"].value < 0.005
    width = found.arrays["sigma"]
    assert width.tolist() == pytest.approx(places[:-1].std(1, correction=0).tolist(), rel=1e-6)
    assert found.tolerances["sigma"] == pytest.approx(0.02 * width.max(), rel=1e-6)


def test_a_scale_is_purple_at_its_low_end_and_green_at_its_high_one():
    names = ("PRGn", "PRGn_r", "Purples_r", "Greens", "RdYlGn", "PuOr_r")
    assert [claims._goes_from_purple_to_green(name) for name in names] == [True, *[False] * 5]


def test_a_correlation_is_positive_in_more_than_half_of_the_heads():
    """Four heads of GPT-2: three lower bounds above 0 are most, two are not, whatever the estimates are."""

    def measured(*low):
        correlations = np.array([[0.5, -0.5, 0.5, 0.5], low, [0.6, 0.6, 0.6, 0.6]])
        gpt2 = SimpleNamespace(correlations=correlations, scores=np.zeros((4, 9)), norm=np.ones(9))
        return SimpleNamespace(tokens=SimpleNamespace(gpt2=gpt2))

    assert claims.correlation_is_positive_in_most_heads(measured(0.1, -0.9, 0.2, 0.01)).holds
    assert not claims.correlation_is_positive_in_most_heads(measured(0.1, -0.9, 0.9, -0.01)).holds
    assert claims.token_norm_and_semi_bias_are_related(measured(0.1, 0.9, 0.2, 0.01)).holds
    assert not claims.token_norm_and_semi_bias_are_related(measured(0.1, 0.9, 0.2, -0.01)).holds
