"""Tiny random models of each family, built without a download: what the adapter is held against."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from analysis.models.pretrained import quiet_library

POSITIONS, TOKENS = 12, 40
SIZES = {
    **dict.fromkeys(
        ("hidden_size", "n_embd", "d_model", "dim", "emb_dim", "word_embed_proj_dim", "embedding_size"), 32
    ),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "num_heads", "n_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads", "patch_size", "sliding_window"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_local_experts", "num_experts"), 2),
    **dict.fromkeys(("intermediate_size", "n_inner", "d_ff", "ffn_dim", "ff_dim", "hidden_dim", "dff"), 24),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 24),
    **dict.fromkeys(("head_dim", "d_kv", "moe_intermediate_size", "image_size"), 8),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len"), 64),
    **dict.fromkeys(("bos_token_id", "eos_token_id"), 0),
    **{"vocab_size": TOKENS, "pad_token_id": 1, "num_experts_per_tok": 1},
}
"""What configurations call sizes; each takes those that it knows."""
HALF = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
SPEECH = {"num_mel_bins": 4, "max_source_positions": 16, "max_target_positions": 64}
SOUND = {
    "conv_dim": (16, 16),
    "conv_stride": (4, 2),
    "conv_kernel": (8, 4),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "mask_time_prob": 0.0,
}
BOTH_HALVES = ("clip", "siglip")
BOTH = {
    "text_config": HALF | {"vocab_size": TOKENS, "max_position_embeddings": 64, "bos_token_id": 0, "eos_token_id": 0},
    "vision_config": HALF | {"image_size": 8, "patch_size": 4},
}
WINDOW_FIRST = {"layer_types": ["sliding_attention", "full_attention"]}
WINDOW_SECOND = {"layer_types": ["full_attention", "sliding_attention"], "local_attention": 6}
AMONG = ["linear_attention", "full_attention"] * 2
"""Of hybrids: attention in layers 1 and 3 of 4."""
MAMBA = {"mamba_n_heads": 4, "mamba_d_state": 4, "mamba_chunk_size": 4}
HYBRID = MAMBA | {"num_hidden_layers": 4}
SETTINGS: dict[str, dict[str, Any]] = {
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "gptj": {"rotary_dim": 4},
    "codegen": {"rotary_dim": 4},
    "imagegpt": {"vocab_size": TOKENS},
    "xlm": {"emb_dim": 32},
    "flaubert": {"emb_dim": 32},
    "whisper": SPEECH,
    "speech_to_text": SPEECH | {"input_feat_per_channel": 4},
    **dict.fromkeys(("wav2vec2", "hubert"), SOUND),
    **dict.fromkeys(BOTH_HALVES, BOTH),
    "deberta": {"relative_attention": True, "max_relative_positions": 6, "pos_att_type": ["c2p", "p2c"]},
    "deberta-v2": {
        "relative_attention": True,
        "position_buckets": 6,
        "max_relative_positions": 20,
        "pos_att_type": ["c2p", "p2c"],
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
    },
    "esm": {"position_embedding_type": "rotary", "token_dropout": False},
    **dict.fromkeys(("gemma3_text", "gpt_oss", "cohere2", "exaone4"), WINDOW_FIRST),
    **dict.fromkeys(("modernbert", "modernbert-decoder"), WINDOW_SECOND),
    "smollm3": {"no_rope_layers": [1, 0]},
    "llama4_text": {"no_rope_layers": [1, 0], "attention_chunk_size": 8, "intermediate_size_mlp": 24},
    "falcon": {"new_decoder_architecture": True, "num_kv_heads": 2},
    "audio-spectrogram-transformer": {"max_length": 8, "num_mel_bins": 8, "time_stride": 4, "frequency_stride": 4},
    "gemma2": WINDOW_FIRST | {"attn_logit_softcapping": 2.0},
    "dots1": {"n_routed_experts": 2, "n_shared_experts": 1},
    "vit_mae": {"mask_ratio": 0.0},
    "beit": {"use_relative_position_bias": True},
    "albert": {"num_hidden_groups": 2},
    "jamba": HYBRID | {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 4, "mamba_dt_rank": 4},
    "bamba": HYBRID | {"attn_layer_indices": [1, 3]},
    "falcon_h1": MAMBA | {"mamba_d_ssm": 32, "key_multiplier": 0.5, "attention_out_multiplier": 0.7},
    "granitemoehybrid": HYBRID | {"layer_types": AMONG, "shared_intermediate_size": 24},
    "olmo_hybrid": HYBRID | {"layer_types": AMONG},
    "lfm2": {"num_hidden_layers": 4, "layer_types": ["conv", "full_attention"] * 2, "block_auto_adjust_ff_dim": False},
    "lfm2_moe": {"num_hidden_layers": 4, "layer_types": ["conv", "full_attention"] * 2, "num_dense_layers": 1},
    "nemotron_h": {
        "layers_block_type": ["linear_attention", "full_attention", "mlp", "full_attention"],
        "mamba_num_heads": 4,
        "mamba_head_dim": 16,
        "n_groups": 1,
        "ssm_state_size": 4,
        "moe_shared_expert_intermediate_size": 8,
    },
    "minimax": {"num_hidden_layers": 4, "layer_types": AMONG, "block_size": 4, "full_attn_beta_factor": 0.7},
    "recurrent_gemma": {"num_hidden_layers": 4, "block_types": ["recurrent", "attention"], "attention_window_size": 4},
}
"""What a ``model_type`` needs beside them."""
SOUNDS = {
    "whisper": (4, 32),
    "speech_to_text": (32, 4),
    "wav2vec2": (200,),
    "hubert": (200,),
    "audio-spectrogram-transformer": (8, 8),
}
"""The shape of one sound, for families that hear."""
EAGER = {"attn_implementation": "eager", "experts_implementation": "eager"}


def tiny_settings(model_type: str, **settings) -> dict[str, Any]:
    """Return what the config.json of a tiny model of a ``model_type`` may hold: sizes, what it needs, and ``settings``.

    >>> tiny_settings("llama", sliding_window=3)["sliding_window"]
    3
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
    return sizes | own


def tiny_configuration(model_type: str, **settings) -> Any:
    """Return the configuration of a tiny model of a ``model_type``.

    >>> tiny_configuration("llama").num_key_value_heads
    2
    """
    from transformers import CONFIG_MAPPING

    return CONFIG_MAPPING[model_type](**tiny_settings(model_type, **settings))


def tiny_model(model_type: str, seed: int = 0, **settings) -> torch.nn.Module:
    """Build a tiny model with random weights in float64, none of them zero, with the library's eager attention.

    Parameters
    ----------
    settings
        Options of the configuration beside the sizes.
    """
    with quiet_library():  # which speaks of sizes as small as these
        return random_model(tiny_configuration(model_type, **settings), seed)


def random_model(configuration: Any, seed: int = 0) -> torch.nn.Module:
    """Build the model of a configuration, as `tiny_model` does."""
    import transformers

    special = configuration.model_type == "siglip_text_model"
    auto = getattr(transformers, "SiglipTextModel" if special else "AutoModel")
    with quiet_library(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = auto._from_config(configuration, **EAGER) if special else auto.from_config(configuration, **EAGER)
        model = model.eval().requires_grad_(False)
        for name, parameter in model.named_parameters():  # biases and gains are drawn as constants
            if "embed_positions" not in name:  # may hold sines and cosines
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model.double()


def tiny_inputs(model: torch.nn.Module, texts: int = 2, seed: int = 0) -> Mapping[str, Tensor]:
    """Draw inputs for a tiny model: tokens, an image or a sound, whichever it takes."""
    generator = torch.Generator().manual_seed(seed)
    name = model.main_input_name
    if name == "pixel_values" and model.config.model_type not in BOTH_HALVES:
        return {name: torch.randn(texts, 3, SIZES["image_size"], SIZES["image_size"], generator=generator).double()}
    tokens = torch.randint(2, TOKENS, (texts, POSITIONS), generator=generator)
    shape = SOUNDS.get(model.config.model_type)
    inputs: dict[str, Tensor] = {"input_ids": tokens}
    if shape:
        inputs = {name: torch.randn(texts, *shape, generator=generator).double()}
    if getattr(model.config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = tokens.flip(-1)
    if model.config.model_type in BOTH_HALVES:
        inputs["pixel_values"] = torch.randn(texts, 3, 8, 8, generator=generator).double()
    return inputs
