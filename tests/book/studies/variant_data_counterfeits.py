"""Counterfeits of the measurement of the chapter on the case study's data."""


def with_two_of_the_first_class_in_the_second(counts):
    moved = counts.copy()
    moved[:2] += -2, 2
    return moved


def with_one_seed_that_reads_bases(shares):
    reading_bases = shares.copy()
    reading_bases[-1] = 0.45
    return reading_bases


COUNTERFEITS = {
    "B-06": {"authors.recorded_test": with_two_of_the_first_class_in_the_second},
    "B-07": {"authors.words": 424},
    "B-09": {"evidence.exchanged.deletions.bert": with_one_seed_that_reads_bases},
}
