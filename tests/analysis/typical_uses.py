# pyright: reportUnnecessaryTypeIgnoreComment=error
"""Thirty typical uses of the package as a type checker sees them; nothing here is run, ``make types`` checks it.

Each ignored line is an error that the checker must find: were it to miss one, the comment would be the error.
"""

from typing import assert_type

import torch
from torch import Tensor

import analysis
import attention_taken_apart
from analysis import (
    AttentionLayer,
    Norm,
    ScoreTerms,
    apply_norm,
    attend,
    census,
    circuits,
    compute_scores,
    cone_index,
    effective_rank,
    find_sink,
    fold_norm,
    fold_value_bias,
    induction_score,
    layer_inputs,
    lilliefors,
    load,
    make_controls,
    ov_matrix,
    previous_token_score,
    qk_matrix,
    read_gates,
    row_entropy,
    score_parts,
    score_terms,
    semi_bias,
    softmax,
)


def read(x: Tensor, tokens: Tensor) -> None:
    """Take models, layers and tensors as a reader would."""
    model = load("gpt2-mini")
    layer = model.layers[0]
    assert_type(layer, AttentionLayer)
    assert_type(model.module, torch.nn.Module)
    assert_type(load(model.module), analysis.Model)
    assert_type(score_parts(model, "To be or not to be", layer=1), ScoreTerms)
    assert_type(layer_inputs("gpt2-mini", tokens), Tensor)
    census(model, ["To be or not to be, that is the question."])
    circuits(model, layer=1).OV.S.sum()
    circuits(layer).QK.matrix.sum()
    next(make_controls(model, seeds=[0])).network.eval()
    attention = attend(x, layer).attention
    assert_type(attention, Tensor)
    assert_type(score_terms(x, layer), ScoreTerms)
    assert_type(semi_bias(x, layer), Tensor)
    assert_type(softmax(compute_scores(x, layer)), Tensor)
    assert_type(fold_value_bias(fold_norm(layer)), AttentionLayer)
    assert_type(apply_norm(x, Norm(x[0], x[0], 1e-5)), Tensor)
    assert_type(effective_rank(torch.linalg.svdvals(qk_matrix(layer))), Tensor)
    read_gates(attention, causal=True).names()
    find_sink(attention).key.sum()
    assert_type(induction_score(attention, tokens), Tensor)
    assert_type(previous_token_score(attention), Tensor)
    assert_type(attention_taken_apart.row_entropy(attention), Tensor)
    lilliefors(x).sum()


def misuse(x: Tensor, layer: AttentionLayer, model: analysis.Model) -> None:
    """Give what does not fit, or in another order."""
    attend(layer, x)  # pyright: ignore[reportArgumentType]
    semi_bias(layer, x)  # pyright: ignore[reportArgumentType]
    score_terms(layer, x)  # pyright: ignore[reportArgumentType]
    compute_scores(x, model)  # pyright: ignore[reportArgumentType]
    fold_norm(model)  # pyright: ignore[reportArgumentType]
    qk_matrix(x)  # pyright: ignore[reportArgumentType]
    ov_matrix(layer.W_V)  # pyright: ignore[reportArgumentType]
    row_entropy(layer)  # pyright: ignore[reportArgumentType]
    cone_index(model)  # pyright: ignore[reportArgumentType]
    score_parts(x, "a text")  # pyright: ignore[reportArgumentType]
    circuits(model, "0")  # pyright: ignore[reportArgumentType]
    analysis.qk_circuit(layer)  # pyright: ignore[reportAttributeAccessIssue]
    attention_taken_apart.semi_bias(layer, x)  # pyright: ignore[reportArgumentType]
