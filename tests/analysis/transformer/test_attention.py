"""Reference attention against torch's own modules."""

import math
from dataclasses import replace

import pytest
import torch

from analysis.core.attention_layer import AttentionLayer, Mask, Norm
from analysis.decomposition.terms import score_terms
from analysis.transformer.attention import attend, compute_scores, mask_future, project
from analysis.transformer.layernorm import apply_norm


def random_layer(head=3, model=12, channel=4, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=g, dtype=dtype)

    return AttentionLayer(
        draw(head, model, channel),
        draw(head, model, channel),
        draw(head, model, channel),
        draw(head, channel, model),
        draw(head, channel),
        draw(head, channel),
        draw(head, channel),
        draw(model),
    )


@pytest.mark.parametrize("causal", [False, True])
def test_equals_torch_multihead_attention(causal):
    layer = replace(random_layer(), mask=Mask(causal=causal))
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    module = torch.nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        for start, (W, b) in enumerate([(layer.W_Q, layer.b_Q), (layer.W_K, layer.b_K), (layer.W_V, layer.b_V)]):
            rows = slice(12 * start, 12 * start + 12)
            module.in_proj_weight[rows] = W.transpose(1, 2).reshape(12, 12)
            module.in_proj_bias[rows] = b.reshape(12)
        module.out_proj.weight.copy_(layer.W_O.reshape(12, 12).T)
        module.out_proj.bias.copy_(layer.b_O)
    mask = torch.ones(7, 7, dtype=torch.bool).triu(1) if causal else None
    output, attention = module(x, x, x, attn_mask=mask, average_attn_weights=False)
    ours = attend(x, layer)
    torch.testing.assert_close(ours.output, output, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.attention, attention, rtol=1e-12, atol=1e-12)


def test_refuses_what_does_not_fit():
    layer = random_layer()
    with pytest.raises(ValueError, match="x must be"):
        attend(torch.zeros(7, 11, dtype=torch.float64), layer)
    with pytest.raises(ValueError, match="none of them empty"):
        attend(torch.zeros(0, 12, dtype=torch.float64), layer)
    with pytest.raises(ValueError, match="float32"):
        attend(torch.zeros(7, 12), layer)
    with pytest.raises(ValueError, match="x must be"):
        compute_scores(torch.zeros(7, 11, dtype=torch.float64), layer)


def test_weights_of_mixed_dtypes_or_none_at_all_are_refused():
    layer = random_layer()
    with pytest.raises(ValueError, match=r"b_K must be of a floating dtype, .* got torch\.float32"):
        replace(layer, b_K=layer.b_K.float())
    with pytest.raises(ValueError, match="W_Q must have heads"):
        AttentionLayer(*[torch.zeros(0, 3, 2)] * 3, torch.zeros(0, 2, 3), *[torch.zeros(0, 2)] * 3, torch.zeros(3))


@pytest.mark.usefixtures("unchecked")
def test_a_layer_norm_does_not_broadcast_a_narrow_input():
    ln = Norm(torch.ones(4), torch.zeros(4))
    with pytest.raises(ValueError, match=r"rows must be \(3, 4\)"):
        apply_norm(torch.zeros(3, 1), ln)
    with pytest.raises(ValueError, match=r"float64"):
        apply_norm(torch.zeros(3, 4).double(), ln)
    for eps in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="eps must be finite and not negative"):
            Norm(torch.ones(4), torch.zeros(4), eps)


def test_more_queries_than_keys_have_no_causal_mask():
    with pytest.raises(ValueError, match="no more queries than keys"):
        mask_future(torch.zeros(1, 3, 2))


def test_fewer_queries_than_keys_are_the_last_ones():
    scores = torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(mask_future(scores[:, 2:]), mask_future(scores)[:, 2:])
    assert mask_future(torch.zeros(1, 2, 4)).isinf().tolist() == [[[False, False, False, True], [False] * 4]]


@pytest.mark.usefixtures("unchecked")
def test_one_map_alone_has_a_causal_mask():
    assert mask_future(torch.zeros(2, 2)).tolist() == [[0, -torch.inf], [0, 0]]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("x", "heads"), [((4,), 2), ((3, 4), 0)])
def test_rows_without_an_axis_and_layers_without_heads_are_refused(x, heads):
    with pytest.raises(ValueError, match=r"x must be|W must be"):
        project(torch.zeros(x), torch.zeros(heads, 4, 2), torch.zeros(heads, 2))


def test_a_layer_may_write_rows_of_another_width_than_it_reads(unchecked):
    """Six wide rows are read, and five wide ones written: W_O and b_O must agree on the width."""
    read, written = torch.ones(1, 6, 2), torch.ones(1, 2, 5)
    zero = torch.zeros(1, 2)
    layer = AttentionLayer(read, read, read, written, zero, zero, zero, torch.zeros(5))
    assert attend(torch.ones(3, 6), layer).output.tolist() == [[12.0] * 5] * 3
    with pytest.raises(ValueError, match="b_O"):
        AttentionLayer(read, read, read, written, zero, zero, zero, torch.zeros(4))


def test_a_soft_cap_by_hand():
    """Scores 0 and 4 under a cap of 2: 0 and 2 tanh 2."""
    one, zero = torch.ones(1, 1, 1), torch.zeros(1, 1)
    layer = AttentionLayer(one, one, one, one, zero, zero, zero, zero[0], scale=1.0, soft_cap=2.0)
    capped = 2 * math.tanh(2)
    seen = attend(torch.tensor([[0.0], [2.0]]), layer)
    torch.testing.assert_close(seen.scores[0, 1], torch.tensor([0.0, capped]))
    torch.testing.assert_close(seen.attention[0, 1, 1].item(), 1 / (1 + math.exp(-capped)))


@pytest.mark.parametrize("size", [1e19, 1e30, 1e38])
def test_what_is_too_large_for_its_dtype_is_refused_and_never_nan(size):
    layer = random_layer(dtype=torch.float32)
    x = size * torch.randn(5, 12, generator=torch.Generator().manual_seed(1))
    for compute in (compute_scores, attend, score_terms):
        with pytest.raises(ValueError, match=r"too large for torch\.float32|not finite"):
            compute(x, layer)
    assert attend(x.double(), layer.to(torch.float64)).output.isfinite().all()
    assert attend(x / size * 1e15, layer).output.isfinite().all()
