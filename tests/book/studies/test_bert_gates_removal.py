"""Weights taken from maps: exactly as much at random, rows left short or made whole, and the side effect alone."""

import pytest
import torch

from analysis.transformer.encoder import encode, random_layers, run_layer
from book.studies.bert_gates import sink

SEED = 3


@pytest.fixture(scope="module")
def maps():
    return torch.randn(2, 3, 9, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(-1)


@pytest.fixture(scope="module")
def network():
    g = torch.Generator().manual_seed(1)
    layers = random_layers(3, 2, 8, gain=2.0, generator=g)
    return torch.stack(encode(torch.randn(7, 8, generator=g, dtype=torch.float64), layers)), layers


def test_the_random_draw_takes_exactly_the_share(maps):
    share = torch.linspace(0, 1, 9, dtype=torch.float64)[:, None].expand(2, 3, 9, 1)
    taken = sink.draw_as_much(maps, share, torch.Generator().manual_seed(SEED))
    torch.testing.assert_close(taken.sum(-1, keepdim=True), share)
    assert (taken >= 0).all()
    assert (taken <= maps).all()
    in_part = (taken > 1e-9) & (taken < maps - 1e-9)
    assert in_part.sum(-1).max() == 1  # all other cells are taken whole or not at all
    others = sink.draw_as_much(maps, share, torch.Generator().manual_seed(SEED + 1))
    assert (taken - others).abs().max() > 0.01


def test_ways_of_taking_a_column_away(maps):
    taken = maps * sink.choose_sink(maps)
    torch.testing.assert_close(taken.sum(-1), maps[..., 0])
    short, whole, louder = (change(maps, taken) for change in (sink.leave_short, sink.renormalise, sink.scale_up))
    torch.testing.assert_close(short.sum(-1), 1 - maps[..., 0])
    torch.testing.assert_close(whole.sum(-1), torch.ones_like(short.sum(-1)))
    assert not short[..., 0].any()
    assert not whole[..., 0].any()
    torch.testing.assert_close(louder[..., 0], maps[..., 0])
    torch.testing.assert_close(louder[..., 1:], whole[..., 1:])


@pytest.mark.parametrize("change", [sink.renormalise, sink.scale_up])
def test_a_row_that_is_all_on_the_sink_stays(change):
    maps = torch.eye(1, 4, dtype=torch.float64)
    torch.testing.assert_close(change(maps, maps), maps)


def test_as_much_at_random_is_as_much_as_the_deletion_took(network):
    states, layers = network
    names = list(sink.WAYS)
    found = dict(zip(names, sink.measure_ways(states, layers, sink.choose_sink, names, SEED), strict=True))
    shares = [share for _, share in found.values()]
    assert shares[1] == pytest.approx(shares[0], abs=1e-12)
    assert shares[3] == pytest.approx(shares[2], abs=1e-12)
    assert shares[2] > 0.05
    assert shares[4] == 0
    effects = [effect for effect, _ in found.values()]
    assert len({round(effect, 6) for effect in effects}) == len(names)


def test_a_network_without_a_column_reads_what_the_layers_before_left(network):
    states, layers = network
    rows, shares = sink.run_without(states[0], layers, lambda maps: maps * sink.choose_sink(maps), sink.leave_short)
    x = states[0]
    for layer, share in zip(layers, shares, strict=True):
        maps = run_layer(x, layer).attention
        torch.testing.assert_close(share[..., 0], maps[..., 0])
        maps[..., 0] = 0
        x = run_layer(x, layer, patched_attention=maps).second
    torch.testing.assert_close(rows, x)
