"""Kernels, shares and trainings of the study of rotary positions on traces whose kernels are known by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.core.positions import Rotary
from analysis.transformer.rotary import rotate
from book.studies.rotary_bias import kernels, parts, seeds
from book.studies.rotary_bias.parts import WAYS
from book.studies.rotary_bias.runs import RUNS, SEQUENTIAL, TRACED
from tests.book.studies.known import record

FAST, SLOW = math.pi / 2, 2 * math.pi / 1024
TURN = Rotary(torch.tensor([FAST, SLOW], dtype=torch.float64), 4)
NEAR_D, LONG_D = np.arange(128), np.arange(512)

# (size, best distance) of the fast and of the slow cosine, by layer and head
MEAN = (
    (((1, 0), (0.25, 4)), ((0, 0), (2, -256))),
    (((3, 2), (1, 298)), ((0, 0), (0.5, 5))),
    (((1, 3), (0.25, 0)), ((0.5, 1), (0.25, 0))),
)
NONE = (((0, 0), (0, 0)),) * 2
BIAS = ((((0, 0), (0, 0)), ((0.5, 0), (0, 0))), NONE, (((0, 0), (0, 0)), ((2, 1), (0, 0))))
FOLDED = ((((1.5, 0), (0, 0)), ((0, 0), (0, 0))), NONE, NONE)


def vectors(cosines) -> tuple[np.ndarray, np.ndarray]:
    """Return queries and keys of heads of width 4 whose kernel is these cosines."""
    key = np.zeros((len(cosines), 2, 4))
    for layer, head in np.ndindex(key.shape[:2]):
        for pair, ((size, best), turn) in enumerate(zip(cosines[layer][head], (FAST, SLOW), strict=True)):
            key[layer, head, [pair, pair + 2]] = size * math.cos(turn * best), size * math.sin(turn * best)
    return np.broadcast_to([2.0, 2.0, 0, 0], key.shape), key  # 2 is the root of the width


def drawn(cosines, distances, turns=(FAST, SLOW)) -> np.ndarray:
    return sum(size * np.cos(turn * (distances - best)) for (size, best), turn in zip(cosines, turns, strict=True))


def growing(**scales: tuple[float, ...]) -> dict[str, np.ndarray]:
    """Return a trace whose keys have these shares of their last size at each look."""
    trace = {}
    for name, cosines in (("bias", BIAS), ("bias_folded", FOLDED), ("mean", MEAN)):
        query, key = vectors(cosines)
        scale = np.array(scales.get(name, (0.5, 0.25, 1.0)))[:, None, None, None]
        trace |= {f"query_{name}": query + 0 * scale, f"key_{name}": key * scale}
    return trace


def test_kernels_at_the_end_of_a_training(monkeypatch):
    given = {}
    monkeypatch.setattr(kernels, "near_by_chance", lambda of: given.update(of) or np.array([1, 2, 6]))
    found = kernels.measure_kernels(growing(), TURN)
    largest = drawn(MEAN[1][0], LONG_D)
    np.testing.assert_allclose(found.curves["mean"][1, 0], (largest - largest[:128].mean())[:128], atol=1e-12)
    assert (found.largest, found.heads) == ((1, 0), 6)
    assert (found.range_bias, found.range_folded) == (pytest.approx(4), pytest.approx(3))
    assert found.range_mean == pytest.approx(np.ptp(largest[:128]))
    assert found.range_mean_low == pytest.approx(np.ptp(drawn(MEAN[2][1], NEAR_D)))
    assert (found.near_mean, found.near_chance, found.near_chance_high) == (4, 3, 6)  # best at 4, 0, 3 and 1; not 5
    assert (found.trough_low, found.trough_high) == (125, 127)  # two after the best, as late as may be
    assert found.slowest_turn == pytest.approx(2)  # 5.5 of all sizes are of the fast cosines, 4.25 of the slow
    assert found.slope_steep == pytest.approx(2 * SLOW)
    assert found.first_peak == pytest.approx(largest[2] - largest[:128].mean())
    assert (found.later_distance, found.later_peak) == (298, pytest.approx(4 - largest[:128].mean()))
    assert (found.fast_low, found.fast_high) == (pytest.approx(1), pytest.approx(3))
    np.testing.assert_allclose(given["amplitude"][1], [[3, 1], [0, 0.5]], atol=1e-12)
    np.testing.assert_allclose(given["frequencies"], [FAST, SLOW])
    amplitude, phase = found.spectra["mean"]
    assert (amplitude[0, 1].tolist(), phase[0, 1, 1]) == ([0, pytest.approx(2)], pytest.approx(math.pi / 2))
    assert found.spectra["bias"][0].max() == pytest.approx(2)


def test_the_slowest_turn_is_of_the_frequency_with_the_largest_sizes_of_all_heads(monkeypatch):
    monkeypatch.setattr(kernels, "near_by_chance", lambda of: np.array([1]))
    query, key = vectors(((((0.5, 0), (2, 4)), ((0, 0), (1, 5))), (((0.25, 0), (2, 4)), ((0, 0), (0.5, 5)))))
    trace = {f"query_{name}": query[None].copy() for name in ("bias", "bias_folded", "mean")}
    trace |= {f"key_{name}": key[None] for name in ("bias", "bias_folded", "mean")}
    assert kernels.measure_kernels(trace, TURN).slowest_turn == pytest.approx(512)


def test_random_phases_are_near_as_often_as_their_cosines_reach():
    """Half the heads turn once in 127 positions, the others half: then the end that is nearer to the best wins."""
    amplitude = np.zeros((2, 100, 2))
    amplitude[0, :, 0], amplitude[1, :, 1] = 2, 3
    counts = kernels.near_by_chance(
        {"amplitude": amplitude, "frequencies": np.array([2, 1]) * math.pi / 127}, draws=3000
    )
    assert counts.shape == (3000,)
    # of the former 4.5 to 5 of 127 (distances 0 and 127 are alike), of the latter 4.5 and a half of 127, of 254
    assert 100 * (4.5 / 127 + 68 / 254) - 0.3 < counts.mean() < 100 * (5 / 127 + 68 / 254) + 0.3


def test_longer_texts_turn_as_their_schemes_say(monkeypatch):
    monkeypatch.setattr(kernels, "near_by_chance", lambda _: np.zeros(1))
    longer = kernels.measure_kernels(growing(), TURN).longer
    factor = (1 + 0.1 * math.log(4)) ** 2
    due = {
        "as trained": 2 * np.cos(SLOW * LONG_D + math.pi / 2),
        "linear": 2 * np.cos(SLOW / 4 * LONG_D + math.pi / 2),
        "NTK": 2 * np.cos(LONG_D / 400 + math.pi / 2),  # of the base 10,000 times 4 squared, the root
        "YaRN": factor * 2 * np.cos(SLOW / 4 * LONG_D + math.pi / 2),
    }
    for name, curve in due.items():
        np.testing.assert_allclose(longer[name][0, 1], curve - curve[:128].mean(), atol=1e-9, err_msg=name)


def test_kernels_have_half_their_size_for_good_at_a_step():
    trace = growing(bias=(0.0, 0.6, 0.4, 0.5, 1), mean=(0.0, 0.1, 0.6, 0.45, 1))
    trace |= {
        "step": np.array([0, 100, 400, 500, 800]),
        "held_out": np.array([5.0, 4, 3, 2.5, 2]),
        "held_out_no_query_bias": np.array([5.0, 4, 3, 2.5, 2.25]),
        "held_out_no_key_bias": np.array([5.0, 4.5, 3, 2.5, 2]),
    }
    found = kernels.measure_emergence(trace, TURN)
    assert (found.half_bias, found.half_bias_loss) == (500, 2.5)  # a half is enough, and .6 is not for good
    assert (found.half_mean_last, found.half_mean_last_loss) == (800, 2)
    assert (found.early_step, found.early_range) == (400, pytest.approx(0.4 * 4))
    assert found.without_query.tolist() == [0, 0, 0, 0, 0.25]
    assert found.without_key.tolist() == [0, 0.5, 0, 0, 0]
    assert found.sizes["bias"][-1].tolist() == pytest.approx([0.5, 0, 2])  # of two heads, half of the larger
    assert found.sizes["mean"][2, 1] == pytest.approx(
        0.6 * np.mean([np.ptp(drawn(of_head, NEAR_D)) for of_head in MEAN[1]])
    )


# (counted, layer, head, part): content, semi-bias, query side, kernel, and what nothing turns
SHARES = np.zeros((2, 2, 2, 5))
SHARES[0, 0, 0], SHARES[0, 1, 1] = [4, 1, 0, 0, 9], [1, 0, 2, 2, 9]
SHARES[1, 0, 0], SHARES[1, 1] = [1, 2, 1, 0, 9], [[0.5, 0, 0, 1, 9], [0.5, 0, 0, 2, 9]]


def test_shares_are_of_all_heads_and_the_kernels_also_of_the_last_layer(monkeypatch):
    seen = {}

    def split(model, rows, biases, rotary):
        seen.update(rows=[row.tolist() for row in rows], biases=biases)
        return SimpleNamespace(means=lambda: SHARES)

    monkeypatch.setattr(parts, "split_attention", split)
    trace = growing()
    found = parts.measure_shares(
        None,
        lambda text, truncation, max_length: {"input_ids": [len(text), max_length]},
        ["ab", "c"],
        trace,
        rotary=TURN,
    )
    assert seen["rows"] == [[2, 48], [1, 48]]
    assert set(seen["biases"]) == {"bias", "mean"}
    query, key = seen["biases"]["mean"][1]  # of the last look
    assert (query.tolist(), key.tolist()) == ([[2, 2, 0, 0]] * 2, vectors(MEAN)[1][1].tolist())
    by_part = [
        (found.content_share_bias, found.semi_share_bias, found.query_share_bias, found.kernel_share_bias),
        (found.content_share_mean, found.semi_share_mean, found.query_share_mean, found.kernel_share_mean),
    ]
    assert by_part == [(0.5, 0.1, 0.2, 0.2), (2 / 8, 2 / 8, 1 / 8, 3 / 8)]
    assert found.kernel_share_last == 0.75
    assert seeds.mean_shares(SHARES[1]).tolist() == [[0.25, 0.5, 0.25, 0], [0.25, 0, 0, 0.75]]


def test_losses_of_the_trainings_are_rises_over_the_whole(monkeypatch):
    runs, ways = np.arange(len(RUNS)), list(WAYS)
    without = np.full((len(RUNS), 2, len(WAYS)), 3.0) + runs[:, None, None]
    without[:3, 0, ways.index("no key bias")] += [0.5, 0.25, 1]
    without[:3, 0, ways.index("content only")] += [2, 3, 4]
    without[:3, 1, ways.index("no kernel")] += [0.125, 0.25, 0.5]
    without[6:, 1, ways.index("no kernel")] += [5, 7, 6]
    piece = without[..., :2] + 0
    piece[3:6, 1, 0] += [0.5, 0.25, 0.75]
    longer = np.zeros((len(RUNS), 4, 2))
    longer[:, 0, 0], longer[:, 1:3], longer[:, :, 1] = 2.0, 99, 99
    longer[:, -1, 0] = 2 + np.array([3, 1, 2, 6, 5, 4, 9, 8, 7])
    stretched = np.full((len(RUNS), 4, 2), 50.0)
    stretched[:, 0, 0], stretched[:, 3, 0] = 5, 4 - runs / 8
    gpt2 = np.full((2, len(WAYS)), 3.5)
    gpt2[0, ways.index("no query bias")], gpt2[1] = 3.75, 9
    loss = np.stack([0 * runs, 4 + runs / 2], 1)
    table = record(
        without=without,
        without_piece=piece,
        longer=longer,
        stretched=stretched,
        gpt2_without=gpt2,
        held_out=loss,
        shares=0,
    )
    monkeypatch.setattr(seeds, "live_or_record", lambda name, _, recompute: (table, name))
    found, _, sentence = seeds.measure_seeds(None)
    assert (found.run_count, found.seeds, sentence) == (9, 3, "rotary-bias-trainings")
    assert found.rise[:, :, 0].max() == 0
    assert (found.rise_key_low, found.rise_key_high) == (0.25, 1)
    assert (found.rise_both_low, found.rise_both_high) == (2, 4)
    assert (found.mean_kernel_low, found.mean_kernel_high) == (0.125, 0.5)
    assert (found.unbiased_kernel_low, found.unbiased_kernel_high) == (5, 7)
    assert (found.turned_piece_low, found.gpt2_query) == (0.25, 0.25)
    assert (found.longer_biased_low, found.longer_biased_high) == (1, 3)
    assert (found.longer_partial_low, found.longer_partial_high) == (4, 6)
    assert (found.longer_unbiased_low, found.longer_unbiased_high) == (7, 9)
    assert (found.yarn_gain_low, found.yarn_gain_high) == (1, 2)
    assert (found.loss_low, found.loss_high) == (4, 8)
    assert found.gpt2_rise[:, ways.index("no query bias")].tolist() == [0.25, 0]


CHANNEL, LOOKS = seeds.CHANNEL, 3
UNIT = np.ptp(np.cos(NEAR_D))  # the range of the fastest cosine, of 1 radian a position


def trainings(runs: int, sizes: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return traces, by run and look, of two layers and two heads whose kernels are ``size * cos(distance)``."""
    arrays = {name: np.zeros((runs, LOOKS)) for name in TRACED if name.startswith("held_out")}
    for source, size in sizes.items():
        query, key = np.zeros((2, runs, LOOKS, 2, 2, CHANNEL))
        query[..., 0], key[..., 0] = CHANNEL**0.5, size
        arrays |= {f"query_{source}": query, f"key_{source}": key}
    return arrays


def test_kernels_of_the_trainings_are_read_by_run(monkeypatch):
    runs = len(RUNS)
    size = np.ones((runs, LOOKS, 2, 2)) * (1 + np.arange(runs))[:, None, None, None]
    bias, mean = size.copy(), 2 * size
    bias[:, :2, 0] *= 0.25  # half its last size at the last look only
    mean[:, 0, -1] *= 0.25  # and at the second
    bias[4, 1, 0] *= 4
    mean[0, 1, -1] *= 0.125
    mean[1, -1, 0, 1] *= -1  # of -cos the best distance is 22, nearly 7 pi
    mean[2, -1, 1, 0] = 0.5 * mean[2, -1, 1, 1]
    mean[8, -1, 0, 0] *= 0.5
    arrays = trainings(runs, {"bias": bias, "mean": mean})
    arrays["key_bias"][3:6, ..., 4:] = 1 / 2  # of neox-mini-partial, 12 coordinates that nothing turns
    arrays["key_mean"][0, -1, 0, 0, [0, CHANNEL // 2]] = math.cos(4), math.sin(4)  # best at 4, which is still near
    table = record(**arrays, step=np.array([0, 100, 300]))
    handed = []
    monkeypatch.setattr(seeds, "near_by_chance", lambda of: handed.append(of) or np.array([1, 3, 2]))
    found = seeds.measure_seed_kernels(table)
    assert found.near.tolist() == [4, 3, *[4] * 7]
    assert (found.near_low, found.near_most) == (3, 4)
    assert found.near_high.tolist() == [3] * runs
    assert np.abs(handed[8]["amplitude"]).max() == pytest.approx(18)
    np.testing.assert_allclose(found.size["bias"][:, 0, 1], UNIT * (1 + np.arange(runs)))
    assert found.size["mean"][2, 1].tolist() == pytest.approx([3 * UNIT, 6 * UNIT])
    assert found.mean_range_high == pytest.approx(18 * UNIT)
    assert found.biased_runs == 6
    assert (found.half_bias_low, found.half_bias_high) == (100, 300)
    assert (found.half_mean_low, found.half_mean_high) == (100, 300)
    lengths = sum(4 * (size**2 + 3) for size in (4, 5, 6))  # four heads; 12 coordinates of 1/2
    assert found.rest_bias == pytest.approx(3 * 4 * 3 / lengths)
    assert found.rest_mean == 0
    assert found.of_runs["mean"][1][0, 1, 0] < 0 < found.of_runs["mean"][1][0, 0, 0]


def test_trainings_in_order_stand_beside_the_parallel_ones(monkeypatch):
    runs, ways = len(SEQUENTIAL), list(WAYS)
    size = np.ones((runs, LOOKS, 2, 2)) * np.array([1, 2, 3])[:, None, None, None]
    bias, mean = size.copy(), 2 * size
    bias[:, -1, 0, 0] *= [6, 2, 2]
    mean[:, :, 1] *= 4
    without = np.full((runs, 2, len(WAYS)), 3.0)
    without[:, 0, ways.index("no key bias")] += [0.5, 0.25, 1]
    without[:, 0, ways.index("content only")] += [2, 3, 4]
    without[:, 1, ways.index("no kernel")] += [0.125, 0.25, 0.5]
    table = record(
        **(trainings(runs, {"bias": bias, "mean": mean}) | {"held_out": np.array([[9, 4.0], [9, 5], [9, 4.5]])}),
        without=without,
        previous_bias=np.full((runs, len(WAYS), 2, 2), 0.25),
        previous_mean=np.zeros((runs, len(WAYS), 2, 2)),
    )
    monkeypatch.setattr(seeds, "live_or_record", lambda name, _, recompute: (table, name))
    plain = np.ones((len(RUNS), 2, 2))
    plain[1, 1, 1], plain[5] = 7, 99
    parallel = SimpleNamespace(size={"bias": plain, "mean": 4 * np.ones_like(plain)})
    found, sentence = seeds.measure_order(None, parallel)
    assert (sentence, found.seeds, found.loss_low, found.loss_high) == ("rotary-bias-sequential", 3, 4, 5)
    assert found.rise[1].max(-1).tolist() == [3, 0.25]
    assert found.size["bias"][:, 1, 1] == pytest.approx(UNIT * np.array([1, 2, 3]))
    assert {source: len(of) for source, of in found.of_runs.items()} == dict.fromkeys(seeds.SHOWN, runs)
    assert (found.rise_key_low, found.rise_key_high) == (0.25, 1)
    assert (found.rise_both_low, found.rise_both_high) == (2, 4)
    assert (found.mean_kernel_low, found.mean_kernel_high) == (0.125, 0.5)
    assert (found.bias_range_low, found.bias_range_high) == (pytest.approx(4 * UNIT), pytest.approx(6 * UNIT))
    assert (found.parallel_range_low, found.parallel_range_high) == (1, 7)
    assert (found.share_first, found.parallel_share_first) == (pytest.approx(0.75), 0.25)  # of 3, 1, 1 and thrice 1/2
    assert (found.strong_heads, found.strong_left_bias, found.strong_left_mean) == (12, 12, 0)


def test_the_attention_to_the_position_before_is_a_mean_over_the_rows_of_all_batches():
    """One window of two positions, whose second row looks at itself; then two windows of three, with equal weights."""
    scores = parts.Scores([], None, watch=("whole", "no kernel"))
    sharp = torch.zeros(1, 1, 2, 2)
    sharp[..., 1, 1] = 1000
    scores._watch(0, sharp, {"kernel": sharp})
    scores._watch(0, torch.zeros(2, 1, 3, 3), {"kernel": torch.zeros(1, 1, 3, 3)})
    # five rows have a position before them: one 0 or, without the kernel, 1/2; two 1/2, two 1/3
    assert scores.previous_attention().flatten().tolist() == pytest.approx([(1 + 2 / 3) / 5, (1.5 + 2 / 3) / 5])


def test_pieces_of_the_rows_of_a_network_add_up_to_its_scores():
    g = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 1, 2, 3, 4, generator=g, dtype=torch.float64)
    b_Q, b_K = torch.randn(2, 2, 4, generator=g, dtype=torch.float64)
    pieces = parts.SplitRows._split(SimpleNamespace(rotary=TURN), query, key, (b_Q, b_K), 0.5)
    torch.testing.assert_close(pieces.sum(0), 0.5 * query @ key.mT)
    for head in range(2):
        for i in range(3):
            for j in range(3):
                q, k = query[0, head, i], key[0, head, j]
                own, other = (rotate(torch.stack([b[head]] * 3), TURN) for b in (b_Q, b_K))
                due = [
                    (q - own[i]) @ (k - other[j]),
                    own[i] @ (k - other[j]),
                    (q - own[i]) @ other[j],
                    own[i] @ other[j],
                ]
                assert pieces[:4, 0, head, i, j].tolist() == pytest.approx([0.5 * float(each) for each in due])
