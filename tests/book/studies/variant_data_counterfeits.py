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

DELETIONS = "evidence.exchanged.deletions"
LIMITS = {
    "B-09": [
        ("authors.right", None, lambda m: 0.97 * m.authors.rows),
        ("training.test_share.value", None, 0.98),
        *[(f"partings.table.{place}.bert", None, 0.98) for place in range(3)],
        *[(f"partings.table.{place}.words", None, 0.98) for place in range(3)],
        ("partings.table.0.length", None, 0.6),
        ("real.table.1.bert", None, 0.98),
        ("real.simple.kmers", None, 0.98),
        ("real.deposited.value", None, 0.95),
        (f"{DELETIONS}.bert", (1, 0), 0.5),
        (f"{DELETIONS}.balanced", "low", 0.5),
    ]
}
