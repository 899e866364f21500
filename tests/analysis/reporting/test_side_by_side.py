"""Two models side by side: which heads differ most, and what is said where heads do not correspond."""

import numpy as np

from analysis.reporting import side_by_side
from analysis.reporting.comparison import HEADS


def of(**numbers):
    return {name: np.array(values) for name, values in numbers.items()}


def test_the_heads_that_differ_most_come_first_with_what_they_differ_in():
    own = of(sharpness=[[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], sink=[[0.9, 0.8, 0.7], [0.6, 0.5, 0.4]])
    theirs = of(sharpness=[[0.1, 0.7, 0.3], [0.4, 0.2, 0.6]], sink=[[0.0, 0.6, 0.7], [0.7, 0.5, 0.4]])
    found = side_by_side._changes(own, theirs)
    told = [(row["layer"], row["head"], row["differs most in"], row["A"], row["B"]) for row in found]
    assert told == [
        ("0", "0", HEADS["sink"], "0.900", "0.000"),
        ("0", "1", HEADS["sharpness"], "0.200", "0.700"),
        ("1", "1", HEADS["sharpness"], "0.500", "0.200"),
        ("1", "0", HEADS["sink"], "0.600", "0.700"),
    ]
    assert side_by_side._changes(own, of(sharpness=[[0.1]], sink=[[0.9]])) == []


def test_medians_and_the_most_where_heads_do_not_correspond():
    found = side_by_side._middles(of(sink=[[0.1, 0.2, 0.9]]), of(sink=[[0.5], [0.3], [0.4], [0.8]]), {"sink": "sinks"})
    assert found == [
        {"over the heads": "median of sinks", "A": "0.200", "B": "0.450"},
        {"over the heads": "most of sinks", "A": "0.900", "B": "0.800"},
    ]
