"""The gate reader: exact on ideal gates and mixtures, symmetric, calibrated against chance."""

import doctest

import numpy as np
import pytest
import torch

from analysis.gates import ideal, reader, shear, steps, synthetic
from analysis.gates.reader import GATES, PATTERNS, read_gates


def shares(**parts):
    """A row of scores from its non-zero parts (blanks in names as underscores)."""
    parts = {name.replace("_", " "): value for name, value in parts.items()}
    return torch.tensor([parts.get(gate, 0.0) for gate in GATES], dtype=torch.float64)


def cases(n):
    third = n // 3
    return {
        "directional": (ideal.directional(n, third), shares(directional=1)),
        "open": (ideal.open_gate(n), shares(open=1)),
        "backward": (ideal.backward(n, 3), shares(backward=(n - 3) / n, closed=3 / n)),
        "forward": (ideal.forward(n, 2), shares(forward=(n - 2) / n, closed=2 / n)),
        "cluster": (ideal.cluster(n, range(1, 1 + third), range(4, 4 + third)),
                    shares(cluster=third / n, closed=1 - third / n)),
        "instance": (ideal.instance(n, 2, 9), shares(instance=1 / n, closed=1 - 1 / n)),
        "inverse directional": (ideal.inverse_directional(n, 5, [0, 7]),
                                shares(inverse_directional=1 / n, closed=1 - 1 / n)),
        "closed": (ideal.closed(n), shares(closed=1)),
    }


@pytest.mark.parametrize("module", [reader, shear, steps, synthetic])
def test_examples(module):
    assert doctest.testmod(module, extraglobs={"torch": torch}).failed == 0


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


@pytest.mark.parametrize("pair", [(a, b) for a in PATTERNS[:5] for b in PATTERNS[:5] if a < b])
def test_exact_on_pairs(pair):
    every = cases(36)
    mixed = 0.3 * every[pair[0]][0] + 0.7 * every[pair[1]][0]
    truth = 0.3 * every[pair[0]][1] + 0.7 * every[pair[1]][1]
    assert torch.allclose(read_gates(mixed).scores, truth, atol=1e-9)


@pytest.mark.parametrize("keys", [20, 30])
def test_a_block_may_cover_most_of_its_rows(keys):
    n = 40
    reading = read_gates(ideal.cluster(n, range(5, 25), range(2, 2 + keys)))
    assert torch.allclose(reading.scores, shares(cluster=0.5, closed=0.5), atol=1e-9)


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


def test_batch_equals_one_by_one(monkeypatch):
    maps = torch.stack([noisy(33, seed) for seed in range(5)])
    whole = read_gates(maps)
    monkeypatch.setattr(reader, "CELLS", 2 * 33 * 33)
    pieces = read_gates(maps)
    for i, single in enumerate(maps):
        assert torch.equal(whole.scores[i], read_gates(single).scores)
    assert torch.equal(whole.scores, pieces.scores)
    assert torch.equal(whole.cells, pieces.cells)


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
    mixed = (ideal.directional(n, 11) + ideal.open_gate(n) + ideal.instance(n, 20, 31)
             + ideal.inverse_directional(n, 40, [2, 3, 50])) / 4
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


@pytest.mark.parametrize("n", [64, 500])
def test_shuffled_rows_show_no_lines_and_no_blocks(n):
    """The permutation null: the same weights at random places of their rows."""
    rng = np.random.default_rng(5)
    maps = np.stack([synthetic.draw(n, ("directional", "backward", "cluster"), noise, rng).attention
                     for noise in synthetic.TUNING for _ in range(4)])
    reading = read_gates(torch.as_tensor(rng.permuted(maps, axis=-1)))
    assert reading.scores[:, :4].max() == 0  # of 12 maps not one line, at a level of 5 % each
    assert reading.score("cluster").max() < 0.02
    assert reading_of_the_unshuffled(maps).min() > 0.05


def reading_of_the_unshuffled(maps):
    return read_gates(torch.as_tensor(maps)).scores[:, :5].sum(-1)


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
    every = {"directional": ideal.directional(n, 0, causal=True), "open": ideal.open_gate(n),
             "backward": ideal.backward(n, 1, causal=True), "closed": ideal.closed(n, causal=True),
             "cluster": ideal.cluster(n, range(20, 30), range(5, 15), causal=True)}
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


def test_single_precision_gives_the_same_reading():
    maps = torch.stack([noisy(64, seed) for seed in range(3)])
    assert torch.allclose(read_gates(maps.float()).scores.double(), read_gates(maps).scores, atol=1e-3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_gpu_gives_the_same_reading():
    maps = torch.stack([noisy(64, seed) for seed in range(3)])
    reading = read_gates(maps.cuda())
    assert reading.scores.is_cuda
    assert torch.allclose(reading.scores.cpu(), read_gates(maps).scores, atol=1e-9)


@pytest.mark.parametrize(("attention", "arguments", "words"), [
    (torch.ones(3, 4, 5) / 5, {}, r"must be \(..., n, n\)"),
    (ideal.closed(3), {}, "n at least 4"),
    (ideal.closed(8) * 2, {}, "rows that sum to 1"),
    (ideal.closed(8) * float("nan"), {}, "finite"),
    (ideal.closed(8), {"causal": True}, "looks ahead"),
    (ideal.closed(8), {"level": 0.0}, "level must lie between"),
])
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
