"""Shares of a score's parts, and what the variant classifiers read, on inputs whose answer is known by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from book.publish.records import Value
from book.studies.one_score_four_parts import shares
from book.studies.one_score_four_parts.shares import FirstLayer, HeadShares, OneText
from book.studies.variant_data import evidence, partings
from tests.book.studies.known import Known

# (layer, head, part): content, common, semi-bias, and one more that does not reach the attention
PARTS = np.array([[[0.5, 0.25, 0.25, 9], [1.0, 0.0, 1.0, 9]], [[0.0, 0.5, 1.5, 9], [0.5, 0.0, 0.0, 9]]])
SURVEY = SimpleNamespace(
    parts=PARTS,
    divergence=np.array([[1.0, 2], [2, 0.5]]),
    from_zero=np.full((2, 2, 3), 0.25),
    by_text=np.stack([PARTS, 0 * PARTS + [1.0, 0, 0, 9]], 1),
)


def test_parts_share_the_divergence_of_all_heads():
    found = shares.measure_heads(SURVEY, SimpleNamespace(divergence=np.full((2, 2), 0.1)))
    assert found.divergence.tolist() == [1, 2, 2, 0.5]
    assert found.parts[2].tolist() == [0, 0.5, 1.5]
    assert [found.share(part) for part in range(3)] == pytest.approx([2 / 5.5, 0.75 / 5.5, 2.75 / 5.5])
    assert found.control.tolist() == [0.1] * 4


def test_shares_by_layer_are_of_the_layer():
    np.testing.assert_allclose(
        shares.measure_layers(SURVEY), [[1.5 / 3, 0.25 / 3, 1.25 / 3], [0.5 / 2.5, 0.5 / 2.5, 1.5 / 2.5]]
    )


def test_shares_by_text_count_the_heads_with_little_content():
    found = shares.measure_texts(SURVEY)
    np.testing.assert_allclose(found.shares, [[2 / 5.5, 0.75 / 5.5, 2.75 / 5.5], [1, 0, 0]])
    assert found.content_minority.tolist() == [1, 0]  # a tie is no minority


def test_a_model_in_the_text_has_the_numbers_of_its_heads():
    heads = HeadShares(np.array([1.0, 3]), np.array([[0.25, 0.25, 0.5], [2.5, 0.25, 0.25]]), np.array([0.125, 0.125]))
    first = FirstLayer(np.array([2.0, 2.0]), np.array([[1.0, 0.2, 0.1, 0.4, 0.2, 0.1]] * 2))
    found = shares.model_numbers(heads, shares.measure_texts(SURVEY), first)
    assert (found["heads"], found["divergence"], found["control"]) == (2, "2.00", "0.125")
    assert (found["content"], found["common"], found["semi"]) == ("69 %", "12 %", "19 %")
    assert (found["semi_majority"], found["content_minority"]) == (0, 1)  # .5 is not more than .25 + .25
    assert found["ee"] == "50 %"
    assert found["content_interval"].startswith("too few")
    assert first.mixed.tolist() == pytest.approx([0.15, 0.15])
    terms = shares.mixed_terms({"a": first, "b": FirstLayer(np.array([1.0]), np.array([[1.0, 0.3, 0.2, 0, 0, 0]]))})
    assert (terms.mixed, terms.mixed_low, terms.mixed_high) == ("50 %", "15 %", "50 %")


def test_content_by_layer_and_from_zero():
    found = shares.minilm_numbers(SURVEY, shares.measure_layers(SURVEY))
    assert (found["content_0"], found["content_low"], found["content_high"]) == ("50 %", "20 %", "20 %")
    assert found["zero"] == "18 %"  # 4 quarters of 5.5


def test_other_splits_are_shares_of_the_whole_path():
    splits = {
        "path": np.array([[1.0, 0.5, 0.5], [1, 0, 1]]),  # 2 and 2
        "drop one": np.array([[1.0, 1, 1], [1, 1, 1]]),
        "in order": np.array([[2.0, 0, 0], [1, 0.5, 0.5]]),
        "reverse order": np.array([[0.2, 0, 1.8], [0.4, 0, 1.6]]),
    }
    found = shares.other_splits(OneText(0, 0, None, splits))
    assert (found.drop_sum, found.path_one) == ("150 %", "50 %")
    assert (found.first, found.first_1, found.last, found.last_1) == ("75 %", "50 %", "15 %", "20 %")
    assert (found.semi_first, found.semi_last) == ("85 %", "12 %")


def values(**given: tuple) -> Known:
    """Return a record whose values have an interval and a number of cases."""
    named = {name: Value(value, 0.0, low=low, high=high, n=n) for name, (value, low, high, n) in given.items()}
    return Known(values=named, arrays={})


def test_accuracies_are_shares_of_a_class():
    confusion = np.array([[[3, 1], [0, 0]], [[0, 5], [1, 1]]])
    assert evidence.accuracy_by_class(confusion).tolist() == [[0.75, 0], [0, 0.5]]
    assert evidence.row_shares(confusion[1]).tolist() == [[0, 1], [0.5, 0.5]]
    assert evidence.row_shares(confusion[0])[1].tolist() == [0, 0]


def test_an_exchange_keeps_the_part_that_is_named():
    seeds = values(**{f"exchanged_bases_{k}": (0.1 * k, 0.0, 0.5, 64) for k in range(3)})
    baselines = values(**{"kmers/exchanged-bases": (0.3, 0, 1, 9), "kmers-gapped/exchanged-bases": (0.4, 0, 1, 9)})
    found = evidence.exchange(seeds, baselines, values(named_bases=(0.9, 0.8, 1.0, 60)), "bases")
    np.testing.assert_allclose(found.bert, [[0, 0, 0.5], [0.1, 0, 0.5], [0.2, 0, 0.5]])
    assert (found.sequences, found.balanced.n) == (64, 60)
    assert (found.words.value, found.words_gapped.value) == (0.3, 0.4)


def test_partings_are_rows_of_the_record():
    names = {"train": 100, "units": 7, "bert": 0.9, "kmers": 0.8, "nearest": 0.7, "length": 0.25, "phase": 0.5}
    names |= {"majority": 0.1, "kmers-gapped": 0.6, "exchanged_bases": 0.2, "exchanged_deletions": 0.3}
    given = values(**{f"{name}/clade": (value, value / 2, value, 50) for name, value in names.items()})
    given.arrays["parts"] = ["clade"]
    (row,) = partings.tabulate(given)
    assert row == partings.Parting("clade", 100, 50, 7, 0.9, 0.45, 0.8, 0.7, 0.25, 0.5)
    found = partings.measure_partings(given, Known(arrays={"kmers/one-a-class": 0.98765}))
    assert (found.length, found.phase, found.one_per_class, found.kept_apart) == ("25 %", "50 %", "0.988", ["clade"])
    assert found.accuracies["words, gaps kept"] == [(0.6, 0.3, 0.6)]
    assert found.exchanged["clade"]["deletions"].value == 0.3
