"""The MLP of a layer: its output, also written with the mask of its activation, and its output bias folded away."""

from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import gelu

from analysis.core.attention_layer import Norm
from analysis.core.signatures import checked
from analysis.core.weights import EncoderLayer, MlpWeights

ACTIVATIONS = {"gelu": torch.special.ndtr, "relu": lambda z: (z > 0).to(z.dtype)}


@checked(finite="x")
def activation_mask(
    x: Float[Tensor, "*any model"], mlp: MlpWeights, activation: str = "gelu"
) -> Float[Tensor, "*any hidden"]:
    r"""Return what the activation multiplies each hidden unit by: 0 or 1 for ReLU, :math:`\Phi(z)` for GELU.

    It is a function of the whole row: every block of x has a say in every unit's mask.

    Raises
    ------
    TypeError, ValueError
        If the activation is neither ``"gelu"`` nor ``"relu"``, or ``x`` is not finite or does not fit the MLP (a nan
        would be read as a closed unit).

    Examples
    --------
    >>> eye, zero = torch.eye(2), torch.zeros(2)
    >>> activation_mask(torch.tensor([3.0, -3.0]), MlpWeights(eye, zero, eye, zero),
    ...                 "relu")
    tensor([1., 0.])
    """
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
    return ACTIVATIONS[activation](x @ mlp.W_in + mlp.b_in)


@checked
def apply_masked_mlp(
    x: Float[Tensor, "*any model"], mlp: MlpWeights, mask: Float[Tensor, "*any hidden"]
) -> Float[Tensor, "*any model"]:
    r"""Apply the MLP with a mask in place of its activation, :math:`\bigl((x W_1 + b_1) \circ m\bigr) W_2 + b_2`.

    With ``mask = activation_mask(x, mlp)`` this is the MLP itself. With a mask that is held fixed it is linear in x.
    The mask is applied between :math:`W_1` and :math:`W_2` and multiplies :math:`b_1` too, so neither product
    :math:`W_1 W_2` nor :math:`b_1 W_2` can be taken out of it ("The geometry of BERT", (5.11) and (5.14)).

    Examples
    --------
    >>> eye, one = torch.eye(2), torch.ones(2)
    >>> x, mlp = torch.tensor([3.0, -3.0]), MlpWeights(eye, one, eye, one)
    >>> apply_masked_mlp(x, mlp, activation_mask(x, mlp, "relu"))
    tensor([5., 1.])
    """
    return ((x @ mlp.W_in + mlp.b_in) * mask) @ mlp.W_out + mlp.b_out


def fold_output_bias(norm: Norm, mlp: MlpWeights) -> tuple[Norm, MlpWeights]:
    r"""Move the MLP's output bias into the LayerNorm before it: the same sublayer with ``b_2 = 0``.

    With :math:`\beta' = \beta + b_2` and :math:`b_1' = b_1 - b_2 W_1`, skip connection plus MLP is unchanged,
    :math:`(x + b_2) + \mathrm{MLP}'(x + b_2) = x + \mathrm{MLP}(x)` ("The geometry of BERT", 5.3.4).

    >>> one = torch.ones(1)
    >>> norm, mlp = fold_output_bias(Norm(one, 2 * one),
    ...                              MlpWeights(one[None], one, one[None], 3 * one))
    >>> norm.bias, mlp.b_in, mlp.b_out
    (tensor([5.]), tensor([-2.]), tensor([0.]))
    """
    without_bias = replace(mlp, b_in=mlp.b_in - mlp.b_out @ mlp.W_in, b_out=torch.zeros_like(mlp.b_out))
    return replace(norm, bias=norm.bias + mlp.b_out), without_bias


def fold_layer(layer: EncoderLayer) -> EncoderLayer:
    """Return the same layer without an output bias in its MLP, by `fold_output_bias`."""
    norm, mlp = fold_output_bias(layer.norm_attention, layer.mlp)
    return replace(layer, norm_attention=norm, mlp=mlp)


@checked
def apply_mlp(
    x: Float[Tensor, "*any model"], weights: MlpWeights, activation: Callable[[Tensor], Tensor] = gelu
) -> Float[Tensor, "*any model"]:
    """Return ``act(x W_in + b_in) W_out + b_out``: the MLP, row by row.

    Examples
    --------
    >>> eye, zero = torch.eye(2), torch.zeros(2)
    >>> apply_mlp(torch.tensor([[3.0, -1.0]]), MlpWeights(eye, zero, eye, zero),
    ...           torch.relu)
    tensor([[3., 0.]])
    """
    return activation(x @ weights.W_in + weights.b_in) @ weights.W_out + weights.b_out
