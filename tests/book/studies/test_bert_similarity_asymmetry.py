"""The controls of the chapter's section on asymmetric attention: equal spread, and what all queries share."""

import pytest
import torch

from book.studies.bert_similarity.asymmetry import (
    COMMON,
    CONTENT,
    EQUAL,
    KINDS,
    LESS_COMMON,
    SYMMETRIC,
    forms_of_scores,
    spread_of_rows,
)
from tests.analysis.tiny import random_layer
from tests.book.studies.measurements import measurement


@pytest.fixture(scope="module")
def forms():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(9, 12, generator=generator, dtype=torch.float64) + 1
    return forms_of_scores(x, random_layer())


def test_every_form_is_shown_at_the_spread_of_the_content(forms):
    spread = spread_of_rows(forms[CONTENT])
    for kind in KINDS:
        torch.testing.assert_close(spread_of_rows(forms[kind + EQUAL]), spread)
    assert (spread_of_rows(forms[SYMMETRIC]) < spread).all()  # which the symmetric part alone does not have


def test_content_is_its_common_part_and_what_tells_queries_apart(forms):
    torch.testing.assert_close(forms[COMMON] + forms[LESS_COMMON], forms[CONTENT])
    assert (forms[COMMON] == forms[COMMON][:, :1]).all()
    torch.testing.assert_close(forms[LESS_COMMON].mean(1), torch.zeros(3, 9, dtype=torch.float64))


def test_the_spread_of_a_row_counts_from_its_mean():
    scores = torch.tensor([[[1.0, 3.0], [10.0, 10.0]]])
    assert spread_of_rows(scores).item() == pytest.approx(0.5**0.5)


def test_at_equal_spread_a_symmetric_form_keeps_more_and_the_common_part_explains_some():
    """Unscaled, the symmetric part of MiniLM's forms is flatter by a fifth and has 0.08 in place of 0.13."""
    found = measurement("bert_similarity").asymmetry
    of_texts = found.over_texts
    assert found.spread[SYMMETRIC] < 0.85 * found.spread[CONTENT]
    assert of_texts[SYMMETRIC][2] < 0.1 < of_texts[SYMMETRIC + EQUAL][1]
    assert of_texts[LESS_COMMON + EQUAL][2] < of_texts[CONTENT][1]  # the intervals do not meet
    assert found.mean_attention[COMMON] > 0.9 * found.mean_attention[CONTENT]
