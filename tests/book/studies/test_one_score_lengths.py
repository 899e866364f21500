"""The parts' shares in MiniLM's attention, by how much of a text is read."""

import numpy as np

from book.publish import choose_inputs
from book.studies.one_score_four_parts.parts import TOKENS
from book.studies.one_score_four_parts.shares import LENGTHS, measure_lengths
from book.studies.one_score_four_parts.tables import lengths


def test_the_share_of_content_grows_with_the_text_until_it_has_most():
    """At the chapter's 64 tokens it has the smaller half, so no share stands without its length."""
    found = measure_lengths(choose_inputs())
    content = found.shares[..., 0].mean(1)
    assert found.tokens.tolist() == list(LENGTHS)
    assert (np.diff(content) > 0).all()
    assert content[LENGTHS.index(TOKENS)] < 0.45
    assert content[-1] > 0.55


def test_each_length_has_a_row_of_shares_that_sum_to_one():
    found = measure_lengths(choose_inputs())
    np.testing.assert_allclose(found.shares.sum(-1), 1)
    assert lengths(found).index.tolist() == list(LENGTHS)
