"""The semi-bias of a vocabulary, ``b_Q W_K^T`` first, against the way by all keys and against the machine's limit."""

import pytest
import torch

from analysis.core.attention_layer import AttentionLayer
from analysis.decomposition.terms import semi_bias
from tests.benchmarks.machine import FLOAT, probes, race

HEADS, MODEL, CHANNEL = 12, 768, 64


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("rows", [1024, 50257])
def test_the_semi_bias_never_computes_a_key(rows, say, at_least, at_most):
    """It takes a small part of the time of all keys, and a few times that of reading the table once."""
    weights = AttentionLayer(
        *(draw(HEADS, MODEL, CHANNEL, seed=i) for i in range(3)),
        draw(HEADS, CHANNEL, MODEL),
        *(draw(HEADS, CHANNEL, seed=i) for i in range(3)),
        draw(MODEL),
    )
    joined, table = weights.W_K.transpose(0, 1).flatten(1), draw(rows, MODEL)

    def all_keys():
        keys = (table @ joined).unflatten(1, (HEADS, CHANNEL))
        return torch.einsum("vhc,hc->hv", keys, weights.b_Q) / CHANNEL**0.5

    torch.testing.assert_close(semi_bias(table, weights), all_keys(), rtol=1e-4, atol=1e-2)
    found = race({"ours": lambda: semi_bias(table, weights), "keys": all_keys, **probes()})
    over_limit = found.over_limit("ours", rows * MODEL * FLOAT, rows * MODEL * HEADS)
    say(
        f"semi-bias of {HEADS} heads x {rows:,}: {1e3 * found.least('ours'):.2f} ms, {over_limit:.1f} times this "
        f"machine's limit ({found.machine()}); all keys first {1e3 * found.least('keys'):.1f} ms"
    )
    at_least(f"semi-bias of {rows:,} tokens: all keys first / ours", found.ratio("keys", "ours"))
    if rows * MODEL * FLOAT > 2**26:  # more than a cache holds: then the limit is that of reading the table
        at_most(f"semi-bias of {rows:,} tokens: ours / the machine's limit", over_limit)
