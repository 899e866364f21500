"""Parts of rotary scores, losses without them and kernels, on small inputs that are worked out a second time."""

from contextlib import contextmanager
from statistics import median
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.core.positions import Rotary
from book.studies.rotary_bias import kernels, parts, runs, seeds
from book.studies.rotary_bias.parts import WAYS
from book.studies.shared.equality import draw, random_layer
from tests.book.studies.known import record


def test_queries_and_keys_are_those_of_the_last_look():
    trace = {f"{part}_{kind}": np.arange(16.0).reshape(4, 2, 2) + 100 * k for k, (part, kind) in enumerate(VECTORS)}
    found = {kind: [(q.tolist(), k.tolist()) for q, k in pairs] for kind, pairs in parts.biases_of(trace).items()}
    assert found == {
        "bias": [([12, 13], [112, 113]), ([14, 15], [114, 115])],
        "mean": [([212, 213], [312, 313]), ([214, 215], [314, 315])],
    }


VECTORS = [("query", "bias"), ("key", "bias"), ("query", "mean"), ("key", "mean")]


def test_what_nothing_turns_of_the_key_bias_is_tried_with_all_of_the_query(monkeypatch):
    """What is added and taken away again is the whole query on the last 12 of 16 coordinates of the key bias."""
    handed = []
    split = parts.attribute_divergence
    monkeypatch.setattr(parts, "rotary_module_scores", lambda family, layer, turn, x: torch.ones(1))
    monkeypatch.setattr(parts, "relative_gap", lambda one, other: 0.0)
    monkeypatch.setattr(parts, "key_bias_effect", lambda case: case)

    def watch(scores, visible):
        handed.append(scores)
        return split(scores, visible)

    monkeypatch.setattr(parts, "attribute_divergence", watch)
    found = parts.measure_exactness()
    (scores,) = handed
    layer, x = random_layer(4, 64, 16), draw(1, 12, 64)[0]
    queries = x @ layer.W_Q + layer.b_Q[:, None]
    due = torch.einsum("hqc,hc->hq", queries[..., 4:], layer.b_K[:, 4:]) / 4  # the root of the width
    assert scores.shape[0] == 7
    torch.testing.assert_close(scores[5][0], due[..., None].expand(4, 12, 12))
    torch.testing.assert_close(scores[6], -scores[5])
    shares = split(scores, torch.ones(12, 12).bool().tril()).parts.abs()
    assert found.turned_share == pytest.approx(max(shares[3].max().item(), shares[4].max().item()))
    assert found.rest_share == shares[5].max().item()


def test_a_loss_is_a_mean_over_tokens_and_a_share_of_them_is_right():
    """Three windows of two tokens each, in batches of two; the model finds its token twice as likely as the other."""
    seen = []

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, input_ids, use_cache):
            seen.append((input_ids.tolist(), use_cache))
            odds = torch.where(torch.nn.functional.one_hot(input_ids, 2) == 1, 2.0, 1.0)
            return SimpleNamespace(logits=odds.log())

    windows = torch.tensor([[0, 0, 0], [0, 1, 1], [1, 0, 1]])  # right: two, one, none
    loss, right = parts.evaluate(Model(), windows, batch=2)
    assert seen == [([[0, 0], [0, 1]], False), ([[1, 0]], False)]
    assert loss == pytest.approx((3 * np.log(3 / 2) + 3 * np.log(3)) / 6)
    assert right == 0.5


def test_other_attention_takes_the_place_of_a_models_own(monkeypatch):
    held = []

    @contextmanager
    def with_attention(model, scores):
        held.append(scores)
        yield
        held.append("left")

    monkeypatch.setattr(parts.attention_hooks, "with_attention", with_attention)
    model = torch.nn.Linear(1, 1)
    model.forward = lambda input_ids, use_cache: SimpleNamespace(logits=torch.zeros(*input_ids.shape, 2))
    loss, right = parts.evaluate(model, torch.tensor([[0, 0], [1, 1], [1, 0]]), "scores", batch=2)
    assert (loss, right, held) == (pytest.approx(np.log(2)), pytest.approx(2 / 3), ["scores", "left"] * 2)


def test_shares_of_attention_add_up_over_texts_and_the_largest_gap_is_kept(monkeypatch):
    """Row 0 of a text sees one key and is left out; rows are counted once, in layer 0."""
    asked, gaps = [], iter([0.5, 0.25, 0.125, 0.0625])

    def attribute(pieces, visible):
        asked.append((pieces.dtype, visible.tolist()))
        rows = torch.arange(1.0, 1 + pieces.shape[-2]).double()
        return SimpleNamespace(parts=torch.ones(5, 1, 2, 1) * rows, gap=next(gaps))

    monkeypatch.setattr(parts, "attribute_divergence", attribute)
    monkeypatch.setattr(parts.SplitRows, "_split", lambda self, query, key, biases, scale: query[None] * scale)
    split = parts.SplitRows({"bias": ["b0", "b1"]}, "turn")
    for layer, n in ((0, 2), (1, 2), (0, 3), (1, 3)):
        x = torch.randn(1, 2, n, 4)
        found = split(layer, x, x, x, scale=0.5, causal=True)
        due = (0.5 * x @ x.mT).masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf).softmax(-1) @ x
        torch.testing.assert_close(found, due)
    assert asked[0] == (torch.float64, [[True, False], [True, True]])
    assert (split.rows, split.gap) == (1 + 2, 0.5)
    # rows are worth 1, 2, 3: of the first text 2, of the second 2 + 3
    assert split.shares["bias", 1].tolist() == [[7, 7]] * 5
    np.testing.assert_allclose(split.means(), np.full((1, 2, 2, 5), 7 / 3))


def test_queries_and_keys_are_averaged_over_batches_while_the_model_attends_as_it_does(monkeypatch):
    """Three windows of two tokens, in batches of two and one: six positions."""
    x = torch.randn(2, 3, 2, 2, 4, generator=torch.Generator().manual_seed(0))  # layer, window, head, position

    def evaluate(model, windows, attend):
        for rows in (slice(0, 2), slice(2, 3)):
            for layer in (1, 0):
                query, value = x[layer, rows], x[layer, rows] + 1
                found = attend(layer, query, 2 * query, value, scale=0.5, causal=True)
                odds = (query @ query.mT).exp().tril()
                torch.testing.assert_close(found, odds / odds.sum(-1, keepdim=True) @ value)

    monkeypatch.setattr(runs, "evaluate", evaluate)
    found = runs.mean_query_and_key(None, torch.zeros(3, 3))
    for layer, (query, key) in enumerate(found):
        mean = x[layer].mean((0, 2))
        torch.testing.assert_close(query, mean)
        torch.testing.assert_close(key, 2 * mean)


def test_the_size_of_a_layers_kernels_is_that_of_the_median_head():
    """Three heads that turn once in 4 positions, with kernels of 1, 2 and 9 nats to either side of nothing."""
    turn = Rotary(torch.tensor([np.pi / 2]).double(), 2)
    sizes = np.array([1.0, 9, 2])
    key = np.zeros((2, 1, 3, 2))
    key[..., 0] = np.stack([[sizes / 2], [sizes]])
    trace = {"query_bias": np.broadcast_to([2**0.5, 0], key.shape).copy(), "key_bias": key}
    trace |= {"query_mean": trace["query_bias"], "key_mean": 3 * key}
    trace |= {name: np.array([4.0, 3]) for name in ("held_out", "held_out_no_query_bias", "held_out_no_key_bias")}
    found = kernels.measure_emergence(trace | {"step": np.array([0, 500])}, turn)
    np.testing.assert_allclose(found.sizes["bias"], [[2], [4]])
    np.testing.assert_allclose(found.sizes["mean"], [[6], [12]])
    assert (found.early_step, found.early_range) == (0, pytest.approx(9))


def test_near_heads_by_chance_have_the_sizes_of_all_layers(monkeypatch):
    """Two layers of one head that turn once in 4 positions: kernels of 3 and 5 nats; the largest count is kept."""
    turn, handed = Rotary(torch.tensor([np.pi / 2]).double(), 2), []
    query, key = np.zeros((2, 4, 2, 1, 2))
    query[..., 0] = 2**0.5
    key[-1, 0, 0, 0], key[-1, 1, 0, 1] = 3, 5
    monkeypatch.setattr(seeds, "near_by_chance", lambda given: handed.append(given) or np.array([2, 7, 4]))
    assert seeds._chance({"query_mean": query, "key_mean": key}, turn) == 7
    np.testing.assert_allclose(handed[0]["amplitude"], [[[3]], [[5]]])
    np.testing.assert_allclose(handed[0]["frequencies"], [np.pi / 2])


def test_draws_count_the_heads_whose_cosines_add_up_to_most_at_near_distances():
    """Three heads of two frequencies; the phases are those of a generator with seed 0, one draw after another."""
    sizes, rng = [[1.0, 0.5], [0.25, 2.0], [3.0, 3.0]], np.random.default_rng(0)
    found = kernels.near_by_chance({"amplitude": np.array([sizes]), "frequencies": np.array([0.3, 0.04])}, draws=40)
    due = []
    for _ in range(40):
        phases, near = rng.uniform(-np.pi, np.pi, (3, 2)), 0
        for head in range(3):
            curve = [
                sum(sizes[head][k] * np.cos(turn * d + phases[head, k]) for k, turn in enumerate((0.3, 0.04)))
                for d in range(128)
            ]
            near += max(range(128), key=curve.__getitem__) <= 4
        due.append(near)
    assert found.tolist() == due
    assert 0 < sum(due) < 60


# ---- numbers of kernels and trainings, counted a second time on random arrays

FREQUENCIES = (1.0, 0.125, 0.005)
VECTOR_NAMES = [f"{part}_{source}" for source in ("bias", "bias_folded", "mean") for part in ("query", "key")]


def test_numbers_of_kernels_are_those_of_their_curves(monkeypatch):
    """Three looks, layers and frequencies, and four heads."""
    rng, turn = np.random.default_rng(2), Rotary(torch.tensor(FREQUENCIES, dtype=torch.float64), 6)
    trace = {name: rng.normal(size=(3, 3, 4, 6)) for name in VECTOR_NAMES}
    monkeypatch.setattr(kernels, "near_by_chance", lambda given: np.array([3, 8, 4]))
    found = kernels.measure_kernels(trace, turn)
    ends = {source: (trace[f"query_{source}"][2], trace[f"key_{source}"][2]) for source in kernels.SOURCES}

    def drawn(source, layer, head, length):
        """Turn the key's three pairs back by each distance and multiply."""
        query, key = (vector[layer, head, :3] + 1j * vector[layer, head, 3:] for vector in ends[source])
        angles = np.outer(np.arange(length), FREQUENCIES)
        return ((query * key.conj() * np.exp(1j * angles)).real.sum(1) / 6**0.5).tolist()

    places = list(np.ndindex(3, 4))
    short = {source: {at: drawn(source, *at, 128) for at in places} for source in kernels.SOURCES}
    size = {source: {at: max(of[at]) - min(of[at]) for at in places} for source, of in short.items()}
    for source, of in short.items():
        for at in places:
            np.testing.assert_allclose(found.curves[source][at], np.array(of[at]) - np.mean(of[at]))
    largest = max(places, key=size["mean"].__getitem__)
    long = [value - np.mean(short["mean"][largest]) for value in drawn("mean", *largest, 512)]
    last = [(2, head) for head in range(4)]
    troughs = [min(range(128), key=short["mean"][at].__getitem__) for at in last]
    peaks = [max(range(128), key=short["mean"][at].__getitem__) for at in places]
    query, key = (vector[..., :3] + 1j * vector[..., 3:] for vector in ends["mean"])
    product = query * key.conj() / 6**0.5
    heaviest = max(range(3), key=lambda k: sum(abs(product[*at, k]) for at in places))
    best = [-np.angle(product[*at, 0]) % (2 * np.pi) for at in last]  # of the frequency of 1 radian a position
    later = max(range(128, 512), key=long.__getitem__)
    numbers = {
        **{"heads": 12, "near_chance": 5, "near_chance_high": 8, "near": 4, "draws": 2000},
        "range_bias": max(size["bias"].values()),
        "range_folded": max(size["bias_folded"].values()),
        "range_mean": max(size["mean"].values()),
        "range_mean_low": min(size["mean"][at] for at in last),
        "near_mean": sum(peak <= 4 for peak in peaks),
        **{"trough_low": min(troughs), "trough_high": max(troughs)},
        "slowest_turn": np.pi / FREQUENCIES[heaviest],
        "slope_steep": max(0.005 * product[*at, 2].imag for at in places),  # the derivative of the slow cosine at 0
        "first_peak": max(long[:5]),
        **{"later_peak": long[later], "later_distance": later},
        **{"fast_low": min(best), "fast_high": max(best)},
    }
    assert {name: getattr(found, name) for name in numbers} == pytest.approx(numbers)
    assert found.largest == largest
    np.testing.assert_allclose(found.longer["as trained"][largest], long)


def differences(without, counted, way, rows):
    """Return by how much losses rise without the parts of a way."""
    return [without[row, counted, list(WAYS).index(way)] - without[row, counted, 0] for row in rows]


def test_losses_of_trainings_are_those_of_their_last_look(monkeypatch):
    """Nine runs with four looks; three of them are of each variant, one variant after the other."""
    rng = np.random.default_rng(4)
    of = {"without": rng.random((9, 2, len(WAYS))), "gpt2_without": rng.random((2, len(WAYS)))}
    of |= {"without_piece": rng.random((9, 2, 2)), "shares": rng.random((9, 2, 2, 8, 5))}
    of |= {"longer": rng.random((9, 4, 2)), "stretched": rng.random((9, 4, 2)), "held_out": rng.random((9, 4))}
    monkeypatch.setattr(seeds, "live_or_record", lambda name, _, recompute: (record(**of), recompute))
    found, _, recomputed = seeds.measure_seeds(None)
    assert not recomputed
    full, part, bare = range(3), range(3, 6), range(6, 9)
    spread = {
        "loss": [of["held_out"][row, 3] for row in range(9)],
        "rise_key": differences(of["without"], 0, "no key bias", full),
        "rise_both": differences(of["without"], 0, "content only", full),
        "mean_kernel": differences(of["without"], 1, "no kernel", full),
        "unbiased_kernel": differences(of["without"], 1, "no kernel", bare),
        **{
            f"longer_{name}": [of["longer"][row, 3, 0] - of["longer"][row, 0, 0] for row in rows]
            for name, rows in (("biased", full), ("unbiased", bare), ("partial", part))
        },
        "yarn_gain": [of["stretched"][row, 0, 0] - of["stretched"][row, 3, 0] for row in range(9)],
    }
    numbers = {f"{name}_low": min(values) for name, values in spread.items()}
    numbers |= {f"{name}_high": max(values) for name, values in spread.items()}
    numbers["turned_piece_low"] = min(of["without_piece"][row, 1, 0] - of["without"][row, 1, 0] for row in part)
    numbers["gpt2_query"] = of["gpt2_without"][0, list(WAYS).index("no query bias")] - of["gpt2_without"][0, 0]
    numbers |= {"run_count": 9, "seeds": 3, "length_first": 128, "length_last": 1024, "length_tokens": 16 * 1024}
    assert {name: getattr(found, name) for name in numbers} == pytest.approx(numbers)
    for place in np.ndindex(9, 2):
        np.testing.assert_allclose(found.rise[place], of["without"][place] - of["without"][*place, 0])
        np.testing.assert_allclose(found.rise_piece[place], of["without_piece"][place] - of["without"][*place, 0])
    np.testing.assert_allclose(found.gpt2_rise[1], of["gpt2_without"][1] - of["gpt2_without"][1, 0])


def test_trainings_in_order_are_read_off_their_last_look(monkeypatch):
    rng = np.random.default_rng(6)
    of = {"without": rng.random((3, 2, len(WAYS))), "held_out": rng.random((3, 4))}
    of |= {name: np.zeros((3, 4)) for name in ("held_out_no_query_bias", "held_out_no_key_bias")}
    of |= {f"{part}_{kind}": rng.normal(size=(3, 4, 2, 8, 16)) for part in ("query", "key") for kind in seeds.SHOWN}
    monkeypatch.setattr(seeds, "live_or_record", lambda name, _, recompute: (record(**of), recompute))
    monkeypatch.setattr(
        seeds,
        "count_strong",
        lambda _: dict.fromkeys(("strong_heads", *(f"strong_left_{k}" for k in ("bias", "mean", "semi", "side"))), 4),
    )
    parallel = {kind: rng.random((9, 2, 8)) for kind in seeds.SHOWN}
    found, recomputed = seeds.measure_order(None, SimpleNamespace(size=parallel))
    assert not recomputed
    turn = seeds.rotary_of("neox-mini-sequential")
    for kind in seeds.SHOWN:
        for run, layer in np.ndindex(3, 2):
            query, key = (torch.from_numpy(of[f"{part}_{kind}"][run, 3, layer]) for part in ("query", "key"))
            due = kernels.distance_kernel(query, key, turn).at(torch.arange(128.0).double()).numpy()
            np.testing.assert_allclose(found.size[kind][run, layer], due.max(-1) - due.min(-1))
            np.testing.assert_allclose(found.of_runs[kind][run][layer], due - due.mean(-1, keepdims=True), atol=1e-9)
    spread = {
        "loss": [of["held_out"][run, 3] for run in range(3)],
        "rise_key": differences(of["without"], 0, "no key bias", range(3)),
        "rise_both": differences(of["without"], 0, "content only", range(3)),
        "mean_kernel": differences(of["without"], 1, "no kernel", range(3)),
        "bias_range": [max(found.size["bias"][run].ravel()) for run in range(3)],
        "parallel_range": [max(parallel["bias"][run].ravel()) for run in range(3)],
    }
    numbers = {f"{name}_low": min(values) for name, values in spread.items()}
    numbers |= {f"{name}_high": max(values) for name, values in spread.items()}
    for name, size in (("share_first", found.size), ("parallel_share_first", parallel)):
        numbers[name] = median(
            size["bias"][run, 0, head] / size["mean"][run, 0, head] for run, head in np.ndindex(3, 8)
        )
    numbers |= {"seeds": 3, "strong_heads": 4}
    assert {name: getattr(found, name) for name in numbers} == pytest.approx(numbers)
