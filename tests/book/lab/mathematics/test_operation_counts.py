"""What a form of a layer costs: the formulas against a counter of the operations, and which form pays."""

import itertools
import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from analysis.decomposition import qk_ov
from analysis.transformer.attention import attend, softmax
from book.lab.mathematics import operation_counts
from tests.analysis.tiny import draw, random_layer

CLOSE = {"rtol": 1e-11, "atol": 1e-11}


@pytest.mark.parametrize("form", operation_counts.FORMS)
@pytest.mark.parametrize(("n", "head", "model", "channel"), [(6, 3, 12, 4), (9, 2, 10, 3), (5, 1, 8, 8)])
def test_forms_compute_the_layer_and_cost_what_is_counted(form, n, head, model, channel):
    layer, x = random_layer(head, model, channel, causal=True), draw(1, n, model)
    run = operation_counts.prepare(form, layer)
    for rows in (x, x[0], draw(5, n, model)):
        torch.testing.assert_close(run(rows), attend(rows, layer).output, **CLOSE)
    for rows in (x[:, :0], x[..., 1:], x.float()):
        with pytest.raises(ValueError, match=r"^x "):
            run(rows)
    with FlopCounterMode(display=False) as counter:
        run(x)
    assert counter.get_total_flops() == 2 * operation_counts.cost(form, n, model, head, channel).sequence


def test_a_step_costs_what_the_longer_sequence_adds_with_everything_cached():
    # one query against n keys: the projections of one position and two passes over the cache
    n, model, head, channel = 7, 12, 3, 4
    layer, x = random_layer(head, model, channel), draw(n, model)
    keys, values = (x @ W + b[:, None] for W, b in ((layer.W_K, layer.b_K), (layer.W_V, layer.b_V)))
    due = attend(x, layer).output[-1]
    with FlopCounterMode(display=False) as counter:
        last = x[-1:].expand(head, 1, model)
        q = last @ layer.W_Q + layer.b_Q[:, None]
        last @ layer.W_K, last @ layer.W_V
        out = (softmax(q @ keys.mT / math.sqrt(channel)) @ values @ layer.W_O).sum(0)[0] + layer.b_O
    torch.testing.assert_close(out, due, **CLOSE)
    assert counter.get_total_flops() == 2 * operation_counts.cost("factored", n, model, head, channel).step
    with FlopCounterMode(display=False) as counter:
        cached = x.expand(head, n, model)
        P = last @ qk_ov.qk_matrix(layer).clone() + qk_ov.constant_pattern(layer)[:, None]
        out = (softmax(P @ cached.mT / math.sqrt(channel)) @ cached) @ qk_ov.ov_matrix(layer)
    forming = 2 * 2 * head * model * model * channel + 2 * head * model * channel
    torch.testing.assert_close(out.sum(0)[0] + qk_ov.update_bias(layer), due, **CLOSE)
    assert counter.get_total_flops() - forming == 2 * operation_counts.cost("merged", n, model, head, channel).step


def test_a_step_of_the_input_cached_form_and_what_each_form_caches():
    n, model, head, channel = 7, 12, 3, 4
    layer, x = random_layer(head, model, channel), draw(n, model)
    due = attend(x, layer).output[-1]
    cached, last = x.expand(head, n, model), x[-1:].expand(head, 1, model)
    with FlopCounterMode(display=False) as counter:
        sought = (last @ layer.W_Q + layer.b_Q[:, None]) @ layer.W_K.mT
        mixed = softmax(sought @ cached.mT / math.sqrt(channel)) @ cached
        out = ((mixed @ layer.W_V + layer.b_V[:, None]) @ layer.W_O).sum(0)[0] + layer.b_O
    torch.testing.assert_close(out, due, **CLOSE)
    assert counter.get_total_flops() == 2 * operation_counts.cost("input-cached", n, model, head, channel).step
    keys, values = (torch.einsum("nd,hdc->hnc", x, W) for W in (layer.W_K, layer.W_V))
    kept = {"factored": keys.numel() + values.numel(), "merged": x.numel(), "input-cached": x.numel()}
    assert {form: operation_counts.cost(form, n, model, head, channel).cache for form in operation_counts.FORMS} == kept


def test_merging_pays_only_for_heads_wider_than_half_the_stream():
    for head, channel, n in itertools.product((1, 2, 3, 8), range(1, 25), (1, 10, 1000)):
        merged, factored = (operation_counts.cost(form, n, 24, head, channel) for form in ("merged", "factored"))
        assert (merged.sequence < factored.sequence) == (channel * (2 * 24 + n) > 24 * (24 + n))


@pytest.mark.parametrize("form", operation_counts.FORMS)
def test_parameters_are_those_of_the_tensors_that_a_form_keeps(form):
    model, head, channel = 7, 3, 2
    kept = {
        "factored": [(head, model, channel)] * 3 + [(head, channel)] * 3 + [(head, channel, model), (model,)],
        "merged": [(head, model, model)] * 2 + [(head, model), (model,)],
        "input-cached": [(head, model, channel)] * 3 + [(head, channel)] * 3 + [(head, channel, model), (model,)],
    }
    assert operation_counts.cost(form, 5, model, head, channel).parameters == sum(map(math.prod, kept[form]))


def test_an_unknown_form_and_no_position_are_refused():
    with pytest.raises(ValueError, match="form must be"):
        operation_counts.cost("fused", 1, 1, 1, 1)
    with pytest.raises(ValueError, match="form must be"):
        operation_counts.prepare("fused", random_layer())
    with pytest.raises(ValueError, match="at least 1"):
        operation_counts.cost("merged", 0, 1, 1, 1)
