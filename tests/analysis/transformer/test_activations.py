"""The kept forward pass against the plain one."""

from dataclasses import replace

import pytest
import torch

from analysis.transformer.attention import attend
from analysis.transformer.encoder import encode_layer, random_layers, run_layer
from analysis.transformer.layernorm import normalise


@pytest.fixture
def layer():
    return random_layers(1, 3, 12, generator=torch.Generator().manual_seed(0))[0]


def test_stations_are_those_of_the_encoder(layer):
    x = torch.randn(7, 12, dtype=torch.float64)
    passed = run_layer(x, layer)
    torch.testing.assert_close(passed.second, encode_layer(x, layer))
    torch.testing.assert_close(passed.attention_output, attend(x, layer.attention).output)
    torch.testing.assert_close(normalise(passed.before_first), passed.first)  # its gain is 1 and its bias 0
    torch.testing.assert_close(normalise(passed.before_second), passed.second)
    torch.testing.assert_close(passed.heads[:, :4], passed.attention[0] @ passed.values[0])


def test_biases_count(layer):
    biases = {
        name: torch.randn(getattr(layer.attention, name).shape, dtype=torch.float64)
        for name in ("b_Q", "b_K", "b_V", "b_O")
    }
    layer, x = replace(layer, attention=replace(layer.attention, **biases)), torch.randn(7, 12, dtype=torch.float64)
    torch.testing.assert_close(run_layer(x, layer).attention_output, attend(x, layer.attention).output)
    torch.testing.assert_close(run_layer(x, layer).second, encode_layer(x, layer))


def test_other_maps_take_the_place_of_the_own(layer):
    x = torch.randn(7, 12, dtype=torch.float64)
    uniform = torch.full((3, 7, 7), 1 / 7, dtype=torch.float64)
    passed = run_layer(x, layer, patched_attention=uniform)
    torch.testing.assert_close(passed.heads, passed.heads[:1].expand(7, 12))
    own = run_layer(x, layer)
    torch.testing.assert_close(run_layer(x, layer, patched_attention=own.attention).second, own.second)
    with pytest.raises(ValueError, match="patched_attention must be"):
        run_layer(x, layer, patched_attention=uniform[:, :6, :6])


def test_no_query_attends_to_what_is_not_kept(layer):
    """The padding mask is that of transformers: positions of padding still have a query."""
    x = torch.randn(7, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    keep = torch.arange(7) < 5
    padded, plain = run_layer(x, layer, keep=keep), run_layer(x[:5], layer)
    assert not padded.attention[..., 5:].any()
    torch.testing.assert_close(padded.attention.sum(-1), torch.ones(3, 7).double())
    torch.testing.assert_close(padded.second[:5], plain.second)
    for name in (
        "x",
        "attention",
        "values",
        "heads",
        "attention_output",
        "before_first",
        "first",
        "mlp_output",
        "before_second",
        "second",
    ):
        torch.testing.assert_close(getattr(padded.only(keep), name), getattr(plain, name))
    torch.testing.assert_close(run_layer(torch.stack([x, 2 * x]), layer, keep=keep).second[0], padded.second)
    torch.testing.assert_close(
        run_layer(x, layer, keep=torch.ones(7, dtype=torch.bool)).second, run_layer(x, layer).second
    )


@pytest.mark.usefixtures("unchecked")
def test_refusals(layer):
    x, maps = torch.randn(7, 12, dtype=torch.float64), torch.full((3, 7, 7), 1 / 7, dtype=torch.float64)
    for keep in (torch.ones(7), torch.ones(6, dtype=torch.bool), [True] * 7):
        with pytest.raises(ValueError, match="keep must be a bool"):
            run_layer(x, layer, keep=keep)
        with pytest.raises(ValueError, match="keep must be a bool"):
            run_layer(x, layer).only(keep)
    with pytest.raises(ValueError, match=r"got \(7,\) in torch\.float32"):
        run_layer(x, layer, keep=torch.ones(7))
    with pytest.raises(ValueError, match="no position"):
        run_layer(x, layer, keep=torch.zeros(7, dtype=torch.bool))
    with pytest.raises(ValueError, match="not both"):
        run_layer(x, layer, patched_attention=maps, keep=torch.ones(7, dtype=torch.bool))
    with pytest.raises(ValueError, match="not finite"):
        run_layer(x * float("nan"), layer)
    with pytest.raises(ValueError, match="patched_attention holds"):
        run_layer(x, layer, patched_attention=maps * float("nan"))
    with pytest.raises(ValueError, match=r"patched_attention must be .* torch.float64 on cpu to fit x"):
        run_layer(x, layer, patched_attention=maps.float())
    with pytest.raises(ValueError, match=r"float16"):
        normalise(300 * torch.randn(2, 12).half())
    with pytest.raises(TypeError, match="must be a tensor"):
        normalise(x.numpy())


def test_rows_whose_squares_overflow_are_refused_rather_than_made_zero():
    row = torch.tensor([1.0, -1.0], dtype=torch.float64)
    torch.testing.assert_close(normalise(1e150 * row), row)
    with pytest.raises(ValueError, match="rows: too large"):
        normalise(1e200 * row)
