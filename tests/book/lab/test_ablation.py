"""Weights taken from maps: exactly as much at random, rows left short or made whole, the side effect alone; heads."""

import pytest
import torch
from transformers import BertConfig, BertModel

from analysis.transformer.encoder import encode, random_layers, run_layer
from book.lab import ablation

SEED = 3


@pytest.fixture(scope="module")
def maps():
    return torch.randn(2, 3, 9, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(-1)


@pytest.fixture(scope="module")
def network():
    g = torch.Generator().manual_seed(1)
    layers = random_layers(3, 2, 8, gain=2.0, generator=g)
    return torch.stack(encode(torch.randn(7, 8, generator=g, dtype=torch.float64), layers)), layers


def test_weights_known_by_hand():
    maps, taken = torch.tensor([[[0.5, 0.3, 0.2]]]), torch.tensor([[[0.5, 0.0, 0.0]]])
    torch.testing.assert_close(ablation.leave_short(maps, taken), torch.tensor([[[0.0, 0.3, 0.2]]]))
    torch.testing.assert_close(ablation.renormalise(maps, taken), torch.tensor([[[0.0, 0.6, 0.4]]]))
    torch.testing.assert_close(ablation.scale_up(maps, taken), torch.tensor([[[0.5, 0.6, 0.4]]]))
    two = torch.tensor([[[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]]])
    held = ablation.hold_volume(two, two * ablation.choose_sink(two))
    torch.testing.assert_close(held, torch.tensor([[[0.3, 0.42, 0.28], [0.3, 0.7 / 3, 1.4 / 3]]]))


def test_the_random_draw_takes_exactly_the_share(maps):
    share = torch.linspace(0, 1, 9, dtype=torch.float64)[:, None].expand(2, 3, 9, 1)
    taken = ablation.draw_as_much(maps, share, torch.Generator().manual_seed(SEED))
    torch.testing.assert_close(taken.sum(-1, keepdim=True), share)
    assert (taken >= 0).all()
    assert (taken <= maps).all()
    in_part = (taken > 1e-9) & (taken < maps - 1e-9)
    assert in_part.sum(-1).max() == 1  # all other cells are taken whole or not at all
    others = ablation.draw_as_much(maps, share, torch.Generator().manual_seed(SEED + 1))
    assert (taken - others).abs().max() > 0.01


@pytest.mark.parametrize("change", [ablation.renormalise, ablation.scale_up, ablation.hold_volume])
def test_a_row_that_is_all_on_the_sink_stays(change):
    maps = torch.eye(1, 4, dtype=torch.float64)[None]
    torch.testing.assert_close(change(maps, maps), maps)


def test_as_much_at_random_is_as_much_as_the_deletion_took(network):
    states, layers = network
    names = list(ablation.WAYS)
    found = dict(zip(names, ablation.measure_ways(states, layers, ablation.choose_sink, names, SEED), strict=True))
    shares = [share for _, share in found.values()]
    assert shares[1] == pytest.approx(shares[0], abs=1e-12)
    assert shares[3] == pytest.approx(shares[2], abs=1e-12)
    assert shares[2] > 0.05
    assert shares[4] == 0
    assert len({round(effect, 6) for effect, _ in found.values()}) == len(names)


def test_a_network_without_a_column_reads_what_the_layers_before_left(network):
    states, layers = network
    take = lambda maps: maps * ablation.choose_sink(maps)  # noqa: E731
    rows, shares = ablation.run_without(states[0], layers, take, ablation.leave_short)
    x = states[0]
    for layer, share in zip(layers, shares, strict=True):
        maps = run_layer(x, layer).attention
        torch.testing.assert_close(share[..., 0], maps[..., 0])
        maps[..., 0] = 0
        x = run_layer(x, layer, patched_attention=maps).second
    torch.testing.assert_close(rows, x)
    assert ablation.turned(x, x) == pytest.approx(0, abs=1e-12)


def test_a_silenced_head_is_one_whose_output_matrix_is_zero():
    """Head 1 of layer 0, of a random BERT; levelled, its queries and keys say nothing."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        shape = {"num_hidden_layers": 2, "num_attention_heads": 3, "hidden_size": 12, "intermediate_size": 20}
        model = BertModel(BertConfig(vocab_size=31, attn_implementation="sdpa", **shape)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(20)
    ids = torch.arange(3, 12)[None]

    def tokenize(text, **_):
        from transformers import BatchEncoding

        return BatchEncoding({"input_ids": ids})

    (effects,), (whole,) = ablation.measure_heads(model, tokenize, ["a text"])
    assert effects.shape == (2, 3, 2)
    attention = model.encoder.layer[0].attention
    kept = {name: tensor.clone() for name, tensor in attention.state_dict().items()}
    with torch.no_grad():
        attention.output.dense.weight[:, 4:8] = 0
        silenced = model(ids).last_hidden_state[0].mean(0)
        attention.load_state_dict(kept)
        attention.self.query.weight[4:8] = 0
        attention.self.query.bias[4:8] = 0
        levelled = model(ids).last_hidden_state[0].mean(0)
    for way, changed in enumerate((silenced, levelled)):
        due = 1 - torch.nn.functional.cosine_similarity(changed, whole, dim=0)
        assert effects[0, 1, way].item() == pytest.approx(due.item(), abs=1e-6)
    assert effects.min() > 1e-6
