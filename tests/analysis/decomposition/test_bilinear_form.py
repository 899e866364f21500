"""The bordered product and its blocks, and what becomes of them when the origin moves."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.decomposition import bilinear_form
from analysis.decomposition.terms import score_terms
from analysis.transformer.attention import compute_scores
from tests.analysis.tiny import draw, random_layer

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def layer(seed=0):
    return random_layer(head=2, model=7, channel=3, seed=seed)


@given(seed=st.integers(0, 50), n=st.integers(1, 6))
@settings(max_examples=15, deadline=None)
def test_one_product_gives_the_scores_and_its_blocks_the_four_parts(seed, n):
    w, x = layer(seed=seed), draw(2, n, 7, seed=seed)
    one = bilinear_form.homogeneous(x)
    B = bilinear_form.bordered(w)
    torch.testing.assert_close(torch.einsum("bqi,hij,bkj->bhqk", one, B, one), compute_scores(x, w), **CLOSE)
    terms = score_terms(x, w)
    torch.testing.assert_close(torch.einsum("bqi,hij,bkj->bhqk", x, B[:, :-1, :-1], x), terms.content, **CLOSE)
    torch.testing.assert_close(torch.einsum("hj,bkj->bhk", B[:, -1, :-1], x), terms.semi_bias[:, :, 0], **CLOSE)
    torch.testing.assert_close(torch.einsum("bqi,hi->bhq", x, B[:, :-1, -1]), terms.query_side[..., 0], **CLOSE)
    torch.testing.assert_close(B[:, -1, -1], terms.kernel[:, 0, 0], **CLOSE)
