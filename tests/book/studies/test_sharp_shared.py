"""The census of gates and what it counts, scores of a model, links within layers: answers known by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.maps import streaming
from analysis.maps.gates import GATES
from book.studies.shared import averages, census, equality, map_counts
from tests.book.studies.known import double

# ---- what is counted on maps


def scores_of(*maps: dict[str, float]) -> torch.Tensor:
    scores = torch.zeros(len(maps), len(GATES)).double()
    for k, held in enumerate(maps):
        for gate, share in held.items():
            scores[k, GATES.index(gate)] = share
    return scores


def test_maps_are_counted_by_the_gates_that_are_there():
    scores = scores_of(
        {"open": 0.05, "backward": 0.5},
        {"backward": 0.3, "forward": 0.3},
        {"forward": 0.9},
        {"open": 0.5, "cluster": 0.2},
        {"closed": 0.9, "directional": 0.04},
        {"residual": 0.9, "directional": 0.1},
        {"open": 0.2, "backward": 0.2, "forward": 0.2},
    )
    found = map_counts.count_patterns(SimpleNamespace(scores=scores))
    assert {name: int(count) for name, count in found.items()} == {
        "maps": 7,
        "patterned": 6,
        "composed": 4,
        "backward": 3,
        "forward": 3,
        "both": 2,
        "either": 4,
        "either_open": 2,
        "company": 3,
    }


def test_a_run_covers_a_part_of_its_line():
    """Maps of four tokens: offsets from -3 to 3, of which the lines have 1, 2, 3, 4, 3, 2 and 1 cells."""
    offsets = double([0.05, 0, 0.3, 0.9, 0.04, 0, 0], [0, 0, 0, 0, 0.2, 0.1, 0])
    runs = torch.tensor([[1, 0, 2, 4, 3, 0, 1], [0, 0, 0, 0, 3, 1, 0]])
    reading = SimpleNamespace(offsets=offsets, runs=runs, score=lambda name: double(0.9, 0))
    found = map_counts.measure_lines(torch.eye(4).double().expand(2, 4, 4), reading)
    assert int(found["lines"]) == 4  # not the diagonal, which is in the middle
    assert float(found["run_share"]) == pytest.approx(1 / 1 + 2 / 3 + 3 / 3 + 1 / 2)
    assert int(found["open_maps"]) == 0  # too short to tell a dozen last tokens from the others


@pytest.mark.parametrize(("tokens", "opened"), [(47, 0), (48, 1)])
def test_the_end_of_a_diagonal_is_told_from_the_rest_on_long_maps(tokens, opened):
    places = torch.arange(tokens).double()
    reading = SimpleNamespace(offsets=torch.zeros(2, 2 * tokens - 1), runs=torch.zeros(2, 2 * tokens - 1))
    reading.score = {"open": double(0.05, 0.04)}.get
    found = map_counts.measure_lines(torch.diag(places).expand(2, tokens, tokens), reading)
    assert int(found["open_maps"]) == opened
    assert (float(found["diagonal"]), float(found["diagonal_end"])) == ((17.5, 41.5) if opened else (0, 0))


def test_the_residual_is_told_cell_by_cell():
    """Two causal maps of eleven tokens, told by loops over their cells."""
    n, generator = 11, np.random.default_rng(0)
    closed, residual = GATES.index("closed"), GATES.index("residual")
    seen = np.tril(np.ones((2, n, n), bool))
    cells = np.where(seen, generator.choice([0, closed, residual], (2, n, n)), -1)
    maps = np.where(seen, generator.random((2, n, n)), 0)
    rest = maps * generator.random((2, n, n)) / 5
    rows = [q for q in range(n) if q > 0]  # of more than one key
    due = dict.fromkeys(
        ("loud", "told", "loud_above", "loud_pairs", "residual_near", "residual_quiet", "near_cells"), 0
    )

    def loud(head, q, k):
        return rest[head, q, k] * len(rows) > maps[head, q, k] / 2

    for head, q, k in np.ndindex(2, n, n):
        due["residual_near"] += rest[head, q, k] * (abs(q - k) <= 8)
        due["residual_quiet"] += rest[head, q, k] * (not loud(head, q, k))
        due["near_cells"] += 2 * (k <= q and q - k <= 8) / seen.sum()
        due["told"] += (cells[head, q, k] >= closed) / n**2
        due["loud"] += loud(head, q, k) / n**2
        if q and cells[head, q, k] >= closed and loud(head, q - 1, k):
            due["loud_above"] += 1 / n**2
            due["loud_pairs"] += loud(head, q, k) / n**2
    reading = SimpleNamespace(cells=torch.tensor(cells), residual=torch.tensor(rest))
    found = map_counts.measure_residual(torch.tensor(maps), reading)
    assert float(found.pop("residual_mass")) == pytest.approx(rest.sum())
    assert {name: float(number) for name, number in found.items()} == pytest.approx(due)
    assert 0 < due["loud_pairs"] < due["loud_above"] < due["loud"] < 2


def test_numbers_that_go_together_have_the_correlation_of_pearson():
    first, second = double([1, 2, 4, 9], [0, 1, 0, 5]), double([3, 1, 2, 9], [2, 2, 1, 0])
    due = [np.corrcoef(a, b)[0, 1] for a, b in zip(first.numpy(), second.numpy(), strict=True)]
    assert map_counts.correlate(first, second).tolist() == pytest.approx(due)
    assert map_counts.correlate(second + 7, -2 * first).tolist() == pytest.approx([-each for each in due])
    assert map_counts.correlate(first, double(3, 3, 3, 3)).tolist() == [0, 0]


def test_a_column_is_held_to_all_rows_that_see_it():
    """Six rows, of which the last key is seen by two: two cells of six are short, three are not, one of two is not."""
    cells = torch.full((1, 6, 4), GATES.index("closed"))
    cells[0, :2, 0], cells[0, :3, 1], cells[0, 5, 3], cells[0, :4, 3] = 0, 0, 0, -1
    cells[0, 2:4, 0] = GATES.index("cluster")
    reading = SimpleNamespace(cells=cells, columns=double([1, 2, 0, 4]), clustered=double([8, 0, 0, 0]))
    found = map_counts.measure_columns(torch.ones(1, 6, 4).double(), reading, torch.zeros(4, 4).double())
    assert (float(found["directional_short"]), float(found["vertical_short"])) == (1, 9)


# ---- the census of one layer and of all


def visited(monkeypatch, *, text: int, tokens: int = 5) -> census.Census:
    """Let a reader visit one layer of two heads; what is read of the maps is given."""
    counted = census.Census(6, 1, 2, tokens)
    kinds = torch.tensor([0, 3, 2, 3, 1])[:tokens]
    reader = census._Reader(counted, text, kinds, [])
    reader.census.scores.add = lambda reads: seen.append(reads.tolist())
    seen = []
    scores = scores_of({"open": 0.5, "closed": 0.25}, {"open": 0.25, "cluster": 0.125})
    offsets = torch.arange(2.0 * tokens - 1).expand(2, -1) / 16

    def read_gates(maps, causal):
        of_shuffled = float(maps.sum()) < 0
        names = ["closed", "residual"] if of_shuffled else ["open", "cluster"]
        return SimpleNamespace(scores=scores / (2 if of_shuffled else 1), offsets=offsets, names=lambda: names)

    monkeypatch.setattr(census.gates, "read_gates", read_gates)
    monkeypatch.setattr(census.gates, "shuffle_rows", lambda maps, seeded, causal: seen.append(seeded) or -maps)
    monkeypatch.setattr(census, "count_patterns", lambda reading: {"maps": 2})
    monkeypatch.setattr(census, "measure_lines", lambda maps, reading: {"lines": maps[0, 0, 0]})
    monkeypatch.setattr(census, "measure_points", lambda maps, reading: {"points": maps[1, 0, 0]})
    monkeypatch.setattr(census, "measure_residual", lambda maps, reading: {"told": maps[1, 0, 1]})
    monkeypatch.setattr(census, "measure_columns", lambda maps, reading, one_hot: {"tokens_first": one_hot[:, 0].sum()})
    reader.follow_bias = lambda layer, maps, reading: {"bias_maps": layer + 1}
    maps = torch.arange(2.0 * tokens**2).reshape(1, 2, tokens, tokens) / 8
    reader.visit(0, maps + 0.125)
    assert seen[0] == [scores.tolist()]
    counted.seeds = [each.initial_seed() for each in seen[1:]]
    return counted


def test_a_layer_is_added_to_the_text_that_is_read(monkeypatch):
    found = visited(monkeypatch, text=4)
    state = {name: (total.double() / streaming.UNIT) for name, total in found.state.items()}
    by_text = state["by_text"]
    assert by_text[4, [GATES.index(gate) for gate in ("open", "closed", "cluster")]].tolist() == [0.75, 0.25, 0.125]
    assert by_text.sum() == by_text[4].sum()
    assert torch.equal(state["null"], by_text / 2)
    assert found.seeds == [4000]
    assert found.state["names"][0, 0].tolist() == [int(gate == "open") for gate in GATES]
    assert found.state["names"][0, 1].tolist() == [int(gate == "cluster") for gate in GATES]
    assert found.state["null_names"].tolist() == [int(gate in ("closed", "residual")) for gate in GATES]
    assert state["offsets"][0, 1].tolist() == [0] * 4 + [k / 16 for k in range(9)] + [0] * 4
    # keys by kind: the first is one, the separator the last, one is punctuation, and two are others
    means = (np.arange(50.0).reshape(2, 5, 5) + 1).mean(1) / 8
    assert state["kinds"][0].tolist() == [[row[0], row[4], row[2], row[1] + row[3]] for row in means.tolist()]
    own = {"maps": 2, "lines": 1 / 8, "points": 26 / 8, "told": 27 / 8, "tokens_first": 1, "bias_maps": 1}
    assert {name: found.number(name).tolist() for name in own} == {name: [0] * 4 + [k, 0] for name, k in own.items()}
    assert found.state["lengths"].tolist() == [0, 0, 0, 0, 5, 0]


def test_only_every_fourth_text_is_read_with_its_rows_shuffled(monkeypatch):
    found = visited(monkeypatch, text=2)
    assert not found.state["null"].any()
    assert not found.state["null_names"].any()
    assert found.state["by_text"][2].any()


def test_offsets_further_than_eight_are_not_kept(monkeypatch):
    monkeypatch.setattr(census, "NEAR", 2)
    found = visited(monkeypatch, text=1)
    assert (found.state["offsets"][0, 0].double() / streaming.UNIT).tolist() == [k / 16 for k in (2, 3, 4, 5, 6)]


def test_a_census_is_summed_up_with_tolerances():
    """Two texts, one layer of two heads."""
    taken = census.Census(2, 1, 2, 4)
    unit = streaming.UNIT

    def put(name: str, *numbers: float) -> None:
        taken.state["numbers"][:, census.NUMBERS.index(name)] = torch.tensor([int(unit * each) for each in numbers])

    put("maps", 2, 2)
    put("points", 200, 600)
    put("composed", 1, 0)
    put("either", 1, 0)
    put("both", 0.5, 0)
    taken.state["names"][0, :, 0] = torch.tensor([1, 2])
    taken.state["offsets"][0, 1, 3] = taken.state["kinds"][0, 1, 2] = unit
    taken.state["bias"][0, 1] = torch.tensor([unit // 2, 2])
    taken.state["lengths"][:] = torch.tensor([3, 4])
    taken.state["by_text"][1, 2] = taken.state["null"][0, 1] = unit
    taken.state["null_names"][3] = 1
    taken.scores.add(torch.full((1, 2, len(GATES)), 0.25).double())
    taken.scores.add(torch.full((1, 2, len(GATES)), 0.75).double())
    found = census.summarise(taken, "some_")
    composed, points = found.values["some_composed"], found.values["some_points_a_map"]
    assert (composed.value, composed.tolerance, composed.n) == (0.25, 0.01, 2)
    half = 12.7062047 * 0.25  # both residuals are a half, as in a mean of two
    assert (composed.low, composed.high) == pytest.approx((0.25 - half, 0.25 + half))
    assert (points.value, points.tolerance) == (200, 2)
    assert (found["some_both_of_either"], found.values["some_both_of_either"].n) == (0.5, 1)
    assert "some_run_covers" not in found.values  # there is no line
    count = found.values["some_count_points"]
    assert (count.value, count.tolerance, found["some_count_either"]) == (800, 11, 1)
    arrays = {name.removeprefix("some_"): array for name, array in found.arrays.items()}
    assert arrays["names"][0, :, 0].tolist() == [0.5, 1]
    assert (arrays["offsets"].sum(), arrays["kinds"].sum()) == (0.5, 0.5)
    assert arrays["bias"][0, 1] == 0.25
    assert np.isnan(arrays["bias"][0, 0])
    assert (arrays["by_text"][1, 2], arrays["by_text"].sum()) == (0.5, 0.5)
    assert arrays["null"].tolist() == [[0, 0.5, *[0] * (len(GATES) - 2)]]
    assert arrays["null_names"][3] == 0.5
    assert arrays["scores"].ravel().tolist() == [0.5] * 2 * len(GATES)
    assert arrays["lengths"].tolist() == [3, 4]
    tolerances = {name.removeprefix("some_"): each for name, each in found.tolerances.items()}
    assert tolerances == dict.fromkeys(arrays, 0.01) | {
        "names": 0.15,
        "null_names": 0.02,
        "bias": 0.05,
        "lengths": 0,
        "entropy": 1e-4,
    }


def test_a_census_of_one_text_has_no_interval():
    taken = census.Census(1, 1, 1, 4)
    taken.state["numbers"][0, census.NUMBERS.index("maps")] = streaming.UNIT
    taken.scores.add(torch.zeros(1, 1, len(GATES)).double())
    value = census.summarise(taken).values["composed"]
    assert (value.value, value.low, value.high) == (0, None, None)


# ---- scores of a model, read off its maps


def test_shares_of_entropy_are_means_over_rows_that_see_more_than_one_key(monkeypatch):
    """Causal maps of three and two tokens; with the scores switched off every row is uniform."""
    away = -torch.inf
    long = double([0, away, away], [np.log(0.9), np.log(0.1), away], [0, 0, 0])
    short = double([0, away], [np.log(0.9), np.log(0.1)])
    asked = []

    def log_maps(checkpoint, **which):
        asked.append((checkpoint, which))
        return [each[None, None].expand(1, 2, *each.shape) for each in (long, short)]

    monkeypatch.setattr(equality, "log_maps", log_maps)
    found = equality.entropy_shares("model", (1.0, 0.0), passages=2)
    sharp = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1)) / np.log(2)
    assert found.tolist() == [[[pytest.approx((sharp + 1 + sharp) / 3)] * 2], [[pytest.approx(1)] * 2]]
    assert asked == [("model", {"passages": 2})]


def test_maps_of_a_network_are_logarithms_of_its_attention(monkeypatch):
    monkeypatch.setattr(equality.pretrained, "tokenizer", lambda _: tokenizer)
    monkeypatch.setattr(equality.texts, "passages", lambda count, source: [f"{source} {k}" for k in range(count)])
    attentions = [torch.full((1, 2, 3, 3), 0.5 + layer / 4).double() for layer in range(2)]

    def tokenizer(text, truncation, max_length):
        return {"input_ids": list(range(len(text)))[: max_length if truncation else None]}

    def network(ids, output_attentions):
        assert output_attentions
        assert ids.tolist() == [[0, 1, 2]]
        return SimpleNamespace(attentions=attentions)

    found = list(equality.log_maps("model", passages=2, tokens=3, source="mine", network=network))
    assert [each.shape for each in found] == [(2, 2, 3, 3)] * 2
    assert found[1][:, 1, 2, 0].tolist() == pytest.approx([np.log(0.5), np.log(0.75)])


def test_a_layer_that_is_drawn_has_weights_of_one_size():
    layer = equality.random_layer(2, 4, 8)
    assert [tuple(each.shape) for each in (layer.W_Q, layer.W_K, layer.W_V, layer.W_O)] == [(2, 4, 8)] * 3 + [(2, 8, 4)]
    drawn = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(layer.W_Q, drawn / 32**0.25)
    assert layer.b_O.shape == (4,)


# ---- correlations within layers


def test_a_link_is_by_chance_as_often_as_shuffles_bring_it():
    """Of the 24 orders of four heads one is the same and one the reverse."""
    heads = np.array([[1.0, 2, 3, 4]])
    found = averages.correlate_within_layers(heads, 10 * heads)
    assert (found.value, found.by_layer.tolist()) == (pytest.approx(1), [pytest.approx(1)])
    assert found.chance == pytest.approx(2 / 24, abs=0.02)
    assert found.shuffled == pytest.approx((0, -1, 1), abs=0.05)
    assert averages.correlate_within_layers(heads, -heads).chance == pytest.approx(2 / 24, abs=0.02)


def test_layers_count_alike_however_far_their_numbers_are_apart():
    first = np.array([[1.0, 2, 3], [7, 8, 9]])
    second = np.array([[1.0, 2, 3], [900, 100, 500]])
    found = averages.correlate_within_layers(first, second)
    assert found.by_layer.tolist() == pytest.approx([1, -0.5])
    assert found.value == pytest.approx(0.25)
    # over all heads the layers' means alone correlate: ranks 1 to 3 and 4 to 6, 27 / 35
    assert found.shuffled.value == pytest.approx(27 / 35, abs=0.01)
