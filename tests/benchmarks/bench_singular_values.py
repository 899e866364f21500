"""Singular values of W_Q W_K^T for 144 heads: by Gram matrices against what one would otherwise do.

The baselines: the approach of TransformerLens (``FactoredMatrix.svd`` of 2.16.1: SVD of both factors, then of what
stands between; ``bench_peers`` measures the class itself) in float32 and float64, and dense SVD of the 768 x 768
products. Theirs also give singular vectors; ours gives values only. All but ours are timed on a part of the heads.
"""

import pytest
import torch

from analysis.matrices import spectra
from analysis.models import checkpoints
from analysis.models.reading import load
from tests.benchmarks.machine import probes, race

HEADS, PART, DENSE = 144, 24, 3
SCALE = {"QR": HEADS / PART, "float32": HEADS / PART, "float64": HEADS / PART, "dense": HEADS / DENSE}


@pytest.fixture(scope="module")
def factors():
    """All heads of GPT-2 where it is at hand, else random factors of its shape."""
    checkpoint = checkpoints.find("gpt2", stand_in=True)
    if checkpoint.stands_in_for:
        g = torch.Generator().manual_seed(0)
        return "random factors", *(torch.randn(HEADS, 768, 64, generator=g) for _ in range(2))
    layers = load(checkpoint).plain_layers()
    return "gpt2", *(torch.cat([getattr(layer, name) for layer in layers]) for name in ("W_Q", "W_K"))


def factored_matrix_svd(A, B):
    """SVD of ``A B^T`` in the way of FactoredMatrix."""
    Ua, Sa, Va = torch.svd(A)
    Ub, Sb, Vb = torch.svd(B.mT)
    middle = Sa[..., :, None] * Va.mT @ Ub * Sb[..., None, :]
    Um, Sm, Vm = torch.svd(middle)
    return Ua @ Um, Sm, Vb @ Vm


def dense_svd(A, B):
    return torch.linalg.svdvals(A[:DENSE] @ B[:DENSE].mT)[:, :64]


def test_gram_matrices_are_exact_and_fast(factors, say, at_least):
    """They have six correct digits, which TransformerLens' way reaches in float64 only."""
    source, A, B = factors
    a, b = A[:PART], B[:PART]
    wide = a.double(), b.double()
    exact = spectra.by_qr(A, B)

    def error(values):
        due = exact[: len(values)]
        return ((values - due) / due).abs().max().item()

    assert error(dense_svd(A.double(), B.double())) < 1e-9  # QR is exact
    assert error(spectra.product_singular_values(A, B)) < 1e-6
    ways = {
        "Gram matrices": lambda: spectra.product_singular_values(A, B),
        "QR": lambda: spectra.by_qr(a, b),
        "float32": lambda: factored_matrix_svd(a, b),
        "float64": lambda: factored_matrix_svd(*wide),
        "dense": lambda: dense_svd(A, B),
    }
    found = race(ways | probes())
    over_limit = found.over_limit("Gram matrices", multiply_adds=2 * HEADS * A.shape[1] * A.shape[2] ** 2)
    say(
        f"spectra of W_Q W_K^T, {HEADS} heads of {source}: {1e3 * found.least('Gram matrices'):.0f} ms, "
        f"{over_limit:.1f} times what a float32 machine of {found.machine()} needs to form the Gram matrices; "
        f"TransformerLens' way is wrong by {error(factored_matrix_svd(a, b)[1]):.0e} in float32, "
        f"{error(factored_matrix_svd(*wide)[1]):.0e} in float64"
    )
    for way, name in (
        ("float64", "TransformerLens' way, float64"),
        ("float32", "TransformerLens' way, float32"),
        ("dense", "dense SVD"),
        ("QR", "QR"),
    ):
        ratio = found.ratio(way, "Gram matrices") * SCALE[way]
        at_least(f"spectra of 144 heads: {name} / Gram matrices", ratio)
