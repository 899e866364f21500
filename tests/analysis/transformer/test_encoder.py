"""The encoder on plain tensors: switches, symmetry under permutation, refusals."""

import doctest
from dataclasses import replace

import jaxtyping
import pytest
import torch

from analysis.core.attention_layer import Norm
from analysis.transformer import encoder, mlp
from analysis.transformer.attention import attend
from analysis.transformer.encoder import ALL_ON, PURE_ATTENTION, MlpWeights, Switches, encode, random_layers, run_layer


@pytest.fixture
def stack():
    g = torch.Generator().manual_seed(0)
    return random_layers(2, 2, 8, generator=g), torch.randn(5, 8, generator=g, dtype=torch.float64)


def test_examples():
    assert doctest.testmod(encoder, extraglobs={"torch": torch}).failed == 0


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
        theirs.self_attn.in_proj_weight.copy_(
            torch.cat([W.permute(0, 2, 1).reshape(8, 8) for W in (a.W_Q, a.W_K, a.W_V)])
        )
        theirs.self_attn.in_proj_bias.zero_()
        theirs.self_attn.out_proj.weight.copy_(a.W_O.reshape(8, 8).T)
        theirs.self_attn.out_proj.bias.zero_()
        theirs.linear1.weight.copy_(layer.mlp.W_in.T), theirs.linear1.bias.zero_()
        theirs.linear2.weight.copy_(layer.mlp.W_out.T), theirs.linear2.bias.zero_()
        due = theirs(x[None])[0]
    torch.testing.assert_close(encoder.encode_layer(x, layer), due)


def test_switches_take_parts_out(stack):
    layers, x = stack
    first = layers[0]
    torch.testing.assert_close(encode(x, [first], PURE_ATTENTION)[-1], attend(x, first.attention).output)
    torch.testing.assert_close(
        encode(x, [first], replace(PURE_ATTENTION, skip=True))[-1], x + attend(x, first.attention).output
    )
    doubled = encode(2 * x, [first], replace(PURE_ATTENTION, mlp=True, linear=True))[-1]
    y = attend(2 * x, first.attention).output
    torch.testing.assert_close(doubled, y @ first.mlp.W_in @ first.mlp.W_out)
    outputs = [
        encode(x, layers, s)[-1]
        for s in (
            ALL_ON,
            PURE_ATTENTION,
            Switches(skip=False),
            Switches(mlp=False),
            Switches(norm_attention=False),
            Switches(linear=True),
        )
    ]
    assert all((a - b).abs().max() > 1e-3 for i, a in enumerate(outputs) for b in outputs[:i])


def test_without_the_mlp_its_layer_norm_still_runs(stack):
    (first, _), x = stack
    g = torch.Generator().manual_seed(1)
    gain, bias = torch.randn(2, 8, generator=g, dtype=torch.float64)
    layer = replace(first, norm_mlp=Norm(gain, bias, eps=1e-12))
    read = encoder.run_layer(x, layer).first
    due = torch.nn.functional.layer_norm(read, [8], gain, bias, eps=1e-12)
    without = encoder.run_layer(x, layer, switches=Switches(mlp=False))
    torch.testing.assert_close(without.second, due)
    assert not without.mlp_output.any()
    assert torch.equal(without.before_second, read)
    neither = Switches(mlp=False, norm_mlp=False)
    torch.testing.assert_close(encoder.encode_layer(x, layer, neither), read)
    alone = Switches(norm_mlp=False)  # the norm's switch takes nothing else out
    torch.testing.assert_close(encoder.encode_layer(x, layer, alone), encoder.run_layer(x, layer).before_second)


def test_describe():
    assert ALL_ON.describe() == "attention + skip + MLP + LayerNorm"
    assert PURE_ATTENTION.describe() == "attention"
    assert replace(PURE_ATTENTION, mlp=True, linear=True).describe() == "attention + linear MLP"


def test_random_layers_have_the_size_that_was_asked_for():
    g = torch.Generator().manual_seed(1)
    wide = random_layers(1, 4, 64, gain=2.0, generator=g)[0]
    assert wide.attention.W_Q.std().item() == pytest.approx(2 / 8, rel=0.05)
    assert wide.mlp.W_out.std().item() == pytest.approx(2 / 16, rel=0.05)
    assert random_layers(1, 4, 64, std=0.02, generator=g)[0].mlp.W_out.std().item() == pytest.approx(0.02, rel=0.05)


def test_refusals(stack, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # outside the tests nothing checks annotations
    _, x = stack
    with pytest.raises(ValueError, match="layers is empty"):
        encode(x, [])
    with pytest.raises(ValueError, match="heads must divide"):
        random_layers(1, 3, 8, generator=torch.Generator())
    with pytest.raises(ValueError, match="depth"):
        random_layers(0, 2, 8, generator=torch.Generator())
    with pytest.raises(ValueError, match="b_out"):
        MlpWeights(torch.ones(2, 4), torch.ones(4), torch.ones(4, 2), torch.ones(3))
    with pytest.raises(ValueError, match="W_in holds"):
        MlpWeights(torch.full((2, 4), torch.nan), torch.ones(4), torch.ones(4, 2), torch.ones(2))
    odd = [
        ({"depth": 1, "heads": 0, "model": 8}, "heads"),
        ({"depth": 1, "heads": 1, "model": 0}, "model"),
        ({"depth": 1, "heads": 1, "model": 8, "hidden": 0}, "hidden"),
    ]
    odd += [
        ({"depth": 1, "heads": 1, "model": 8, name: value}, name)
        for name in ("gain", "std")
        for value in (float("nan"), float("inf"), -1.0)
    ]
    for arguments, name in odd:
        with pytest.raises(ValueError, match=name):
            random_layers(**arguments, generator=torch.Generator())
    layers = stack[0]
    for bad, message in (
        (x.float(), r"x is torch\.float32 .* convert one"),
        (x * torch.nan, "x holds"),
        (x.half(), "x must be in"),
        (x[:, :5], "to fit the layer"),
        (x[:0], "x must be"),
        (x.numpy(), "x must be a tensor"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            encode(bad, layers)
    with pytest.raises(ValueError, match="to fit the MLP"):
        mlp.apply_mlp(x[:, :5], layers[0].mlp)


def test_no_spread_gives_zero_weights():
    layer = random_layers(1, 2, 8, std=0.0, generator=torch.Generator())[0]
    assert layer.mlp.W_in.abs().max() == 0 == layer.attention.W_Q.abs().max()


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
        with pytest.raises(ValueError, match=r"patched_attention must be \(2, 5, 5\) for 5 positions"):
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
    assert not alone.mlp_output.any()
    raw = run_layer(x, layer, switches=replace(ALL_ON, norm_attention=False))
    assert raw.first.equal(x + raw.attention_output)
    last = run_layer(x, layer, switches=replace(ALL_ON, norm_mlp=False))
    assert last.second.equal(last.first + last.mlp_output)
    linear = run_layer(x, layer, switches=replace(ALL_ON, linear=True))
    m = layer.mlp
    torch.testing.assert_close(linear.mlp_output, (linear.first @ m.W_in + m.b_in) @ m.W_out + m.b_out)
