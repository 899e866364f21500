"""The encoder on plain tensors: switches, symmetry under permutation, refusals."""

from dataclasses import replace

import pytest
import torch

from analysis.transformer import encoder
from analysis.transformer.encoder import ALL_ON, PURE_ATTENTION, encode, random_layers, run_layer


@pytest.fixture
def stack():
    g = torch.Generator().manual_seed(0)
    return random_layers(2, 2, 8, generator=g), torch.randn(5, 8, generator=g, dtype=torch.float64)


def test_order_of_rows_is_not_seen(stack):
    layers, x = stack
    turn = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(encode(x[turn], layers)[-1], encode(x, layers)[-1][turn])


def test_layer_is_torchs_own_post_ln_layer(stack):
    layers, x = stack
    layer = layers[0]
    theirs = torch.nn.TransformerEncoderLayer(
        8, 2, 32, dropout=0, activation="gelu", batch_first=True, layer_norm_eps=1e-12, dtype=torch.float64
    ).eval()
    a = layer.attention
    with torch.no_grad():
        theirs.self_attn.in_proj_weight.copy_(torch.cat([W.mT.reshape(8, 8) for W in (a.W_Q, a.W_K, a.W_V)]))
        theirs.self_attn.in_proj_bias.zero_()
        theirs.self_attn.out_proj.weight.copy_(a.W_O.reshape(8, 8).T)
        theirs.self_attn.out_proj.bias.zero_()
        theirs.linear1.weight.copy_(layer.mlp.W_in.T), theirs.linear1.bias.zero_()
        theirs.linear2.weight.copy_(layer.mlp.W_out.T), theirs.linear2.bias.zero_()
        due = theirs(x[None])[0]
    torch.testing.assert_close(encoder.encode_layer(x, layer), due)


def test_random_layers_have_the_size_that_was_asked_for():
    g = torch.Generator().manual_seed(1)
    wide = random_layers(1, 4, 64, gain=2.0, generator=g)[0]
    assert wide.attention.W_Q.std().item() == pytest.approx(2 / 8, rel=0.05)
    assert wide.mlp.W_out.std().item() == pytest.approx(2 / 16, rel=0.05)
    assert random_layers(1, 4, 64, std=0.02, generator=g)[0].mlp.W_out.std().item() == pytest.approx(0.02, rel=0.05)


def test_refusals():
    with pytest.raises(ValueError, match="layers is empty"):
        encode(torch.ones(5, 8), [])
    with pytest.raises(ValueError, match="heads must divide"):
        random_layers(1, 3, 8, generator=torch.Generator())
    with pytest.raises(ValueError, match="depth"):
        random_layers(0, 2, 8, generator=torch.Generator())
    for name, value in (("heads", 0), ("model", 0), ("hidden", 0), ("gain", float("nan")), ("std", -1.0)):
        with pytest.raises(ValueError, match=name):
            random_layers(**{"depth": 1, "heads": 1, "model": 8, name: value}, generator=torch.Generator())


@pytest.mark.parametrize("batch", [(), (3,)])
def test_a_layer_written_out_with_maps_in_place_of_its_own(batch):
    heads, width, positions = 2, 8, 5
    g = torch.Generator().manual_seed(4)
    layer = random_layers(1, heads, width, generator=g)[0]
    x = torch.randn(*batch, positions, width, generator=g, dtype=torch.float64)
    maps = torch.randn(*batch, heads, positions, positions, generator=g, dtype=torch.float64).softmax(-1)
    found = run_layer(x, layer, patched_attention=maps)

    def normed(rows, norm):
        return (rows - rows.mean(-1, keepdim=True)) / (rows.var(-1, correction=0, keepdim=True) + norm.eps).sqrt() * (
            norm.gain
        ) + norm.bias

    a, m = layer.attention, layer.mlp
    values = [x @ a.W_V[h] + a.b_V[h] for h in range(heads)]
    mixed = [maps[..., h, :, :] @ values[h] for h in range(heads)]
    written = sum(mixed[h] @ a.W_O[h] for h in range(heads)) + a.b_O
    first = normed(x + written, layer.norm_attention)
    hidden = torch.nn.functional.gelu(first @ m.W_in + m.b_in) @ m.W_out + m.b_out
    due = {
        "x": x,
        "attention": maps,
        "values": torch.stack(values, -3),
        "heads": torch.cat(mixed, -1),
        "attention_output": written,
        "before_first": x + written,
        "first": first,
        "mlp_output": hidden,
        "before_second": first + hidden,
        "second": normed(first + hidden, layer.norm_mlp),
    }
    assert due.keys() == vars(found).keys()
    for name, value in due.items():
        torch.testing.assert_close(getattr(found, name), value, msg=name)
    for wrong in (maps[..., :1, :, :], maps[..., 1:, :], maps[..., 1:]):
        with pytest.raises(ValueError, match=r"patched_attention must be \(.*2, 5, 5\)"):
            run_layer(x, layer, patched_attention=wrong)


def test_each_switch_takes_its_part_away(stack):
    layers, x = stack
    layer = layers[0]
    bare = run_layer(x, layer, switches=PURE_ATTENTION)
    assert bare.second.equal(bare.attention_output)
    without = run_layer(x, layer, switches=replace(ALL_ON, skip=False))
    assert without.before_first.equal(without.attention_output)
    assert without.before_second.equal(without.mlp_output)
    alone = run_layer(x, layer, switches=replace(ALL_ON, mlp=False))
    assert alone.before_second.equal(alone.first)
    torch.testing.assert_close(alone.second, torch.nn.functional.layer_norm(alone.first, [8], eps=layer.norm_mlp.eps))
    assert not alone.mlp_output.any()
    raw = run_layer(x, layer, switches=replace(ALL_ON, norm_attention=False))
    assert raw.first.equal(x + raw.attention_output)
    last = run_layer(x, layer, switches=replace(ALL_ON, norm_mlp=False))
    assert last.second.equal(last.first + last.mlp_output)
    linear = run_layer(x, layer, switches=replace(ALL_ON, linear=True))
    m = layer.mlp
    torch.testing.assert_close(linear.mlp_output, (linear.first @ m.W_in + m.b_in) @ m.W_out + m.b_out)
