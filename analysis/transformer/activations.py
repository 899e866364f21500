"""What passes along one post-LN layer: the maps and values of its heads, and the rows after each step."""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool
from torch import Tensor

from analysis.core.axes import Attention, Projected, Residual


@dataclass(frozen=True)
class LayerActivations:
    """One layer on ``x``: maps and values of its heads, then the rows after each step.

    A part that `Switches` leave out returns what it reads; an MLP that is left out adds zeros.
    """

    x: Residual
    """What the layer reads."""
    attention: Attention
    values: Projected
    heads: Residual
    """The head outputs side by side, Conc of S V: before ``W_O`` and ``b_O``."""
    attention_output: Residual
    """After ``W_O`` and ``b_O``."""
    before_first: Residual
    """What the first LayerNorm reads: ``x + attention_output``, where the skip connection is in place."""
    first: Residual
    """After skip connection and first LayerNorm; what the MLP reads."""
    mlp_output: Residual
    """What the MLP adds."""
    before_second: Residual
    """What the second LayerNorm reads: ``first + mlp_output``, where the skip connection is in place."""
    second: Residual
    """After skip connection and second LayerNorm: the layer's output."""

    def only(self, keep: Bool[Tensor, " position"]) -> "LayerActivations":
        """Return the activations of one text at the positions that ``keep`` marks: of padded rows, those of the text.

        Nothing is computed anew. If the other positions were not attended to (``keep`` of
        `analysis.transformer.encoder.run_layer`), these are the activations of the text without padding.
        """
        check_keep(keep, self.x)
        rows = {field.name: getattr(self, field.name)[..., keep, :] for field in fields(self)}
        return LayerActivations(**rows | {"attention": rows["attention"][..., keep]})


def check_keep(keep: Tensor, rows: Tensor) -> None:
    """Raise for a mask that is not one boolean per position, or that keeps none.

    Examples
    --------
    >>> check_keep(torch.ones(3), torch.zeros(3, 4))
    Traceback (most recent call last):
    ValueError: keep must be a bool tensor of shape (3,), got (3,) in torch.float32
    """
    if not isinstance(keep, Tensor) or keep.dtype != torch.bool or keep.shape != rows.shape[-2:-1]:
        actual = f"{tuple(keep.shape)} in {keep.dtype}" if isinstance(keep, Tensor) else type(keep).__name__
        raise ValueError(f"keep must be a bool tensor of shape {tuple(rows.shape[-2:-1])}, got {actual}")
    if not keep.any():
        raise ValueError("keep leaves no position")
