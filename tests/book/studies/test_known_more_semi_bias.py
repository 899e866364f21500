"""How the semi-bias of positions rises, what it is made of and how seeds agree, on inputs known by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.models.controls import RUNGS, Control
from book.studies.semi_bias import first_layer, gpt2, locality, tilt, training
from book.studies.semi_bias.first_layer import FirstLayer
from book.studies.shared.equality import draw
from tests.analysis.tiny import random_layer
from tests.book.studies.known import double, no_norm, plain, record

EYE = torch.eye(2).double()
PLACES = 40
LINE = np.arange(float(PLACES))
MARKS = tilt.Marks(2, 4, 13, 20, 38)


def widths() -> np.ndarray:
    """Position 6 is three times as wide as the others, whose width is 1: so is the median's."""
    sigma = np.ones(PLACES)
    sigma[6] = 3
    return sigma


def folded(curves: np.ndarray, times: float = 1.0) -> np.ndarray:
    """Return scores that are these curves once tokens are so many times as wide as a position."""
    return curves * np.sqrt(widths() ** 2 + times**2)


def lines() -> np.ndarray:
    """Four heads, of which the third falls."""
    curves = np.array([0.2, 0.3, -0.2, 0.05])[:, None] * LINE
    curves[0, 3] = -10
    curves[0, 6] = -25 / 10**0.5  # lower than -10 only beside wide tokens
    return curves


def slopes() -> dict[str, np.ndarray]:
    sigma = np.stack([LINE, LINE, -LINE, LINE])
    sigma[0, 0] = 1.5  # between 1 and 2
    sigma[1, -1] = -100
    sigma[3, :3] = 2, 1, 0
    raw = np.stack([LINE, LINE, -LINE, LINE])
    raw[1, 0], raw[2, 0] = 2.5, -1.5
    return {"semi_raw": raw, "semi_folded": folded(lines()), "semi_sigma": sigma, "sigma_p": widths()}


def rho(squares: float) -> float:
    """Return Spearman's correlation of 40 places from the sum of squares of the ranks' differences."""
    return 1 - 6 * squares / (PLACES * (PLACES**2 - 1))


def test_the_semi_bias_rises_in_all_heads_but_one():
    found = tilt.measure_tilt(record(**slopes()))
    assert (found.marks, found.rising_heads, found.falling_heads) == (MARKS, (0, 1, 3), (2,))
    assert (found.rising, found.heads, found.odd, found.weak, found.steepest) == (3, 4, 2, 3, 1)
    assert found.rho_low == pytest.approx(rho(1 + 1 + 4))
    assert found.rho_sigma_low == pytest.approx(rho(39**2 + 39))  # the last is first, all others one later
    assert found.rho_odd == pytest.approx(-rho(2))
    assert (found.odd_first, found.odd_50) == (0, -2)
    assert (found.ratio_50_low, found.ratio_50_high) == (pytest.approx(math.exp(0.1)), pytest.approx(math.exp(0.6)))
    assert (found.doubling, found.doubling_3) == (pytest.approx(math.log(2) / 0.2), pytest.approx(math.log(2) / 0.3))
    assert found.far == 900  # e to the 34 times 0.2 is 898
    assert (found.turn_low, found.turn_high) == (0, 2)
    assert (found.turn_wide_low, found.turn_wide_high) == (0, 6)


def test_long_tables_are_read_off_at_their_own_marks():
    short, long = (np.arange(float(places))[None] / 100 for places in (1000, 1024))
    tables = [
        record(semi_raw=line, semi_folded=line, semi_sigma=line, sigma_p=np.ones(line.size)) for line in (short, long)
    ]
    found = [tilt.measure_tilt(table).marks for table in tables]
    assert found == [(50, 100, 333, 500, 998), (50, 100, 350, 500, 1000)]


OF_FOUR = SimpleNamespace(marks=MARKS, heads=4, odd=2, weak=3)


def test_a_rise_is_of_the_query_bias_and_of_the_norm():
    whole = np.array([1.0, 2, -1, 4])[:, None] * LINE
    own = np.array([0.25, 1.5, -2, 3])[:, None] * LINE
    given = record(semi_folded=folded(whole), semi_query_bias=folded(own), sigma_p=widths())
    found = tilt.measure_rise(given, OF_FOUR, (1,))
    assert found.query_bias.tolist() == pytest.approx([34 * 0.25, 34 * 1.5, -34 * 2, 34 * 3])
    assert found.ln_bias.tolist() == pytest.approx([34 * 0.75, 34 * 0.5, 34, 34])
    assert found.shares.tolist() == pytest.approx([0.75, 0.25, -1, 0.25])
    assert (found.beta_local_low, found.beta_local_high) == (pytest.approx(0.25), pytest.approx(0.25))
    assert (found.beta_other_low, found.beta_other_high) == (pytest.approx(0.75), pytest.approx(0.75))
    found = tilt.measure_rise(given, OF_FOUR, (0, 1))  # no other head is left: all are named
    assert (found.beta_other_low, found.beta_other_high) == (pytest.approx(-1), pytest.approx(0.75))
    found = tilt.measure_rise(given, OF_FOUR, ())
    assert (found.beta_other_low, found.beta_other_high) == (pytest.approx(0.25), pytest.approx(0.75))
    assert (found.beta_local_low, found.beta_local_high) == (pytest.approx(-1), pytest.approx(0.75))


def test_the_first_key_is_larger_the_wider_tokens_are():
    """Key 0 is twice as wide as the others: tokens without width halve it, wide ones spare it."""
    scores = np.full((4, 8), -1.0)
    scores[:, 0] = 4
    scores[0, 1:4] = 2.5, 2.6, 3.3  # over 1, 1.41 and 2.24, against 2, 1.79 and 1.41
    scores[1, 1:7] = 0, 0, 0, 2.5, 2.6, 3.3
    scores[2, 0], scores[3, 5] = -4, 9
    given = record(semi_folded=scores, sigma_p=np.array([2.0, *[1] * 7]))
    of = SimpleNamespace(marks=tilt.Marks(1, 1, 2, 6, 7), heads=4, odd=2, weak=3)
    found = tilt.measure_first_key(given, of)
    assert found.until_without_tokens.tolist() == [-1, 3, -1, 4]
    assert found.until.tolist() == [1, 4, -1, 4]
    assert found.until_wide.tolist() == [2, 5, -1, 4]
    assert (found.first_low, found.first_high, found.first_weak) == (1, 4, 4)
    assert (found.first_wide_never, found.first_wide_least, found.first_wide_high) == ("2", 2, 5)
    assert found.lead.shape == (2, 4, 6)
    assert found.lead[:, 0, 1].tolist() == pytest.approx([2.5 / 2**0.5 - 4 / 5**0.5, 2.5 / 5**0.5 - 4 / 8**0.5])


def test_a_table_of_positions_is_scaled_back_to_its_limit():
    given = record(
        table_steps=np.array([[127, 0], [-127, 6], [13, 127]]),
        table_limit=[0.5],
        pc_share=np.array([0.4, 0.3, 0.2, 0.1]),
        norm_p=np.array([1.0, 2, 9, 4]),
        pc_scores=np.zeros((3, 4)),
        pc_recency=[0.1, 0.2, 0.7, 0.4],
    )
    found = tilt.measure_table(given)
    assert found.every_8th[0].tolist() == [0.5, 0]
    assert (found.places, found.width) == (4, 2)
    assert (found.pc3, found.pc_ramp) == (pytest.approx(0.9), 0.7)
    assert (found.norm_last, found.norm_median) == (4, 3)
    assert found.pale == pytest.approx(2 / 6)  # 0 and 6 of 127; 13 is more than a tenth


def test_the_width_of_a_sum_is_nearly_the_root_of_the_squares(monkeypatch):
    tokens = double([1, -1, 0, 0], [2, -2, 0, 0])
    mini = FirstLayer(plain(4), no_norm(4), double([0, 0, 2, -2]), tokens)
    seen = []
    monkeypatch.setattr(
        locality, "overlap_with_text", lambda _, ids: seen.append(ids.tolist()) or (double(0.5, 0.75), double(1, 2, 9))
    )
    near = SimpleNamespace(uniform=[0.1, 0.3])
    monkeypatch.setattr(locality, "attention_of_positions", lambda _: (torch.zeros(5, 1), near))
    found = locality.measure_mini_locality(mini, torch.tensor([[1, 0, 1]]))
    assert seen == [[[1, 0]]]  # the last token is read by nothing
    # variances 2 of the position, 1/2 and 2 of the tokens
    assert found.approx == pytest.approx(3.25**0.5 * (2.5**-0.5 + 1 / 2) / 2 - 1)
    assert (found.mini_heads, found.mini_u) == (5, 0.3)
    assert (found.overlap_low, found.overlap_high, found.overlap_uniform) == (0.5, 0.75, 2)


def test_one_sentence_is_taken_apart_in_the_head_whose_semi_bias_varies_most(monkeypatch):
    layer = plain(2, heads=2, causal=True, W_Q=EYE, W_K=EYE, b_K=double(1, 0))
    layer.b_Q[0], layer.b_Q[1] = double(1, 0), double(-5, 0)
    mini = FirstLayer(layer, no_norm(2), double([1, -1], [4, -4], [9, -9]), double([2, -2], [9, -9], [-6, 6]))
    tokenizer = SimpleNamespace(encode=lambda _: [0, 2], decode=lambda ids: f" {ids[0]}!")
    monkeypatch.setattr(first_layer.pretrained, "tokenizer", lambda _: tokenizer)
    monkeypatch.setattr(first_layer, "measure_identities", lambda x, *_: x.tolist())
    found = first_layer.measure_sentence(None, mini)
    assert (found.ids.tolist(), found.tokens) == ([0, 2], ("0!", "2!"))
    assert found.identities == [[1, -1], [-1, 1]]  # of 3 and -2, normalised
    root = 2**0.5
    assert (found.parts["content"] * root).tolist() == pytest.approx(np.array([[2, -2], [-2, 2]]))
    assert (found.parts["semi-bias"] * root).tolist() == pytest.approx(np.array([[-5, 5]]))
    # the query side is x_1, and b_Q b_K is -5
    assert (found.parts["row constants"] * root).ravel().tolist() == pytest.approx([-4, -6])
    total = sum(found.parts[name] for name in ("content", "semi-bias", "row constants"))
    np.testing.assert_allclose(found.parts["scores"], total)
    # over the width of the sum, 3 and 2
    assert (found.parts["semi-bias of positions"] * root).ravel().tolist() == pytest.approx([-5 / 3, -10])
    assert (found.parts["semi-bias of tokens"] * root).ravel().tolist() == pytest.approx([-10 / 3, 15])


# ---- GPT-2's record


def test_the_semi_bias_is_written_raw_folded_over_sigma_and_without_the_norm(monkeypatch):
    for name in ("_table", "_locality", "_null", "_directions", "_effective", "_ladder"):
        monkeypatch.setattr(gpt2, name, lambda *_: {})
    monkeypatch.setattr(gpt2, "_equality", lambda *_: {})
    layer = plain(2, W_Q=EYE, W_K=2**0.5 * EYE, b_Q=double(1, 0))
    norm = no_norm(2)
    norm.gain[:], norm.bias[:] = double(2, 2), double(3, -3)
    places = double([1, -1], [-2, 2], [7, -1])
    model = SimpleNamespace(plain_layers=lambda: [layer], norm=lambda *_: norm, positions=places)
    monkeypatch.setattr(gpt2, "load", lambda *_, **__: model)
    arrays = gpt2.measure(None, torch.device("cpu")).arrays
    assert arrays["sigma_p"].tolist() == pytest.approx([1, 2, 4])
    assert arrays["norm_p"].tolist() == pytest.approx([2**0.5, 8**0.5, 50**0.5])
    assert arrays["semi_raw"][0].tolist() == pytest.approx([1, -2, 7])
    # the folded query bias is (1, 0) + (3, -3), the folded keys twice p less its mean: 1, -2, 4 and the opposite
    assert arrays["semi_folded"][0].tolist() == pytest.approx([2 * 7, -4 * 7, 8 * 7])
    assert arrays["semi_sigma"][0].tolist() == pytest.approx([14, -14, 14])
    assert arrays["semi_query_bias"][0].tolist() == pytest.approx([2, -4, 8])


def test_wide_tokens_make_positions_less_local(monkeypatch):
    """Twelve keys whose T^p grows by log 2 at each step, for tokens of no width; near are 3 of them."""
    steps = torch.arange(12).double() * math.log(2)
    layer = plain(2, W_Q=0 * EYE, W_K=2**0.5 * EYE, b_Q=double(1, 0))
    found = gpt2._locality(torch.stack([steps, 0 * steps], 1), torch.ones(12).double(), layer)
    assert found["mass"].shape == (3, 2, 3, 1)
    assert gpt2.near(12) == 3
    queries = np.arange(3, 12)
    for width, base in enumerate((2, 2 ** (1 / 2**0.5), 2 ** (1 / 5**0.5))):
        due = np.mean(
            (base**queries + base ** (queries - 1.0) + base ** (queries - 2.0))
            * (base - 1)
            / (base ** (queries + 1.0) - 1)
        )
        assert found["mass"][width, :, 0, 0].tolist() == pytest.approx([due, due])
    uniform = np.mean(3 / np.arange(4, 13))
    assert found["mass"][0, :, 1, 0].tolist() == pytest.approx([uniform] * 2)  # no query says anything of a pair
    assert found["uniform"].tolist() == pytest.approx([uniform] * 2)
    assert found["peak"][0, 0].tolist() == [0] * 12


def test_controls_keep_the_norms_and_are_stacked_by_rung_and_seed(monkeypatch):
    monkeypatch.setattr(gpt2, "load", lambda _: "model")
    monkeypatch.setattr(gpt2, "random_attention_layer", lambda _, layer, seed, dtype: torch.tensor(10.0 * layer + seed))
    drawn = []

    def make(layers, draw):
        drawn.extend(layers + draw(5))
        return [Control(rung, seed, 100 * k + seed) for seed in (0, 1) for k, rung in enumerate(RUNGS)]

    monkeypatch.setattr(gpt2, "make_controls", make)
    names = ("effective_rho", "effective_std", "first_lead")
    effective = lambda p, network, norms: {name: double(network + norms + k) for k, name in enumerate(names)}  # noqa: E731
    monkeypatch.setattr(gpt2, "_effective", effective)
    found = gpt2._ladder(None, torch.zeros(1), ["own", "own"], 0.25)
    assert drawn == ["own", "own", 5, 15]
    assert found["ladder_effective_rho"].flatten().tolist() == [0.25, 1.25, 100.25, 101.25, 200.25, 201.25]
    assert (found["ladder_effective_std"] - found["ladder_effective_rho"]).unique().tolist() == [1]
    assert (found["ladder_first_lead"] - found["ladder_effective_rho"]).unique().tolist() == [2]


def test_drawn_tokens_are_as_wide_as_a_position(monkeypatch):
    seen = {}

    def equality(e, p, layer, ln):
        seen.update(e=e, p=p)
        return {"output": 1e-12, "misprint": 0.5}

    monkeypatch.setattr(gpt2, "equality", equality)
    monkeypatch.setattr(gpt2, "map_error", lambda p, _: float(len(p)))
    places = torch.tensor([[1.0, -1.0]]).double().repeat(120, 600) * 4
    found = gpt2._equality(places, None, None)
    assert {name: value.value for name, value in found.items()} == {
        "error_output": 1e-12,
        "error_misprint": 0.5,
        "error_map": 120.0,
    }
    assert (found["error_output"].tolerance, found["error_misprint"].tolerance) == (1e-12, 1e-9)
    assert len(seen["p"]) == 100
    assert seen["e"].std().item() == pytest.approx(4, rel=0.01)


# ---- seeds


def test_the_semi_bias_appears_and_has_half_its_size_at_a_step(monkeypatch):
    seeds = len(training.SEEDS)
    size = np.zeros((seeds, 4, 2, 3))  # seed, look, layer, head
    size[:, :, 0, 1] = [0, 1.1, 1.5, 2]  # the middle head's
    size[:, :, 0, 2] = 5
    size[1, :, 0, 1] = [0, 1, 0.5, 2]  # half is not more than half
    loss = np.array([[5.0, 4, 3, 2]]) + np.arange(seeds)[:, None] / 8
    given = {f"appears_{seed}": 100 for seed in training.SEEDS} | {f"appears_{training.SEEDS[-1]}": 400}
    table = record(step=np.array([0, 100, 200, 400]), held_out=loss, size=size, rank_correlation=size + 7, **given)
    monkeypatch.setattr(training, "live_or_record", lambda name, _, recompute: (table, name))
    found = training.measure_emergence(None)
    assert found.em_seeds == seeds
    assert (found.em_step_low, found.em_step_high, found.em_loss) == (100, 400, 4)
    assert (found.em_half_low, found.em_half_high, found.em_half_loss) == (100, 400, 4)
    assert (found.em_last, found.em_last_loss, found.em_first_loss) == (400, 2, 5)
    assert (found.em_last_loss_low, found.em_last_loss_high) == (2, 2 + (seeds - 1) / 8)
    assert found.rho.shape == (seeds, 4, 3)


def test_first_layers_of_the_seeds_stand_beside_the_controls(monkeypatch):
    measures = list(training.MEASURES)
    seeds = np.arange(3.0)
    tilts = np.zeros((3, 4, 3))  # seed, measure, head
    tilts[:, 0] = [[0.9, -0.5, 0.7], [0.9, 0.8, 0.7], [0.6, 0, 0.7]]
    for measure in (1, 2, 3):
        tilts[:, measure] = np.stack([0 * seeds, measure + seeds, 9 + 0 * seeds], 1)  # the median head's is the middle
    controls = np.zeros((3, 2, 4, 3))
    controls[0, 1, 0], controls[2, 0, 0] = [0.9, 0.91, -1], [0.95, 0, 0]
    controls[1, 1, 1, 2], controls[1, 0, 3, 0] = 0.25, 0.75
    tokens = np.array([[[1.0, 1, -1], [1, 0, 0]], [[1, 0, -1], [1, 1, 1]], [[-1, -1, -1], [1, 1, 0]]])
    losses = np.array([[2, 2.5], [2, 3], [2, 2.25]])
    overlap = np.array([[0.1, 0.2, 0.9], [0.1, 0.5, 0.9], [0.3, 0.4, 0.9]])
    table = record(tilt=tilts, ladder=controls, tokens=tokens, losses=losses, overlap=overlap)
    monkeypatch.setattr(training, "live_or_record", lambda name, _, recompute: (table, name))
    found = training.measure_endings(None)
    assert len(measures) == 4
    assert (found.end_heads, found.end_rising, found.end_rho) == (9, 7, -0.5)
    assert (found.end_spread_low, found.end_spread_high) == (1, 3)
    assert (found.end_p_low, found.end_p_high) == (2, 4)
    assert (found.end_sum_low, found.end_sum_high) == (3, 5)
    assert (found.end_control_spread, found.end_control_sum) == (0.25, 0.75)
    assert (found.end_control_steady, found.end_control_heads) == (2, 18)
    assert (found.end_overlap_low, found.end_overlap_high) == (0.2, 0.5)
    assert (found.end_bq_low, found.end_bq_high) == (0.25, 1)
    assert (found.end_positive_low, found.end_positive_high) == (0, 2)
    assert (found.end_partial_low, found.end_partial_high) == (1, 3)


def test_what_is_an_identity_agrees_with_the_library_and_what_is_left_out_or_misprinted_does_not():
    layer, e, p = random_layer(4, 32, 8, causal=True), draw(7, 32, seed=1), draw(7, 32, seed=2)
    found = first_layer.equality(e, p, layer, no_norm(32, 1e-5))
    same = {"attention", "output", "four_terms", "two_terms", "six_terms"}
    same |= {"value_folded", "no_key_bias", "bias_outside"}
    for name, error in found.items():
        assert (error < 1e-5) == (name in same), (name, error)
