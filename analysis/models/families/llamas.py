"""The rows of decoders with Llama's layout: three maps, rotary positions, a norm before the layer or after it."""

from collections.abc import Callable
from dataclasses import replace

from analysis.core.attention_layer import Mask
from analysis.models.families.decoders import SELF_ATTENTION, TURNED_WIDTH
from analysis.models.families.positions import causal, layer_type, plain_causal, rotary, tempered, windowed
from analysis.models.families.row import Config, Family, NormName, QueryKeyNames, by_option

Masks = Callable[[Config, int, int], Mask]


def multiplier(config: Config, layer: int, channel: int) -> float:
    """Return Granite's scale, an option."""
    return float(config.attention_multiplier)


def gemma_scale(config: Config, layer: int, channel: int) -> float:
    """Return the scale of Gemma 2 and 3: by a number of the configuration in the place of the head's width."""
    return config.query_pre_attn_scalar**-0.5


def rotary_left_out(config: Config, layer: int) -> bool:
    """Return whether a layer has no positions by the list of such layers (SmolLM3, Llama 4)."""
    return not config.no_rope_layers[layer]


def full_attention(config: Config, layer: int) -> bool:
    """Return whether a layer sees every key, where that means that it has no positions (Cohere 2)."""
    return layer_type(config, layer) == "full_attention"


def full_beside_windows(config: Config, layer: int) -> bool:
    """Say the same for EXAONE 4, whose models without windows are rotary throughout."""
    return config.sliding_window is not None and full_attention(config, layer)


def by_type(otherwise: Masks, **masks: Masks) -> Masks:
    """Return a function for rows some of whose model types have another mask."""
    return lambda config, layer, channel: masks.get(config.model_type, otherwise)(config, layer, channel)


def gemma3_mask(config: Config, layer: int, channel: int) -> Mask:
    """Return the mask; with ``use_bidirectional_attention`` (EmbeddingGemma) later keys are seen as well."""
    mask = causal(config, layer, channel)
    return replace(mask, causal=False) if config.use_bidirectional_attention else mask


def llama_biases(config: Config) -> str:
    """Return which biases there are: Mistral's models and others have none, whatever an option says."""
    letters = {"llama": "QKVO", "arcee": "QKVO", "solar_open": "QKV"}.get(config.model_type, "")
    return letters if letters and config.attention_bias else ""


def qwen2_biases(config: Config) -> str:
    """Return which biases there are: by an option in mixtures of experts only."""
    return "QKV" if config.model_type == "qwen2" or config.qkv_bias else ""


def seed_biases(config: Config) -> str:
    """Return which biases there are, by two options."""
    return by_option("attention_bias", "QKV")(config) + by_option("attention_out_bias", "O")(config)


RMS = NormName("input_layernorm", kind="rms", eps="rms_norm_eps")
RMS_AFTER = NormName("post_attention_layernorm", "update", "rms", "rms_norm_eps")
LAYER_NORM = NormName("input_layernorm")
PER_HEAD = QueryKeyNames("self_attn.q_norm", "self_attn.k_norm")
WHOLE = replace(PER_HEAD, whole=True)

LLAMA = Family(
    "Llama, Mistral, Mixtral",
    ("llama", "mistral", "mixtral", "ministral", "arcee", "cwm", "solar_open"),
    "layers.{}",
    SELF_ATTENTION,
    "self_attn.o_proj",
    (RMS,),
    rotary(partial=lambda config: config.model_type == "solar_open"),
    by_type(plain_causal, mistral=windowed, mixtral=windowed, ministral=causal, cwm=causal),
    biases=llama_biases,
    tokens="embed_tokens",
    groups="num_key_value_heads",
)
WITHOUT_OUTPUT = by_option("attention_bias", "QKV")


def like_llama(name: str, *model_types: str, **fields) -> Family:
    """Return Llama's row with other fields; without windows, if they do not say so."""
    own = {"biases": by_option("attention_bias"), "positions": rotary(), "mask": plain_causal}
    return replace(LLAMA, name=name, model_types=model_types, **own | fields)


def _gemma(norm: NormName) -> NormName:
    return replace(norm, plus_one=True)


ROWS = (
    LLAMA,
    like_llama("Qwen2, Qwen2.5", "qwen2", "qwen2_moe", biases=qwen2_biases, mask=causal),
    like_llama("Qwen3", "qwen3", "qwen3_moe", qk_norm=PER_HEAD, mask=by_type(causal, qwen3_moe=windowed)),
    like_llama("Seed-OSS", "seed_oss", biases=seed_biases),
    like_llama(
        "StarCoder2",
        "starcoder2",
        biases=by_option("use_bias"),
        mask=windowed,
        norms=(replace(LAYER_NORM, eps="norm_epsilon"),),
    ),
    like_llama(
        "StableLM",
        "stablelm",
        biases=by_option("use_qkv_bias", "QKV"),
        positions=rotary(partial=True),
        norms=(LAYER_NORM,),
        only={**TURNED_WIDTH, "qk_layernorm": (False,)},
    ),
    like_llama("GLM", "glm", biases=WITHOUT_OUTPUT, positions=rotary("neighbours", partial=True)),
    like_llama(
        "GLM-4",
        "glm4",
        biases=WITHOUT_OUTPUT,
        positions=rotary("neighbours", partial=True),
        norms=(RMS, replace(RMS_AFTER, path="post_self_attn_layernorm")),
    ),
    like_llama(
        "GLM-4 MoE",
        "glm4_moe",
        biases=WITHOUT_OUTPUT,
        positions=rotary(partial=True),
        qk_norm=replace(PER_HEAD, when=lambda config, layer: config.use_qk_norm),
    ),
    like_llama("ERNIE 4.5", "ernie4_5", biases=by_option("use_bias"), positions=rotary("neighbours")),
    like_llama("Helium", "helium", biases=WITHOUT_OUTPUT, positions=rotary("neighbours")),
    like_llama("Gemma", "gemma", norms=(_gemma(RMS),)),
    like_llama(
        "Gemma 2",
        "gemma2",
        norms=(_gemma(RMS), _gemma(RMS_AFTER)),
        mask=causal,
        scale=gemma_scale,
        soft_cap="attn_logit_softcapping",
    ),
    like_llama(
        "Gemma 3",
        "gemma3_text",
        norms=(_gemma(RMS), _gemma(RMS_AFTER)),
        mask=gemma3_mask,
        scale=gemma_scale,
        qk_norm=replace(PER_HEAD, plus_one=True),  # and no soft cap: the library hands the option to no layer
    ),
    like_llama(
        "VaultGemma",
        "vaultgemma",
        norms=(_gemma(RMS),),
        mask=causal,
        scale=gemma_scale,
        soft_cap="attn_logit_softcapping",
    ),
    like_llama("OLMo", "olmo", norms=(replace(LAYER_NORM, eps=1e-5, bare=True),), only={"clip_qkv": (None,)}),
    like_llama(
        "OLMo 2 and 3",
        "olmo2",
        "olmo3",
        "flex_olmo",
        norms=(RMS_AFTER,),
        qk_norm=WHOLE,
        mask=by_type(plain_causal, olmo3=causal),
    ),
    like_llama("OLMoE", "olmoe", qk_norm=WHOLE, only={"clip_qkv": (None,)}),
    like_llama("Granite", "granite", "granitemoe", scale=multiplier),
    like_llama(
        "Cohere",
        "cohere",
        positions=rotary("neighbours"),
        norms=(replace(LAYER_NORM, bias=False),),
        only={"use_qk_norm": (False,)},
    ),
    like_llama(
        "Cohere 2",
        "cohere2",
        positions=rotary("neighbours", unless=full_attention),
        mask=causal,
        norms=(replace(LAYER_NORM, bias=False),),
    ),
    like_llama(
        "Nemotron",
        "nemotron",
        positions=rotary(partial=True),
        norms=(replace(LAYER_NORM, eps="norm_eps", plus_one=True),),
    ),
    like_llama(
        "PhiMoE",
        "phimoe",
        mask=windowed,
        norms=(replace(LAYER_NORM, eps="rms_norm_eps"),),
        rounded="The model computes its frequencies anew in every run.",
    ),
    like_llama(
        "EXAONE 4",
        "exaone4",
        biases="",
        positions=rotary(unless=full_beside_windows),
        mask=causal,
        norms=(RMS_AFTER,),
        qk_norm=PER_HEAD,
    ),
    like_llama("Apertus", "apertus", norms=(replace(RMS, path="attention_layernorm"),), qk_norm=PER_HEAD),
    like_llama("SmolLM3", "smollm3", positions=rotary(unless=rotary_left_out), mask=causal),
    like_llama("dots.1", "dots1", qk_norm=PER_HEAD, mask=causal),
    like_llama("MiniMax-M2", "minimax_m2", biases="", qk_norm=WHOLE, positions=rotary(partial=True)),
    like_llama(
        "HunYuan",
        "hunyuan_v1_dense",
        qk_norm=QueryKeyNames("self_attn.query_layernorm", "self_attn.key_layernorm", after_rotation=True),
    ),
    like_llama(
        "Llama 4",
        "llama4_text",
        positions=rotary("neighbours", unless=rotary_left_out, otherwise=tempered),
        mask=causal,
        qk_norm=QueryKeyNames(
            "self_attn.qk_norm",
            "self_attn.qk_norm",
            after_rotation=True,
            bare=True,
            when=lambda config, layer: config.use_qk_norm and config.no_rope_layers[layer],
        ),
    ),
    like_llama("gpt-oss", "gpt_oss", sinks="self_attn.sinks", mask=causal),
)
