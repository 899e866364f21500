r"""One post-LN layer with everything that passes along it: what each station of BERT's block hands to the next.

What belongs here: the forward pass, kept. What does not: switches (``encoder``), measuring what was kept.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from analysis.attention import check_input, compute_scores, project, softmax
from analysis.axes import Attention, EncoderLayer, Projected, Residual
from analysis.encoder import perceive
from analysis.information import concatenate, stack
from analysis.layernorm import centre, layer_norm, sigma


@dataclass(frozen=True)
class Stations:
    """What one layer made of ``x``: maps and values of its heads, then the rows at each station."""

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


def pass_through(x: Residual, layer: EncoderLayer, maps: Attention | None = None) -> Stations:
    """Run one layer and keep what passed each station.

    Parameters
    ----------
    x
        What the layer reads.
    layer
        Its weights.
    maps
        Attention to use in place of the layer's own: an ablation, an ideal gate.

    Raises
    ------
    ValueError
        If ``x`` does not fit the layer, or ``maps`` is not ``(head, position, position)``.

    Examples
    --------
    >>> import torch
    >>> from analysis.encoder import random_layers
    >>> layer = random_layers(1, 2, 4, generator=torch.Generator().manual_seed(0))[0]
    >>> pass_through(torch.ones(3, 4).double(), layer).attention.shape
    torch.Size([2, 3, 3])
    """
    check_input(x, layer.attention)
    if maps is None:
        maps = softmax(compute_scores(x, layer.attention))
    n, due = x.shape[-2], (layer.attention.heads, x.shape[-2], x.shape[-2])
    if maps.shape[-3:] != due:
        raise ValueError(f"maps must be {due} for {n} positions, got {tuple(maps.shape)}")
    values = project(x, layer.attention.W_V, layer.attention.b_V)
    heads = concatenate(maps @ values)
    attended = heads @ stack(layer.attention.W_O) + layer.attention.b_O
    first = layer_norm(x + attended, layer.norm_attention)
    perceived = perceive(first, layer.mlp)
    return Stations(x, maps, values, heads, attended, first, perceived, layer_norm(first + perceived, layer.norm_mlp))


def normalise(rows: Float[Tensor, "*any model"], eps: float = 1e-12) -> Float[Tensor, "*any model"]:
    r"""Apply LayerNorm without gain and bias: rows of mean 0 and length :math:`\sqrt d`.

    >>> import torch
    >>> normalise(torch.tensor([5.0, 1.0]))
    tensor([ 1., -1.])
    """
    return centre(rows) / sigma(rows, eps)[..., None]
