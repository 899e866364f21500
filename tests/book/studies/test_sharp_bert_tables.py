"""Tables of the chapters on BERT: every cell is of its own row, column, network and end."""

from types import SimpleNamespace

import numpy as np
import pytest

from analysis.models.controls import LARGE, PERMUTED
from analysis.statistics.intervals import Interval
from book.studies.bert_normality import tables as normality
from book.studies.bert_rank import tables as rank
from book.studies.bert_similarity import tables as similarity
from book.studies.bert_similarity.asymmetry import EQUAL, KINDS
from book.studies.bert_stream import tables as stream
from book.studies.bert_stream.survey import READ_BACK, Coupling, ReadBack
from book.studies.shared.documents import LADDER, DocumentLadder, Rungs

MEANS = np.array([[0.5, 0.25, 0.75], [0.6, 0.35, 0.85]])
"""Two layers: the mean and the two ends of its interval."""


def test_what_no_pattern_explains_is_told_by_its_mean():
    of = SimpleNamespace(
        unexplained={"trained": MEANS, "control": MEANS / 2},
        closed={"trained": np.array([0.125, 0.375]), "control": np.array([0.9, 0.8])},
    )
    table = stream.patterns(of)
    assert table.to_dict("index") == {
        "unexplained, trained": {"layer 0": 0.5, "layer 1": 0.6},
        "unexplained, control": {"layer 0": 0.25, "layer 1": 0.3},
        "closed, trained": {"layer 0": 0.125, "layer 1": 0.375},
        "closed, control": {"layer 0": 0.9, "layer 1": 0.8},
    }


def test_couplings_and_sums_run_from_the_least_to_the_most_layer():
    blocks = np.zeros((3, len(Coupling.names), 2, 2))
    for layer, off in enumerate((0.25, 0.5, 0.125)):
        blocks[layer] = [[1 - off, off], [0, 0]]
    table = stream.coupling(Coupling({"trained": blocks, "control": blocks.swapaxes(2, 3)[:2]}, 0.5))
    assert table.loc["MLP"].to_dict() == {"trained": "0.125 to 0.500", "control": "0.250 to 0.500"}
    names = ("product_error", "interaction", "additive", "linear")
    of = SimpleNamespace(
        **{name: {"trained": np.array([k, 9.0]), "control": np.array([-k, 8.0])} for k, name in enumerate(names, 1)}
    )
    table = stream.sums(of)
    assert table["layer 0"].tolist() == [1, 2, 3, 4, -1, -2, -3, -4]
    assert table["layer 1"].tolist() == [9] * 4 + [8] * 4
    assert table.index[0] == "error of (5.14), relative, trained"


def test_what_the_mlp_adds_stands_between_the_model_and_its_random_control():
    zeros = np.zeros((2, 2))
    ladder = DocumentLadder(zeros, dict.fromkeys(LADDER, zeros) | {LARGE: np.array([[0.1, -0.5], [0.3, 0.1]])})
    of = SimpleNamespace(whole=[0.11, 0.12], norm=[-0.21, 0.22], mlp=[0.31, 0.32])
    table = stream.anisotropy(of, Rungs("", {"added by the MLP": ladder}))
    assert table.to_numpy().tolist() == [["+0.11", "+0.12"], ["-0.21", "+0.22"], ["+0.31", "+0.32"], ["+0.20", "-0.20"]]


def test_what_is_read_back_is_told_by_the_mean_of_its_blocks():
    shares = np.arange(2 * 8 * 3.0).reshape(2, 8, 3) ** 2
    table = stream.read_back(ReadBack({"trained": shares, "control": -shares}, 0.0))
    for name, pair in stream.PAIRS.items():
        due = shares[:, READ_BACK.index(pair)].mean(1)
        assert table.loc[f"{name}, trained"].tolist() == pytest.approx(due)
        assert table.loc[f"{name}, control"].tolist() == pytest.approx(-due)


def test_rows_that_fail_are_told_by_their_mean_in_every_layer():
    table = normality.by_layer({"trained": MEANS, "kept": MEANS / 2, "not shown": MEANS})
    assert table.to_dict("index") == {
        "trained": {"layer 0": 0.5, "layer 1": 0.6},
        "trained, less what stands out": {"layer 0": 0.25, "layer 1": 0.3},
    }


def test_padding_is_told_in_the_first_and_the_last_of_three_layers():
    means = {
        "D": {
            "trained": {"without": [1, 9, 2], "with": [3, 9, 4]},
            "control": {"without": [5, 9, 6], "with": [7, 9, 8]},
        }
    }
    table = normality.padding(SimpleNamespace(means=means))
    assert list(table.columns) == [
        "first layer, padding out",
        "first layer, padding in",
        "last layer, padding out",
        "last layer, padding in",
    ]
    assert table.loc["D, trained"].tolist() == [1, 3, 2, 4]
    assert table.loc["D, control"].tolist() == [5, 7, 6, 8]


def test_ends_above_ten_are_whole_numbers():
    forms = dict.fromkeys(normality.FORMS, (10.0, 1234.5)) | {"cosine": (0.25, 10.25)}
    rise = {form: Interval(0.125 * k, 0, 0) for k, form in enumerate(normality.FORMS)}
    table = normality.cone(SimpleNamespace(ends={"trained": forms}, rise={"trained": rise}))
    assert table.loc["index, rows as written, trained"].tolist() == [10.0, "1,234", "+0.00"]
    assert table.loc["mean cosine, trained"].tolist() == [0.25, "10", "+0.38"]


def test_correlations_have_their_interval_and_only_layers_a_chance():
    one, two = Interval(0.5, 0.25, 0.75), Interval(-0.5, -0.75, -0.25)
    of = SimpleNamespace(
        with_entropy={"trained": one, "control": two},
        with_depth={"trained": two, "control": one},
        within=[one, two, one],
        chance=[0.01, 0.02, 0.03],
    )
    table = normality.correlations(of)
    assert table["correlation"].tolist() == ["+0.50", "-0.50", "-0.50", "+0.50", "+0.50", "-0.50", "+0.50"]
    assert table.iloc[0].tolist()[:2] == ["+0.50", "+0.25 to +0.75"]
    assert table["as far by chance"].tolist() == pytest.approx([np.nan] * 4 + [0.01, 0.02, 0.03], nan_ok=True)


def test_lengths_without_any_text_are_open_and_gates_keep_their_numbers():
    trained = {name: np.array([[0.2, 0.4]]) for name in ("first_failing", "bare_failing", "D_sum")}
    table = normality.lengths(trained, np.array([False]), 4)
    assert table.loc["4 or fewer, 1 texts"].tolist() == pytest.approx([0.3] * 3)
    assert np.isnan(table.loc["more than 4 tokens, 0 texts"].astype(float)).all()
    gates = {"a gate": SimpleNamespace(row_entropy=0.5, histogram_entropy=2.0, rank=3.25)}
    assert normality.ideal(gates).loc["a gate"].tolist() == [0.5, 2.0, "3.2"]
    table = normality.bins({1000: {"trained": [1.0, 2.0]}, 16: {"control": [3.0, 4.0]}})
    assert table.loc["1,000 bins, trained", "layer 1"] == 2
    sums = SimpleNamespace(failing={"trained": [0.1], "control": [0.2]}, dropped=[0.3], failing_kept=[0.4])
    assert normality.sums(sums)["layer 0"].tolist() == [0.1, 0.2, 0.3, 0.4]


def test_amplified_rows_are_told_with_their_interval():
    of = SimpleNamespace(
        over={"control": [0.1, 0.2, 0.3]},
        alone={"control": [Interval(0.4, 0.35, 0.45), Interval(0.5, 0.45, 0.55), Interval(0.6, 0.55, 0.65)]},
        joint={"control": [0.7, 0.8, 0.9]},
    )
    table = similarity.amplified(of)
    assert table.loc["control, V"].tolist() == ["30 %", "60.0 % (55.0 % to 65.0 %)", "90 %"]
    kinds = (*KINDS, "control")
    told = SimpleNamespace(
        mean_scores={kind: k for k, kind in enumerate(kinds)},
        spread={kind: 10 + k for k, kind in enumerate(kinds)},
        over_texts={kind: (0.1 * k, 0.0, 1.0) for k, kind in enumerate((*kinds, *(kind + EQUAL for kind in KINDS)))},
    )
    table = similarity.asymmetry(told)
    assert table.loc[KINDS[1]].tolist() == [1, 11, "0.10 (0.00 to 1.00)", "0.80 (0.00 to 1.00)"]
    assert table.loc["control"].tolist() == [6, 16, "0.60 (0.00 to 1.00)", ""]


def test_changed_models_are_told_by_spread_of_seeds_and_interval_of_documents():
    ways = len(rank.WAYS)
    documents = np.log10(np.array([[0.1], [0.2], [0.4]])) + np.zeros(ways)
    seeds = np.log10(np.array([[0.5], [0.25], [0.125]])) + np.zeros(ways)
    logs = DocumentLadder(documents, dict.fromkeys(LADDER, seeds))
    cosines = DocumentLadder(
        documents * 0 + [[0.1], [0.2], [0.6]],
        dict.fromkeys(LADDER, seeds) | {PERMUTED: seeds * 0 + [[0.5], [0.0], [0.1]]},
    )
    row = rank.ablations(Rungs("", {"end": logs, "cosine": cosines})).iloc[0]
    half = 4.302653 * np.log10(2) / 3**0.5
    low, high = (10 ** (np.log10(0.2) + side * half) for side in (-1, 1))
    assert row["trained: residual"] == f"0.20 [{low:.2f}, {high:.2f}]"
    assert row["trained: cosine"] == pytest.approx(0.3)
    assert row[f"{PERMUTED}: cosine"] == pytest.approx(0.2)
    assert row[f"{LARGE}: residual"].startswith("0.25 (")
