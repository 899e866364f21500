r"""One post-LN layer with everything that passes along it: what each step of BERT's block hands to the next.

What belongs here: the forward pass, kept. What does not: switches
(:mod:`analysis.transformer.encoder`), measuring what was kept.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from analysis.core.axes import Attention, Projected, Residual
from analysis.core.checks import check_fit, check_real
from analysis.core.weights import EncoderLayer
from analysis.transformer.attention import check_input, compute_scores, project, softmax
from analysis.transformer.head_layout import concatenate, stack
from analysis.transformer.layernorm import layer_norm
from analysis.transformer.mlp import apply_mlp


@dataclass(frozen=True)
class LayerActivations:
    """What one layer made of ``x``: maps and values of its heads, then the rows after each step."""

    x: Residual
    """What the layer read."""
    attention: Attention
    values: Projected
    heads: Residual
    """The head outputs side by side, Conc of S V: before ``W_O`` and ``b_O``."""
    attended: Residual
    """After ``W_O`` and ``b_O``."""
    first: Residual
    """After skip connection and first LayerNorm; what the perceptron reads."""
    perceived: Residual
    """What the perceptron adds."""
    second: Residual
    """After skip connection and second LayerNorm: the layer's output."""

    @property
    def before_first(self) -> Residual:
        """What the first LayerNorm reads, ``x + attended``."""
        return self.x + self.attended

    @property
    def before_second(self) -> Residual:
        """What the second LayerNorm reads, ``first + perceived``."""
        return self.first + self.perceived

    def only(self, keep: Bool[Tensor, " position"]) -> "LayerActivations":
        """Return the activations of one text at the positions that ``keep`` marks: of padded rows, those of the text.

        Nothing is computed anew. If no query attended to the left out positions (``keep`` of :func:`run_layer`), these
        are the activations of the text without padding.
        """
        check_keep(keep, self.x)
        rows = {name: getattr(self, name)[..., keep, :] for name in
                ("x", "values", "heads", "attended", "first", "perceived", "second")}
        return LayerActivations(attention=self.attention[..., keep, :][..., keep], **rows)


def check_keep(keep: Tensor, rows: Tensor) -> None:
    """Refuse a mask that is not one boolean a position, or that keeps none.

    Raises
    ------
    ValueError
        If it is of another dtype (a mask of 0 and 1 has to be made ``bool``), of another length, or all ``False``.
    """
    if not isinstance(keep, Tensor) or keep.dtype != torch.bool or keep.shape != rows.shape[-2:-1]:
        given = f"{tuple(keep.shape)} in {keep.dtype}" if isinstance(keep, Tensor) else type(keep).__name__
        raise ValueError(f"keep must be a bool tensor of shape {tuple(rows.shape[-2:-1])}, got {given}")
    if not keep.any():
        raise ValueError("keep leaves no position")


def run_layer(x: Residual, layer: EncoderLayer, maps: Attention | None = None,
                 keep: Bool[Tensor, " position"] | None = None) -> LayerActivations:
    """Run one layer and keep the rows after each of its steps.

    Parameters
    ----------
    x
        What the layer reads.
    layer
        Its weights.
    maps
        Attention to use in place of the layer's own: an ablation, an ideal gate.
    keep
        Which positions may be listened to (``False`` for padding), as BERT's attention mask has it; all by default.
        Padding positions still have queries, and get a row after each step.

    Raises
    ------
    ValueError
        If ``x`` is not finite, in float32 or float64, or does not fit the layer, ``maps`` is not
        ``(head, position, position)`` or comes together with ``keep``, or ``keep`` is not one boolean a position.

    Examples
    --------
    >>> from analysis.transformer.encoder import random_layers
    >>> layer = random_layers(1, 2, 4, generator=torch.Generator().manual_seed(0))[0]
    >>> run_layer(torch.ones(3, 4).double(), layer).attention.shape
    torch.Size([2, 3, 3])
    """
    check_input(x, layer.attention)
    check_real("x", x, "position", "model")
    if keep is not None:
        check_keep(keep, x)
        if maps is not None:
            raise ValueError("give maps or keep, not both: maps say themselves who listens to whom")
    if maps is None:
        scores = compute_scores(x, layer.attention)
        maps = softmax(scores if keep is None else scores.masked_fill(~keep, -math.inf))
    n, due = x.shape[-2], (layer.attention.heads, x.shape[-2], x.shape[-2])
    check_real("maps", maps, "head", "query", "key")
    if maps.shape[-3:] != due:
        raise ValueError(f"maps must be {due} for {n} positions, got {tuple(maps.shape)}")
    check_fit("maps", maps, maps.shape, "x", x)
    values = project(x, layer.attention.W_V, layer.attention.b_V)
    heads = concatenate(maps @ values)
    attended = heads @ stack(layer.attention.W_O) + layer.attention.b_O
    first = layer_norm(x + attended, layer.norm_attention)
    perceived = apply_mlp(first, layer.mlp)
    second = layer_norm(first + perceived, layer.norm_mlp)
    return LayerActivations(x, maps, values, heads, attended, first, perceived, second)
