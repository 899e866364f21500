"""The experiment on why a word looks there: on a tiny Llama, against the attention that the model itself returns."""

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from book.experiments import why_smollm2 as experiment
from book.publish import experiments

HEADS = (1, 3), (0, 2)


def small(length=9):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=40,
        hidden_size=32,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.5,
    )
    config._attn_implementation = "eager"
    ids = torch.randint(40, (5, length), generator=torch.Generator().manual_seed(1))
    return LlamaForCausalLM(config).double().eval().requires_grad_(False), ids


def test_parts_add_up_to_the_scores_of_the_models_own_attention():
    network, ids = small()
    constants, targets = experiment.constants_of(network, ids[1:], HEADS)
    parts, attention = experiment.read(network, ids[:1], constants, range(9), HEADS)
    own = torch.stack([network(ids[:1], output_attentions=True).attentions[layer][0, head] for layer, head in HEADS])
    rows, columns = torch.tril_indices(9, 9)
    torch.testing.assert_close(attention, own[:, rows, columns], rtol=1e-5, atol=1e-6)
    logs = own[:, 8].log() - own[:, 8].log().mean(-1, keepdim=True)  # of the last row
    torch.testing.assert_close(parts.sum(0)[:, -9:], logs, rtol=1e-5, atol=1e-5)
    rest = network(ids[1:], output_attentions=True).attentions[1][:, 3]
    np.testing.assert_allclose(targets[0, 0], rest.diagonal(-1, -2, -1)[:, 1:].mean(), rtol=1e-5)


def test_the_attention_to_a_word_is_that_to_its_tokens_and_its_score_lies_between_theirs():
    network, ids = small()
    constants, _ = experiment.constants_of(network, ids[1:], HEADS)
    alone, single = (each[..., -9:] for each in experiment.read(network, ids[:1], constants, range(9), HEADS))
    numbers = [0, 0, 1, 2, 2, 2, 3, 4, 4]
    parts, attention = (each[..., -5:] for each in experiment.read(network, ids[:1], constants, numbers, HEADS))
    torch.testing.assert_close(attention[:, 2], single[:, 3:6].sum(-1))
    weights = single[:, 3:6] / single[:, 3:6].sum(-1, keepdim=True)
    torch.testing.assert_close(parts[..., 2], (alone[..., 3:6] * weights).sum(-1))


def test_three_heads_are_the_strongest_in_the_records_of_others():
    others, induction = experiments.load("rotary-smollm2"), experiments.load("smollm2-induction")
    first = others.array("first")[0]
    most = np.unravel_index(first.argmax(), first.shape)
    strongest = [others.array("strongest")[0], induction.array("best")[0], most]
    assert {tuple(map(int, head)) for head in strongest} < set(experiment.HEADS)
