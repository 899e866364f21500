"""The attention modules of ``transformers`` themselves, filled with given weights, to hold a formula against.

One module of one layer, no model around it: GPT-2's, BERT's (with the projection that BERT keeps in another class)
and Llama's, which has rotary embeddings, as they run; and the scores of those of GPT-NeoX, Phi and Qwen2. These make
their angles in float32; here they are handed ours, in the dtype of the weights, so that scores agree to rounding in
float64. Loading whole models is in :mod:`analysis.models.pretrained`.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Scores
from analysis.core.positions import Rotary

Run = Callable[[Float[Tensor, "batch position model"]], tuple[Tensor, Tensor]]


def _build(name: str, folder: str, w: AttentionLayer, **options: Any) -> nn.Module:
    """Make a family's attention module in the dtype of the weights, in evaluation mode; options are the family's."""
    import transformers

    config = getattr(transformers, f"{name}Config")(**options)
    module = getattr(import_module(f"transformers.models.{folder}.modeling_{folder}"), f"{name}Attention")
    return module(config, layer_idx=0).to(w.W_Q).eval().requires_grad_(False)


def _sizes(w: AttentionLayer, groups: int | None = None) -> dict[str, int]:
    sizes = {"hidden_size": w.model, "num_attention_heads": w.heads}
    return sizes | ({"num_key_value_heads": groups} if groups else {})


def _flat(W: Tensor) -> Tensor:
    """Put heads beside each other: ``(head, model, channel)`` to ``(model, head * channel)``."""
    return W.transpose(0, 1).reshape(W.shape[1], -1)


def _fill(linear: nn.Module, W: Tensor, b: Tensor) -> None:
    linear.weight.copy_(W)
    linear.bias.copy_(b.reshape(-1))


def _fill_projections(module: nn.Module, w: AttentionLayer, groups: int) -> nn.Module:
    """Fill the three maps of a module, those of keys and values with the first head of each group."""
    every = w.heads // groups
    _fill(module.q_proj, _flat(w.W_Q).T, w.b_Q)
    _fill(module.k_proj, _flat(w.W_K[::every]).T, w.b_K[::every])
    _fill(module.v_proj, _flat(w.W_V[::every]).T, w.b_V[::every])
    return module


# ---- Modules as they run: output and attention


def attention_module(family: str, weights: AttentionLayer, *, base: float = 10000.0) -> Run:
    """Build the library's module with these weights; call it with ``(batch, position, model)``.

    Parameters
    ----------
    family
        ``"gpt2"`` (causal), ``"bert"`` (sees all) or ``"llama"`` (causal, rotary embeddings with this ``base``).

    Returns
    -------
    Callable
        From input to ``(output, attention)``; output before the residual sum and before any LayerNorm.
    """
    return MODULES[family](weights.plain(), base)


def _future(x: Tensor) -> Tensor:
    n = x.shape[1]
    return torch.full((n, n), torch.finfo(x.dtype).min, dtype=x.dtype, device=x.device).triu(1)[None, None]


@torch.no_grad()
def gpt2_attention(weights: AttentionLayer) -> nn.Module:
    """Fill transformers' ``GPT2Attention``, eager and in evaluation mode, with these weights.

    >>> weights = AttentionLayer(*torch.ones(3, 1, 2, 2), torch.ones(1, 2, 2),
    ...                            *torch.ones(3, 1, 2), torch.ones(2))
    >>> gpt2_attention(weights).c_attn.weight.shape
    torch.Size([2, 6])
    """
    w = weights.plain()
    sizes = {"n_embd": w.model, "n_head": w.heads, "bos_token_id": 0, "eos_token_id": 0}
    module = _build("GPT2", "gpt2", w, attn_implementation="eager", **sizes)
    _fill(module.c_attn, torch.cat([_flat(W) for W in (w.W_Q, w.W_K, w.W_V)], 1), torch.stack([w.b_Q, w.b_K, w.b_V]))
    _fill(module.c_proj, w.W_O.reshape(w.model, w.model), w.b_O)
    return module


def _gpt2(w: AttentionLayer, base: float) -> Run:
    module = gpt2_attention(w)
    return lambda x: _run(module, x, attention_mask=_future(x))


@torch.no_grad()
def _bert(w: AttentionLayer, base: float) -> Run:
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertSelfAttention, BertSelfOutput

    config = BertConfig(**_sizes(w), attn_implementation="eager")
    inner, outer = BertSelfAttention(config).to(w.W_Q).eval(), BertSelfOutput(config).to(w.W_Q).eval()
    for linear, W, b in ((inner.query, w.W_Q, w.b_Q), (inner.key, w.W_K, w.b_K), (inner.value, w.W_V, w.b_V)):
        _fill(linear, _flat(W).T, b)
    _fill(outer.dense, w.W_O.reshape(w.model, w.model).T, w.b_O)

    def run(x):
        mixed, attention = _run(inner, x)
        return outer.dense(mixed).detach(), attention

    return run


@torch.no_grad()
def _llama(w: AttentionLayer, base: float) -> Run:
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    options = {"head_dim": w.channel, "attention_bias": True, "attn_implementation": "eager"}
    options["rope_parameters"] = {"rope_type": "default", "rope_theta": base}
    module = _fill_projections(_build("Llama", "llama", w, **_sizes(w, w.heads), **options), w, w.heads)
    _fill(module.o_proj, w.W_O.reshape(w.model, w.model).T, w.b_O)
    rotary = LlamaRotaryEmbedding(module.config)

    def run(x):
        cos_sin = rotary(x, torch.arange(x.shape[1], device=x.device)[None])
        return _run(module, x, position_embeddings=cos_sin, attention_mask=_future(x))

    return run


@torch.no_grad()
def _run(module: nn.Module, x: Tensor, **arguments) -> tuple[Tensor, Tensor]:
    output, attention = module(x, **arguments)
    return output, attention


MODULES: dict[str, Callable[[AttentionLayer, float], Run]] = {"gpt2": _gpt2, "bert": _bert, "llama": _llama}
"""One small function a family: from weights, and the base of rotary embeddings, to what runs the library's module."""


# ---- Scores of modules with rotary positions, as they turn queries and keys


@torch.no_grad()
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
    module = ROTARY_MODULES[family](weights, rotary, groups or weights.heads)
    angle = torch.arange(x.shape[1]).to(x)[:, None] * rotary.frequencies.to(x).repeat(2)
    return _captured(
        module, x, (rotary.attention_factor * angle.cos()[None], rotary.attention_factor * angle.sin()[None])
    )


def _captured(module: nn.Module, x: Tensor, cos_sin: tuple[Tensor, Tensor]) -> Tensor:
    from transformers import AttentionInterface

    seen, name = [], "analysis-scores"

    def attend(module, query, key, value, attention_mask, scaling=None, **options):  # noqa: PLR0917, its order
        key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
        seen.append(scaling * query @ key.mT)
        return query.transpose(1, 2), None

    AttentionInterface.register(name, attend)
    module.config._attn_implementation = name
    module(x, position_embeddings=cos_sin, attention_mask=None)
    return seen[0]


def _turning(rotary: Rotary) -> dict[str, dict]:
    share = rotary.coordinates / rotary.channel
    return {"rope_parameters": {"rope_type": "default", "rope_theta": rotary.base, "partial_rotary_factor": share}}


def _gpt_neox(w: AttentionLayer, rotary: Rotary, groups: int) -> nn.Module:
    module = _build("GPTNeoX", "gpt_neox", w, **_sizes(w), **_turning(rotary))
    matrices = torch.cat([w.W_Q, w.W_K, w.W_V], 2).transpose(1, 2)  # head, query key value, model
    _fill(module.query_key_value, matrices.reshape(-1, w.model), torch.cat([w.b_Q, w.b_K, w.b_V], 1))
    return module


def _phi(w: AttentionLayer, rotary: Rotary, groups: int) -> nn.Module:
    return _fill_projections(_build("Phi", "phi", w, **_sizes(w), **_turning(rotary)), w, w.heads)


def _qwen2(w: AttentionLayer, rotary: Rotary, groups: int) -> nn.Module:
    return _fill_projections(_build("Qwen2", "qwen2", w, **_sizes(w, groups)), w, groups)


ROTARY_MODULES: dict[str, Callable[[AttentionLayer, Rotary, int], nn.Module]] = {
    "gpt_neox": _gpt_neox,
    "phi": _phi,
    "qwen2": _qwen2,
}
