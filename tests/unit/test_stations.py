"""The kept forward pass against the plain one."""

import pytest
import torch

from analysis.attention import attend
from analysis.encoder import encode_layer, random_layers
from analysis.stations import normalise, pass_through


@pytest.fixture
def layer():
    return random_layers(1, 3, 12, generator=torch.Generator().manual_seed(0))[0]


def test_stations_are_those_of_the_encoder(layer):
    x = torch.randn(7, 12, dtype=torch.float64)
    passed = pass_through(x, layer)
    torch.testing.assert_close(passed.second, encode_layer(x, layer))
    torch.testing.assert_close(passed.attended, attend(x, layer.attention).output)
    torch.testing.assert_close(normalise(passed.before_first), passed.first)  # its gain is 1 and its bias 0
    torch.testing.assert_close(normalise(passed.before_second), passed.second)
    torch.testing.assert_close(passed.heads[:, :4], passed.attention[0] @ passed.values[0])


def test_other_maps_take_the_place_of_the_own(layer):
    x = torch.randn(7, 12, dtype=torch.float64)
    uniform = torch.full((3, 7, 7), 1 / 7, dtype=torch.float64)
    passed = pass_through(x, layer, uniform)
    torch.testing.assert_close(passed.heads, passed.heads[:1].expand(7, 12))
    own = pass_through(x, layer)
    torch.testing.assert_close(pass_through(x, layer, own.attention).second, own.second)
    with pytest.raises(ValueError, match="maps must be"):
        pass_through(x, layer, uniform[:, :6, :6])
