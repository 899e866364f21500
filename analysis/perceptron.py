r"""The multi-layer perceptron of a block, with its activation written as a mask: what holds where (5.14) does not.

What belongs here: the two matrices, the mask between them, the two biases. What does not: reading models, and what the
layer mixes (``information``).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class MlpWeights:
    """The two matrices of a multi-layer perceptron: ``activation(x W_1 + b_1) W_2 + b_2``, ``"gelu"`` or ``"relu"``."""

    W_1: Float[Tensor, "model hidden"]
    b_1: Float[Tensor, " hidden"]
    W_2: Float[Tensor, "hidden model"]
    b_2: Float[Tensor, " model"]
    activation: str = "gelu"

    def __post_init__(self):
        model, hidden = self.W_1.shape
        due = {"b_1": (hidden,), "W_2": (hidden, model), "b_2": (model,)}
        for name, shape in due.items():
            if tuple(getattr(self, name).shape) != shape:
                raise ValueError(f"{name} must have shape {shape} to fit W_1, got {tuple(getattr(self, name).shape)}")
        if self.activation not in ("gelu", "relu"):
            raise ValueError(f"activation must be 'gelu' or 'relu', got {self.activation!r}")


def mask(x: Float[Tensor, "*any model"], mlp: MlpWeights) -> Float[Tensor, "*any hidden"]:
    r"""Return what the activation multiplies each hidden unit by: 0 or 1 for ReLU, :math:`\Phi(z)` for GELU.

    It is a function of the whole row: every block of x has a say in every unit's mask.

    >>> eye = torch.eye(2)
    >>> mask(torch.tensor([3.0, -3.0]), MlpWeights(eye, torch.zeros(2), eye, torch.zeros(2), "relu"))
    tensor([1., 0.])
    """
    z = x @ mlp.W_1 + mlp.b_1
    return (z > 0).to(z.dtype) if mlp.activation == "relu" else torch.special.ndtr(z)


def perceive(x: Float[Tensor, "*any model"], mlp: MlpWeights) -> Float[Tensor, "*any model"]:
    r"""Apply the MLP in the form that holds where (5.14) does not.

    .. math::  \mathrm{MLP}(x) = \bigl((x W_1 + b_1) \circ m(x)\bigr) W_2 + b_2

    The mask m stands between :math:`W_1` and :math:`W_2` and multiplies :math:`b_1` too, so neither can be multiplied
    out (ledger B-98, B-100).

    >>> eye = torch.eye(2)
    >>> perceive(torch.tensor([3.0, -3.0]), MlpWeights(eye, torch.zeros(2), eye, torch.ones(2), "relu"))
    tensor([4., 1.])
    """
    return ((x @ mlp.W_1 + mlp.b_1) * mask(x, mlp)) @ mlp.W_2 + mlp.b_2


def fold_output_bias(mlp: MlpWeights, bias: Float[Tensor, " model"]) -> tuple[MlpWeights, Float[Tensor, " model"]]:
    r"""Move ``b_2`` into the bias of the LayerNorm before: the same layer with ``b_2 = 0``.

    With :math:`\beta' = \beta + b_2` and :math:`b_1' = b_1 - b_2 W_1`, skip connection plus MLP is unchanged:
    :math:`(x + b_2) + \mathrm{MLP}'(x + b_2) = x + \mathrm{MLP}(x)` (ledger B-101).

    Returns
    -------
    tuple[MlpWeights, Float[Tensor, " model"]]
        The MLP with ``b_2 = 0``, and the LayerNorm's new bias.
    """
    folded = MlpWeights(mlp.W_1, mlp.b_1 - mlp.b_2 @ mlp.W_1, mlp.W_2, torch.zeros_like(mlp.b_2), mlp.activation)
    return folded, bias + mlp.b_2
