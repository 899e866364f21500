"""The experiment on SmolLM2's previous-token heads: on a tiny Llama, by hand, and two heads in plain torch."""

import math

import numpy as np
import pytest
import torch

from analysis.core.positions import Rotary
from analysis.decomposition.rotary_kernel import pair_channels
from analysis.models import checkpoints, pretrained
from analysis.models.checkpoints import NotFound
from analysis.models.reading import load
from analysis.transformer.attention import compute_scores
from book.experiments import rotary_smollm2 as experiment
from book.experiments import rotary_smollm2_limits as limits
from book.lab.documents import load_documents
from book.publish import experiments
from book.viewers import arrows
from tests.analysis.tiny import random_llama


@pytest.fixture(scope="module")
def network():
    sizes = {"hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 32}
    return random_llama(vocab_size=40, num_hidden_layers=3, initializer_range=0.3, **sizes).double()


@pytest.fixture(scope="module")
def prose():
    return torch.randint(40, (7, 24), generator=torch.Generator().manual_seed(0))


def test_parts_are_those_of_the_models_own_scores(network, prose):
    layers = experiment.read_layers(network, prose)
    for (layer, queries, keys), x in zip(layers, inputs_of(network, prose), strict=True):
        own = experiment.of_others(queries), experiment.of_others(keys)
        parts = experiment.split(queries, keys, own, layer)
        torch.testing.assert_close(parts["whole"], compute_scores(x, layer), rtol=0, atol=1e-9)
        along = parts["kernel"].diagonal(-3, -2, -1)  # without a word a score knows the distance alone
        torch.testing.assert_close(along, along[..., :1].expand_as(along))
        lone = [each[:, :, None].expand_as(queries) for each in own]
        of_means = experiment.split(*lone, own, layer)
        torch.testing.assert_close(of_means["whole"], of_means["kernel"])
        assert of_means["semi-bias"].abs().max() < 1e-9


def inputs_of(network, ids):
    states = network(ids, output_hidden_states=True).hidden_states
    return experiment.attention_inputs(network, states)


def test_all_heads_are_measured_and_a_mean_is_never_of_the_passage_itself(network, prose):
    found, constants = experiment.measure_heads(network, prose, prose[:3])
    assert found["previous"].shape == (len(experiment.SCORES), 3, 6)
    assert found["by_passage"].shape == (3, 7, 3, 6)
    assert found["other"].shape == found["other_most"].shape == (len(experiment.SOURCES), 2, 3, 6)
    assert found["curve"].shape == (3, 6, experiment.LENGTH)
    changed = prose.clone()
    changed[0] = 0
    _, others = experiment.measure_heads(network, changed, prose[:3])
    torch.testing.assert_close(constants[1][0][0], others[1][0][0])
    assert not torch.allclose(constants[1][0][1], others[1][0][1])


def test_random_angles_keep_every_amplitude(network):
    rotary, generator = load(network).layers[0].positions, torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 5, 6, 32, generator=generator)
    turned, same = experiment.with_random_angles((query, key), rotary, generator)
    assert torch.equal(same, key)
    torch.testing.assert_close(pair_channels(turned, rotary).abs(), pair_channels(query, rotary).abs())
    assert not torch.allclose(turned, query)


def test_two_constant_vectors_can_be_a_previous_token_head():
    rotary = Rotary(torch.tensor([math.pi / 2]), 2)
    constants = torch.tensor([[[8.0, 0.0]]]), torch.tensor([[[0.0, 8.0]]])  # the story's small case

    class Layer:
        positions, scale = rotary, 1.0

    rows = [each[:, :, None].expand(-1, -1, 4, -1) for each in constants]
    kernel = experiment.split(*rows, constants, Layer)["kernel"]
    assert experiment.previous(kernel).item() > 0.999
    fast = experiment.some_pairs(constants, rotary, slice(1))
    assert all(torch.equal(one, other) for one, other in zip(fast, constants, strict=True))


def test_words_are_lost_where_heads_are_changed_and_nowhere_else(network, prose):
    _, constants = experiment.measure_heads(network, prose, prose[:3])
    losses = experiment.lose_words(network, prose, [(0, 1), (2, 3)], constants)
    own = network(prose).logits[:, :-1]
    own = torch.nn.functional.cross_entropy(own.flatten(0, 1), prose[:, 1:].flatten())
    assert losses["loss"][0] == pytest.approx(own.item(), abs=1e-6)
    assert len(set(losses["loss"])) == 6  # every way is another
    assert np.shape(losses["loss_others"]) == (2, experiment.DRAWS)


def test_parts_in_any_order_and_kernels_of_other_heads(network, prose):
    found, _ = experiment.measure_heads(network, prose, prose[:3])
    named = dict(zip(experiment.SCORES, found["previous"], strict=True))
    whole, without, alone = (named[name] for name in ("whole", "no kernel", "kernel"))
    of_parts = dict(zip(limits.COALITIONS, limits.weigh_parts(network, prose), strict=True))
    for kept, expected in (((True,) * 4, whole), ((False, True, True, True), without), ((True, *[False] * 3), alone)):
        np.testing.assert_allclose(of_parts[kept], expected)
    removed, lone = limits.swap(network, prose, [(0, 1), (2, 3)])
    np.testing.assert_allclose([removed[0, 0, 1], removed[1, 2, 3]], [without[0, 1], without[2, 3]])  # a head's own
    np.testing.assert_allclose(lone, [alone, alone])
    (layer, queries, keys), _, (other, of_queries, of_keys) = experiment.read_layers(network, prose)
    own, others = (tuple(map(experiment.of_others, each)) for each in ((queries, keys), (of_queries, of_keys)))
    scores = experiment.split(queries, keys, own, layer)["whole"][:, 1]
    kernel = experiment.split(of_queries, of_keys, others, other)["kernel"][:, 3]
    np.testing.assert_allclose(removed[0, 2, 3], experiment.previous(scores - kernel).mean())


@pytest.mark.slow
def test_two_heads_of_smollm2_in_plain_torch():
    """Queries and keys from the modules' hooks, turned as complex numbers: nothing of this package computes."""
    try:
        checkpoint = checkpoints.find(experiment.MODEL)
    except NotFound as error:
        pytest.skip(str(error))
    words, model = pretrained.tokenizer(checkpoint), pretrained.load(checkpoint)
    ids = torch.tensor([words(each.text).input_ids[:64] for each in load_documents(*experiment.PROSE)])
    record = experiments.load("rotary-smollm2")
    heads, seen = ((16, 0), (11, 1)), {}
    for layer, _ in heads:
        attention = model.layers[layer].self_attn
        for name in ("q_proj", "k_proj"):
            getattr(attention, name).register_forward_hook(
                lambda module, given, output, place=(layer, name): seen.update({place: output})
            )
    model(ids)
    speed = 100_000.0 ** (-torch.arange(32) / 32)
    turn = torch.polar(torch.ones(64, 32), torch.arange(64.0)[:, None] * speed)
    for layer, head in heads:
        query = seen[layer, "q_proj"].view(18, 64, 9, 64)[:, :, head]
        key = seen[layer, "k_proj"].view(18, 64, 3, 64)[:, :, head // 3]

        def turned(rows):
            return torch.complex(rows[..., :32], rows[..., 32:]) * turn

        def product(one, other):
            return (turned(one) @ turned(other).mH).real / 8

        found = []
        for text in range(18):
            others = [each for each in range(18) if each != text]
            mean_query, mean_key = (rows[others].mean((0, 1)).expand(64, 64) for rows in (query, key))
            whole, kernel = product(query[text], key[text]), product(mean_query, mean_key)
            for scores in (whole, whole - kernel, kernel):
                hidden = torch.full((64, 64), -math.inf).triu(1)
                found.append((scores + hidden).softmax(-1).diagonal(-1).mean())
        shares = torch.stack(found).view(18, 3).mean(0).numpy()
        rows = [experiment.SCORES.index(name) for name in ("whole", "no kernel", "kernel")]
        np.testing.assert_allclose(shares, record.array("previous")[rows, layer, head], atol=5e-3)


def test_the_static_arrows_end_where_the_measured_kernel_is_less_those_left_out():
    curve, record = experiments.load("rotary-smollm2").array("curve")[16, 0], experiments.load("rotary-smollm2-arrows")
    length, angle = (record.array(name)[0, arrows.KEPT :, None] for name in ("length", "angle"))
    still = (length * np.cos(angle + np.outer(record.array("turn")[arrows.KEPT :], range(64)))).sum(0)
    for distance in (2, 31):
        plane, panel = arrows.draw(record, distance=distance).axes
        fast, slow, kernel, marked = (line.get_ydata() for line in panel.lines)
        np.testing.assert_allclose(kernel + still, curve, atol=1e-3)
        np.testing.assert_allclose(fast + slow, kernel, atol=1e-9)
        assert marked[0] == pytest.approx(kernel[distance]) == pytest.approx(plane.lines[1].get_xdata()[1])
