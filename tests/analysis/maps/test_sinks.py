"""The sink of a map: the key that gets most, whatever else is in the map."""

import torch

from analysis.maps import gates
from analysis.maps.sinks import find_sink


def test_the_sink_of_a_column_is_its_key_with_its_share():
    uniform = torch.full((8, 8), 1 / 8, dtype=torch.float64)
    maps = torch.stack([0.6 * gates.directional(8, 5) + 0.4 * uniform, gates.directional(8, 0)])
    sink = find_sink(maps[None])
    assert sink.key.tolist() == [[5, 0]]
    torch.testing.assert_close(sink.weight, torch.tensor([[0.65, 1.0]], dtype=torch.float64))


def test_in_a_causal_map_of_equal_weights_the_first_key_leads():
    causal = torch.ones(4, 4, dtype=torch.float64).tril()
    sink = find_sink(causal / causal.sum(-1, keepdim=True))
    assert sink.key == 0
    torch.testing.assert_close(sink.weight, torch.tensor((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4, dtype=torch.float64))
