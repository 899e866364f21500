"""Tables and a figure of the chapters on BERT: what a row is named after stands in it, and nothing is left out."""

from types import SimpleNamespace

import numpy as np
import pytest

from analysis.statistics.intervals import Interval
from book.studies.bert_gates import gate_census, query_bias
from book.studies.bert_gates import tables as gates
from book.studies.bert_rank import controls, figures
from book.studies.bert_rank import tables as rank
from book.studies.bert_similarity import tables as similarity
from book.studies.shared.documents import LADDER, DocumentLadder, Rungs

RNG = np.random.default_rng(0)


def test_every_quantity_that_the_census_shows_has_a_name():
    assert set(gates.NAMES) == set(gate_census.SHOWN)
    assert len(set(gates.NAMES.values())) == len(gates.NAMES)


def test_the_control_has_a_value_where_it_has_something_to_measure():
    ratios = {name: gate_census.Ratio(i / 20, i / 20, i / 20, 4) for i, name in enumerate(gate_census.SHOWN)}
    census = SimpleNamespace(summary=ratios, control=SimpleNamespace(ratios=ratios))
    table = gates.summary(census)
    assert list(table["control"] != "") == [name in gates.OF_BOTH for name in gate_census.SHOWN]
    assert table["trained"].iloc[-1] == "0.50 (0.50 to 0.50)"


def test_columns_with_exchanged_biases_stand_in_their_row_and_column():
    value = gate_census.Ratio(0.25, 0.2, 0.3, 5)
    table = gates.exchanged(
        SimpleNamespace(columns={"columns_own": value, "mostly_none": gate_census.Ratio(), "control_lent": value})
    )
    assert table.loc["all maps", "own b_Q"] == "0.250 (0.200 to 0.300)"
    assert table.loc["maps at least 30 % directional", "without b_Q"] == "no such map"
    assert table.loc["the random control", "the trained b_Q"] == "0.250 (0.200 to 0.300)"
    assert query_bias.EXPERIMENT  # whose values have these names


def test_ranks_that_differ_between_layers_are_all_named():
    def steps(read):
        return SimpleNamespace(**{step: SimpleNamespace(rank=read) for step in rank.STEPS})

    of = SimpleNamespace(through={("trained", 4): [steps(3), steps(4), steps(3)]}, apart={("trained", 4): [0.5, 0.1]})
    row = rank.ranks(of).loc["trained, 4 tokens"]
    assert row["read"] == row["with bias"] == "3 or 4"
    assert row["distance of the all-one row"] == 0.1


def test_residuals_are_read_at_their_layer():
    runs = {0.5: {"attention": np.array([[1.0, 0.5, 1e-9]])}, 2.0: {"attention": np.array([[1.0, 0.25, 0.5]])}}
    assert list(rank.residuals(runs, ["attention"], 2).loc["attention"]) == ["< 1e-6", "0.50"]


def test_every_residual_of_a_changed_model_has_its_cosine_beside_it():
    of = SimpleNamespace(final={"trained": {"attention": 0.3}}, cosines={"trained": {"attention": -0.5}})
    assert rank.final(of, ["attention"]).loc["attention"].to_dict() == {
        "trained: residual": "0.30",
        "trained: cosine": -0.5,
    }
    ways, seeds = len(controls.WAYS), dict.fromkeys(LADDER, np.zeros((5, len(controls.WAYS))))
    logs = DocumentLadder(np.log10(np.full((3, ways), 0.25)), seeds)
    cosines = DocumentLadder(
        np.arange(3.0)[:, None] + np.arange(ways), {rung: values - 1 for rung, values in seeds.items()}
    )
    table = rank.ablations(Rungs("", {"end": logs, "cosine": cosines}))
    assert list(table.index) == list(controls.WAYS)
    assert list(table["trained: cosine"]) == list(range(1, ways + 1))
    assert set(table["trained: residual"]) == {"0.25 [0.25, 0.25]"}
    assert set(table["permuted: residual"]) == {"1.00 (1.00 to 1.00)"}
    assert set(table["permuted: cosine"]) == {-1.0}


def test_amplified_rows_and_heads_keep_their_maps():
    alone = [Interval(k / 10, k / 10, k / 10) for k in range(3)]
    shares = [1.0, 0.5, 0.0]
    of = SimpleNamespace(over={"trained": shares}, alone={"trained": alone}, joint={"trained": shares[::-1]})
    table = similarity.amplified(of)
    assert list(table.index) == ["trained, Q", "trained, K", "trained, V"]
    assert list(table.loc["trained, K"]) == ["50 %", "10.0 % (10.0 % to 10.0 %)", "50 %"]


def test_a_control_is_drawn_beside_each_half_of_the_trained_model():
    trained = {name: RNG.random((2, 4)) for name in ("attention", "attention + skip", "attention + skip + MLP")}
    control = {name: RNG.random((2, 4)) for name in ("attention", "attention + MLP", "attention + skip")}
    left, right = figures.beside_control(trained, control).axes
    assert [len(panel.lines) for panel in (left, right)] == [2 + 1, 1 + 2]
    assert [line.get_label() for line in left.lines].count("control, any parts") == 1
    assert left.lines[0].get_ydata() == pytest.approx(np.exp(np.log(control["attention"]).mean(0)))
