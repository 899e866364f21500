"""Other frequencies against those that transformers computes."""

import math

import pytest
import torch

from analysis.core.positions import Rotary
from analysis.transformer.rotary_scaling import change_base, interpolate_positions, ntk_aware, rotary_frequencies, yarn


def library(kind: str, coordinates: int, length: int, seq_len: int | None = None, **more):
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    parameters = {"rope_type": kind, "rope_theta": 10000.0, **more}
    sizes = {"hidden_size": coordinates, "num_attention_heads": 1, "max_position_embeddings": length}
    config = LlamaConfig(**sizes, rope_parameters=parameters)
    return ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=seq_len)


@pytest.fixture(params=[16, 64])
def rotary(request) -> Rotary:
    return Rotary(rotary_frequencies(request.param), request.param)


def test_interpolation_and_yarn_are_those_of_transformers(rotary):
    frequencies, factor = library("linear", rotary.channel, 128, factor=4.0)
    assert torch.allclose(interpolate_positions(rotary, 4.0).frequencies, frequencies.double(), rtol=1e-5)
    assert factor == 1
    frequencies, factor = library("yarn", rotary.channel, 512, factor=4.0, original_max_position_embeddings=128)
    ours = yarn(rotary, 4.0, 128)
    assert torch.allclose(ours.frequencies, frequencies.double(), rtol=1e-5)
    assert ours.attention_factor == pytest.approx(factor)


def test_the_base_of_ntk_is_that_of_transformers_at_a_length(rotary):
    # "dynamic" is the same formula with factor s n / N - (s - 1), here 4 at 4 times the length
    frequencies, _ = library("dynamic", rotary.channel, 128, seq_len=512, factor=1.0)
    assert torch.allclose(ntk_aware(rotary, 4.0).frequencies, frequencies.double(), rtol=1e-5)
    slow = ntk_aware(rotary, 4.0).frequencies / rotary.frequencies
    assert slow[0] == 1
    assert slow[-1].item() == pytest.approx(0.25)


def test_another_base_is_that_base(rotary):
    assert torch.equal(change_base(rotary, 500.0).frequencies, rotary_frequencies(rotary.coordinates, 500.0))


@pytest.mark.parametrize(
    "call",
    [
        lambda: rotary_frequencies(3),
        lambda: rotary_frequencies(4, 0.0),
        lambda: interpolate_positions(Rotary(torch.ones(2), 4), 0.0),
        lambda: ntk_aware(Rotary(torch.ones(1), 4), 2.0),
    ],
)
def test_what_makes_no_sense_is_refused(call):
    with pytest.raises(ValueError, match="must"):
        call()


def test_yarn_leaves_the_attention_alone_where_positions_are_not_stretched(rotary):
    _, due = library("yarn", rotary.channel, 64, factor=0.5, original_max_position_embeddings=128)
    assert yarn(rotary, 0.5, 128).attention_factor == due == 1


@pytest.mark.parametrize("length", [4096, 32768])
def test_the_ramp_of_yarn_begins_and_ends_at_whole_indices(rotary, length):
    """At these lengths the first frequency of the ramp is not the first of all, and lies between two indices."""
    first = rotary.coordinates * math.log(length / (32 * 2 * math.pi)) / (2 * math.log(10000.0))
    assert first > 1
    assert 0.05 < first % 1 < 0.95
    frequencies, _ = library("yarn", rotary.channel, 4 * length, factor=4.0, original_max_position_embeddings=length)
    torch.testing.assert_close(yarn(rotary, 4.0, length).frequencies, frequencies.double(), rtol=1e-5, atol=0)


def test_what_was_changed_is_said():
    before = Rotary(torch.tensor([1.0, 0.01]), 5, "neighbours", 10000.0, "yarn", 1.5)
    after = change_base(before, 100.0)
    assert (after.base, after.scaling, after.channel, after.pairing) == (100.0, "default", 5, "neighbours")
    assert after.frequencies.dtype == torch.float32
    aware = ntk_aware(before, 3.0)  # four coordinates: the base times 3^(4 / 2)
    assert (aware.base, aware.scaling) == (pytest.approx(90000.0), "ntk")
    assert interpolate_positions(before, 4.0).scaling == "linear"
    assert interpolate_positions(before, 4.0).base == 10000.0
    assert yarn(before, 4.0, 128).scaling == "yarn"
