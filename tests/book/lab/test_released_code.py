"""The released code's steps by closed forms: where they are the paper's, and where their answer is known."""

import math

import numpy as np
import pytest
import torch

from analysis.core.attention_layer import AttentionLayer
from analysis.maps import gates
from analysis.representations import anisotropy
from book.lab import released_code
from book.lab import released_code as code
from tests.analysis.tiny import draw


def as_heads(weight, heads):
    """Cut the transpose of a stored weight into the matrices of heads, as the library's model does."""
    return weight.T.unflatten(1, (heads, -1)).transpose(0, 1).contiguous()


def make_attention(heads=2, channels=3, symmetric=False):
    stored = [draw(heads * channels, heads * channels, seed=seed) for seed in range(4)]
    if symmetric:
        stored = [weight + weight.T for weight in stored]
    biases = [draw(heads, channels, seed=9 + seed) for seed in range(3)]
    own = [as_heads(weight, heads) for weight in stored]
    return AttentionLayer(*own[:3], own[3].transpose(1, 2).contiguous(), *biases, draw(heads * channels, seed=8))


def test_the_blocks_are_columns_of_the_stored_weight():
    stored = draw(6, 6)
    blocks = code.stored_blocks(as_heads(stored, 3))
    for head in range(3):
        torch.testing.assert_close(blocks[head], stored[:, 2 * head : 2 * head + 2])


def test_the_blocks_are_the_heads_where_the_weight_is_symmetric():
    own = make_attention(symmetric=True)
    coded = code.with_stored_blocks(own, biased=True)
    torch.testing.assert_close(coded.W_Q, own.W_Q)
    torch.testing.assert_close(coded.b_K, own.b_K)
    assert not code.with_stored_blocks(own).b_Q.any()


def test_the_blocks_have_the_heads_singular_values_where_outputs_are_only_turned_within_heads():
    turns = torch.block_diag(*(torch.linalg.qr(draw(2, 2, seed=seed)).Q for seed in range(3)))
    symmetric = draw(6, 6)
    heads = as_heads(turns @ (symmetric + symmetric.T), 3)
    blocks = code.stored_blocks(heads)
    assert not torch.allclose(blocks, heads)
    torch.testing.assert_close(torch.linalg.svdvals(blocks), torch.linalg.svdvals(heads))


def test_the_index_is_the_number_of_rows_times_the_resultant_length():
    rows = draw(7, 5)
    torch.testing.assert_close(code.cone_index(rows), 7 * anisotropy.resultant_length(rows))
    torch.testing.assert_close(code.cone_index(rows * draw(7, 1).abs()), code.cone_index(rows))


def test_rows_that_are_all_one_reach_the_number_of_rows():
    torch.testing.assert_close(code.cone_index(draw(1, 5).expand(9, 5)), torch.tensor(9.0, dtype=torch.float64))


def test_the_closed_gate_has_no_entropy_and_two_values_have_that_of_their_shares():
    assert code.value_entropy(gates.closed(32)) == 0
    share = 1 / 32
    expected = -share * math.log(share) - (1 - share) * math.log(1 - share)
    for gate in (gates.directional(32, 5), gates.open_gate(32)):
        assert code.value_entropy(gate).item() == pytest.approx(expected)


def test_entries_at_all_levels_reach_the_logarithm_of_the_bins():
    entries = (torch.arange(20, dtype=torch.float64) + 0.5).repeat(4).reshape(8, 10)
    assert code.value_entropy(entries).item() == pytest.approx(math.log(20))


def test_the_entropy_is_that_of_pandas_bins():
    import pandas as pd

    entries = draw(30, 30).softmax(-1)
    shares = pd.cut(pd.Series(entries.flatten().numpy()), 20).value_counts(normalize=True)
    expected = -(shares * np.log(shares.where(shares > 0, 1))).sum()
    assert code.value_entropy(entries).item() == pytest.approx(expected)


def test_blanked_maps_keep_what_stands_before_the_end():
    maps = draw(2, 5, 5).softmax(-1)
    blanked = code.blank_from(maps, 3, 8)
    assert blanked.shape == (2, 8, 8)
    torch.testing.assert_close(blanked[:, :3, :3], maps[:, :3, :3])
    torch.testing.assert_close(blanked.sum(), maps[:, :3, :3].sum())


def test_a_uniform_row_needs_nine_tenths_of_its_keys():
    assert code.minimal_keys(torch.full((1, 2, 512), 1 / 512)).tolist() == [[461, 461]]
    assert code.minimal_keys(torch.eye(4)[None]).tolist() == [[1, 1, 1, 1]]


@pytest.mark.parametrize("bases", [3822, 3823, 3828])
def test_genes_of_these_lengths_have_425_words(bases):
    words = code.padded_words("A" * bases)
    assert len(words) == 425
    assert {len(word) for word in words} == {12}


def test_the_parts_add_up_and_round_up():
    for total in (100, 101, 49_403):
        parts = code.split_sizes(total)
        assert sum(parts) == total
        assert parts[2] == math.ceil(0.2 * total)


def test_the_split_is_that_of_scikit_learn():
    from sklearn.model_selection import train_test_split

    kept, tested = train_test_split(range(1234), test_size=0.20, random_state=42)
    trained, validated = train_test_split(kept, test_size=0.08, random_state=42)
    assert code.split_sizes(1234) == (len(trained), len(validated), len(tested))


def test_noise_comes_near_the_closed_gate_in_its_rows_and_not_in_the_codes_entropy():
    faint, closed = (released_code.measure_map(each) for each in (released_code.draw_noise(0.01), gates.closed(512)))
    assert closed.rows - faint.rows < 1e-4
    assert faint.whole - closed.whole > 2
