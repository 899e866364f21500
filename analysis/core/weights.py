"""The weights of an MLP, and an encoder layer of attention, norms and MLP, as plain tensors."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Norm
from analysis.core.frozen import Frozen
from analysis.core.shapes import say_shapes


@dataclass(frozen=True)
class MlpWeights(Frozen):
    """One MLP: ``act(x W_in + b_in) W_out + b_out`` with ``W_in (model hidden)``, ``W_out (hidden model)``."""

    noun = "the MLP"

    W_in: Float[Tensor, "model hidden"]
    b_in: Float[Tensor, " hidden"]
    W_out: Float[Tensor, "hidden model"]
    b_out: Float[Tensor, " model"]

    __repr__ = say_shapes

    def __post_init__(self):
        if self.W_in.ndim != 2:
            raise ValueError(f"W_in must be (model, hidden), got shape {tuple(self.W_in.shape)}")
        model, hidden = self.W_in.shape
        self._fit("W_in", {"b_in": (hidden,), "W_out": (hidden, model), "b_out": (model,)})
        super().__post_init__()


@dataclass(frozen=True)
class EncoderLayer:
    """The four parts of one layer, in the order in which a row meets them."""

    attention: AttentionLayer
    norm_attention: Norm
    mlp: MlpWeights
    norm_mlp: Norm

    def to(self, *args, **kwargs):
        """Return a copy with every tensor passed through ``Tensor.to`` (a dtype, a device)."""
        return EncoderLayer(**{name: part.to(*args, **kwargs) for name, part in vars(self).items()})
