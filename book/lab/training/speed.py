"""What makes a training fast: attention in single precision on a CPU, the compiled model on a GPU."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn


def register_float32_attention() -> str:
    """Register fused attention that leaves autocast, and return its name.

    On CPUs the backward pass of the fused kernel takes 1.6 times as long in bfloat16 as in float32.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    def attend(module, query, key, value, mask, **settings):
        with torch.autocast("cpu", enabled=False):
            return sdpa_attention_forward(module, query.float(), key.float(), value.float(), mask, **settings)

    AttentionInterface.register("sdpa-float32", attend)
    AttentionMaskInterface.register("sdpa-float32", sdpa_mask)
    return "sdpa-float32"


def eager_loss(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    """Return the model's own loss."""
    return model(**batch).loss


def compiled_loss(model: nn.Module, device: torch.device) -> Callable[[nn.Module, Mapping[str, Tensor]], Tensor]:
    """Return a loss of the compiled model: CUDA graphs on a GPU, the same traced graph without them on a CPU.

    The parameters are the model's own, so that what is saved and published does not know of it.
    """
    how = {"mode": "reduce-overhead"} if device.type == "cuda" else {"backend": "aot_eager"}
    compiled = torch.compile(model, **how)

    def loss(_: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        if device.type == "cuda":
            torch.compiler.cudagraph_mark_step_begin()
        return compiled(**batch).loss

    return loss
