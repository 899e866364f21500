"""The rows of decoders with learned, fixed or additive positions, and of decoders whose layout is their own."""

from dataclasses import replace

from analysis.core.attention_layer import Mask
from analysis.core.positions import Positions
from analysis.models.families.positions import alibi, fixed_rotary, plain_causal, rotary, windowed
from analysis.models.families.row import Config, Family, Maps, NormName, QueryKeyNames, Rest, by_option, stream


def gpt2_scale(config: Config, layer: int, channel: int) -> float:
    """Return GPT-2's scale: some divide by the layer's number too, and some do not divide by the root."""
    root = channel**-0.5 if config.scale_attn_weights else 1.0
    return root / (layer + 1) if config.scale_attn_by_inverse_layer_idx else root


def no_scale(config: Config, layer: int, channel: int) -> float:
    """Return 1: scores are products of queries and keys as they are (GPT-Neo, T5)."""
    return 1.0


def alternating(config: Config, layer: int, channel: int) -> Mask:
    """Return GPT-Neo's mask: every other layer sees a window only."""
    return Mask(causal=True, reach=config.window_size - 1 if config.attention_layers[layer] == "local" else None)


def mpt_scale(config: Config, layer: int, channel: int) -> float:
    """Return MPT's scale, an option of its attention."""
    scale = config.attn_config.softmax_scale
    return channel**-0.5 if scale is None else float(scale)


def mpt_positions(config: Config, layer: int, channel: int) -> Positions:
    """Return MPT's ALiBi; refuse queries, keys and values that are cut off at a bound.

    Raises
    ------
    ValueError
        If ``clip_qkv`` is set; or ALiBi is left out or has other slopes, of which the library knows nothing.
    """
    for option, value in (("clip_qkv", None), ("alibi", True), ("alibi_bias_max", 8)):
        if (own := getattr(config.attn_config, option)) != value:
            raise ValueError(
                f"attn_config has {option} = {own!r}, which changes what a layer computes; read here are models with "
                f"{value!r}"
            )
    return alibi(config, layer, channel)


def falcon_groups(config: Config) -> int:
    """Return how many keys Falcon has: one for all, or one for each group in its newer layout."""
    if config.new_decoder_architecture:
        return config.num_kv_heads
    return 1 if config.multi_query else config.num_attention_heads


def two_norms(config: Config, layer: int) -> bool:
    """Return whether Falcon's attention and MLP, which stand side by side, have a norm each."""
    return bool(
        config.new_decoder_architecture and config.parallel_attn and config.num_ln_in_parallel_attn in (2, None)
    )


TURNED_WIDTH = {"head_dim": (None,)}
"""For families whose maps do not know the option, and whose rotation does."""
SELF_ATTENTION = Maps(("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"))

GPT2 = Family(
    "GPT-2",
    ("gpt2",),
    "h.{}",
    Maps(("attn.c_attn",), "blocks", inputs_first=True),
    "attn.c_proj",
    (NormName("ln_1", eps="layer_norm_epsilon"),),
    mask=plain_causal,
    scale=gpt2_scale,
    tokens="wte",
    places="wpe",
    only={"is_causal": (True, None), "sliding_window": (None,), "attention_chunk_size": (None,)},
    buffers=("attn.bias",),
    rest=Rest(("gpt2",), ("mlp.c_fc", "mlp.c_proj"), {"mlp": "ln_2", "final": "ln_f"}, shrinks_output=True),
)
GPT1 = replace(
    GPT2,
    name="GPT",
    model_types=("openai-gpt",),
    norms=(NormName("ln_1", "sum", eps="layer_norm_epsilon"),),
    scale=Family.scale,
    tokens="tokens_embed",
    places="positions_embed",
)
GPT_NEO = Family(
    "GPT-Neo",
    ("gpt_neo",),
    "h.{}",
    Maps(("attn.attention.q_proj", "attn.attention.k_proj", "attn.attention.v_proj")),
    "attn.attention.out_proj",
    (NormName("ln_1", eps="layer_norm_epsilon"),),
    mask=alternating,
    scale=no_scale,
    biases="O",
    buffers=("attn.attention.bias",),
    tokens="wte",
    places="wpe",
)
OPT = Family(
    "OPT",
    ("opt",),
    "decoder.layers.{}",
    SELF_ATTENTION,
    "self_attn.out_proj",
    (NormName("self_attn_layer_norm", eps=1e-5),),
    mask=plain_causal,
    tokens="decoder.embed_tokens",
    places="decoder.embed_positions",
    first_place=2,
    biases=by_option("enable_bias"),
    only={"do_layer_norm_before": (True, None), "layer_norm_elementwise_affine": (True, None)},
)
BIOGPT = replace(
    OPT,
    name="BioGPT",
    model_types=("biogpt",),
    layer="layers.{}",
    biases="QKVO",
    tokens="embed_tokens",
    places="embed_positions",
    only={},
)
XGLM = replace(BIOGPT, name="XGLM", model_types=("xglm",), positions=stream("sinusoidal"), places=None)
CTRL = Family(
    "CTRL",
    ("ctrl",),
    "h.{}",
    Maps(("multi_head_attention.Wq", "multi_head_attention.Wk", "multi_head_attention.Wv")),
    "multi_head_attention.dense",
    (NormName("layernorm1", eps=1e-6),),
    stream("sinusoidal"),
    plain_causal,
    tokens="w",
)
GPT_BIGCODE = replace(
    GPT2,
    name="StarCoder (GPT-BigCode)",
    model_types=("gpt_bigcode",),
    maps=Maps(("attn.c_attn",), "blocks"),
    scale=Family.scale,
    groups=lambda config: 1,
    only={"multi_query": (True,), "scale_attn_weights": (True,)},
)
BLOOM = Family(
    "BLOOM",
    ("bloom",),
    "h.{}",
    Maps(("self_attention.query_key_value",), "heads"),
    "self_attention.dense",
    (NormName("input_layernorm", eps="layer_norm_epsilon"),),
    alibi,
    plain_causal,
    tokens="word_embeddings",
)
MPT = Family(
    "MPT",
    ("mpt",),
    "blocks.{}",
    Maps(("attn.Wqkv",), "blocks"),
    "attn.out_proj",
    (NormName("norm_1", eps="layer_norm_epsilon", bias=False),),
    mpt_positions,
    plain_causal,
    mpt_scale,
    biases="",
    tokens="wte",
)
IMAGE_GPT = replace(
    GPT2, name="ImageGPT", model_types=("imagegpt",), norms=(NormName("ln_1", kind="rms", eps="layer_norm_epsilon"),)
)
GPT_NEOX = Family(
    "GPT-NeoX, Pythia",
    ("gpt_neox",),
    "layers.{}",
    Maps(("attention.query_key_value",), "heads"),
    "attention.dense",
    (NormName("input_layernorm"),),
    rotary(partial=True),
    plain_causal,
    biases=by_option("attention_bias"),
    buffers=("attention.bias",),
    tokens="embed_in",
    only=TURNED_WIDTH,
)
GPTJ = Family(
    "GPT-J",
    ("gptj",),
    "h.{}",
    Maps(("attn.q_proj", "attn.k_proj", "attn.v_proj")),
    "attn.out_proj",
    (NormName("ln_1", eps="layer_norm_epsilon"),),
    fixed_rotary("neighbours", "rotary_dim"),
    plain_causal,
    biases="",
    buffers=("attn.bias",),
    tokens="wte",
    rounded="The model stores its cosines and sines in float32.",
)
CODEGEN = replace(GPTJ, name="CodeGen", model_types=("codegen",), maps=Maps(("attn.qkv_proj",), "codegen"))
FALCON = Family(
    "Falcon",
    ("falcon",),
    "h.{}",
    Maps(("self_attention.query_key_value",), "groups"),
    "self_attention.dense",
    (
        NormName("ln_attn", eps="layer_norm_epsilon", when=two_norms),
        NormName("input_layernorm", eps="layer_norm_epsilon", when=lambda *of: not two_norms(*of)),
    ),
    rotary(),
    plain_causal,
    biases=by_option("bias"),
    groups=falcon_groups,
    tokens="word_embeddings",
    only={"alibi": (False,)},
)
PHI = Family(
    "Phi",
    ("phi",),
    "layers.{}",
    SELF_ATTENTION,
    "self_attn.dense",
    (NormName("input_layernorm"),),
    rotary(partial=True),
    plain_causal,
    tokens="embed_tokens",
    only={"qk_layernorm": (False,)},
    groups="num_key_value_heads",
)
PHI3 = Family(
    "Phi-3",
    ("phi3",),
    "layers.{}",
    Maps(("self_attn.qkv_proj",), "blocks"),
    "self_attn.o_proj",
    (NormName("input_layernorm", kind="rms", eps="rms_norm_eps"),),
    rotary(partial=True),
    windowed,
    biases="",
    tokens="embed_tokens",
    groups="num_key_value_heads",
)
PERSIMMON = Family(
    "Persimmon",
    ("persimmon",),
    "layers.{}",
    Maps(("self_attn.query_key_value",), "heads"),
    "self_attn.dense",
    (NormName("input_layernorm"),),
    rotary(partial=True),
    plain_causal,
    tokens="embed_tokens",
    qk_norm=QueryKeyNames(
        "self_attn.q_layernorm",
        "self_attn.k_layernorm",
        "layer",
        "layer_norm_eps",
        when=lambda config, layer: config.qk_layernorm,
    ),
    only=TURNED_WIDTH,
)

ROWS = tuple(row for row in globals().values() if isinstance(row, Family))
"""In the order in which they stand above."""
