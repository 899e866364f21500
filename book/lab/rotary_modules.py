"""Attention modules of ``transformers`` with rotary positions, filled with given weights, to hold scores against.

One module of one layer, no model around it. The modules make their angles in float32; here they are handed ours, in the
dtype of the weights, so that scores agree to rounding in float64. What belongs here: queries and keys as the modules
turn them. What does not: attention as such (:mod:`book.lab.reference_modules`).
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Scores
from analysis.core.positions import Rotary

NAME = "analysis-scores"


def rotary_module_scores(
    family: str,
    weights: AttentionLayer,
    rotary: Rotary,
    x: Float[Tensor, "batch position model"],
    *,
    groups: int | None = None,
) -> Scores:
    """Return the scores of the library's own module with these weights, before the mask.

    Parameters
    ----------
    family
        ``"gpt_neox"`` or ``"phi"`` (the rotation may be partial), or ``"qwen2"`` (full, groups allowed).
    groups
        How many sets of keys there are; the keys of ``weights`` must then be repeated for each head of a group.
    """
    module = _MODULES[family](weights, rotary, groups or weights.heads).to(weights.W_Q).eval()
    angle = torch.arange(x.shape[1]).to(x)[:, None] * rotary.frequencies.to(x).repeat(2)
    with torch.no_grad():
        return _captured(
            module, x, (rotary.attention_factor * angle.cos()[None], rotary.attention_factor * angle.sin()[None])
        )


def _captured(module: nn.Module, x: Tensor, cos_sin: tuple[Tensor, Tensor]) -> Tensor:
    from transformers import AttentionInterface

    seen = []

    def attend(module, query, key, value, attention_mask, scaling=None, **options):  # noqa: PLR0917, its order
        key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
        seen.append(scaling * query @ key.mT)
        return query.transpose(1, 2), None

    AttentionInterface.register(NAME, attend)
    module.config._attn_implementation = NAME
    module(x, position_embeddings=cos_sin, attention_mask=None)
    return seen[0]


def _gpt_neox(w: AttentionLayer, rotary: Rotary, groups: int) -> nn.Module:
    from transformers import GPTNeoXConfig
    from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXAttention

    module = GPTNeoXAttention(
        GPTNeoXConfig(hidden_size=w.model, num_attention_heads=w.heads, rope_parameters=_parameters(rotary)),
        layer_idx=0,
    ).to(w.W_Q)
    with torch.no_grad():
        matrices = torch.cat([w.W_Q, w.W_K, w.W_V], 2).transpose(1, 2)  # head, query key value, model
        module.query_key_value.weight.copy_(matrices.reshape(-1, w.model))
        module.query_key_value.bias.copy_(torch.cat([w.b_Q, w.b_K, w.b_V], 1).flatten())
    return module


def _phi(w: AttentionLayer, rotary: Rotary, groups: int) -> nn.Module:
    from transformers import PhiConfig
    from transformers.models.phi.modeling_phi import PhiAttention

    return _fill(
        PhiAttention(
            PhiConfig(hidden_size=w.model, num_attention_heads=w.heads, rope_parameters=_parameters(rotary)),
            layer_idx=0,
        ).to(w.W_Q),
        w,
        w.heads,
    )


def _qwen2(w: AttentionLayer, rotary: Rotary, groups: int) -> nn.Module:
    from transformers import Qwen2Config
    from transformers.models.qwen2.modeling_qwen2 import Qwen2Attention

    return _fill(
        Qwen2Attention(
            Qwen2Config(hidden_size=w.model, num_attention_heads=w.heads, num_key_value_heads=groups), layer_idx=0
        ).to(w.W_Q),
        w,
        groups,
    )


@torch.no_grad()
def _fill(module: nn.Module, w: AttentionLayer, groups: int) -> nn.Module:
    every = w.heads // groups
    for linear, W, b in (
        (module.q_proj, w.W_Q, w.b_Q),
        (module.k_proj, w.W_K[::every], w.b_K[::every]),
        (module.v_proj, w.W_V[::every], w.b_V[::every]),
    ):
        linear.weight.copy_(W.transpose(1, 2).reshape(-1, w.model))
        linear.bias.copy_(b.flatten())
    return module


def _parameters(rotary: Rotary) -> dict:
    return {
        "rope_type": "default",
        "rope_theta": rotary.base,
        "partial_rotary_factor": rotary.coordinates / rotary.channel,
    }


_MODULES: dict[str, Callable[[AttentionLayer, Rotary, int], nn.Module]] = {
    "gpt_neox": _gpt_neox,
    "phi": _phi,
    "qwen2": _qwen2,
}
