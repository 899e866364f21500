"""The ladder of controls: what each level keeps of the trained network, and what it loses."""

import pytest
import torch

from analysis.models import checkpoints, controls, pretrained
from analysis.models.reading import load
from tests.analysis.tiny import random_layer


@pytest.fixture(scope="module", params=["minilm", "gpt2-mini"])
def checkpoint(request):
    return checkpoints.find(request.param)


def norms(weights):
    return torch.stack([getattr(weights, name).norm() for name in ("W_Q", "W_K", "W_V", "W_O")])


def layer_of(model):
    return load(model).layers[1].plain()


def test_a_module_climbs_all_levels(checkpoint):
    trained = pretrained.load(checkpoint)

    def initialise(seed):
        return pretrained.load(checkpoint, control_seed=seed)

    ladder = {
        level: layer_of(model)
        for level, _, model in controls.make_controls(
            trained, initialise, levels=(*controls.LEVELS, controls.SHARP), seeds=[3]
        )
    }
    own, random = layer_of(trained), layer_of(initialise(3))
    torch.testing.assert_close(ladder["random"].W_Q, random.W_Q, rtol=0, atol=0)
    torch.testing.assert_close(norms(ladder["random, as large"]), norms(own))
    torch.testing.assert_close(norms(ladder[controls.SHARP])[:2], norms(own)[:2])
    torch.testing.assert_close(norms(ladder[controls.SHARP])[2:], norms(random)[2:])
    torch.testing.assert_close(norms(ladder["permuted"]), norms(own))  # queries, keys and values do not mix
    torch.testing.assert_close(ladder["permuted"].b_Q, own.b_Q, rtol=0, atol=0)
    assert not torch.equal(ladder["permuted"].W_Q, own.W_Q)
    assert not ladder["random, as large"].b_Q.any()


def test_weights_of_layers_climb_as_modules_do():
    trained = [random_layer(seed=seed) for seed in range(2)]

    def initialise(seed):
        return [random_layer(seed=10 * seed + k + 5) for k in range(len(trained))]

    ladder = list(controls.make_controls(trained, initialise, levels=(*controls.LEVELS, controls.SHARP), seeds=[0, 1]))
    assert [control.seed for control in ladder] == [0] * 4 + [1] * 4
    for level, seed, layers in ladder:
        for layer, own, random in zip(layers, trained, initialise(seed)):
            kept = {"random": random, "random, as large": own, "permuted": own}.get(level)
            if kept is not None:
                torch.testing.assert_close(norms(layer), norms(kept))
            else:
                torch.testing.assert_close(norms(layer)[:2], norms(own)[:2])
                torch.testing.assert_close(norms(layer)[2:], norms(random)[2:])
    permuted = ladder[2].network[0].W_V
    torch.testing.assert_close(permuted.flatten().sort().values, trained[0].W_V.flatten().sort().values)


def test_seeds_permute_differently_and_repeat():
    trained = random_layer()
    first, again, other = (controls.permute_entries(trained, seed).W_Q for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_module_of_no_family_is_scaled_and_permuted_too():
    torch.manual_seed(0)
    trained, random = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)
    scaled, permuted = controls.scale_matrices(random, trained), controls.permute_entries(trained, 0)
    torch.testing.assert_close(scaled.weight.norm(), trained.weight.norm())
    torch.testing.assert_close(scaled.weight / scaled.weight.norm(), random.weight / random.weight.norm())
    torch.testing.assert_close(permuted.weight.flatten().sort().values, trained.weight.flatten().sort().values)
    assert torch.equal(permuted.bias, trained.bias)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("GPTNeoX", {}),
        ("Qwen2", {"num_key_value_heads": 2}),
        ("Falcon", {"new_decoder_architecture": True, "num_kv_heads": 2}),
        ("Phi3", {"num_key_value_heads": 2}),
        ("CodeGen", {"n_embd": 64, "n_head": 4, "n_layer": 2, "rotary_dim": 8}),
    ],
)
def test_queries_keys_and_values_of_any_family_are_scaled_and_permuted_each_for_itself(name, options):
    import transformers

    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
    sizes = {} if name == "CodeGen" else sizes
    config = getattr(transformers, f"{name}Config")(vocab_size=32, pad_token_id=0, **sizes, **options)
    torch.manual_seed(0)
    trained, random = (transformers.AutoModelForCausalLM.from_config(config).requires_grad_(False) for _ in range(2))
    for k, weight in enumerate(trained.parameters()):
        weight.mul_(1 + torch.rand(weight.shape[0], *[1] * (weight.ndim - 1)) * k)
    own, first = load(trained).layers[1], load(random).layers[1]
    as_large, permuted = controls.scale_matrices(random, trained), controls.permute_entries(trained, 0)
    torch.testing.assert_close(norms(load(as_large).layers[1]), norms(own))
    torch.testing.assert_close(norms(load(permuted).layers[1]), norms(own))
    sharp = load(controls.scale_matrices(random, trained, scores_only=True)).layers[1]
    torch.testing.assert_close(norms(sharp)[:2], norms(own)[:2])
    torch.testing.assert_close(norms(sharp)[2:], norms(first)[2:])
    assert not torch.equal(load(permuted).layers[1].W_K, own.W_K)


def test_refusals():
    layer = random_layer()
    with pytest.raises(ValueError, match=r"levels must be of random, random, as large, .*, got sharp"):
        list(controls.make_controls(layer, lambda seed: layer, levels=["sharp"]))
    with pytest.raises(ValueError, match="of one architecture"):
        controls.scale_matrices(random_layer(2, 8, 4), layer)
    with pytest.raises(ValueError, match="queries and keys of Linear are not known by name"):
        controls.scale_matrices(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2), scores_only=True)
