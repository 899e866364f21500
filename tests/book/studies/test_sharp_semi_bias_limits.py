"""Heads, tokens and keys of the semi-bias that lie on a limit: what counts, and what does not."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.models.controls import RUNGS
from book.studies.semi_bias import claims, first_layer, gpt2, tilt, tokens, training
from tests.book.studies.known import double, no_norm, plain, record

EYE = torch.eye(2).double()


# ---- heads


def test_a_head_that_neither_rises_nor_falls_is_of_neither_kind(monkeypatch):
    """Four heads: up, down, with a rank correlation of exactly 0, and half as steep as the first."""
    monkeypatch.setattr(tilt, "recency", lambda scores: double(1, -1, 0, 0.5))
    line = np.arange(8.0)
    curves = np.stack([line, -line, 0 * line, line / 2])
    found = tilt.measure_tilt(record(semi_raw=curves, semi_folded=curves, semi_sigma=curves, sigma_p=np.ones(8)))
    assert (found.rising_heads, found.falling_heads, found.rising) == ((0, 3), (1,), 2)
    assert (found.odd, found.weak, found.steepest) == (1, 0, 0)  # one position apart is none of 8
    assert found.marks == (0, 0, 2, 4, 6)


def test_a_model_without_rising_or_falling_heads_still_names_some():
    line = np.arange(40.0)
    falling = -np.stack([line, 2 * line])
    found = tilt.measure_tilt(record(semi_raw=falling, semi_folded=falling, semi_sigma=falling, sigma_p=np.ones(40)))
    assert (found.rising_heads, found.falling_heads, found.rising) == ((0, 1), (0, 1), 0)
    swapped = np.array([1.0, 0, *range(2, 40)])
    rising = np.stack([line, swapped])
    found = tilt.measure_tilt(record(semi_raw=rising, semi_folded=rising, semi_sigma=rising, sigma_p=np.ones(40)))
    assert (found.rising_heads, found.falling_heads, found.odd) == ((0, 1), (1,), 1)


def test_the_head_in_the_middle_is_the_lower_of_two():
    ranges = np.array([9.0, 1, 5, 2, 7])
    curves = np.stack([0 * ranges, ranges], 1)
    assert [tilt.range_of_median_head(curves[:count]) for count in (1, 3, 4, 5)] == [9, 5, 2, 5]


def test_far_weights_are_told_to_the_nearest_hundred():
    """Over 34 positions the weight grows fifty times and a little more: that is nearer to a hundred than to none."""
    for times, told in ((50.5, 100), (49.5, 0), (151, 200)):
        line = np.arange(40.0)[None] * math.log(times) / 34
        given = record(semi_raw=line, semi_folded=line * 2**0.5, semi_sigma=line, sigma_p=np.ones(40))
        assert tilt.measure_tilt(given).far == told


def test_key_0_keeps_its_place_beside_a_key_that_scores_the_same():
    scores = double([2, 2, 2, 3], [2, 1, 1, 1], [2, 3, 1, 1])
    assert tilt.last_query_of_first_key(scores).tolist() == [2, 3, -1]


def test_a_key_that_never_is_first_has_no_last_query():
    rising = np.tile(np.arange(8.0), (4, 1))
    of = SimpleNamespace(marks=tilt.Marks(1, 1, 2, 6, 7), heads=4, odd=2, weak=3)
    found = tilt.measure_first_key(record(semi_folded=rising, sigma_p=np.ones(8)), of)
    assert (found.first_low, found.first_high, found.first_weak) == (-1, -1, -1)
    assert (found.first_wide_never, found.first_wide_least, found.first_wide_high) == ("0, 1, 2 and 3", -1, -1)


def test_heads_of_later_layers_are_counted_from_layer_2_on_where_there_are_more_than_two():
    """Of two layers both are later ones; of three the last one."""

    def measured(lead, beaten):
        layers, heads = np.shape(lead)
        controls = np.zeros((len(RUNGS), 1, layers, heads))
        controls[0, 0, -1, 0] = 1
        given = record(
            effective_std=np.arange(float(layers * heads)).reshape(layers, heads),
            first_lead=lead,
            ladder_first_lead=controls,
            effective_rho=np.zeros((layers, heads)),
            first_beaten_by=beaten,
        )
        places = double([1, 0], [0, 1], [-1, -1])
        states = (places.expand(2, 3, 2), 2 * places.expand(2, 3, 2), 9 * places.expand(2, 3, 2))
        model = SimpleNamespace(transformer=lambda *_, **__: SimpleNamespace(hidden_states=states))
        return tilt.measure_layers(given, SimpleNamespace(positions=places), model, torch.zeros(2, 4))

    found = measured([[1.0, 0.0], [1.0, 2.0]], [[0, 0], [0, 1]])
    assert (found.ahead.tolist(), found.ahead_all, found.deep_heads, found.top_all) == ([1, 2], 3, 4, 3)
    assert (found.ahead_control_low, found.ahead_control_high) == (0, 1)
    assert (found.deep_0, found.deep_6) == (0.5, 2.5)
    found = measured([[1.0, 1.0], [1.0, 1.0], [1.0, -1.0]], [[0, 0], [0, 0], [0, 2]])
    assert (found.ahead_all, found.deep_heads, found.top_all) == (1, 2, 1)
    assert found.ladder[RUNGS[0]].tolist() == [[0, 0, 1]]


def test_windows_of_a_language_model_are_read_without_their_last_token():
    seen = []
    states = [double([[1, 0], [0, 1]], [[1, 0], [0, 1]])] * 3

    def transformer(ids, output_hidden_states):
        seen.append((ids.tolist(), output_hidden_states))
        return SimpleNamespace(hidden_states=states)

    given = record(
        effective_std=np.ones((1, 1)),
        first_lead=np.ones((1, 1)),
        ladder_first_lead=np.ones((len(RUNGS), 1, 1, 1)),
        effective_rho=np.ones((1, 1)),
        first_beaten_by=np.zeros((1, 1)),
    )
    mini = SimpleNamespace(positions=EYE)
    tilt.measure_layers(given, mini, SimpleNamespace(transformer=transformer), torch.tensor([[5, 6, 7], [8, 9, 10]]))
    assert seen == [([[5, 6], [8, 9]], True)]


# ---- tokens


def test_correlations_that_touch_0_are_neither_positive_nor_turned(monkeypatch):
    """Four heads: a positive one, one that touches 0, one that turns, and one that is 0 at equal frequency."""
    bounds = [(0.5, 0.4, 0.6), (0.1, 0.0, 0.2), (0.3, 0.2, 0.4), (-0.2, -0.3, -0.1)]
    answers = iter([*bounds, (0.0, 0, 0), (0.25, 0, 0), (-0.5, 0, 0), (0.75, 0, 0), (0.125, 0, 0)])

    def rank_correlation(*_):
        value, low, high = next(answers)
        return SimpleNamespace(value=value, low=low, high=high)

    partial = iter([0.5, 0.25, -0.125, 0.0])
    monkeypatch.setattr(tokens, "rank_correlation", rank_correlation)
    monkeypatch.setattr(tokens, "partial_rank_correlation", lambda *_: next(partial))
    limits = np.array([[0.5, -1, -1, -0.1], [1, 0.1, 0.2, 1]])  # of random biases: two heads lie on one, two outside
    monkeypatch.setattr(tokens, "_random_correlations", lambda *_: limits)
    monkeypatch.setattr(tokens, "_scatter_of_tokens", lambda *given: given)
    counted = record(per_million=np.array([5.0, 1.0]), never=7)
    monkeypatch.setattr(tokens, "live_or_record", lambda name, given, recompute: (counted, name))
    monkeypatch.setattr(tokens, "TOKEN_POSITION", 0)
    layer = plain(2, heads=4, W_Q=EYE, W_K=EYE)
    mini = SimpleNamespace(tokens=double([1, 0], [2, 0]), positions=double([0, 1]), weights=layer, folded=layer)
    inputs = SimpleNamespace(device="cpu")
    found = tokens.measure_tokens(mini, "shown", inputs)
    assert found.correlations.T.tolist() == [list(each) for each in bounds]
    assert (found.tok_positive, found.tok_low, found.tok_high) == (2, -0.2, 0.5)
    assert (found.tok_partial_positive, found.tok_partial_low, found.tok_partial_high) == (2, -0.125, 0.5)
    assert (found.tok_flipped, found.tok_outside, found.tok_never) == (1, 2, 7)
    assert (found.tok_exact_low, found.tok_exact_high, found.tok_exact_positive) == (-0.5, 0.75, 2)
    assert (found.tok_freq, found.gpt2) == (0.125, ("shown", inputs))
    assert found.frequency.tolist() == [5, 1]


def test_the_widths_of_tokens_are_those_at_position_64(monkeypatch):
    """Only at position 64 the order of the tokens turns once they are divided by their widths."""
    places = torch.zeros(70, 2).double()
    places[64] = double([0, 1])
    layer = plain(2, W_Q=EYE, W_K=EYE, b_Q=double(1, 0))
    counted = record(per_million=np.array([3.0, 1.0, 2.0, 4.0]), never=0)
    monkeypatch.setattr(tokens, "live_or_record", lambda *_, **__: (counted, ""))
    monkeypatch.setattr(tokens, "_scatter_of_tokens", lambda *_: None)
    table = double([2, 0], [3, 0], [4, 0], [5, 0])
    mini = SimpleNamespace(tokens=table, positions=places, weights=layer, folded=layer)
    found = tokens.measure_tokens(mini, None, SimpleNamespace(device="cpu"))
    # half of |e - 1| wide: e over it is 4, 3, 8/3, 5/2
    assert (found.tok_exact_low, found.tok_exact_high, found.tok_low) == (-1, -1, 1)


def test_nine_in_ten_random_biases_lie_within_the_range():
    """Keys at (i, 0) and (0, i): each random bias rises by its first part or by its second, as a fair coin falls."""
    layer = plain(2, heads=2, W_K=EYE)
    mini = SimpleNamespace(weights=layer, tokens=double([3, 0], [1, 1], [2, -4]))
    norm = mini.tokens.norm(dim=1)
    found = tokens._random_correlations(mini, norm)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(tokens.RANDOM_BIASES, 2, 2, generator=generator, dtype=torch.float64).numpy()
    rows = mini.tokens.numpy()[[1, 0, 2]]  # by length: 1.4, 3, 4.5
    for head in range(2):
        rho = []
        for bias in drawn[:, head]:
            ranks = (rows @ bias).argsort().argsort()
            rho.append(1 - 6 * ((ranks - np.arange(3)) ** 2).sum() / (3 * 8))
        assert found[:, head] == pytest.approx(np.quantile(rho, [0.05, 0.95]))


def test_a_table_of_tokens_is_counted_in_a_text(monkeypatch):
    """Without a tokenizer nothing is counted, and without a table, or with a stand-in, there is nothing to tell."""
    layer = plain(2, heads=1, W_K=EYE, b_Q=double(2**0.5, 0))
    mini = SimpleNamespace(tokens=double([3, 4], [0, 1], [1, 0]), weights=layer)
    monkeypatch.setattr(first_layer, "read", lambda of, device: mini)
    monkeypatch.setattr(first_layer.pretrained, "tokenizer", lambda of: SimpleNamespace(encode=lambda text: [2, 0, 2]))
    own = SimpleNamespace(stands_in_for=None)
    found = first_layer.token_table(own, "text")
    assert (found.norm.tolist(), found.counts.tolist()) == ([5, 1, 1], [1, 0, 2])
    assert found.scores[0].tolist() == pytest.approx([3, 0, 1])
    assert first_layer.token_table(SimpleNamespace(stands_in_for="gpt2"), "text") is None

    def missing(of):
        raise first_layer.NotFound("no tokenizer")

    monkeypatch.setattr(first_layer.pretrained, "tokenizer", missing)
    assert first_layer.token_table(own, "text").counts.tolist() == [0, 0, 0]
    mini.tokens = None
    assert first_layer.token_table(own, "text") is None


# ---- GPT-2's record


def test_a_table_is_written_in_steps_of_a_limit_that_few_entries_exceed(monkeypatch):
    """Of 2,000 entries, 1 to 2,000 in size, 1,990 is the limit; row 8 is the second that is kept."""
    sizes = torch.arange(1.0, 2001).double() * torch.where(torch.arange(2000) % 2 == 0, 1, -1)
    found = gpt2._table(sizes.view(250, 8))
    assert found["table_limit"].tolist() == [1990]
    assert found["table_steps"][1, :2].tolist() == [round(127 * 65 / 1990), -round(127 * 66 / 1990)]
    assert found["table_steps"].shape == (32, 8)
    assert found["table_steps"][-1].tolist() == [127 if k % 2 == 0 else -127 for k in range(8)]  # 1,985 and more
    assert found["pc_scores"].shape == (249, 6)
    assert len(found["pc_share"]) == 8
    assert found["pc_share"].sum().item() == pytest.approx(1)


def test_the_null_counts_random_biases_that_are_as_monotone_as_the_head(monkeypatch):
    """Every bias of one channel is wholly monotone over keys that rise: all of the null is as monotone as the head."""
    monkeypatch.setattr(gpt2, "DRAWS", 50)
    rising = torch.arange(6.0).double()[:, None]
    layer = plain(1, heads=2, W_Q=torch.eye(1), W_K=2 * torch.eye(1))
    layer.b_Q[0], layer.b_Q[1] = 3, -4
    found = gpt2._null(rising, layer)
    assert found["rho"].tolist() == [1, -1]
    assert found["null_share"].tolist() == [1, 1]
    assert found["null_quantiles"].tolist() == [[1, 1]] * 3
    drawn = torch.randn(50, 2, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    # a bias as long as the head's times a normal number: the head's spread over that of the middle one
    sizes = drawn.abs()[..., 0].sort(0).values[24]
    torch.testing.assert_close(found["spread_ratio"], 1 / sizes)


def test_another_key_beats_key_0_only_if_it_scores_higher():
    places = double([2, -2], [-3, 3], [4, -4], [1, -1])
    layer = plain(2, W_Q=EYE, W_K=math.sqrt(2) * EYE, b_Q=double(1, 0))
    found = gpt2._effective(places, [layer], [no_norm(2)])
    assert found["first_beaten_by"].tolist() == [[0]]  # over their widths 1, -1 and 1; the last position is left out
    assert found["first_lead"].tolist() == [[pytest.approx(1)]]
    falling = gpt2._effective(places, [plain(2, W_Q=EYE, W_K=EYE, b_Q=double(-1, 0))], [no_norm(2)])
    assert falling["first_beaten_by"].tolist() == [[1]]
    assert falling["effective_rho"].shape == (1, 1)


def test_what_is_recorded_is_held_to_a_hundred_thousandth_of_its_size(monkeypatch):
    for name in ("_table", "_locality", "_null", "_directions", "_ladder"):
        monkeypatch.setattr(gpt2, name, lambda *_: {})
    given = {"count": torch.tensor([3, 4]), "small": double(2e-4), "none": double(0, 0), "large": double(-50, 7)}
    monkeypatch.setattr(gpt2, "_effective", lambda *_: given)
    monkeypatch.setattr(gpt2, "_equality", lambda *_: {"error": "value"})
    layer = plain(2, W_Q=EYE, W_K=EYE)
    model = SimpleNamespace(plain_layers=lambda: [layer], norm=lambda *_: no_norm(2), positions=double([1, 0], [0, 1]))
    monkeypatch.setattr(gpt2, "load", lambda *_, **__: model)
    found = gpt2.measure(None, torch.device("cpu"))
    assert found.values == {"error": "value"}
    assert {name: found.tolerances[name] for name in given} == {
        "count": 0,
        "small": pytest.approx(1e-8),
        "none": 0,
        "large": pytest.approx(5e-4),
    }
    assert (found.arrays["count"].dtype.kind, found.arrays["large"].dtype) == ("i", np.float32)


# ---- trainings, and claims


def test_half_of_the_spread_must_be_exceeded_and_steady_is_more_than_nine_tenths(monkeypatch):
    seeds = len(training.SEEDS)
    size = np.tile(np.array([0, 1.0, 1.25, 2])[None, :, None, None], (seeds, 1, 2, 3))
    given = {f"appears_{seed}": 8 for seed in training.SEEDS}
    table = record(
        step=np.array([1, 2, 4, 8]),
        held_out=np.tile([4.0, 3, 2, 1], (seeds, 1)),
        size=size,
        rank_correlation=size,
        **given,
    )
    monkeypatch.setattr(training, "live_or_record", lambda *_, **__: (table, ""))
    found = training.measure_emergence(None)
    assert (found.em_half_low, found.em_half_high, found.em_half_loss) == (4, 4, 2)
    assert found.spread.shape == (seeds, 4, 3)


@pytest.mark.parametrize(("grey", "holds"), [(5, True), (4, False)])
def test_a_heat_map_is_nearly_blank_if_more_than_six_in_ten_entries_are_pale(grey, holds):
    """Eight entries, of which 5 or 4 lie within a tenth of the largest: 62 or 50 in a hundred."""
    entries = np.array([[0.05] * grey + [1.0] * (8 - grey)])
    table = tilt.PositionTable(entries, entries, entries, 8, 1, pc3=0.9, pc_ramp=0.99, norm_last=1, norm_median=2)
    measured = SimpleNamespace(table=table)
    assert claims.heat_map_of_positions_is_nearly_blank(measured).holds is holds
    assert claims.table_can_be_interpreted(measured).holds is holds


def test_an_entry_of_a_tenth_of_the_largest_is_not_pale():
    entries = np.array([[-10.0, 1.0, 0.5, -0.5]])
    assert tilt.PositionTable(entries, entries, entries, 1, 1, 0, 0, 0, 0).pale == 0.5


def test_an_interval_that_begins_at_0_is_not_above_0():
    """Two of four heads are above 0, and one touches it: that is not most of them."""
    correlations = np.array([[0.5, 0.5, 0.5, -0.5], [0.1, 0.0, 0.2, -0.6], [0.9, 0.9, 0.9, -0.1]])
    gpt2_tokens = SimpleNamespace(correlations=correlations, scores=np.zeros((4, 9)), norm=np.ones(9))
    measured = SimpleNamespace(tokens=SimpleNamespace(gpt2=gpt2_tokens))
    assert not claims.correlation_is_positive_in_most_heads(measured).holds
