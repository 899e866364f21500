"""One layer as data: which shapes fit each other, what moves with it, and its plain form, at sizes that all differ."""

import math
from dataclasses import replace

import pytest
import torch

from analysis.core.attention_layer import AttentionLayer, Mask, Norm, QueryKeyNorm
from analysis.core.positions import RelativeBuckets, Rotary, moved
from analysis.core.weights import EncoderLayer, MlpWeights
from analysis.transformer.attention import attend
from tests.analysis.tiny import draw

HEADS, GROUPS, MODEL, CHANNEL, VALUE, OUT = 6, 2, 12, 4, 5, 7
SHAPES = {
    "W_Q": (HEADS, MODEL, CHANNEL),
    "W_K": (GROUPS, MODEL, CHANNEL),
    "W_V": (GROUPS, MODEL, CHANNEL),
    "W_O": (HEADS, CHANNEL, MODEL),
    "b_Q": (HEADS, CHANNEL),
    "b_K": (GROUPS, CHANNEL),
    "b_V": (GROUPS, CHANNEL),
    "b_O": (MODEL,),
}


def grouped(**other):
    """Return a layer of three queries a key, every number random."""
    tensors = {name: draw(*shape, seed=seed) for seed, (name, shape) in enumerate(SHAPES.items())}
    return AttentionLayer(**{**tensors, **other})


def test_sizes_and_the_scale_by_default():
    layer = grouped()
    assert (layer.heads, layer.groups, layer.model, layer.channel) == (HEADS, GROUPS, MODEL, CHANNEL)
    assert layer.scale == 0.5
    assert grouped(scale=2.0).scale == 2.0


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", SHAPES)
def test_a_tensor_longer_or_shorter_along_an_axis_is_refused(name):
    for axis, size in enumerate(SHAPES[name]):
        for other in (size - 1, size + 1):
            shape = [*SHAPES[name]]
            shape[axis] = other
            if (name, axis) in (("W_Q", 1), ("W_V", 0)):
                continue  # of these two the others are measured
            with pytest.raises(ValueError, match=r"must have (shape|heads)"):
                grouped(**{name: draw(*shape)})
    with pytest.raises(ValueError, match="W_Q must have heads"):
        AttentionLayer(*[torch.zeros(0, 3, 2)] * 3, torch.zeros(0, 2, 3), *[torch.zeros(0, 2)] * 3, torch.zeros(3))
    with pytest.raises(ValueError, match=r"sinks must have shape \(6,\)"):
        grouped(sinks=draw(GROUPS))


@pytest.mark.usefixtures("unchecked")
def test_values_and_written_rows_may_have_widths_of_their_own():
    layer = grouped(W_V=draw(GROUPS, MODEL, VALUE), b_V=draw(GROUPS, VALUE), W_O=draw(HEADS, VALUE, OUT), b_O=draw(OUT))
    with pytest.raises(ValueError, match="its values are not as wide as its queries"):
        layer.plain()
    for wrong in ({"b_O": draw(OUT + 1)}, {"W_O": draw(HEADS, VALUE + 1, OUT)}, {"b_V": draw(GROUPS, VALUE + 1)}):
        with pytest.raises(ValueError, match="must have shape"):
            replace(layer, **wrong)
    with pytest.raises(ValueError, match=r"b_O must have shape \(12,\)"):
        grouped(b_O=draw(OUT))


def test_each_query_meets_the_key_of_its_group():
    layer, x = grouped(), draw(9, MODEL)
    keys = layer.per_head(layer.W_K)
    assert [next(g for g in range(GROUPS) if keys[h].equal(layer.W_K[g])) for h in range(HEADS)] == [0, 0, 0, 1, 1, 1]
    along_last = layer.per_head(draw(3, GROUPS), -1)
    assert along_last.equal(draw(3, GROUPS)[:, [0, 0, 0, 1, 1, 1]])
    assert layer.per_head(layer.W_Q) is layer.W_Q
    maps = attend(x, layer).attention
    for head, group in enumerate([0, 0, 0, 1, 1, 1]):
        queries, keys = x @ layer.W_Q[head] + layer.b_Q[head], x @ layer.W_K[group] + layer.b_K[group]
        torch.testing.assert_close(maps[head], (queries @ keys.T / 2).softmax(-1))


def test_the_plain_layer_has_a_key_for_each_head_and_the_scale_in_its_queries():
    layer, x = grouped(scale=3.0, mask=Mask(causal=True)), draw(9, MODEL)
    plain = layer.plain()
    assert (plain.groups, plain.scale, plain.mask) == (HEADS, 0.5, Mask(causal=True))
    torch.testing.assert_close(plain.W_Q, 6 * layer.W_Q)
    torch.testing.assert_close(plain.b_Q, 6 * layer.b_Q)
    for name in ("W_K", "W_V", "b_K", "b_V"):
        assert getattr(plain, name).equal(getattr(layer, name).repeat_interleave(3, 0))
    torch.testing.assert_close(attend(x, plain).output, attend(x, layer).output)
    torch.testing.assert_close(attend(x, plain).attention, attend(x, layer).attention)
    assert plain.plain() is plain
    assert grouped().plain().W_Q.equal(grouped().W_Q)


def test_what_the_identities_cannot_say_is_listed():
    ones, zeros = torch.ones(CHANNEL).double(), torch.zeros(CHANNEL).double()
    each = {
        "positions act inside the attention (rotary)": {"positions": Rotary(torch.ones(2), CHANNEL)},
        "pass through a norm": {"qk_norm": QueryKeyNorm(Norm(ones, zeros), Norm(ones, zeros))},
        "a soft cap of 2.0": {"soft_cap": 2.0},
        "has sinks": {"sinks": draw(HEADS)},
    }
    assert grouped().reasons() == []
    for words, field in each.items():
        (reason,) = grouped(**field).reasons()
        assert words in reason
    together = {name: value for field in each.values() for name, value in field.items()}
    assert len(grouped(**together).reasons()) == 4


def test_numbers_that_no_score_can_have_are_refused():
    for field in ({"scale": math.nan}, {"scale": -math.inf}, {"soft_cap": 0.0}, {"soft_cap": math.inf}):
        with pytest.raises(ValueError, match="must be"):
            grouped(**field)
    for eps in (-1.0, math.nan):
        with pytest.raises(ValueError, match="eps must be finite and not negative"):
            Norm(torch.ones(2), torch.zeros(2), eps=eps)


def test_every_tensor_moves_and_nothing_else():
    def norm(place="input"):
        return Norm(draw(MODEL), draw(MODEL), eps=0.5, place=place)

    heads = Norm(draw(CHANNEL), draw(CHANNEL), kind="rms")
    layer = grouped(
        norms=(norm(), norm("update")),
        qk_norm=QueryKeyNorm(heads, heads, after_rotation=True),
        sinks=draw(HEADS),
        positions=Rotary(draw(2), CHANNEL),
        soft_cap=3.0,
    )
    half = layer.to(torch.float16)
    assert {getattr(half, name).dtype for name in (*SHAPES, "sinks")} == {torch.float16}
    assert half.norm("update").gain.dtype == half.norm().bias.dtype == torch.float16
    assert half.norm("update").place == "update"
    assert half.norm().eps == 0.5
    assert half.norm("sum") is None
    assert half.qk_norm.query.gain.dtype == half.qk_norm.key.gain.dtype == torch.float16
    assert half.qk_norm.after_rotation
    assert half.positions.frequencies.dtype == torch.float16
    assert half.soft_cap == 3.0
    assert half.double().W_O.dtype == torch.float64
    assert moved(RelativeBuckets(draw(4, HEADS), 9, True), torch.float32).table.dtype == torch.float32


def test_the_parts_of_an_encoder_layer_fit_and_move():
    mlp = MlpWeights(draw(3, 5), draw(5), draw(5, 3), draw(3))
    for wrong in ({"b_in": draw(3)}, {"W_out": draw(3, 5)}, {"b_out": draw(5)}, {"W_in": draw(5)}):
        with pytest.raises((ValueError, TypeError)):
            replace(mlp, **wrong)
    norm = Norm(draw(MODEL), draw(MODEL))
    single = EncoderLayer(grouped(), norm, mlp, norm).to(torch.float32)
    assert {
        t.dtype
        for part in (single.attention, single.norm_attention, single.mlp, single.norm_mlp)
        for t in vars(part).values()
        if isinstance(t, torch.Tensor)
    } == {torch.float32}
