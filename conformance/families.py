"""Which tiny models there are, and where each keeps what its attention is made of.

A row names a configuration of transformers and paths below the model's base model; ``{}`` is the number of the layer.
"""

from dataclasses import dataclass, field
from typing import Any

THETA = 4096.0
"""The base of rotary frequencies: with 8 or 4 channels they are powers of 2, so no float32 rounds them."""
ROPE = {"rope_type": "default", "rope_theta": THETA}
WIDTH, HEADS, TOKENS, LENGTH = 32, 4, 24, 7
LOCAL = ["sliding_attention", "full_attention"]
BERT_NAMES = {"maps": ("attention.self.query", "attention.self.key", "attention.self.value")}
LLAMA = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 2,
    "intermediate_size": 24,
    "vocab_size": TOKENS,
    "max_position_embeddings": 16,
    "rope_parameters": ROPE,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 1,
}
NEO = {name: value for name, value in LLAMA.items() if name not in ("num_key_value_heads", "rope_parameters")}
GPT = {"n_embd": WIDTH, "n_layer": 1, "n_head": HEADS, "n_positions": 16, "vocab_size": TOKENS, "n_inner": 24}
GPT |= {"bos_token_id": 0, "eos_token_id": 0}
BART = {"d_model": WIDTH, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": TOKENS, "pad_token_id": 1}
BART |= {f"{side}_attention_heads": HEADS for side in ("encoder", "decoder")}
BART |= {f"{side}_ffn_dim": 24 for side in ("encoder", "decoder")} | {"bos_token_id": 0, "eos_token_id": 0}


@dataclass
class Row:
    """One stack of layers of one model.

    ``fused`` names the layout of one map for queries, keys and values: ``blocks``, ``triples`` (of each head),
    ``groups`` (queries of a group, its key, its value) or ``codegen``. ``norm`` is the path, kind and epsilon of the
    norm that the layer reads through; ``qk_norm`` the names and kind of those of queries and keys. ``rotary`` is how
    many channels turn, ``reach`` how far back a query sees, ``table`` the table of positions and its first row.
    """

    type: str
    settings: dict[str, Any]
    layer: str = "layers.{}"
    maps: tuple[str, ...] = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    out: str = "self_attn.o_proj"
    auto: str = "AutoModelForCausalLM"
    stack: str = ""
    layers: int = 1
    fused: str = ""
    norm: tuple[str, str, float] | None = ("input_layernorm", "rms", 1e-6)
    qk_norm: tuple[str, str, str] | None = None
    rotary: int = 0
    neighbours: bool = False
    still: tuple[int, ...] = ()  # layers that do not turn
    base: float = THETA
    causal: bool = True
    reach: tuple[int | None, ...] = (None,)
    scale: float = 8**-0.5
    alibi: bool = False
    buckets: str = ""
    table: tuple[str, int] | None = None
    cap: float | None = None
    sinks: str = ""
    input: dict[str, tuple[int, ...]] = field(default_factory=lambda: {"input_ids": (1, LENGTH)})


def llama(type_: str, rotary: int = 8, settings: dict[str, Any] | None = None, **more) -> Row:
    """Return the row of a model with the names of Llama."""
    return Row(type_, LLAMA | (settings or {}), rotary=rotary, **more)


def bert(type_: str, settings: dict[str, Any] | None = None, **more) -> Row:
    """Return the row of a model with the names of BERT."""
    names = {"layer": "encoder.layer.{}", **BERT_NAMES, "out": "attention.output.dense"}
    defaults = names | {"table": ("embeddings.position_embeddings", 0), "auto": "AutoModelForMaskedLM"}
    return Row(type_, NEO | (settings or {}), norm=None, causal=False, **(defaults | more))


def bart(type_: str, stack: str, settings: dict[str, Any], **more) -> Row:
    """Return the row of one of the two stacks of a model with the names of BART."""
    maps = tuple(f"self_attn.{name}_proj" for name in "qkv")
    defaults = {"layer": f"{stack}.layers.{{}}", "maps": maps, "out": "self_attn.out_proj", "stack": stack}
    defaults |= {"auto": "AutoModelForSeq2SeqLM", "causal": stack == "decoder"}
    return Row(type_, BART | settings, **(defaults | more))


def t5(stack: str) -> Row:
    """Return the row of one of the two stacks of T5."""
    settings = {"d_model": WIDTH, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_decoder_layers": 1, "num_heads": HEADS}
    settings |= {"vocab_size": TOKENS, "relative_attention_num_buckets": 6, "relative_attention_max_distance": 5}
    maps = tuple(f"layer.0.SelfAttention.{name}" for name in "qkv")
    path, names = f"{stack}.block.{{}}", {"maps": maps, "out": "layer.0.SelfAttention.o", "stack": stack}
    where = {"norm": ("layer.0.layer_norm", "rms", 1e-6), "auto": "AutoModelForSeq2SeqLM", "scale": 1.0}
    bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias"
    settings |= {"pad_token_id": 1, "eos_token_id": 0, "decoder_start_token_id": 0}
    return Row("t5", settings, path, buckets=bias, causal=stack == "decoder", **names, **where)


WHISPER = {"num_mel_bins": 4, "max_source_positions": LENGTH, "max_target_positions": 16, "decoder_start_token_id": 0}
WHISPER_INPUT = {"input_features": (1, 4, 2 * LENGTH), "decoder_input_ids": (1, LENGTH)}
CONV = {"layer": "h.{}", "maps": ("attn.c_attn",), "out": "attn.c_proj", "norm": ("ln_1", "layer", 1e-5)}
GPTJ = {"layer": "h.{}", "out": "attn.out_proj", "norm": ("ln_1", "layer", 1e-5), "base": 1e4, "neighbours": True}
FUSED = {"maps": ("self_attention.query_key_value",), "out": "self_attention.dense"}
GEMMA = {"norm": ("input_layernorm", "plus one", 1e-6)}
NEOX = {"maps": ("attention.query_key_value",), "fused": "triples", "out": "attention.dense"}
QK = ("self_attn.q_norm", "self_attn.k_norm")
QKV = tuple(f"self_attn.{name}_proj" for name in "qkv")
BIG = {"head_dim": 8}
TWO = {"num_hidden_layers": 2, "layer_types": LOCAL, "sliding_window": 3}
IMAGE = {"pixel_values": (1, 3, 8, 8)}
VIT = {name: NEO[name] for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")}
PARTIAL = {"rope_parameters": ROPE | {"partial_rotary_factor": 0.5}, "partial_rotary_factor": 0.5}
BOTH = {"rope_parameters": dict.fromkeys(LOCAL, ROPE)}
ALBERT = "albert_layer_groups.0.albert_layers.0"
DEBERTA = {"relative_attention": True, "position_buckets": 4, "max_relative_positions": 8, "share_att_key": True}
DEBERTA |= {"pos_att_type": ["c2p", "p2c"], "norm_rel_ebd": "layer_norm"}
GLM = ("input_layernorm", "rms", 1.5625e-07)
LAYER = ("input_layernorm", "layer", 1e-5)

FAMILIES: dict[str, list[Row]] = {
    "gpt2": [Row("gpt2", GPT, fused="blocks", table=("wpe", 0), **CONV)],
    "gpt-neo": [
        Row(
            "gpt_neo",
            {"hidden_size": WIDTH, "num_layers": 2, "num_heads": HEADS, "attention_types": [[["global", "local"], 1]]}
            | {name: NEO[name] for name in ("vocab_size", "max_position_embeddings", "intermediate_size")}
            | {"window_size": 3, "bos_token_id": 0, "eos_token_id": 0},
            **CONV
            | {"maps": tuple(f"attn.attention.{name}_proj" for name in "qkv")}
            | {"layers": 2, "scale": 1.0, "reach": (None, 3), "table": ("wpe", 0), "out": "attn.attention.out_proj"},
        )
    ],
    "opt": [
        Row(
            "opt",
            NEO | {"ffn_dim": 24, "word_embed_proj_dim": WIDTH},
            **{"layer": "decoder.layers.{}", "out": "self_attn.out_proj", "table": ("decoder.embed_positions", 2)},
            norm=("self_attn_layer_norm", "layer", 1e-5),
        )
    ],
    "bloom": [Row("bloom", GPT | {"hidden_size": WIDTH}, "h.{}", **FUSED, fused="triples", alibi=True, norm=LAYER)],
    "gpt-neox": [
        Row("gpt_neox", NEO | {"rope_parameters": ROPE | {"partial_rotary_factor": 0.5}}, **NEOX, rotary=4, norm=LAYER)
    ],
    "gpt-j": [
        Row("gptj", GPT | {"rotary_dim": 4}, maps=tuple(f"attn.{name}_proj" for name in "qkv"), rotary=4, **GPTJ)
    ],
    "codegen": [Row("codegen", GPT | {"rotary_dim": 4}, maps=("attn.qkv_proj",), fused="codegen", rotary=4, **GPTJ)],
    "phi": [llama("phi", 4, PARTIAL | {"num_key_value_heads": HEADS}, out="self_attn.dense", norm=LAYER)],
    "phi3": [llama("phi3", settings={"rms_norm_eps": 1e-6}, maps=("self_attn.qkv_proj",), fused="blocks")],
    "falcon": [
        Row(
            "falcon",
            LLAMA | {"num_kv_heads": 2, "new_decoder_architecture": True, "ffn_hidden_size": 24, "bias": True},
            **{"layer": "h.{}", "fused": "groups", "rotary": 8, "norm": ("ln_attn", "layer", 1e-5), **FUSED},
        )
    ],
    "mpt": [
        Row(
            "mpt",
            {"d_model": WIDTH, "n_heads": HEADS, "n_layers": 1, "max_seq_len": 16, "vocab_size": TOKENS},
            **{"layer": "blocks.{}", "maps": ("attn.Wqkv",), "fused": "blocks", "out": "attn.out_proj", "alibi": True},
            norm=("norm_1", "layer", 1e-5),
        )
    ],
    "stablelm": [llama("stablelm", 4, PARTIAL | {"use_qkv_bias": True}, norm=LAYER)],
    "cohere": [llama("cohere", neighbours=True, norm=LAYER)],
    "cohere2": [llama("cohere2", settings=TWO, neighbours=True, norm=LAYER, layers=2, reach=(3, None), still=(1,))],
    "olmo2": [llama("olmo2", norm=None, qk_norm=(*QK, "whole"), settings={"rms_norm_eps": 1e-6})],
    "granite": [llama("granite", settings={"attention_multiplier": 0.25, "attention_bias": True}, scale=0.25)],
    "starcoder2": [llama("starcoder2", norm=LAYER, settings={"sliding_window": 3}, reach=(3,))],
    "gpt-oss": [
        llama(
            "gpt_oss",
            settings=TWO | BIG | {"num_local_experts": 2, "num_experts_per_tok": 1, "rms_norm_eps": 1e-6},
            **{"layers": 2, "reach": (3, None), "sinks": "self_attn.sinks"},
        )
    ],
    "llama": [llama("llama", settings={"attention_bias": True})],
    "mistral": [llama("mistral", settings={"sliding_window": 3, **BIG}, reach=(3,))],
    "qwen2": [llama("qwen2")],
    "qwen3": [llama("qwen3", settings=BIG | {"attention_bias": True}, qk_norm=(*QK, "rms"))],
    "gemma": [llama("gemma", settings=BIG, **GEMMA)],
    "gemma2": [
        llama(
            "gemma2",
            settings=TWO | BIG | {"attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 16},
            **GEMMA | {"layers": 2, "reach": (3, None), "scale": 0.25, "cap": 2.0},
        )
    ],
    "gemma3": [
        llama(
            "gemma3_text",
            settings=TWO | BIG | BOTH | {"query_pre_attn_scalar": 16},
            **GEMMA | {"layers": 2, "reach": (3, None), "scale": 0.25, "qk_norm": (*QK, "plus one")},
        )
    ],
    "glm": [llama("glm", 4, PARTIAL | BIG | {"attention_bias": True}, neighbours=True, norm=GLM)],
    "smollm3": [llama("smollm3", settings={"num_hidden_layers": 2, "no_rope_layers": [1, 0]}, layers=2, still=(1,))],
    "bert": [bert("bert")],
    "roberta": [bert("roberta", table=("embeddings.position_embeddings", 2))],
    "distilbert": [
        bert(
            "distilbert",
            {"dim": WIDTH, "n_layers": 1, "n_heads": HEADS, "hidden_dim": 24},
            **{"layer": "transformer.layer.{}", "maps": tuple(f"attention.{name}_lin" for name in "qkv")},
            out="attention.out_lin",
        )
    ],
    "albert": [
        bert(
            "albert",
            {"embedding_size": 16},
            **{"layer": f"encoder.{ALBERT}", "maps": ("attention.query", "attention.key", "attention.value")},
            **{"out": "attention.dense", "table": None},
        )
    ],
    "electra": [bert("electra", {"embedding_size": WIDTH})],
    "mpnet": [
        bert(
            "mpnet",
            {"relative_attention_num_buckets": 32},  # the library uses 32 whatever this says
            **{"maps": tuple(f"attention.attn.{name}" for name in "qkv"), "out": "attention.attn.o"},
            **{"buckets": "encoder.relative_attention_bias", "table": ("embeddings.position_embeddings", 2)},
        )
    ],
    "deberta-v2": [
        bert(
            "deberta-v2",
            DEBERTA,
            maps=tuple(f"attention.self.{name}_proj" for name in ("query", "key", "value")),
            **{"scale": 24**-0.5, "buckets": "disentangled", "table": None},
        )
    ],
    "modernbert": [
        Row(
            "modernbert",
            NEO
            | {"num_hidden_layers": 2, "layer_types": LOCAL[::-1], "local_attention": 4, "attention_bias": True}
            | {"rope_parameters": dict.fromkeys(LOCAL, ROPE), "norm_bias": True}
            | {f"{name}_token_id": 0 for name in ("cls", "sep")},
            **{"maps": ("attn.Wqkv",), "fused": "blocks", "out": "attn.Wo", "rotary": 8, "layers": 2, "causal": False},
            **{"norm": ("attn_norm", "layer", 1e-5), "auto": "AutoModelForMaskedLM", "reach": (None, 3)},
        )
    ],
    "vit": [
        Row(
            "vit",
            VIT | {"image_size": 8, "patch_size": 4},
            maps=tuple(f"attention.{name}_proj" for name in "qkv"),
            **{"out": "attention.o_proj", "norm": ("layernorm_before", "layer", 1e-12), "auto": "AutoModel"},
            **{"causal": False, "input": IMAGE, "table": ("embeddings.position_embeddings", 0)},
        )
    ],
    "clip-text": [
        Row(
            "clip_text_model",
            NEO,
            **{"layer": "encoder.layers.{}", "out": "self_attn.out_proj", "auto": "AutoModel"},
            **{"norm": ("layer_norm1", "layer", 1e-5), "table": ("embeddings.position_embedding", 0)},
        )
    ],
    "t5": [t5("encoder"), t5("decoder")],
    "bart": [
        bart("bart", stack, {"max_position_embeddings": 16}, norm=None, table=(f"{stack}.embed_positions", 2))
        for stack in ("encoder", "decoder")
    ],
    "whisper": [
        bart(
            "whisper",
            stack,
            WHISPER,
            **{"norm": ("self_attn_layer_norm", "layer", 1e-5), "table": (f"{stack}.embed_positions", 0)},
            **{"auto": "AutoModelForSpeechSeq2Seq", "input": WHISPER_INPUT},
        )
        for stack in ("encoder", "decoder")
    ],
}
