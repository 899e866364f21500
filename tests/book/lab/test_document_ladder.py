"""The ladder on documents: what is averaged, over which units, and where a control is left behind."""

import numpy as np
import pytest

from book.lab.document_ladder import CONTROLS, LADDER, DocumentLadder, read_ladder
from book.publish.records import Result

LADDER_OF_TWO = DocumentLadder(
    np.repeat(np.array([[1.0, 5.0]]), 24, axis=0) + np.linspace(-0.1, 0.1, 24)[:, None],
    {"random": np.array([[0.9, 1.0], [1.1, 2.0]])},
)


def test_the_interval_is_over_documents_and_contains_the_mean():
    (first, low, high), _ = LADDER_OF_TWO.interval
    assert first == pytest.approx(1.0)
    assert low < 1.0 < high < 1.1


def test_places_choose_behind_the_layers():
    arrays = {"x": np.arange(12.0).reshape(2, 3, 2), "x" + CONTROLS: np.zeros((len(LADDER), 5, 3, 2))}
    assert read_ladder(Result({}, arrays), "x", 1).documents.tolist() == [[1, 3, 5], [7, 9, 11]]
