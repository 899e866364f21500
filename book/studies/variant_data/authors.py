"""The authors' data: what their public repository records of its size, and what arithmetic makes of it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from analysis.statistics.intervals import share_interval
from book.lab.training.dna_classifier import POSITIONS
from book.publish import Numbers
from book.publish.phrases import percent
from book.publish.records import Record
from book.studies.shared import released_code as code
from book.studies.variant_data.corpus import GENE


@dataclass(frozen=True)
class Authors(Numbers):
    """What the authors' public repository records of their data, and what arithmetic makes of it.

    ``computed`` are training, validation and test by the code's rule, ``recorded`` as the notebook printed them;
    ``test_by_class`` is the stratified share of every class, ``recorded_test`` the printed one. ``words`` are those of
    the reference gene after its padding, ``padding_rows`` the rows of 512 that no token has.
    """

    prefix = "vdata-authors"
    accuracy: str
    interval: str
    right: int
    rows: int
    words: int
    tokens: int
    padding_rows: int
    computed: tuple[int, int, int]
    recorded: tuple[int, int, int]
    test_by_class: Int[np.ndarray, " class"]
    recorded_test: Int[np.ndarray, " class"]


def measure_authors(record: Record) -> Authors:
    """Do the arithmetic of the authors' split and of their cutting, beside what they recorded."""
    by_class, bases = record.array("by_class"), GENE[1] - GENE[0] + 1
    words, right, rows = len(code.padded_words("A" * bases)), record["logits_right"], record["logits_rows"]
    share = share_interval(right, rows)
    return Authors(
        accuracy=percent(share.value, 1),
        interval=f"{100 * share.low:.1f} to {100 * share.high:.1f} %",
        right=right,
        rows=rows,
        words=words,
        tokens=words + 2,
        padding_rows=POSITIONS - words - 2,
        computed=code.split_sizes(int(by_class.sum())),
        recorded=tuple(record.array("parts").tolist()),
        test_by_class=np.rint(code.TEST_SHARE * by_class).astype(int),
        recorded_test=record.array("tested_by_class"),
    )
