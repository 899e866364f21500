"""Heads from formulas: the maps that they must have, and the gates that the reader must find in them."""

import pytest
import torch

from analysis.decomposition import uniform
from analysis.decomposition.terms import score_terms
from analysis.maps import distance, gates
from analysis.transformer import constructed_heads, induction
from analysis.transformer.attention import compute_scores

N, VOCAB = 48, 12
TOKENS = torch.randint(VOCAB, (N,), generator=torch.Generator().manual_seed(0))


def read(layer, causal=False):
    return gates.read_gates(constructed_heads.attention_map(layer, TOKENS, causal=causal), causal=causal)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("build", [constructed_heads.uniform, constructed_heads.no_keys])
def test_heads_without_keys_are_uniform_and_closed(build, causal):
    found = constructed_heads.attention_map(build(VOCAB, N), TOKENS, causal=causal)
    torch.testing.assert_close(found, uniform.uniform_causal(N) if causal else torch.full((N, N), 1 / N).double())
    assert read(build(VOCAB, N), causal).names() == ["closed"]


@pytest.mark.parametrize("causal", [False, True])
def test_a_constant_pattern_is_columns_at_its_token(causal):
    tokens = torch.cat([torch.zeros(1, dtype=torch.long), TOKENS[1:].clamp_min(1)])  # token 0 only stands first
    layer = constructed_heads.constant_pattern(VOCAB, N, 0)
    found = gates.read_gates(constructed_heads.attention_map(layer, tokens, causal=causal), causal=causal)
    assert found.score("directional") > 0.9
    assert found.columns.argmax() == 0


@pytest.mark.parametrize("causal", [False, True])
def test_the_previous_token_is_the_backward_gate(causal):
    layer = constructed_heads.previous_token(VOCAB, N)
    found = read(layer, causal)
    assert found.score("backward") > 0.9
    assert found.offsets.argmax() == N - 2
    first = induction.run(TOKENS[:9], induction.build(VOCAB, 9))[0].attention
    layer = constructed_heads.previous_token(VOCAB, 9, sharpness=200.0)
    ours = constructed_heads.attention_map(layer, TOKENS[:9], causal=True)
    torch.testing.assert_close(ours, first)


def test_matched_tokens_get_equal_shares():
    found = constructed_heads.attention_map(constructed_heads.matched_token(VOCAB, N, sharpness=200.0), TOKENS)
    same = (TOKENS[:, None] == TOKENS).double()
    torch.testing.assert_close(found, same / same.sum(1, keepdim=True))


def test_a_ramp_is_a_column_without_a_mask_and_diagonals_with_one():
    ramp = constructed_heads.position_bias(VOCAB, N)
    full, causal = read(ramp), read(ramp, True)
    assert full.names() == ["directional"]
    assert full.columns.argmax() == N - 1
    assert causal.names() == ["open"]
    assert causal.score("directional") < 0.05
    found = constructed_heads.attention_map(constructed_heads.position_bias(VOCAB, N), TOKENS, causal=True)
    assert (found[30, 1:31] / found[30, :30] - torch.tensor(1.0).double().exp()).abs().max() < 1e-9


def test_phases_repeat_and_the_ramp_keeps_the_latest():
    match = constructed_heads.attention_map(constructed_heads.position_match(VOCAB, N, 16), TOKENS)
    torch.testing.assert_close(match[:, :32], match[:, 16:])
    both = constructed_heads.attention_map(constructed_heads.position_both(VOCAB, N, 0.2, 16), TOKENS, causal=True)
    assert both[40, 32:41].sum() > 0.9
    assert match[40, 32:41].sum() < 0.5 * match[40, :41].sum()
    layer = constructed_heads.position_both(VOCAB, N, 0.2, 16)
    x = constructed_heads.embed(TOKENS, VOCAB)
    parts = score_terms(x, layer)
    torch.testing.assert_close(parts.content, compute_scores(x, constructed_heads.position_match(VOCAB, N, 16)))
    due = compute_scores(x, constructed_heads.position_bias(VOCAB, N, 0.2))
    torch.testing.assert_close(parts.semi_bias.expand_as(due), due)


def test_total_variation():
    maps = torch.rand(2, 3, 5, 5, generator=torch.Generator().manual_seed(0)).softmax(-1)
    found = distance.mean_total_variation(maps, maps[0])
    assert found[0].diagonal().abs().max() == 0
    assert ((found >= 0) & (found <= 1)).all()
    assert torch.allclose(found[0], found[0].T)
    assert distance.mean_total_variation(torch.eye(4)[None], torch.eye(4).roll(1, 0)[None]) == 1


def test_refusals():
    with pytest.raises(ValueError, match=r"0\.\.2"):
        constructed_heads.embed(torch.tensor([3]), 3)
    for token in (-1, VOCAB):  # both are rows of positions in the table
        with pytest.raises(ValueError, match="token must lie"):
            constructed_heads.constant_pattern(VOCAB, N, token)
    with pytest.raises(ValueError, match="back must"):
        constructed_heads.previous_token(3, 4, back=4)
    with pytest.raises(ValueError, match="period must"):
        constructed_heads.position_match(3, 4, period=0.0)


@pytest.mark.parametrize("back", [1, 3])
def test_a_query_with_nothing_so_far_back_prefers_no_key(back):
    layer = constructed_heads.previous_token(3, 5, back, sharpness=200.0)
    found = constructed_heads.attention_map(layer, torch.tensor([0, 2, 1, 0, 2]))
    due = torch.full((5, 5), 0.2).double()
    for query in range(back, 5):
        due[query] = torch.eye(5)[query - back]
    torch.testing.assert_close(found, due)


def test_scores_of_the_heads_of_positions_by_hand():
    rows = constructed_heads.embed(torch.tensor([1, 0, 1, 1]), 2)
    ramp = compute_scores(rows, constructed_heads.position_bias(2, 4, slope=0.5))[0]
    torch.testing.assert_close(ramp, torch.tensor([-1.5, -1.0, -0.5, 0.0]).double().expand(4, 4))
    place = torch.arange(4).double()
    phase = 3 * (2 * torch.pi * (place[:, None] - place) / 5).cos()
    match = compute_scores(rows, constructed_heads.position_match(2, 4, period=5, sharpness=3.0))[0]
    torch.testing.assert_close(match, phase)
    both = compute_scores(rows, constructed_heads.position_both(2, 4, 0.5, 5, 3.0))[0]
    torch.testing.assert_close(both, phase + ramp)
