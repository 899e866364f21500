"""The gate reader: exact on ideal gates and mixtures, symmetric, calibrated against chance."""

import itertools
import math

import numpy as np
import pytest
import scipy.optimize
import torch

from analysis.maps.gates import ideal, points, segmentation, synthetic
from analysis.maps.gates.reader import GATES, PATTERNS, read_gates, shuffle_rows


def shares(**parts):
    """A row of scores from its non-zero parts (blanks in names as underscores)."""
    parts = {name.replace("_", " "): value for name, value in parts.items()}
    return torch.tensor([parts.get(gate, 0.0) for gate in GATES], dtype=torch.float64)


def cases(n):
    m = n // 3
    return {
        "directional": (ideal.directional(n, m), shares(directional=1)),
        "open": (ideal.open_gate(n), shares(open=1)),
        "backward": (ideal.backward(n, 3), shares(backward=(n - 3) / n, closed=3 / n)),
        "forward": (ideal.forward(n, 2), shares(forward=(n - 2) / n, closed=2 / n)),
        "cluster": (ideal.cluster(n, range(1, 1 + m), range(4, 4 + m)), shares(cluster=m / n, closed=1 - m / n)),
        "instance": (ideal.instance(n, 2, 9), shares(instance=1 / n, closed=1 - 1 / n)),
        "inverse directional": (
            ideal.inverse_directional(n, 5, [0, 7]),
            shares(inverse_directional=1 / n, closed=1 - 1 / n),
        ),
        "closed": (ideal.closed(n), shares(closed=1)),
    }


@pytest.mark.parametrize("n", [16, 41, 128])
@pytest.mark.parametrize("name", cases(16))
def test_exact_on_ideal_gates(name, n):
    gate, truth = cases(n)[name]
    reading = read_gates(gate)
    assert torch.allclose(reading.scores, truth, atol=1e-9)
    assert reading.names() == [name]


def test_where_the_gates_are():
    n = 40
    column = read_gates(ideal.directional(n, 7))
    assert column.columns[7] == pytest.approx(1)
    assert column.cells[0].tolist() == [7] * 7 + [0] + [7] * (n - 8)
    back, ahead = read_gates(ideal.backward(n, 3)), read_gates(ideal.forward(n, 5))
    assert back.offsets.argmax() == n - 1 - 3
    assert back.runs[n - 1 - 3] == n - 3
    assert back.cells[9, 6] == GATES.index("backward")
    assert ahead.offsets.argmax() == n - 1 + 5
    assert ahead.cells[6, 11] == GATES.index("forward")
    block = ideal.cluster(n, range(3, 12), range(20, 34))
    assert read_gates(block).blocks() == [(range(3, 12), range(20, 34))]
    two = ideal.closed(n)
    two[2:8], two[15:35] = ideal.cluster(n, range(2, 8), range(3, 9))[2:8], block[3].roll(-14)  # keys 6 to 19
    assert read_gates(two).blocks() == [(range(15, 35), range(6, 20)), (range(2, 8), range(3, 9))]  # the larger first
    assert read_gates(ideal.instance(n, 4, 30)).points() == [(4, 30)]
    row = read_gates(ideal.inverse_directional(n, 11, [0, 5, 30]))
    assert row.rows.nonzero().flatten().tolist() == [11]
    assert row.cells[11, 30] == GATES.index("inverse directional")


def test_exact_on_mixtures():
    n = 48
    weights = {"directional": 0.3, "open": 0.2, "backward": 0.15, "cluster": 0.25, "closed": 0.1}
    every = cases(n)
    mixed = sum(weight * every[name][0] for name, weight in weights.items())
    truth = sum(weight * every[name][1] for name, weight in weights.items())
    assert torch.allclose(read_gates(mixed).scores, truth, atol=1e-3)  # three lines meet at a corner of the block
    apart = mixed + 0.25 * (ideal.cluster(n, range(25, 41), range(1, 17)) - every["cluster"][0])
    assert torch.allclose(read_gates(apart).scores, truth, atol=1e-9)


@pytest.mark.parametrize("width", [2, 3, 5])
def test_columns_side_by_side_are_columns(width):
    keys = range(10, 10 + width)
    reading = read_gates(torch.stack([ideal.directional(64, key) for key in keys]).mean(0))
    assert reading.score("directional") == pytest.approx(1)
    assert torch.allclose(reading.columns[list(keys)], torch.full((width,), 1 / width, dtype=torch.float64))
    banded = ideal.cluster(64, range(64), keys) * 0.5 + ideal.open_gate(64) * 0.5
    assert read_gates(banded).scores[:2].tolist() == pytest.approx([0.5, 0.5])


def stamped(n, shape, noise, rng, strength=0.6):
    """A shape of rows that sum to 1 or 0, of the given strength, over noise."""
    shape = np.asarray(shape, dtype=float)
    inside = shape.sum(1, keepdims=True)
    return torch.as_tensor(strength * shape + (1 - strength * inside) * synthetic.draw_noise(noise, n, rng))


@pytest.mark.parametrize("noise", ["flat", "lognormal", "popular"])
@pytest.mark.parametrize(
    ("n", "width"), [(16, 3), (16, 4), (32, 8), (32, 16), (64, 5), (64, 32), (512, 64), (512, 256)]
)
def test_columns_of_any_width_are_columns_in_noise(n, width, noise):
    rng = np.random.default_rng([n, width])
    start = n // 3
    shape = ideal.cluster(n, range(n), range(start, start + width))
    reading = read_gates(stamped(n, shape, noise, rng))
    assert reading.score("directional") == pytest.approx(0.6, abs=0.07)
    assert reading.columns[start : start + width].sum() > 0.5
    assert reading.scores[1:5].sum() < 0.03  # no diagonals, no clusters
    assert reading.score("residual") < 0.2


@pytest.mark.parametrize("noise", ["flat", "lognormal", "popular"])
@pytest.mark.parametrize("n", [64, 512])
@pytest.mark.parametrize("height", [0.5, 0.8])
def test_clusters_nearly_as_tall_as_the_map_are_clusters(n, height, noise):
    rng = np.random.default_rng([n, 7])
    high, wide = int(height * n), n // 4
    shape = ideal.cluster(n, range(n // 12, n // 12 + high), range(n // 3, n // 3 + wide)).numpy().copy()
    shape[(shape == 1 / n).all(1)] = 0
    reading = read_gates(stamped(n, shape, noise, rng))
    assert reading.score("cluster") == pytest.approx(0.6 * high / n, abs=0.06)
    assert reading.score("directional") < 0.06
    assert reading.scores[1:4].sum() < 0.02


def stamped_flat_clusters(n):
    strength = np.linspace(0.3, 0.9, n)[np.random.default_rng(0).permutation(n)][:, None]
    shape = np.zeros((n, n))
    shape[5 : n - 20, 4 : 4 + n // 4] = 4 / n
    return torch.as_tensor(strength * shape + (1 - strength * shape.sum(1, keepdims=True)) / n)


def test_a_block_whose_rows_differ_in_strength_is_read_exactly():
    """Rows with a stronger block have a lower background; their neighbours' is none of the block's business."""
    maps = stamped_flat_clusters(64)
    reading = read_gates(maps)
    excess = (maps - maps.min(-1, keepdim=True).values).sum().item() / 64
    assert reading.score("cluster") == pytest.approx(excess, abs=1e-6)
    assert reading.score("residual") == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("width", [3, 4])
def test_diagonals_side_by_side_are_diagonals(width):
    reading = read_gates(torch.stack([ideal.backward(64, offset) for offset in range(1, 1 + width)]).mean(0))
    assert reading.score("backward") > 0.9
    assert reading.score("residual") < 0.03


def noisy(n, seed=0, gates=("directional", "open", "cluster"), noise="lognormal"):
    return torch.as_tensor(synthetic.draw(n, gates, noise, np.random.default_rng(seed)).attention)


def test_scores_are_shares():
    maps = torch.stack([noisy(64, seed) for seed in range(6)]).reshape(2, 3, 64, 64)
    reading = read_gates(maps)
    assert reading.scores.shape == (2, 3, len(GATES))
    assert (reading.scores >= 0).all()
    assert (reading.scores <= 1).all()
    assert torch.allclose(reading.scores.sum(-1), torch.ones(2, 3, dtype=torch.float64))
    assert torch.allclose(reading.columns.sum(-1), reading.score("directional"))
    assert torch.allclose(reading.rows.sum(-1), reading.score("inverse directional"))
    assert torch.allclose(reading.offsets.sum(-1), sum(reading.score(g) for g in ("open", "backward", "forward")))


def test_batch_equals_one_by_one():
    maps = torch.stack([noisy(33, seed) for seed in range(5)])
    whole = read_gates(maps)
    for i, single in enumerate(maps):
        assert torch.equal(whole.scores[i], read_gates(single).scores)
        assert torch.equal(whole.cells[i], read_gates(single).cells)


def test_reversal_swaps_backward_and_forward_only():
    maps = torch.stack([noisy(50, seed, ("backward", "directional", "cluster", "instance")) for seed in range(4)])
    there, back = read_gates(maps), read_gates(maps.flip(-2, -1))
    swapped = there.scores[:, [0, 1, 3, 2, 4, 5, 6, 7, 8]]
    assert torch.allclose(back.scores, swapped, atol=1e-12)
    assert torch.allclose(back.columns, there.columns.flip(-1), atol=1e-12)
    assert torch.allclose(back.offsets, there.offsets.flip(-1), atol=1e-12)
    assert there.score("backward").min() > 0.02


def test_renaming_tokens_moves_columns_and_rows_with_them():
    """A permutation of the tokens keeps what does not depend on neighbours: columns, the diagonal, points, rows."""
    n = 60
    gates = ideal.directional(n, 11), ideal.open_gate(n), ideal.instance(n, 20, 31)
    mixed = (sum(gates) + ideal.inverse_directional(n, 40, [2, 3, 50])) / 4
    order = torch.randperm(n, generator=torch.Generator().manual_seed(3))
    before, after = read_gates(mixed), read_gates(mixed[order][:, order])
    assert torch.allclose(before.scores, after.scores, atol=1e-12)
    assert torch.allclose(after.columns, before.columns[order], atol=1e-12)
    assert torch.allclose(after.rows, before.rows[order], atol=1e-12)


def test_queries_and_keys_are_not_confused():
    """A horizontal line is no vertical one: transposed columns (rows rescaled) hold no directional gate."""
    n = 32
    lines = 0.5 * ideal.directional(n, 6) + 0.5 * ideal.closed(n)
    turned = lines.T / lines.T.sum(-1, keepdim=True)
    assert read_gates(lines).score("directional") == pytest.approx(0.5)
    assert read_gates(turned).score("directional") < 1e-6


def test_points_stand_out_of_the_tail_of_their_map():
    """A spike is a point where it is rare; where every row has one, it is noise."""
    n = 64
    noise = np.exp(0.5 * np.random.default_rng(3).standard_normal((n, n)))
    noise /= noise.sum(1, keepdims=True)
    few, many = noise.copy(), noise.copy()
    for rows, maps in ((range(0, n, 16), few), (range(n), many)):
        for q in rows:
            maps[q] *= 0.2
            maps[q, (7 * q + 5) % n] += 0.8
    assert read_gates(torch.as_tensor(few)).points() == [(q, (7 * q + 5) % n) for q in range(0, n, 16)]
    crowded = read_gates(torch.as_tensor(many))
    assert crowded.points() == []
    assert crowded.score("residual") > 0.7


def test_few_keys_of_one_query_are_an_inverse_directional_gate():
    n, keys = 64, [3, 20, 41, 60]
    attention = np.exp(0.5 * np.random.default_rng(4).standard_normal((n, n)))
    attention /= attention.sum(1, keepdims=True)
    attention[30] *= 0.2
    attention[30, keys] += 0.2
    reading = read_gates(torch.as_tensor(attention))
    assert reading.names() == ["inverse directional"]
    assert (reading.cells[30] == GATES.index("inverse directional")).nonzero().flatten().tolist() == keys
    assert reading.rows.argmax() == 30


def test_residual_and_clusters_by_place():
    maps = noisy(48, gates=("cluster", "directional"))
    reading = read_gates(maps)
    assert reading.residual.sum() == pytest.approx(reading.score("residual").item())
    assert reading.clustered.sum() == pytest.approx(reading.score("cluster").item())
    assert (reading.residual <= maps / 48 + 1e-12).all()
    block = ideal.cluster(48, range(4, 30), range(10, 22))
    assert read_gates(block).clustered.nonzero().flatten().tolist() == list(range(10, 22))


@pytest.mark.parametrize("causal", [False, True])
def test_shuffled_rows_keep_their_weights(causal):
    maps = ideal.closed(20, causal=causal) * 0.5 + ideal.open_gate(20) * 0.5
    shuffled = shuffle_rows(maps, torch.Generator().manual_seed(0), causal=causal)
    assert torch.equal(shuffled.sort(-1).values, maps.sort(-1).values)
    assert not torch.equal(shuffled, maps)
    assert not causal or shuffled.triu(1).max() == 0
    places = torch.stack(
        [shuffle_rows(maps, torch.Generator().manual_seed(i), causal=causal)[19].argmax() for i in range(400)]
    )
    assert 200 < places.float().std() ** 2 * 12 < 600  # anywhere in the row, alike: 20**2 / 12
    assert read_gates(shuffled, causal=causal).scores[..., :4].max() == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_precision_is_read_in_single(dtype):
    maps = torch.stack([ideal.open_gate(64), ideal.directional(64, 3), noisy(64)]).to(dtype)
    reading = read_gates(maps)
    assert reading.scores.dtype == torch.float32
    assert reading.score("open")[0] == pytest.approx(1)
    assert reading.score("directional")[1] == pytest.approx(1)
    assert torch.allclose(reading.scores[2], read_gates(noisy(64)).scores.float(), atol=0.02)
    assert torch.allclose(reading.scores.sum(-1), torch.ones(3), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rows_of_half_precision_are_first_made_to_sum_to_one(dtype):
    """Weights that are rounded to a half miss one by up to a hundredth."""
    rounded = torch.stack([noisy(64), ideal.directional(64, 3) * 0.9 + noisy(64) * 0.1]).to(dtype)
    single = rounded.float()
    due = read_gates(single / single.sum(-1, keepdim=True))
    assert torch.equal(read_gates(rounded).scores, due.scores)


def test_blocks_and_points_of_one_map_of_a_batch():
    n = 40
    block = ideal.cluster(n, range(3, 12), range(20, 34))
    batch = read_gates(torch.stack([ideal.closed(n), block])[None])
    assert batch.blocks((0, 1)) == [(range(3, 12), range(20, 34))]
    assert batch.blocks((0, 0)) == []
    for wrong in ((), (0,), (0, 2), (0, 0, 0)):
        for look in (batch.blocks, batch.points):
            with pytest.raises(ValueError, match="index must pick one map of the batch"):
                look(wrong)


@pytest.mark.parametrize("noise", synthetic.TUNING)
@pytest.mark.parametrize("gate", PATTERNS[:5])
def test_finds_a_gate_in_noise(gate, noise):
    rng = np.random.default_rng(8)
    specimens = [synthetic.draw(80, [gate], noise, rng) for _ in range(8)]
    results = list(synthetic.read_specimens(specimens))
    assert sum(name == gate for _, _, name in results) >= 7
    index = GATES.index(gate)
    assert np.mean([abs(scores[index] - specimen.truth[index]) for specimen, scores, _ in results]) < 0.05


def test_causal_maps():
    n = 40
    every = {
        "directional": ideal.directional(n, 0, causal=True),
        "open": ideal.open_gate(n),
        "backward": ideal.backward(n, 1, causal=True),
        "closed": ideal.closed(n, causal=True),
        "cluster": ideal.cluster(n, range(20, 30), range(5, 15), causal=True),
    }
    for name, gate in every.items():
        reading = read_gates(gate, causal=True)
        share = {"cluster": 10 / 39}.get(name, 1)
        assert reading.score(name) == pytest.approx(share), name
        assert reading.score("forward") == 0
        assert (reading.cells.triu(1) == torch.full((n, n), -1).triu(1)).all()
    mixed = 0.5 * every["directional"] + 0.3 * every["backward"] + 0.2 * every["closed"]
    reading = read_gates(mixed, causal=True)
    assert reading.score("directional") == pytest.approx(0.5, abs=0.02)
    assert reading.score("backward") == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("gate", ["directional", "open", "backward"])
def test_finds_a_gate_in_causal_maps_over_held_out_noise(gate):
    rng, index = np.random.default_rng(8), GATES.index(gate)
    drawn = [synthetic.draw(64, [gate], noise, rng, causal=True) for noise in synthetic.HELD_OUT for _ in range(4)]
    drawn = [specimen for specimen in drawn if specimen.truth[index] >= 0.05]
    results = list(synthetic.read_specimens(drawn, causal=True))
    assert sum(name == gate for _, _, name in results) >= 0.9 * len(drawn) > 10
    assert np.mean([abs(scores[index] - specimen.truth[index]) for specimen, scores, _ in results]) < 0.05


@pytest.mark.parametrize("n", [12, 16, 64])
def test_blocks_that_chance_does_not_make_are_read_exactly_anywhere(n):
    """As the notes of ``read_gates`` promise: ``m`` cells, a share ``p`` of their rows."""
    rng, tried = np.random.default_rng(n), 0
    for _ in range(60):
        high, wide = (int(rng.integers(5, n * 4 // 5 + 1)) for _ in range(2))
        query, key = (int(rng.integers(0, n - side + 1)) for side in (high, wide))
        if wide <= 0.75 * n and high * wide * np.log(n / wide) >= 1.2 * np.log(n) ** 2 * np.log(20):
            scores = read_gates(ideal.cluster(n, range(query, query + high), range(key, key + wide))).scores
            assert scores[4] == pytest.approx(high / n), (query, high, key, wide)
            tried += 1
    assert tried >= 10


@pytest.mark.parametrize(
    ("attention", "arguments", "words"),
    [
        (ideal.closed(7), {}, "n at least 8"),
        (ideal.closed(8) * 2, {}, "rows that sum to 1"),
        (ideal.closed(8), {"causal": True}, "looks ahead"),
        (ideal.closed(8), {"level": 0.0}, "level must lie between"),
    ],
)
def test_refusals(attention, arguments, words):
    with pytest.raises(ValueError, match=words):
        read_gates(attention, **arguments)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="gate must be one of"):
        read_gates(ideal.closed(8)).score("sideways")
    with pytest.raises(ValueError, match="kind must be one of"):
        synthetic.draw_noise("pink", 8, np.random.default_rng(0))
    with pytest.raises(ValueError, match="gate must be one of"):
        synthetic.draw(16, ["closed"], "flat", np.random.default_rng(0))
    with pytest.raises(ValueError, match="at least 16"):
        synthetic.draw(8, ["open"], "flat", np.random.default_rng(0))


@pytest.mark.parametrize("n", [24, 40, 64, 128])
def test_blocks_of_causal_maps_are_exact_where_they_can_be_told_from_chance(n):
    rng, tried = np.random.default_rng(n), 0
    while tried < 15:
        first, width = int(rng.integers(n // 4, n // 2)), int(rng.integers(max(4, n // 8), n // 4 + 1))
        start = int(rng.integers(0, first - width + 1)) if first >= width else 0
        queries = range(first, min(n, first + int(rng.integers(max(5, n // 5), n // 2))))
        keys = range(start, min(start + width, first))
        share, cells = len(keys) / (first + 1), len(queries) * len(keys)
        if share > 0.75 or cells * math.log(1 / share) < 1.2 * math.log(n) ** 2 * math.log(20):
            continue
        if len(queries) >= 0.9 * (n - keys[-1]):
            continue
        gate = ideal.cluster(n, queries, keys, causal=True)
        reading = read_gates(gate, causal=True)
        assert reading.blocks() == [(queries, keys)]
        assert reading.scores[4] + reading.scores[7] == pytest.approx(1, abs=1e-6)
        tried += 1


@pytest.mark.parametrize("seed", range(8))
def test_rows_of_a_placed_gate_hold_all_or_nothing(seed):
    for gate in PATTERNS:
        sums = synthetic.place(gate, 32, np.random.default_rng(seed)).sum(1)
        assert np.isclose(sums, 0).sum() + np.isclose(sums, 1).sum() == 32, gate
        assert sums.max() > 0.5, gate
    few = synthetic.place("inverse directional", 32, np.random.default_rng(seed))
    assert len(few.any(1).nonzero()[0]) == 1
    assert 3 <= (few > 0).sum() <= 6


def held_together(cells):
    """Whether the first row is a hit and no two neighbours are both missed."""
    return cells[0] and all(a or b for a, b in itertools.pairwise(cells))


def run_probability(rates):
    """Enumerate all hits and misses of rows that are independent."""
    return sum(
        math.prod(p if hit else 1 - p for p, hit in zip(rates, cells, strict=True))
        for cells in itertools.product((True, False), repeat=len(rates))
        if held_together(cells)
    )


@pytest.mark.parametrize("rates", [[0.3] * 8, [0.9, 0.05] * 4, [0.05, 0.9] * 4, [0.1, 0.7, 1, 0.2, 0.4, 0.9, 0.3, 0.6]])
def test_the_shortest_run_by_enumeration(rates):
    """Rows of any rates: a run one cell shorter is not yet as rare."""
    chances = [[run_probability(rates[s:end]) for end in range(s + 1, len(rates) + 1)] for s in range(len(rates))]
    for rare in (0.3, 0.1, 0.03, 0.01):
        due = [next((m for m, chance in enumerate(row, 1) if chance <= rare), len(rates) + 1) for row in chances]
        found = segmentation.shortest_run(torch.tensor(rates, dtype=torch.float64), rare * (1 + 1e-12))
        assert found.tolist() == due


def test_the_tail_of_chance_goes_through_three_levels_and_on_as_the_logarithm_through_them():
    """Of 64 queries and keys: 8, 2 and 1/2 cells a row lie above 1.3, 2.3 and 3.3."""
    parts = ((9.0, 3.3, 32), (3.25, 2.3, 96), (2.25, 1.3, 384), (0.0, -1.0, 64 * 64 - 512))
    z = torch.cat([torch.linspace(*part, dtype=torch.float64) for part in parts]).view(1, 64, 64)
    rates = points.log_rate(z).exp().flatten()
    torch.testing.assert_close(rates[[511, 127, 31]], torch.tensor([8.0, 2.0, 0.5], dtype=torch.float64))
    doubted = points.log_rate(2 * z, 2.0 * torch.ones(1, 64, 1)).exp().flatten()  # of levels twice as high
    assert doubted[0] > rates[0]
    u = -torch.special.ndtri(rates / 64)
    torch.testing.assert_close(u[319], (u[511] + u[127]) / 2, rtol=0, atol=0.03)  # straight between the two lower ones
    bend = float((u[127] - u[511]) / (u[31] - u[127]))
    curve = scipy.optimize.brentq(lambda b: math.log(1 - b) / math.log(1 + b) + bend, 0.01, 0.9)
    due = u[127] + (u[31] - u[127]) * math.log(1 + 6.7 * curve) / math.log(1 + curve)
    assert u[0].item() == pytest.approx(due.item(), abs=0.02)


def independent_rows(kind, n, count, seed):
    """Maps whose rows have their weights at random places: of drawn noise, or nearly all on a few random keys."""
    rng = np.random.default_rng([seed, n])
    if kind == "sparse":
        return torch.as_tensor(rng.dirichlet(np.full(n, 0.1), size=(count, n)) + 1e-25)
    maps = np.stack([synthetic.draw_noise(kind, n, rng) for _ in range(count)])
    return torch.as_tensor(rng.permuted(maps, axis=-1))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["patchy", "lognormal", "ragged", "sparse"])
def test_each_gate_keeps_its_rate_of_false_alarms(kind, causal):
    """On the rows that blocks and points were made for, 5 % of maps have a cell of a gate; of 40, seldom over 5."""
    maps = independent_rows(kind, 64, 40, seed=21)
    maps = maps.tril() / maps.tril().sum(-1, keepdim=True) if causal else maps
    cells = read_gates(maps, causal=causal).cells
    alarms = {gate: int((cells == k).flatten(1).any(1).sum()) for k, gate in enumerate(PATTERNS)}
    assert max(alarms.values()) <= 5, alarms
