"""Counterfeits of the measurement of the chapter on the case study's data."""


def with_two_of_the_first_class_in_the_second(counts):
    moved = counts.copy()
    moved[:2] += -2, 2
    return moved


COUNTERFEITS = {
    "B-06": {"authors.recorded_test": with_two_of_the_first_class_in_the_second},
    "B-07": {"authors.words": 424},
    "B-09": {"authors.right": 1_020},
}
