"""Blocks, masks, Jacobians, interactions and the expanded score, each against its definition."""

import math
from dataclasses import replace

import pytest
import torch

from analysis.core.attention_layer import Norm
from analysis.core.weights import EncoderLayer, MlpWeights
from analysis.decomposition import block_mixing
from analysis.maps import entropy
from analysis.transformer import head_layout
from analysis.transformer.encoder import encode_layer, random_layers
from analysis.transformer.mlp import activation_mask, apply_masked_mlp, apply_mlp, fold_layer
from tests.analysis.tiny import draw


def mlp_of(model=12, hidden=30, seed=0):
    shapes = (model, hidden), (hidden,), (hidden, model), (model,)
    return MlpWeights(*(draw(*shape, seed=seed + k) for k, shape in enumerate(shapes)))


@pytest.mark.parametrize(("blocks", "width"), [(12, 64), (5, 3), (1, 4), (3, 1)])
def test_index_formula_is_right_for_every_column_and_row(blocks, width):
    x = draw(blocks, 2, width)
    joined, stacked = head_layout.concatenate(x), head_layout.stack(x.transpose(1, 2))
    for k in range(1, blocks * width + 1):
        block, place = head_layout.block_of(k, width)
        assert torch.equal(joined[:, k - 1], x[block - 1, :, place - 1])
        assert torch.equal(stacked[k - 1], x[block - 1, :, place - 1])


def test_printed_index_formula_names_no_block_of_bert():
    printed = [head_layout.printed_block_of(k, 64, 12) for k in range(1, 769)]
    assert not any(block.is_integer() for block, _ in printed)


def test_relative_entropy_is_a_share_of_the_largest():
    attention = draw(2, 3, 9, 9).softmax(-1)
    due = -(attention * attention.log()).sum(-1) / torch.tensor(9.0).double().log()
    torch.testing.assert_close(entropy.relative_entropy(attention), due)
    assert entropy.relative_entropy(torch.eye(4)[None]).sum() == 0
    with pytest.raises(ValueError, match="two keys"):
        entropy.relative_entropy(torch.ones(1, 1, 1))


def test_relative_entropy_counts_only_the_keys_that_can_be_heard():
    attention = draw(2, 5, 5).softmax(-1)
    padded = torch.cat([attention, torch.zeros(2, 5, 4)], -1)
    torch.testing.assert_close(entropy.relative_entropy(padded, keys=5), entropy.relative_entropy(attention))


def test_the_additive_share_is_drawn_from_the_generator_alone():
    shares = [
        block_mixing.additive_share(lambda x: x * x.flip(-1), draw(50, 4), 2, torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    ]
    assert shares[0] == shares[1] != shares[2]


def test_a_map_with_an_empty_row_still_has_a_histogram():
    attention = torch.stack([torch.eye(3), torch.eye(3)])
    attention[0, 1] = 0  # a padded query that hears nothing
    counts = torch.tensor([7 / 9, 2 / 9])
    torch.testing.assert_close(entropy.histogram_entropy(attention)[0], torch.special.entr(counts).sum())


def test_a_coupling_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="function has derivatives on x"):
        block_mixing.block_coupling(lambda row: row * 1e200, torch.ones(1, 2, dtype=torch.float64), 2)


@pytest.mark.parametrize("function", [entropy.relative_entropy, entropy.histogram_entropy])
@pytest.mark.parametrize(
    ("attention", "message"), [(torch.zeros(1, 4, 4), "zeros alone"), (-torch.eye(3)[None], "neg")]
)
def test_entropies_refuse_what_is_no_map(function, attention, message):
    with pytest.raises(ValueError, match=message):
        function(attention)


def test_relative_entropy_refuses_rows_that_do_not_sum_to_one_and_wrong_counts():
    with pytest.raises(ValueError, match="keys must be at least 4"):
        entropy.relative_entropy(torch.full((1, 4, 4), 0.25), keys=3)
    with pytest.raises(ValueError, match="sum to 1"):
        entropy.relative_entropy(torch.stack([torch.eye(3), torch.eye(3) / 2]))
    for keys in (1, 4):
        with pytest.raises(ValueError, match="two keys"):
            entropy.relative_entropy(torch.eye(3)[None], keys=keys)


def test_histogram_entropy_does_not_see_where_values_stand():
    attention = draw(2, 8, 8).softmax(-1)
    shuffled = attention.flatten(-2)[:, torch.randperm(64)].reshape(2, 8, 8)
    torch.testing.assert_close(entropy.histogram_entropy(attention), entropy.histogram_entropy(shuffled))
    counts = torch.histc(attention[0] / attention[0].max(), 10, 0, 1) / 64
    torch.testing.assert_close(entropy.histogram_entropy(attention, 10)[0], torch.special.entr(counts).sum())
    with pytest.raises(ValueError, match="bins"):
        entropy.histogram_entropy(attention, 1)
    assert entropy.histogram_entropy(torch.eye(2)[None], 2).item() == pytest.approx(math.log(2))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_masked_form_equals_the_perceptron(activation):
    mlp, x = mlp_of(), draw(6, 12)
    due = apply_mlp(x, mlp, getattr(torch.nn.functional, activation))
    torch.testing.assert_close(apply_masked_mlp(x, mlp, activation_mask(x, mlp, activation)), due)
    with pytest.raises(ValueError, match="activation must be"):
        activation_mask(x, mlp, "tanh")


def test_a_relu_unit_is_closed_at_zero():
    mlp = mlp_of()
    unbiased = replace(mlp, b_in=torch.zeros_like(mlp.b_in))
    assert not activation_mask(torch.zeros(2, 12, dtype=torch.float64), unbiased, "relu").any()


def test_output_bias_folds_into_the_layer_norm_before():
    layer = random_layers(1, 3, 12, generator=torch.Generator().manual_seed(0))[0]
    layer = EncoderLayer(layer.attention, Norm(draw(12, seed=8), draw(12, seed=9)), mlp_of(), layer.norm_mlp)
    folded, x = fold_layer(layer), draw(6, 12)
    assert not folded.mlp.b_out.any()
    torch.testing.assert_close(encode_layer(x, folded), encode_layer(x, layer))


def test_block_coupling_of_a_linear_map_is_its_blocks():
    W = draw(12, 12)
    coupling = block_mixing.block_coupling(lambda row: row @ W, draw(3, 12), 4)
    due = W.reshape(4, 3, 4, 3).square().sum((1, 3)).T
    torch.testing.assert_close(coupling, due)
    apart = torch.block_diag(*draw(4, 3, 3))
    assert block_mixing.off_diagonal_share(block_mixing.block_coupling(lambda row: row @ apart, draw(2, 12), 4)) < 1e-15
    assert block_mixing.off_diagonal_share(coupling) == pytest.approx(0.75, abs=0.1)
    with pytest.raises(ValueError, match="must divide"):
        block_mixing.block_coupling(lambda row: row, draw(1, 12), 5)


def test_interaction_is_zero_for_sums_over_blocks_and_not_for_the_mlp():
    a, b, mlp = draw(50, 12), draw(50, 12, seed=0), mlp_of()
    W = draw(12, 12, seed=4)

    def additive(x):
        return (head_layout.split(x, 4).tanh() @ W.reshape(4, 3, 12)).sum(0)

    assert block_mixing.interaction(additive, a, b, 4, (1, 3)).abs().max() < 1e-12
    mixed = block_mixing.interaction(lambda x: apply_mlp(x, mlp, torch.relu), a, b, 4, (1, 3))
    assert mixed.norm() > 0.1 * apply_mlp(a, mlp, torch.relu).norm()
    generator = torch.Generator().manual_seed(0)
    rows = draw(4000, 12, seed=5)
    assert block_mixing.additive_share(additive, rows, 4, generator) == pytest.approx(1, abs=0.03)
    product = block_mixing.additive_share(lambda x: x[:, :3] * x[:, 3:6], rows, 4, generator)
    assert product == pytest.approx(0, abs=0.05)
    half = block_mixing.additive_share(lambda x: x[:, :1] * x[:, 3:4] + x[:, 6:7], rows, 4, generator)
    assert half == pytest.approx(0.5, abs=0.08)


@pytest.mark.usefixtures("unchecked")
def test_interactions_and_shares_refuse_what_has_none():
    x, generator = draw(4, 12), torch.Generator().manual_seed(0)
    for pair in ((1, 1), (0, 3), (-1, 0)):
        with pytest.raises(ValueError, match="two different blocks"):
            block_mixing.interaction(torch.tanh, x, x, 3, pair)
    with pytest.raises(ValueError, match="at least two"):
        block_mixing.additive_share(torch.tanh, x[:1], 3, generator)
    with pytest.raises(ValueError, match="constant"):
        block_mixing.additive_share(torch.zeros_like, x, 3, generator)
    with pytest.raises(ValueError, match="not finite"):
        block_mixing.additive_share(lambda rows: rows * 1e200, x, 3, generator)
    for coupling, message in ((torch.zeros(3, 3), "not 0"), (-torch.eye(3), "negative")):
        with pytest.raises(ValueError, match=message):
            block_mixing.off_diagonal_share(coupling)
    assert block_mixing.off_diagonal_share(torch.full((4, 4), 3e38)) == pytest.approx(0.75)


@pytest.mark.usefixtures("unchecked")
def test_small_terms_that_vary_do_not_vanish_beside_nothing():
    terms = torch.stack([draw(1, 3, 3), draw(1, 3, 1, seed=0).expand(1, 3, 3), torch.zeros(1, 3, 3)], 1)
    for dtype, factor in ((torch.float64, 1e-12), (torch.float64, 1e12), (torch.float32, 1e-12)):
        assert block_mixing.vanishing((terms * factor).to(dtype)).tolist() == [[False, True, True]]
    with pytest.raises(ValueError, match="tolerance"):
        block_mixing.vanishing(terms.float(), 1e-9)


def test_expansion_sums_to_the_score_and_loses_its_key_constants_in_the_softmax():
    parts = torch.cat([draw(3, 7, 8), draw(2, 1, 8, seed=0).expand(2, 7, 8)])  # three that vary, two constant
    W_Q, W_K, b_Q, b_K = draw(8, 4, seed=2), draw(8, 4, seed=3), draw(4, seed=4), draw(4, seed=5)
    terms = block_mixing.expand_score(parts, W_Q, W_K, b_Q, b_K)
    x = parts.sum(0)
    score = (x @ W_Q + b_Q) @ (x @ W_K + b_K).T
    assert terms.shape == (6, 6, 7, 7)
    torch.testing.assert_close(terms.sum((0, 1)), score)
    gone = block_mixing.vanishing(terms)
    assert gone.sum() == 6 * 3
    assert not gone[:, :3].any()
    torch.testing.assert_close(terms[~gone].sum(0).softmax(-1), score.softmax(-1))
    context = sum(a @ W_Q @ W_K.T @ b.T for a in parts[:3] for b in parts[:3])
    torch.testing.assert_close(terms[:3, :3].sum((0, 1)), context)


@pytest.mark.parametrize("shape", [(3, 5, 5), (2, 3, 5, 5)])
def test_histogram_entropy_is_of_each_map(shape):
    maps = torch.softmax(3 * draw(*shape), -1)
    each = torch.stack([entropy.histogram_entropy(one[None])[0] for one in maps.reshape(-1, 5, 5)])
    torch.testing.assert_close(entropy.histogram_entropy(maps), each.reshape(shape[:-2]))
