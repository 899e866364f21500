"""The bordered product and its blocks; moving the origin."""

import doctest

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.decomposition import bilinear_form
from analysis.decomposition.score_terms import score_terms
from analysis.transformer.attention import compute_scores, softmax
from tests.analysis.tiny import draw, random_layer

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def layer(seed=0):
    return random_layer(head=2, model=7, channel=3, seed=seed)


def test_doctests():
    assert doctest.testmod(bilinear_form).failed == 0


@given(seed=st.integers(0, 50), n=st.integers(1, 6))
@settings(max_examples=15, deadline=None)
def test_one_product_gives_the_scores_and_its_blocks_the_four_parts(seed, n):
    w, x = layer(seed=seed), draw(2, n, 7, seed=seed)
    one = bilinear_form.homogeneous(x)
    B = bilinear_form.bordered(w)
    torch.testing.assert_close(torch.einsum("bqi,hij,bkj->bhqk", one, B, one), compute_scores(x, w), **CLOSE)
    cut, terms = bilinear_form.split_blocks(B), score_terms(x, w)
    torch.testing.assert_close(torch.einsum("bqi,hij,bkj->bhqk", x, cut.content, x), terms.content, **CLOSE)
    torch.testing.assert_close(torch.einsum("hj,bkj->bhk", cut.semi_bias, x), terms.semi_bias, **CLOSE)
    torch.testing.assert_close(torch.einsum("bqi,hi->bhq", x, cut.query_side), terms.query_constant, **CLOSE)
    torch.testing.assert_close(cut.constant, terms.constant, **CLOSE)


def test_the_last_column_does_not_reach_the_attention_and_the_last_row_does():
    w, one = layer(), bilinear_form.homogeneous(draw(5, 7))
    B = bilinear_form.bordered(w)

    def attention(matrix):
        return softmax(torch.einsum("qi,hij,kj->hqk", one, matrix, one))

    column, row = B.clone(), B.clone()
    column[:, :, -1], row[:, -1, :-1] = 0, 0
    torch.testing.assert_close(attention(column), attention(B), **CLOSE)
    assert (attention(row) - attention(B)).abs().max() > 0.01
    assert (torch.linalg.matrix_rank(B) <= 3).all()


def test_moving_the_origin_moves_content_into_the_semi_bias():
    w, x, origin = layer(), draw(5, 7), draw(7, seed=3)
    moved = bilinear_form.move_origin(w, origin)
    torch.testing.assert_close(compute_scores(x - origin, moved), compute_scores(x, w), **CLOSE)
    before, after = (bilinear_form.split_blocks(bilinear_form.bordered(weights)) for weights in (w, moved))
    assert torch.equal(before.content, after.content)
    torch.testing.assert_close(
        after.semi_bias, before.semi_bias + torch.einsum("i,hij->hj", origin, before.content), **CLOSE
    )


@pytest.mark.parametrize("origin", [None, draw(7, seed=3)])
def test_parts_sum_to_the_scores_and_stand_where_they_should(origin):
    w, x = layer(), draw(2, 5, 7)
    found = dict(zip(bilinear_form.PARTS, bilinear_form.score_parts(x, w, origin)))
    torch.testing.assert_close(sum(found.values()), compute_scores(x, w), **CLOSE)
    for name in ("common", "semi_bias"):
        assert not found[name].diff(dim=-2).any()
    for name in ("query_side", "constant"):
        assert not found[name].diff(dim=-1).any()
    terms = score_terms(x, w)
    torch.testing.assert_close(found["content"] + found["common"], terms.content, **CLOSE)
    assert (origin is None) is (not found["common"].any())


def test_fewer_rows_may_ask():
    w, x, origin = layer(), draw(5, 7), draw(7, seed=3)
    some = bilinear_form.score_parts(x, w, origin, queries=x[[4, 1]])
    torch.testing.assert_close(some, bilinear_form.score_parts(x, w, origin)[:, :, [4, 1]])


def test_about_the_mean_of_the_queries_content_has_no_part_that_all_queries_share():
    w, x = layer(), draw(9, 7)
    content = bilinear_form.score_parts(x, w, x.mean(0))[0]
    assert content.mean(-2).abs().max() < 1e-12


def test_refusals():
    with pytest.raises(ValueError, match="origin must be"):
        bilinear_form.move_origin(layer(), torch.zeros(6, dtype=torch.float64))
    with pytest.raises(ValueError, match="origin must be"):
        bilinear_form.score_parts(draw(3, 7), layer(), torch.zeros(7))
    with pytest.raises(ValueError, match="x must be"):
        bilinear_form.score_parts(draw(3, 6), layer())
    with pytest.raises(ValueError, match="matrix must be"):
        bilinear_form.split_blocks(torch.zeros(1, 2, 3))
