"""Tiny random models of each family, built without a download: what the adapter is held against.

What belongs here: the smallest configuration under which everything that a row reads is there and not zero. What does
not: the comparison (:mod:`analysis.surveys.family_agreement`).
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

POSITIONS, TOKENS = 12, 40
SIZES = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 24, "vocab_size": TOKENS, "max_position_embeddings": 64, "head_dim": 8, "bos_token_id": 0,
    "eos_token_id": 0, "pad_token_id": 1, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "n_inner": 24,
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "d_kv": 8, "d_ff": 24,
    "num_layers": 2, "num_heads": 4, "ffn_dim": 24, "ff_dim": 24, "word_embed_proj_dim": 32, "embedding_size": 32,
    "image_size": 8, "patch_size": 4, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 24, "max_seq_len": 64,
    "sliding_window": 4, "num_local_experts": 2, "num_experts": 2, "num_experts_per_tok": 1,
    "moe_intermediate_size": 8, "dff": 24}
"""What configurations call sizes; each takes those that it knows."""
SETTINGS: dict[str, dict[str, Any]] = {}
"""What a ``model_type`` needs beside them."""


def tiny_configuration(model_type: str, **settings) -> Any:
    """Return the configuration of a tiny model of a ``model_type``.

    >>> tiny_configuration("llama").num_key_value_heads
    2
    """
    from transformers import CONFIG_MAPPING
    kind = CONFIG_MAPPING[model_type]
    own = SETTINGS.get(model_type, {}) | settings
    names = {option for parent in kind.__mro__ for option in getattr(parent, "__annotations__", {})}
    aliases = getattr(kind, "attribute_map", {})
    sizes = {name: size for name, size in SIZES.items() if name in names | aliases.keys()}
    for alias, name in aliases.items():
        if alias in sizes and name in sizes:
            del sizes[alias]
    return kind(**sizes | own)


def tiny_model(model_type: str, seed: int = 0, **settings) -> torch.nn.Module:
    """Build a tiny model with random weights in float64, none of them zero, with the library's eager attention.

    Parameters
    ----------
    settings
        Options of the configuration beside the sizes.
    """
    from transformers import AutoModel
    configuration = tiny_configuration(model_type, **settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModel.from_config(configuration, attn_implementation="eager").eval().requires_grad_(False)
        for parameter in model.parameters():  # biases and gains are drawn as constants
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.double()


def tiny_inputs(model: torch.nn.Module, texts: int = 2, seed: int = 0) -> Mapping[str, Tensor]:
    """Draw inputs for a tiny model: tokens, an image or a sound, whichever it takes."""
    generator = torch.Generator().manual_seed(seed)
    name = model.main_input_name
    if name == "pixel_values":
        return {name: torch.randn(texts, 3, SIZES["image_size"], SIZES["image_size"], generator=generator).double()}
    tokens = torch.randint(2, TOKENS, (texts, POSITIONS), generator=generator)
    inputs = {"input_ids": tokens}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = tokens.flip(-1)
    return inputs
