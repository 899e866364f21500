"""The gates as printed, against the library's, which are built from other rules; and that wrong ones are counted."""

from fractions import Fraction

import numpy as np
import pytest

from analysis.maps import gates
from book.studies.bert_gates import printed_gates
from book.studies.bert_gates.printed_gates import by_rules, expected_output, print_gates, written

BUILD = {
    "directional": lambda n, i: gates.directional(n, i - 1),
    "open": gates.open_gate,
    "backward": lambda n, j: gates.backward(n, j - 1),
    "forward": lambda n, j: gates.forward(n, j - 1),
    "cluster": lambda n, i, j, k: gates.cluster(n, range(j - 1, j + k), range(i - 1, i + k)),
    "instance": lambda n, i, j: gates.instance(n, j - 1, i - 1),
    "closed": gates.closed,
}


@pytest.mark.parametrize("n", [2, 5])
def test_the_rules_make_what_the_library_builds(n):
    for name, _, cells, labels in print_gates(n):
        np.testing.assert_allclose(by_rules(n, cells).astype(float), BUILD[name](n, **labels).numpy(), atol=1e-15)


def test_only_the_printed_cluster_is_against_the_rules():
    measured = printed_gates.measure_printed_gates()
    assert {name for name, count in measured.against_rules.items() if count} == {"cluster"}
    assert not any(measured.wrong_outputs.values())
    assert not any(measured.other_side.values())
    assert measured.points_back == [-1]
    assert measured.gates["open"] == len(printed_gates.SIZES)


def test_a_gate_one_column_off_does_not_give_the_printed_output():
    values = printed_gates.draw_values(4)
    shifted = written(4, [(3, 2), (4, 3)])  # j = 3 pointing back by one, not two
    assert not np.array_equal(shifted.dot(values), expected_output("backward", values, {"j": 3}))
    assert np.array_equal(written(4, [(3, 1), (4, 2)]).dot(values), expected_output("backward", values, {"j": 3}))


def test_a_row_of_the_printed_cluster_has_too_much():
    _, gate, *_ = next(each for each in print_gates(3) if each[0] == "cluster")
    assert gate[0].sum() == 2
    assert by_rules(3, [(1, 1), (1, 2)])[0, 0] == Fraction(1, 2)
