"""What the atlas records of every head, on maps known by hand."""

from dataclasses import replace

import torch

from book.experiments import atlas_heads
from tests.analysis import tiny


def test_the_heads_built_by_formula_are_what_their_names_say():
    ids = torch.tensor([7, 9, 7])
    for causal in (False, True):
        maps = atlas_heads.ideal_maps(ids, causal=causal)
        assert len(maps) == len(atlas_heads.CONSTRUCTED)
        torch.testing.assert_close(maps.sum(-1), torch.ones(maps.shape[:2], dtype=maps.dtype))
        named = dict(zip(atlas_heads.CONSTRUCTED, maps))
        assert named["the first token"][:, 0].min() > 0.999
        assert named["the previous token"][2, 1] > 0.999
        torch.testing.assert_close(named["equal tokens"][2], torch.tensor([0.5, 0, 0.5]).double(), atol=1e-3, rtol=0)
        torch.testing.assert_close(named["the token itself"], torch.eye(3).double())
        following = named["equal weights"] if causal else torch.eye(3).double().roll(1, 1)
        torch.testing.assert_close(named["the next token"][:2], following[:2])


def test_a_head_without_a_query_bias_gives_content_everything():
    layer, x = tiny.random_layer(), tiny.draw(5, 12)
    assert (atlas_heads.content_share(x, layer, causal=True) < 0.999).all()
    plain = replace(layer, b_Q=torch.zeros_like(layer.b_Q))
    torch.testing.assert_close(atlas_heads.content_share(x, plain, causal=True), torch.ones(3).double())
