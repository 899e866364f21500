"""The attention modules of ``transformers`` themselves, filled with given weights, to hold a formula against.

One module of one layer, no model around it: GPT-2's, BERT's (with the projection that BERT keeps in another class)
and Llama's, which has rotary embeddings. Loading whole models is in :mod:`analysis.models.pretrained`.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer

Run = Callable[[Float[Tensor, "batch position model"]], tuple[Tensor, Tensor]]


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


def _flat(W: Tensor) -> Tensor:
    """Put heads beside each other: ``(head, model, channel)`` to ``(model, head * channel)``."""
    return W.transpose(0, 1).reshape(W.shape[1], -1)


def _fill(linear: torch.nn.Module, W: Tensor, b: Tensor) -> None:
    linear.weight.copy_(W)
    linear.bias.copy_(b.reshape(-1))


def _future(x: Tensor) -> Tensor:
    n = x.shape[1]
    return torch.full((n, n), torch.finfo(x.dtype).min, dtype=x.dtype, device=x.device).triu(1)[None, None]


@torch.no_grad()
def gpt2_attention(weights: AttentionLayer) -> torch.nn.Module:
    """Fill transformers' ``GPT2Attention``, eager and in evaluation mode, with these weights.

    >>> weights = AttentionLayer(*torch.ones(3, 1, 2, 2), torch.ones(1, 2, 2),
    ...                            *torch.ones(3, 1, 2), torch.ones(2))
    >>> gpt2_attention(weights).c_attn.weight.shape
    torch.Size([2, 6])
    """
    from transformers import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2Attention

    w = weights.plain()
    config = GPT2Config(n_embd=w.model, n_head=w.heads, attn_implementation="eager", bos_token_id=0, eos_token_id=0)
    module = GPT2Attention(config, layer_idx=0).to(w.W_Q).eval().requires_grad_(False)
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

    config = BertConfig(hidden_size=w.model, num_attention_heads=w.heads, attn_implementation="eager")
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
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=w.model,
        num_attention_heads=w.heads,
        num_key_value_heads=w.heads,
        head_dim=w.channel,
        attention_bias=True,
        attn_implementation="eager",
        rope_parameters={"rope_type": "default", "rope_theta": base},
    )
    module, rotary = LlamaAttention(config, layer_idx=0).to(w.W_Q).eval(), LlamaRotaryEmbedding(config)
    for linear, W, b in ((module.q_proj, w.W_Q, w.b_Q), (module.k_proj, w.W_K, w.b_K), (module.v_proj, w.W_V, w.b_V)):
        _fill(linear, _flat(W).T, b)
    _fill(module.o_proj, w.W_O.reshape(w.model, w.model).T, w.b_O)

    def run(x):
        cos_sin = rotary(x, torch.arange(x.shape[1], device=x.device)[None])
        return _run(module, x, position_embeddings=cos_sin, attention_mask=_future(x))

    return run


@torch.no_grad()
def _run(module: torch.nn.Module, x: Tensor, **arguments) -> tuple[Tensor, Tensor]:
    output, attention = module(x, **arguments)
    return output, attention


MODULES: dict[str, Callable[[AttentionLayer, float], Run]] = {"gpt2": _gpt2, "bert": _bert, "llama": _llama}
"""One small function a family: from weights, and the base of rotary embeddings, to what runs the library's module."""
