r"""A BERT-like encoder on plain tensors, with a switch for each of its parts: one forward pass and its activations.

One layer is attention, then an MLP, each followed by its skip connection and its LayerNorm (post-LN):
``y = LN(x + attend(x))``, ``z = LN(y + act(y W_in + b_in) W_out + b_out)``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import gelu

from analysis.core.attention_layer import AttentionLayer, Norm
from analysis.core.axes import Residual
from analysis.core.checks import check_real
from analysis.core.signatures import checked
from analysis.core.weights import EncoderLayer, MlpWeights
from analysis.transformer.activations import LayerActivations, check_keep
from analysis.transformer.attention import compute_scores, hide_keys, project, softmax
from analysis.transformer.head_layout import concatenate, stack
from analysis.transformer.layernorm import apply_norm
from analysis.transformer.mlp import apply_mlp

Activation = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Switches:
    """Which parts of a layer are in place. All on is BERT; all off but attention is pure attention.

    Each switch takes one part out and nothing else: without the MLP its LayerNorm still runs, on what the MLP would
    have read, and has a switch of its own.
    """

    skip: bool = True
    mlp: bool = True
    norm_attention: bool = True
    """The LayerNorm after attention."""
    norm_mlp: bool = True
    """The LayerNorm after the MLP."""
    linear: bool = False
    """The MLP without its non-linearity (only where ``mlp`` is on)."""

    def describe(self) -> str:
        """Name the parts in words: ``attention + skip + MLP + LayerNorm``.

        >>> Switches(mlp=False).describe(), Switches(mlp=False, norm_mlp=False).describe()
        ('attention + skip + LayerNorm', 'attention + skip + first LayerNorm')
        """
        mlp = "linear MLP" if self.linear else "MLP"
        norms = {(True, True): "LayerNorm", (True, False): "first LayerNorm", (False, True): "second LayerNorm"}
        parts = ["skip" if self.skip else "", mlp if self.mlp else "", norms.get((self.norm_attention, self.norm_mlp))]
        return " + ".join(["attention", *filter(None, parts)])


ALL_ON = Switches()
PURE_ATTENTION = Switches(skip=False, mlp=False, norm_attention=False, norm_mlp=False)


@checked(finite=["x", "patched_attention"])
def run_layer(
    x: Residual,
    layer: EncoderLayer,
    *,
    switches: Switches = ALL_ON,
    activation: Activation = gelu,
    keep: Bool[Tensor, " position"] | None = None,
    patched_attention: Float[Tensor, "*maps head query key"] | None = None,
) -> LayerActivations:
    r"""Run one post-LN layer and return its activations.

    .. math::

        S = \mathrm{softmax}\bigl(QK^\top/\sqrt c\bigr), \quad
        y = \mathrm{LN}\bigl(x + \mathrm{Conc}(SV)\, W_O + b_O\bigr), \quad
        z = \mathrm{LN}\bigl(y + \mathrm{act}(y W_1 + b_1)\, W_2 + b_2\bigr)

    Parameters
    ----------
    x
        What the layer reads, ``(..., position, model)``.
    activation
        The MLP's non-linearity; BERT's is the exact GELU.
    keep
        Which positions may be attended to (``False`` for padding), as BERT's attention mask has it; all by default.
        Padding positions still have a query, and get a row after each step.
    patched_attention
        Maps ``(..., head, query, key)`` to use in place of the layer's own: an ablation, an ideal gate.

    Raises
    ------
    ValueError
        If ``x`` is not finite, in float32 or float64, or does not fit the layer, ``patched_attention`` is not
        ``(head, position, position)`` or comes together with ``keep``, or ``keep`` is not one boolean per position.

    Notes
    -----
    Dropout is not here: at inference it is the identity.

    Examples
    --------
    >>> layer = random_layers(1, 2, 4, generator=torch.Generator().manual_seed(0))[0]
    >>> run_layer(torch.ones(3, 4).double(), layer).attention.shape
    torch.Size([2, 3, 3])
    """
    weights = layer.attention.plain()
    if keep is not None:
        check_keep(keep, x)
        if patched_attention is not None:
            raise ValueError("give patched_attention or keep, not both: maps say themselves who attends to whom")
    if patched_attention is None:
        attention = softmax(hide_keys(compute_scores(x, weights), weights.mask, keep))
        check_real("the attention of x", attention, "head", "query", "key")
    else:
        attention = patched_attention
        due = (weights.heads, x.shape[-2], x.shape[-2])
        if patched_attention.shape[-3:] != due:
            raise ValueError(
                f"patched_attention must be {due} for {due[1]} positions, got {tuple(patched_attention.shape)}"
            )
    # Attention: mix the values, put the heads side by side, add to the stream, normalise.
    values = project(x, weights.W_V, weights.b_V)
    heads = concatenate(attention @ values)
    attention_output = heads @ stack(weights.W_O) + weights.b_O
    before_first = x + attention_output if switches.skip else attention_output
    first = apply_norm(before_first, layer.norm_attention) if switches.norm_attention else before_first
    # MLP: the same again, position by position.
    if switches.mlp:
        mlp_output = apply_mlp(first, layer.mlp, (lambda hidden: hidden) if switches.linear else activation)
        before_second = first + mlp_output if switches.skip else mlp_output
    else:  # what the MLP would have read goes on, with a skip connection or without
        mlp_output, before_second = torch.zeros_like(first), first
    second = apply_norm(before_second, layer.norm_mlp) if switches.norm_mlp else before_second
    return LayerActivations(
        x, attention, values, heads, attention_output, before_first, first, mlp_output, before_second, second
    )


def encode_layer(
    x: Residual, layer: EncoderLayer, switches: Switches = ALL_ON, activation: Activation = gelu
) -> Residual:
    """Return the output of `run_layer`, its last activation.

    >>> layer = random_layers(1, 2, 4, std=0.0, generator=torch.Generator())[0]
    >>> x = torch.tensor([[1.0, -1.0, 1.0, -1.0]]).double()
    >>> encode_layer(x, layer).round()  # nothing but LayerNorms
    tensor([[ 1., -1.,  1., -1.]], dtype=torch.float64)
    """
    return run_layer(x, layer, switches=switches, activation=activation).second


@checked(finite="x")
def encode(
    x: Residual, layers: Sequence[EncoderLayer], switches: Switches = ALL_ON, activation: Activation = gelu
) -> list[Residual]:
    """Run all layers and return what each of them read and what the last one wrote: ``len(layers) + 1`` tensors.

    Parameters
    ----------
    x
        What the first layer reads; for BERT, the embeddings after their LayerNorm.
    activation
        The MLP's non-linearity; BERT's is the exact GELU.

    Raises
    ------
    TypeError, ValueError
        If there is no layer, or ``x`` does not fit the first or is not of finite floating numbers.
    """
    if not layers:
        raise ValueError("layers is empty: an encoder needs at least one")
    states = [x]
    for layer in layers:
        states.append(encode_layer(states[-1], layer, switches, activation))
    return states


def random_layers(
    depth: int,
    heads: int,
    model: int,
    *,
    gain: float = 1.0,
    std: float | None = None,
    hidden: int | None = None,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float64,
) -> list[EncoderLayer]:
    r"""Draw layers with independent normal weights of standard deviation ``gain / sqrt(fan in)`` and zero biases.

    Parameters
    ----------
    depth, heads, model, hidden
        The stack's shape; ``hidden`` is ``4 * model`` unless given.
    gain
        1 keeps a row's size.
    std
        One standard deviation for all matrices instead, as BERT initialises (0.02; a gain of 0.55 at width 768).

    Raises
    ------
    ValueError
        If a size is below 1, ``heads`` does not divide ``model``, or ``gain`` or ``std`` is negative or not finite.
    """
    hidden = 4 * model if hidden is None else hidden
    for name, size in {"depth": depth, "heads": heads, "model": model, "hidden": hidden}.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
    if model % heads:
        raise ValueError(f"heads must divide model = {model}, got {heads}")
    for name, size in {"gain": gain, "std": 0 if std is None else std}.items():
        if not 0 <= size < math.inf:
            raise ValueError(f"{name} must be finite and not negative, got {size}")
    channel = model // heads

    def draw(*shape: int, fan_in: int) -> Tensor:
        size = gain / math.sqrt(fan_in) if std is None else std
        return torch.randn(*shape, generator=generator, dtype=dtype) * size

    def zeros(*shape: int) -> Tensor:
        return torch.zeros(*shape, dtype=dtype)

    def layer() -> EncoderLayer:
        W_Q, W_K, W_V = (draw(heads, model, channel, fan_in=model) for _ in range(3))
        W_O, biases = draw(heads, channel, model, fan_in=model), zeros(3, heads, channel)
        attention = AttentionLayer(W_Q, W_K, W_V, W_O, *biases, b_O=zeros(model))
        mlp = MlpWeights(
            draw(model, hidden, fan_in=model), zeros(hidden), draw(hidden, model, fan_in=hidden), zeros(model)
        )
        plain = Norm(torch.ones(model, dtype=dtype), zeros(model), eps=1e-12)
        return EncoderLayer(attention, plain, mlp, plain)

    return [layer() for _ in range(depth)]
