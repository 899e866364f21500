"""Reference attention against torch's own modules."""

import math
from dataclasses import replace

import pytest
import torch

from analysis.core.attention_layer import AttentionLayer, Mask, Norm, QueryKeyNorm
from analysis.core.positions import Alibi, Rotary, ScoreTable, Tempered
from analysis.decomposition.terms import score_terms
from analysis.transformer.attention import attend, compute_scores, mask_future
from tests.analysis.tiny import random_layer


@pytest.mark.parametrize("causal", [False, True])
def test_equals_torch_multihead_attention(causal):
    layer = replace(random_layer(), mask=Mask(causal=causal))
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    module = torch.nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        for start, (W, b) in enumerate([(layer.W_Q, layer.b_Q), (layer.W_K, layer.b_K), (layer.W_V, layer.b_V)]):
            rows = slice(12 * start, 12 * start + 12)
            module.in_proj_weight[rows] = W.transpose(1, 2).reshape(12, 12)
            module.in_proj_bias[rows] = b.reshape(12)
        module.out_proj.weight.copy_(layer.W_O.reshape(12, 12).T)
        module.out_proj.bias.copy_(layer.b_O)
    mask = torch.ones(7, 7, dtype=torch.bool).triu(1) if causal else None
    output, attention = module(x, x, x, attn_mask=mask, average_attn_weights=False)
    ours = attend(x, layer)
    torch.testing.assert_close(ours.output, output, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.attention, attention, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("positions", [Rotary(torch.tensor([0.7, 0.1]).double(), 4), Alibi(3)])
def test_rows_stand_where_positions_say(positions):
    """Rows that are left out of a text keep their distances, and each text of a batch has positions of its own."""
    layer = replace(random_layer(), positions=positions, qk_norm=None)
    x = torch.randn(9, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    whole, at = compute_scores(x, layer), torch.tensor([[1, 2, 6, 8], [0, 3, 4, 5]])
    due = torch.stack([whole[:, rows][:, :, rows] for rows in at])
    some = torch.stack([x[rows] for rows in at])
    assert (compute_scores(some, layer) - due).abs().max() > 0.1
    for found in (compute_scores(some, layer, at), attend(some, layer, positions=at).scores):
        torch.testing.assert_close(found, due, rtol=0, atol=1e-12)
    terms = score_terms(some, layer, origin=x[0], positions=at)
    torch.testing.assert_close(terms.total(), due, rtol=0, atol=1e-11)


def test_positions_are_refused_where_the_layer_counts_by_itself():
    layer = replace(random_layer(), positions=Tempered(2.0, 1.0))
    x = torch.randn(4, 12, dtype=torch.float64)
    for call in (compute_scores, attend, score_terms):
        with pytest.raises(ValueError, match="this layer has temperature: leave them out"):
            call(x, layer, positions=torch.arange(4))


def test_a_table_of_positions_is_for_inputs_of_one_size():
    layer = replace(random_layer(), positions=ScoreTable(torch.zeros(3, 5, 5, dtype=torch.float64)))
    attend(torch.ones(5, 12, dtype=torch.float64), layer)
    for call in (attend, compute_scores, score_terms):
        with pytest.raises(ValueError, match="x must have 5 positions, for which the layer has a table, got 4"):
            call(torch.ones(4, 12, dtype=torch.float64), layer)


@pytest.mark.usefixtures("unchecked")
def test_one_map_alone_has_a_causal_mask():
    assert mask_future(torch.zeros(2, 2)).tolist() == [[0, -torch.inf], [0, 0]]


def test_a_layer_may_write_rows_of_another_width_than_it_reads(unchecked):
    """Six wide rows are read, and five wide ones written: W_O and b_O must agree on the width."""
    read, written = torch.ones(1, 6, 2), torch.ones(1, 2, 5)
    zero = torch.zeros(1, 2)
    layer = AttentionLayer(read, read, read, written, zero, zero, zero, torch.zeros(5))
    torch.testing.assert_close(attend(torch.ones(3, 6), layer).output, torch.full((3, 5), 12.0))
    with pytest.raises(ValueError, match="b_O"):
        AttentionLayer(read, read, read, written, zero, zero, zero, torch.zeros(4))


def test_a_soft_cap_by_hand():
    """Scores 0 and 4 under a cap of 2: 0 and 2 tanh 2."""
    one, zero = torch.ones(1, 1, 1), torch.zeros(1, 1)
    layer = AttentionLayer(one, one, one, one, zero, zero, zero, zero[0], scale=1.0, soft_cap=2.0)
    capped = 2 * math.tanh(2)
    seen = attend(torch.tensor([[0.0], [2.0]]), layer)
    torch.testing.assert_close(seen.scores[0, 1], torch.tensor([0.0, capped]))
    torch.testing.assert_close(seen.attention[0, 1, 1].item(), 1 / (1 + math.exp(-capped)))


@pytest.mark.parametrize("size", [1e19, 1e30, 1e38])
def test_what_is_too_large_for_its_dtype_is_refused_and_never_nan(size):
    layer = random_layer().to(torch.float32)
    x = size * torch.randn(5, 12, generator=torch.Generator().manual_seed(1))
    for compute in (compute_scores, attend, score_terms):
        with pytest.raises(ValueError, match=r"too large for torch\.float32|not finite"):
            compute(x, layer)
    assert attend(x.double(), layer.to(torch.float64)).output.isfinite().all()
    assert attend(x / size * 1e15, layer).output.isfinite().all()


HEADS, GROUPS, MODEL, CHANNEL, VALUE, N = 4, 2, 6, 8, 3, 7
TURN = Rotary(torch.tensor([1.0, 0.3, 0.1]).double(), CHANNEL)


def drawn(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def grouped(**fields):
    """Return a layer of four heads and two keys, with values narrower than queries, every number random."""
    shapes = [(HEADS, MODEL, CHANNEL), (GROUPS, MODEL, CHANNEL), (GROUPS, MODEL, VALUE), (HEADS, VALUE, MODEL)]
    shapes += [(HEADS, CHANNEL), (GROUPS, CHANNEL), (GROUPS, VALUE), (MODEL,)]
    return AttentionLayer(*(drawn(*shape, seed=seed) for seed, shape in enumerate(shapes)), **{"scale": 0.4, **fields})


def norm_of(width, seed, kind="rms"):
    return Norm(drawn(width, seed=seed).exp(), torch.zeros(width).double(), eps=0.1, kind=kind)


def rooted(row, norm):
    return row / (row.square().mean() + norm.eps).sqrt() * norm.gain


def turned(row, place):
    pairs = torch.complex(row[:3], row[3:6]) * torch.polar(torch.ones(3).double(), place * TURN.frequencies)
    return torch.cat([pairs.real, pairs.imag, row[6:]])


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("rotary", [False, True])
def test_norms_of_queries_and_keys_head_by_head_or_over_all(whole, after, rotary):
    norms = [norm_of(CHANNEL * (size if whole else 1), seed) for size, seed in ((HEADS, 20), (GROUPS, 21))]
    pair = QueryKeyNorm(*norms, whole=whole, after_rotation=after)
    layer = grouped(qk_norm=pair, **({"positions": TURN} if rotary else {}))
    x = drawn(2, N, MODEL, seed=30)
    found = compute_scores(x, layer)

    def rows_of(text, place, W, b, norm):
        rows = [x[text, place] @ W[h] + b[h] for h in range(len(W))]
        if after and rotary:
            rows = [turned(row, place) for row in rows]
        rows = list(rooted(torch.cat(rows), norm).split(CHANNEL)) if whole else [rooted(row, norm) for row in rows]
        return [turned(row, place) for row in rows] if rotary and not after else rows

    for text in range(2):
        queries = [rows_of(text, i, layer.W_Q, layer.b_Q, norms[0]) for i in range(N)]
        keys = [rows_of(text, j, layer.W_K, layer.b_K, norms[1]) for j in range(N)]
        for head in range(HEADS):
            due = torch.tensor([[0.4 * queries[i][head] @ keys[j][head // 2] for j in range(N)] for i in range(N)])
            torch.testing.assert_close(found[text, head], due)


@pytest.mark.parametrize(
    "mask", [Mask(), Mask(True), Mask(True, 2), Mask(False, 2), Mask(True, chunk=3), Mask(False, chunk=3)]
)
@pytest.mark.parametrize("padded", [False, True])
def test_what_a_query_sees_pair_by_pair(mask, padded):
    keep = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0]]).bool() if padded else None
    first = [2, 0] if padded else [0, 0]
    layer, x = grouped(mask=mask, sinks=drawn(HEADS, seed=40), soft_cap=1.5), drawn(2, N, MODEL, seed=31)
    found, bare = attend(x, layer, keep=keep), compute_scores(x, layer)
    for text in range(2):
        for i in range(N):
            if padded and not keep[text, i]:
                continue
            seen = [
                (not padded or bool(keep[text, j]))
                and (not mask.causal or j <= i)
                and (mask.reach is None or abs(i - j) <= mask.reach)
                and (mask.chunk is None or (i - first[text]) // mask.chunk == (j - first[text]) // mask.chunk)
                for j in range(N)
            ]
            output = layer.b_O.clone()
            for head in range(HEADS):
                capped = 1.5 * torch.tanh(bare[text, head, i] / 1.5)
                powers = capped.exp() * torch.tensor(seen)
                weights = powers / (powers.sum() + layer.sinks[head].exp())
                torch.testing.assert_close(found.attention[text, head, i], weights)
                assert found.scores[text, head, i].isfinite().tolist() == seen
                values = x[text] @ layer.W_V[head // 2] + layer.b_V[head // 2]
                update = weights @ values @ layer.W_O[head]
                torch.testing.assert_close(found.updates[text, head, i], update)
                output += update
            torch.testing.assert_close(found.output[text, i], output)


def test_what_positions_add_to_scores():
    x, table = drawn(2, N, MODEL, seed=32), drawn(HEADS, N, N, seed=33)
    bare, place = compute_scores(x, grouped()), torch.arange(N)
    for head in range(HEADS):
        queries = x @ grouped().W_Q[head] + grouped().b_Q[head]
        keys = x @ grouped().W_K[head // 2] + grouped().b_K[head // 2]
        torch.testing.assert_close(bare[:, head], 0.4 * queries @ keys.mT)
    line = compute_scores(x, grouped(positions=Alibi(HEADS))) - bare
    slopes = torch.tensor([2**-2, 2**-4, 2**-6, 2**-8]).double()
    torch.testing.assert_close(line[1], -slopes[:, None, None] * (place[:, None] - place))
    torch.testing.assert_close(compute_scores(x, grouped(positions=ScoreTable(table))) - bare, table.expand_as(bare))
    grown = compute_scores(x, grouped(positions=Tempered(2.0, 0.5)))
    factor = torch.tensor([1 + 0.5 * math.log(1 + (i + 1) // 2) for i in range(N)]).double()
    torch.testing.assert_close(grown, bare * factor[:, None])


def test_queries_are_the_last_of_the_keys_where_there_are_fewer():
    hidden = mask_future(torch.zeros(2, 3, 5)).isinf()
    assert hidden[0].int().tolist() == [[0, 0, 0, 1, 1], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]]
    with pytest.raises(ValueError, match="no more queries than keys"):
        mask_future(torch.zeros(5, 3))


def test_what_stands_at_padding_is_not_read():
    layer = random_layer()
    x = torch.randn(5, layer.model, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    keep = torch.tensor([True, True, True, False, False])
    spoilt = x.masked_fill(~keep[:, None], float("nan"))
    found, alone = attend(spoilt, layer, keep=keep), attend(x[:3], layer)
    torch.testing.assert_close(found.output[:3], alone.output)
    torch.testing.assert_close(found.attention[:, :3, :3], alone.attention)


def test_an_empty_batch_has_an_empty_output():
    layer = random_layer()
    assert attend(torch.zeros(0, 3, layer.model, dtype=torch.float64), layer).output.shape == (0, 3, layer.model)
