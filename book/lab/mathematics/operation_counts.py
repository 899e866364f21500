r"""What three ways to compute the same attention layer cost: parameters, multiply-adds, numbers kept in the cache.

Counted, not timed. Softmax, additions of biases and the division are left out; the causal half is not saved.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from einops import einsum
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Attention, Residual, Scores
from analysis.core.signatures import checked
from analysis.decomposition.qk_ov import constant_pattern, ov_matrix, qk_matrix, update_bias
from analysis.transformer.attention import hide_keys, project

FORMS = ("factored", "merged", "input-cached")


@dataclass(frozen=True)
class Cost:
    """Numbers stored, multiply-adds for a whole sequence and for one more token, numbers cached at its end."""

    parameters: int
    sequence: int
    step: int
    cache: int


def cost(form: str, n: int, model: int, head: int, channel: int) -> Cost:
    """Count what a layer costs in one of three forms.

    Parameters
    ----------
    form
        ``"factored"``: queries, keys, values, output, as every library does; keys and values are cached.
        ``"merged"``: ``W^P`` and ``W^M`` as full matrices; the inputs are cached.
        ``"input-cached"``: four factors, but a query is carried into model space and the inputs are mixed before
        values are made; the inputs are cached.
    n
        Positions: those of the sequence, or those already there plus the new one for a step.

    McCormick, "Refactoring the attention equations: patterns and messages", and the chapter "Attention" of llmsbook.com
    compare forms. ``parameters`` includes the biases that each form needs.

    One head as wide as the stream: merging halves the parameters.

    >>> [cost(form, 10, 4, 1, 4).parameters - 4 for form in ("factored", "merged")]
    [76, 36]
    """
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, got {form!r}")
    if min(n, model, head, channel) < 1:
        raise ValueError(f"n, model, head, channel must be at least 1, got {n}, {model}, {head}, {channel}")
    width = head * channel
    if form == "factored":
        return Cost(
            4 * model * width + 3 * width + model,
            4 * n * model * width + 2 * n * n * width,
            4 * model * width + 2 * n * width,
            2 * n * width,
        )
    if form == "merged":
        return Cost(
            2 * head * model * model + head * model + model,
            2 * n * head * model * model + 2 * n * n * head * model,
            2 * head * model * model + 2 * n * head * model,
            n * model,
        )
    return Cost(
        4 * model * width + 3 * width + model,
        4 * n * model * width + 2 * n * n * head * model,
        4 * model * width + 2 * n * head * model,
        n * model,
    )


def prepare(form: str, weights: AttentionLayer) -> Callable[[Residual], Residual]:
    """Build a function from input to output that does the work that :func:`cost` counts, and no other.

    Merged matrices are formed once, here.
    """
    weights = weights.plain()
    if form == "factored":
        return partial(_factored, weights=weights)
    if form == "merged":
        parts = qk_matrix(weights), constant_pattern(weights), ov_matrix(weights), update_bias(weights)
        return partial(_merged, weights=weights, parts=parts)
    if form == "input-cached":
        return partial(_input_cached, weights=weights)
    raise ValueError(f"form must be one of {', '.join(FORMS)}, got {form!r}")


def _softmax(scores: Scores, weights: AttentionLayer) -> Attention:
    return hide_keys(scores * weights.scale, weights.mask).softmax(-1)


@checked
def _factored(x: Residual, weights: AttentionLayer) -> Residual:
    q, k, v = (
        project(x, W, b)
        for W, b in ((weights.W_Q, weights.b_Q), (weights.W_K, weights.b_K), (weights.W_V, weights.b_V))
    )
    heads = _softmax(q @ k.mT, weights) @ v
    return einsum(heads, weights.W_O, "... head query channel, head channel model -> ... query model") + weights.b_O


@checked
def _merged(x: Residual, weights: AttentionLayer, parts: tuple[Tensor, ...]) -> Residual:
    W_P, c, W_M, bias = parts
    x = x.unsqueeze(-3)
    attention = _softmax((x @ W_P + c[:, None]) @ x.mT, weights)
    return (attention @ (x @ W_M)).sum(-3) + bias


@checked
def _input_cached(x: Residual, weights: AttentionLayer) -> Residual:
    wide = x.unsqueeze(-3)
    patterns = (wide @ weights.W_Q + weights.b_Q[:, None]) @ weights.W_K.mT
    values = _softmax(patterns @ wide.mT, weights) @ wide @ weights.W_V + weights.b_V[:, None]
    return einsum(values, weights.W_O, "... head query channel, head channel model -> ... query model") + weights.b_O
