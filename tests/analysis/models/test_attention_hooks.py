"""Captured models: same output as the library's own attention, maps equal to the eager ones, nothing left behind."""

import copy

import pytest
import torch

from analysis.maps import streaming
from analysis.models import attention_hooks
from analysis.models.families.tiny import tiny_model


@pytest.fixture(params=["bert", "gpt2"])
def model(request):
    return tiny_model(request.param)


IDS = torch.arange(40).reshape(2, 20) % 37


def test_statistics_equal_those_of_the_eager_maps(model):
    eager = model(IDS, output_attentions=True)
    statistics = streaming.MapStatistics(2, 4, 20)
    with attention_hooks.with_attention(model, statistics.attend):
        captured = model(IDS)
    assert torch.allclose(captured.last_hidden_state, eager.last_hidden_state)
    for layer, maps in enumerate(eager.attentions):
        assert torch.allclose(statistics.entropy()[layer], -torch.xlogy(maps, maps).sum(-1).mean((0, 2)), atol=1e-8)
        assert torch.allclose(statistics.column_mass()[layer], maps.sum(-2).mean(0), atol=1e-8)
    assert eager.attentions[0].std() > 0.01


def test_maps_and_states_go_by_layer_by_layer(model):
    eager = model(IDS, output_attentions=True, output_hidden_states=True)
    maps, states = [], []
    with attention_hooks.with_attention(
        model,
        streaming.visit_maps(lambda layer, m: maps.append((layer, m))),
        hidden=lambda layer, h: states.append((layer, h)),
    ):
        model(IDS)
    assert [layer for layer, _ in maps] == [0, 1] == [layer for layer, _ in states]
    for (_, seen), due in zip(maps, eager.attentions, strict=True):
        assert torch.allclose(seen, due)
    for (_, seen), due in zip(states[:1], eager.hidden_states[1:2], strict=True):  # GPT-2's last state is normalised
        assert torch.allclose(seen, due)


def test_keys_and_values_of_groups_meet_the_queries_of_their_group():
    model = tiny_model("llama")
    eager, maps = model(IDS, output_attentions=True), []
    with attention_hooks.with_attention(model, streaming.visit_maps(lambda layer, each: maps.append(each))):
        captured = model(IDS)
    for seen, due in zip(maps, eager.attentions, strict=True):
        torch.testing.assert_close(seen, due, rtol=1e-6, atol=1e-6)  # the model's softmax is in float32
    torch.testing.assert_close(captured.last_hidden_state, eager.last_hidden_state, rtol=1e-5, atol=1e-5)
    layer = eager.attentions[0]
    assert (layer[:, 1] - layer[:, 2]).abs().max() > 0.1  # heads of two groups, which repeat would exchange


def test_padding_on_the_right(model):
    mask = torch.ones(2, 20, dtype=torch.long)
    mask[1, 13:] = 0
    eager = model(IDS, attention_mask=mask).last_hidden_state
    statistics = streaming.MapStatistics(2, 4, 20)
    with attention_hooks.with_attention(model, statistics.attend):
        captured = model(IDS, attention_mask=mask).last_hidden_state
    assert torch.allclose(captured[1, :13], eager[1, :13])
    assert torch.allclose(captured[0], eager[0])
    assert statistics.sequences()[[13, 20]].tolist() == [1, 1]
    if model.config.model_type == "bert":  # causal: no real query sees what is padded on its right
        assert not torch.allclose(model(IDS).last_hidden_state[1, :13], eager[1, :13])  # the mask matters


def test_padding_on_the_left_is_refused():
    model = tiny_model("bert")
    mask = torch.ones(2, 20, dtype=torch.long)
    mask[1, :4] = 0
    attend = streaming.MapStatistics(2, 4, 20).attend
    with attention_hooks.with_attention(model, attend), pytest.raises(ValueError, match="on the right"):
        model(IDS, attention_mask=mask)


def test_leaves_the_model_as_it_was(model):
    before = model(IDS).last_hidden_state
    with pytest.raises(RuntimeError, match="stop"), attention_hooks.with_attention(model, streaming.visit_maps(fail)):
        model(IDS)
    assert model.config._attn_implementation == "eager"
    assert torch.equal(model(IDS).last_hidden_state, before)
    assert not attention_hooks._active


def fail(layer, maps):
    raise RuntimeError("stop")


def test_training_mode_is_refused():
    model = tiny_model("bert").train()
    with pytest.raises(ValueError, match="training mode"), attention_hooks.with_attention(model):
        pass


def test_a_model_without_layers_is_refused():
    model = tiny_model("bert")
    model.config = copy.copy(model.config)
    model.config.num_hidden_layers = 7
    with pytest.raises(ValueError, match="no list of 7 layers"):
        attention_hooks.layers(model)


def test_read_mask_tells_full_from_causal_and_finds_the_lengths():
    full = torch.ones(2, 1, 6, 6, dtype=torch.bool)
    padded = full & (torch.arange(6) < torch.tensor([6, 4])[:, None, None, None])
    for keep, due in (
        (full, (False, None)),
        (full.tril(), (True, None)),
        (padded, (False, [6, 4])),
        (padded.tril(), (True, [6, 4])),
        (padded & padded.mT, (False, [6, 4])),
    ):
        assert attention_hooks.read_mask(keep) == due
        for least in (-torch.inf, torch.finfo(torch.float32).min):
            assert attention_hooks.read_mask(torch.zeros(keep.shape).masked_fill(~keep, least)) == due


window = (torch.arange(6) - torch.arange(6)[:, None]).abs() <= 2
blocks = torch.block_diag(torch.ones(2, 2), torch.ones(4, 4)).bool()
one_hidden = torch.ones(6, 6, dtype=torch.bool)
one_hidden[3, 1] = False


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        (window, "sliding windows"),
        (window.tril(), "sliding windows"),
        (blocks, "packed"),
        (blocks.tril(), "packed"),
        (one_hidden, "neither full nor causal"),
        (torch.ones(6, 6).triu().bool(), "neither full nor causal"),
        (torch.arange(6).expand(6, 6) > 1, "on the right"),
        (torch.zeros(6, 6, dtype=torch.bool), "must have a token"),
        (torch.full((6, 6), -0.5), "a bias"),
        (torch.full((6, 6), torch.nan), "a bias"),
    ],
)
def test_masks_that_are_not_padding_are_refused(keep, message):
    with pytest.raises(ValueError, match=message):
        attention_hooks.read_mask(keep[None, None])
    everything = torch.zeros_like(keep) if keep.is_floating_point() else torch.ones_like(keep)
    with pytest.raises(ValueError, match=r"mask|padding"):  # in one sequence of two
        attention_hooks.read_mask(torch.stack([everything, keep]).expand(2, 2, 6, 6))


def test_a_model_with_local_layers_is_refused_unless_its_window_holds_everything():
    model, attend = tiny_model("modernbert", local_attention=8), streaming.MapStatistics(2, 4, 20).attend
    with attention_hooks.with_attention(model, attend), pytest.raises(ValueError, match="sliding"):
        model(IDS)
    model = tiny_model("modernbert", local_attention=64)
    due, statistics = model(IDS).last_hidden_state, streaming.MapStatistics(2, 4, 20)
    with attention_hooks.with_attention(model, statistics.attend):
        assert torch.allclose(model(IDS).last_hidden_state, due, atol=1e-5)
    assert statistics.sequences()[20] == 2


def test_a_caller_s_own_mask_is_refused_or_honoured():
    model = tiny_model("bert")
    model.set_attn_implementation("sdpa")  # eager adds a mask of truth values as numbers
    packed = torch.block_diag(torch.ones(8, 8), torch.ones(12, 12)).bool().expand(2, 1, 20, 20)
    attend = streaming.MapStatistics(2, 4, 20).attend
    with attention_hooks.with_attention(model, attend), pytest.raises(ValueError, match="packed"):
        model(IDS, attention_mask=packed)
    causal = torch.ones(2, 1, 20, 20, dtype=torch.bool).tril()
    due = model(IDS, attention_mask=causal).last_hidden_state
    with attention_hooks.with_attention(model, streaming.MapStatistics(2, 4, 20).attend):
        assert torch.allclose(model(IDS, attention_mask=causal).last_hidden_state, due)
    assert not torch.allclose(model(IDS).last_hidden_state, due, atol=1e-2)


def test_a_cache_is_refused_and_positions_are_the_model_s():
    model = tiny_model("llama")
    positions = torch.tensor([[0, 1, 2, 9, 10, 40]])
    attend, ids = streaming.visit_maps(lambda layer, maps: seen.append(maps)), IDS[:1, :6]
    due, seen = model(ids, position_ids=positions, output_attentions=True).attentions[0], []
    cache = model(ids, use_cache=True).past_key_values
    with attention_hooks.with_attention(model, attend):
        model(ids, position_ids=positions)
        with pytest.raises(ValueError, match=r"7 keys for 1 queries: of a cache .* give the whole text at once"):
            model(ids[:, :1], past_key_values=cache)
    torch.testing.assert_close(seen[0], due, rtol=0, atol=1e-6)


def test_attention_that_adds_to_its_scores_is_refused():
    module = torch.nn.Identity()
    module.layer_idx = 0
    part = torch.zeros(1, 2, 4, 3)
    for name in attention_hooks.ADDITIONS:
        with pytest.raises(ValueError, match=name):
            attention_hooks._attention(module, part, part, part, None, **{name: 1.0})
    del module.layer_idx
    with pytest.raises(ValueError, match="layer_idx"):
        attention_hooks._attention(module, part, part, part, None)


def test_a_model_outside_the_registry_is_refused():
    model, attend = tiny_model("deberta-v2"), streaming.visit_maps(fail)
    with pytest.raises(ValueError, match="by itself"), attention_hooks.with_attention(model, attend):
        pass
    assert not attention_hooks._active
