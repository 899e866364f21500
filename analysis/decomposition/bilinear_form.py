r"""The score as one product of matrices with a border: its four parts are the four blocks.

``s = [x 1] [W_Q; b_Q] [W_K; b_K]^T [x 1]^T / sqrt(channel)``.
"""

import math

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Residual
from analysis.core.signatures import checked

Bordered = Float[Tensor, "head row column"]


@checked
def homogeneous(x: Residual) -> Float[Tensor, "*batch position extended"]:
    """Append a coordinate that is 1 to every row.

    >>> homogeneous(torch.tensor([[5.0, 6.0]]))
    tensor([[5., 6., 1.]])
    """
    return torch.cat([x, torch.ones_like(x[..., :1])], -1)


def bordered(weights: AttentionLayer) -> Bordered:
    r"""Multiply the bordered factors of each head: one matrix that holds all four parts of a score.

    .. math::

        B = \frac{1}{\sqrt c} \begin{pmatrix} W_Q \\ b_Q \end{pmatrix} \begin{pmatrix} W_K \\ b_K \end{pmatrix}^\top
          = \frac{1}{\sqrt c} \begin{pmatrix} W_Q W_K^\top & W_Q b_K^\top \\ b_Q W_K^\top & b_Q b_K^\top \end{pmatrix},
        \qquad S = [x\;1]\, B\, [x\;1]^\top

    Its rank is at most ``channel``. Scores do not notice the last column once they have passed the softmax.

    Raises
    ------
    ValueError
        If this is not a plain attention layer (`AttentionLayer.plain`).

    Examples
    --------
    >>> one, zero = torch.ones(1, 1, 1), torch.zeros(1, 1)
    >>> bordered(AttentionLayer(2 * one, 3 * one, one, one, zero + 5, zero + 7, zero,
    ...                           torch.zeros(1)))
    tensor([[[ 6., 14.],
             [15., 35.]]])
    """
    weights = weights.plain()
    query, key = (torch.cat([W, b[:, None]], 1) for W, b in ((weights.W_Q, weights.b_Q), (weights.W_K, weights.b_K)))
    product = einsum(query, key, "head row channel, head column channel -> head row column")
    return product / math.sqrt(weights.channel)
