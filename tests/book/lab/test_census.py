"""The census of gates: what it counts, and what it refuses."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.data import texts
from analysis.maps import gates
from analysis.models import checkpoints, pretrained
from book.lab import census, map_counts

TEXTS = texts.passages(longest=45)[:3]


@pytest.fixture(scope="module")
def minilm():
    found = checkpoints.find("minilm")
    return pretrained.load(found), pretrained.tokenizer(found)


@pytest.fixture(scope="module")
def taken(minilm):
    return census.take_census(*minilm, TEXTS)


def test_scores_are_those_of_the_eager_maps(minilm, taken):
    model, tokenizer = minilm
    due = []
    for text in TEXTS:
        with torch.no_grad():
            maps = model(**tokenizer(text, return_tensors="pt"), output_attentions=True).attentions
        due.append(gates.read_gates(torch.cat(maps)).scores)
    assert torch.allclose(taken.scores.mean(), torch.stack(due).double().mean(0), atol=5e-3)
    assert taken.state["names"].sum() == 3 * 72
    assert taken.number("maps").tolist() == [72, 72, 72]


def test_numbers_hang_together(taken):
    no_shares = {"points_a_map", "points_a_row", "rows_a_map", "bias_correlation", "bias_other", "end_of_diagonal"}
    for name, (part, whole) in census.RATIOS.items():
        if name not in no_shares:
            assert 0 <= taken.number(part).sum() <= taken.number(whole).sum() * (1 + 1e-6), name
    attention = sum(taken.number(f"attention_{kind}") for kind in census.KINDS)
    assert np.allclose(attention, taken.number("maps"), atol=1e-3)
    assert (taken.number("tokens_first") > 0).all()


def test_the_control_shows_closed_gates_only(minilm):
    control = pretrained.load(checkpoints.find("minilm"), control_seed=0)
    scores = census.take_census(control, minilm[1], TEXTS[:1]).scores.mean()
    assert scores[..., gates.GATES.index("closed")].min() > 0.8
    assert scores[..., :7].sum(-1).max() < 0.05


def test_scores_by_text_and_the_permutation_null(minilm, taken):
    by_text = taken.state["by_text"].double() / 2**32 / 72
    assert torch.allclose(by_text.sum(-1), torch.ones(3, dtype=torch.float64), atol=1e-4)
    assert torch.allclose(by_text.mean(0), taken.scores.mean().mean((0, 1)), atol=1e-6)
    null = taken.state["null"].double() / 2**32 / 72
    assert null[0].sum() == pytest.approx(1, abs=1e-4)
    assert null[1:].abs().sum() == 0  # every fourth text only
    assert null[0, :5].sum() < 0.01 < by_text[0, :5].sum()
    assert taken.state["null_names"].sum() == 72


def test_what_a_record_keeps_of_a_text_are_shares_of_one(taken):
    arrays = census.summarise(taken, "few_").arrays
    assert arrays["few_by_text"].sum(1) == pytest.approx(np.ones(3), abs=1e-4)
    assert arrays["few_null"].sum(1) == pytest.approx(np.ones(1), abs=1e-4)  # of the first text alone
    assert arrays["few_names"].sum(-1) == pytest.approx(np.ones((6, 12)))
    assert arrays["few_null_names"].sum() == pytest.approx(1)


def test_short_verticals_count_clusters_by_their_height():
    n = 24
    for high, short in ((20, 0.0), (8, 1.0)):
        maps = gates.cluster(n, range(2, 2 + high), range(6, 14))[None]
        reading = gates.read_gates(maps)
        kinds = torch.nn.functional.one_hot(torch.zeros(n, dtype=torch.long), len(census.KINDS)).double()
        numbers = map_counts.measure_columns(maps, reading, kinds)
        assert numbers["vertical_short"] / numbers["vertical_mass"] == pytest.approx(short)
        assert numbers["directional_mass"] == 0


def test_residual_is_told_apart():
    n = 40
    maps = np.exp(0.5 * np.random.default_rng(0).standard_normal((n, n)))
    maps = torch.as_tensor(maps / maps.sum(1, keepdims=True))[None]
    flat = map_counts.measure_residual(maps, gates.read_gates(maps))
    assert flat["residual_mass"] == pytest.approx(gates.read_gates(maps).score("residual").item())
    assert flat["loud_pairs"] / flat["loud_above"] == pytest.approx(float(flat["loud"] / flat["told"]), abs=0.06)
    patchy = maps.clone()
    patchy[0, ::8, 5:9] *= 4  # loud cells in rows that are not neighbours
    patchy[0, 20:24, 30] *= 4  # four below each other, too few for a column
    patchy = patchy / patchy.sum(-1, keepdim=True)
    told = map_counts.measure_residual(patchy, gates.read_gates(patchy))
    assert told["loud"] > flat["loud"]
    assert told["residual_quiet"] < told["residual_mass"]
    near = map_counts.measure_residual(maps, gates.read_gates(maps))["near_cells"]
    assert near == pytest.approx(sum(min(n, q + 9) - max(0, q - 8) for q in range(n)) / n**2)


def test_company_counts_the_other_side_or_the_diagonal():
    n = 32
    both = (gates.backward(n, 1) + gates.forward(n, 1)) / 2
    opened = (gates.backward(n, 2) + gates.open_gate(n)) / 2
    alone = gates.backward(n, 1)
    numbers = map_counts.count_patterns(gates.read_gates(torch.stack([both, opened, alone, gates.open_gate(n)])))
    assert [numbers[name].item() for name in ("either", "both", "either_open", "company")] == [3, 1, 1, 2]


def test_token_kinds(minilm):
    tokenizer = minilm[1]
    ids = tokenizer("Well, (yes).")["input_ids"]
    assert census.token_kinds(tokenizer, ids).tolist() == [0, 3, 2, 2, 3, 2, 2, 1]


def test_ratios():
    interval = census.ratio_interval(np.array([1.0, 0.0, 1.0]), np.array([2.0, 2.0, 2.0]))
    assert interval.value == pytest.approx(1 / 3)
    assert interval.low < 1 / 3 < interval.high
    assert np.isnan(census.ratio_interval(np.zeros(2), np.zeros(2)).value)


def test_refusals(minilm):
    with pytest.raises(ValueError, match="texts is empty"):
        census.take_census(*minilm, [])
    with pytest.raises(ValueError, match=r"text 1 has 3 tokens.*at least 8"):
        census.take_census(*minilm, ["some words here that are enough for a map", "a"])


def test_the_end_of_a_diagonal_by_hand():
    """Of an open map the last places of the diagonal are 3 and the others 2, whatever stands beside it."""
    last = map_counts.LAST
    n = 4 * last
    maps = torch.eye(n, dtype=torch.float64)[None]
    reading = gates.read_gates(maps)
    assert reading.score("open").item() >= map_counts.PRESENT
    marked = 2 * maps + torch.diag((torch.arange(n) >= n - last).double()) + torch.ones(n, n).tril(-1)
    lines = map_counts.measure_lines(marked, reading)
    assert (lines["diagonal"].item(), lines["diagonal_end"].item()) == (2, 3)
    assert lines["open_maps"].item() == 1


def test_a_token_of_marks_of_the_tokenizer_alone_is_no_punctuation():
    words = {1: "[CLS]", 2: "\u0120", 3: "##", 4: ",", 5: "##.", 6: "a", 7: "end"}
    tokenizer = SimpleNamespace(sep_token_id=7, eos_token_id=None)
    tokenizer.convert_ids_to_tokens = lambda ids: [words[i] for i in ids]
    assert census.token_kinds(tokenizer, [1, 2, 3, 4, 5, 6, 7]).tolist() == [0, 3, 3, 2, 2, 3, 1]
