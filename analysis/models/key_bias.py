"""Where the key bias cancels and where it does not: attention modules of ``transformers``, at random, without it.

Each case is one module of one layer with random weights and biases.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

HEADS, CHANNEL, POSITIONS = 4, 16, 12
MODEL = HEADS * CHANNEL


class Effect(NamedTuple):
    """The largest change of an attention weight without the key bias; and whether softmax is computed in float32."""

    change: float
    single: bool


class _Case(NamedTuple):
    build: Callable[[], nn.Module]
    keys: Callable[[nn.Module], list[Tensor]]
    """Views of the key bias, or of the part that is set to 0."""
    run: Callable[[nn.Module, Tensor], Tensor]
    single: bool


def key_bias_effect(case: str, seed: int = 0) -> Effect:
    """Return what happens to the attention of a random module when its key bias is set to 0.

    Parameters
    ----------
    case
        One of :data:`CASES`. ``"gpt_neox, rest"`` and ``"gpt_neox, turned"`` take a quarter of the coordinates as
        rotary and set the others, or these, to 0; ``"... no rotation"`` hands the module angles of 0.

    Raises
    ------
    ValueError
        If the case is unknown.

    Examples
    --------
    >>> key_bias_effect("gpt2").change < 1e-12, key_bias_effect("qwen2").change > 0.01
    (True, True)
    """
    if case not in CASES:
        raise ValueError(f"case must be one of {', '.join(map(repr, CASES))}, got {case!r}")
    chosen, generator = CASES[case], torch.Generator().manual_seed(seed)
    module = chosen.build().double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / MODEL**0.25)
        x = torch.randn(1, POSITIONS, MODEL, generator=generator, dtype=torch.float64)
        before = chosen.run(module, x)
        for part in chosen.keys(module):
            part.zero_()
        after = chosen.run(module, x)
    return Effect((after - before).abs().max().item(), chosen.single)


def _future(x: Tensor) -> Tensor:
    return torch.full((x.shape[1],) * 2, torch.finfo(x.dtype).min, dtype=x.dtype).triu(1)[None, None]


def _turned(coordinates: int, base: float = 10000.0) -> Callable[[nn.Module, Tensor], Tensor]:
    """Run a module with rotary positions on so many coordinates; with base 0 all angles are 0."""

    def run(module: nn.Module, x: Tensor) -> Tensor:
        frequencies = (
            base ** (-torch.arange(0, coordinates, 2).to(x) / coordinates)
            if base
            else torch.zeros(coordinates // 2).to(x)
        )
        angle = (torch.arange(x.shape[1]).to(x)[:, None] * frequencies).repeat(1, 2)
        if type(module).__name__.startswith("GptOss"):  # it takes each angle once
            angle = angle[:, : coordinates // 2]
        return module(x, position_embeddings=(angle.cos()[None], angle.sin()[None]), attention_mask=_future(x))[1]

    return run


def _eager(name: str, attention: str, folder: str, **options) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import importlib

        import transformers

        module = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
        config = getattr(transformers, name)(attn_implementation="eager", **options)
        return getattr(module, attention)(config, layer_idx=0)

    return build


def _gpt2(module: nn.Module, x: Tensor) -> Tensor:
    return module(x, attention_mask=_future(x))[1]


def _bloom(module: nn.Module, x: Tensor) -> Tensor:
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    alibi = build_alibi_tensor(torch.ones(1, x.shape[1]), HEADS, x.dtype)
    return module(x, x, alibi, _future(x), output_attentions=True)[1]


def _fused(first: int, last: int) -> Callable[[nn.Module], list[Tensor]]:
    """Name coordinates of the key bias of a module whose projection holds query, key and value of each head."""
    return lambda module: [module.query_key_value.bias.view(HEADS, 3, CHANNEL)[:, 1, first:last]]


def _own(module: nn.Module) -> list[Tensor]:
    return [module.k_proj.bias]


_SIZES = {"hidden_size": MODEL, "num_attention_heads": HEADS}
_GROUPED = {**_SIZES, "num_key_value_heads": HEADS // 2, "head_dim": CHANNEL}
_NEOX = _eager(
    "GPTNeoXConfig",
    "GPTNeoXAttention",
    "gpt_neox",
    **_SIZES,
    rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
)
_QWEN3 = _eager("Qwen3Config", "Qwen3Attention", "qwen3", attention_bias=True, **_GROUPED)
_SINKS = _eager("GptOssConfig", "GptOssAttention", "gpt_oss", **_GROUPED)
CASES = {
    "gpt2": _Case(
        _eager("GPT2Config", "GPT2Attention", "gpt2", n_embd=MODEL, n_head=HEADS),
        lambda module: [module.c_attn.bias[MODEL : 2 * MODEL]],
        _gpt2,
        False,
    ),
    "bloom": _Case(
        _eager("BloomConfig", "BloomAttention", "bloom", hidden_size=MODEL, n_head=HEADS),
        _fused(0, CHANNEL),
        _bloom,
        True,
    ),
    "gpt_neox, rest": _Case(_NEOX, _fused(CHANNEL // 4, CHANNEL), _turned(CHANNEL // 4), True),
    "gpt_neox, turned": _Case(_NEOX, _fused(0, CHANNEL // 4), _turned(CHANNEL // 4), True),
    "qwen2": _Case(_eager("Qwen2Config", "Qwen2Attention", "qwen2", **_GROUPED), _own, _turned(CHANNEL), True),
    "qwen2, no rotation": _Case(
        _eager("Qwen2Config", "Qwen2Attention", "qwen2", **_GROUPED), _own, _turned(CHANNEL, 0.0), True
    ),
    "qwen3, no rotation": _Case(_QWEN3, _own, _turned(CHANNEL, 0.0), True),
    "gpt_oss, no rotation": _Case(_SINKS, _own, _turned(CHANNEL, 0.0), False),
}
"""Modules by name: what is turned, what is normalised, and what has a sink."""
