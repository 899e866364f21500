"""The circuits of heads against dense products, and against the scores that they make."""

from dataclasses import replace

import pytest
import torch

from analysis import AttentionLayer, circuits, load, ov_matrix, qk_matrix, score_terms
from analysis.core.positions import Rotary

HEADS, GROUPS, MODEL, CHANNEL, VALUE = 4, 2, 9, 4, 3


def make(positions=None, scale=None, groups=GROUPS):
    shapes = [
        (HEADS, MODEL, CHANNEL),
        (groups, MODEL, CHANNEL),
        (groups, MODEL, CHANNEL),
        (HEADS, CHANNEL, MODEL),
        (HEADS, CHANNEL),
        (groups, CHANNEL),
        (groups, CHANNEL),
        (MODEL,),
    ]
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    layer = AttentionLayer(*tensors) if scale is None else AttentionLayer(*tensors, scale=scale)
    return layer if positions is None else replace(layer, positions=positions)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_circuits_are_the_merged_matrices_and_their_spectra(groups):
    layer = make(groups=groups)
    found = circuits(layer)
    for circuit, dense in ((found.QK, qk_matrix(layer)), (found.OV, ov_matrix(layer))):
        torch.testing.assert_close(circuit.matrix, dense)
        torch.testing.assert_close(circuit.S, torch.linalg.svdvals(dense)[:, :CHANNEL])
        U, S, V = circuit.svd()
        torch.testing.assert_close(U * S[:, None] @ V.mT, dense)
        theirs = torch.linalg.eigvals(dense)
        largest = theirs.abs().sort(-1, descending=True).values[:, :CHANNEL]
        torch.testing.assert_close(circuit.eigenvalues.abs(), largest)
        torch.testing.assert_close(circuit.eigenvalues.sum(-1).real, dense.diagonal(dim1=-2, dim2=-1).sum(-1))


@pytest.mark.parametrize("pairing", ["halves", "neighbours"])
def test_under_a_rotation_the_circuit_at_a_distance_makes_the_content(pairing):
    rotary = Rotary(torch.tensor([0.7], dtype=torch.float64), CHANNEL, pairing, attention_factor=1.3)
    layer = make(rotary, scale=0.8)
    x = torch.randn(6, MODEL, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    content = score_terms(x, layer).content * CHANNEL**0.5
    for i, j in ((5, 1), (2, 2), (1, 4)):
        ours = x[i] @ circuits(layer, distance=i - j).QK.matrix @ x[j]
        torch.testing.assert_close(ours, content[:, i, j])


def test_a_scale_of_its_own_stands_in_the_circuit():
    torch.testing.assert_close(circuits(make(scale=1.0)).QK.S, CHANNEL**0.5 * circuits(make()).QK.S)


def test_refusals():
    rotary = Rotary(torch.tensor([0.7], dtype=torch.float64), CHANNEL)
    with pytest.raises(ValueError, match="say at which distance"):
        circuits(make(rotary))
    with pytest.raises(ValueError, match="no rotary positions"):
        circuits(make(), distance=1)


def test_weights_in_single_precision_have_circuits_at_a_distance():
    single, double = (load("neox-mini", dtype=dtype).layers[1] for dtype in (torch.float32, torch.float64))
    found, due = (circuits(layer, distance=3).QK.S for layer in (single, double))
    torch.testing.assert_close(found, due, rtol=1e-5, atol=1e-6)
