"""The rows of decoders: models that continue a text."""

from dataclasses import replace

from analysis.models.families.positions import causal, plain_causal, rotary
from analysis.models.families.row import Config, Family, Maps, NormName


def gpt2_scale(config: Config, layer: int, channel: int) -> float:
    """Return GPT-2's scale: some divide by the layer's number too, and some do not divide by the root."""
    root = channel ** -0.5 if config.scale_attn_weights else 1.0
    return root / (layer + 1) if config.scale_attn_by_inverse_layer_idx else root


SELF_ATTENTION = Maps(("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"))
RMS = NormName("input_layernorm", kind="rms", eps="rms_norm_eps")

GPT2 = Family(
    "GPT-2", ("gpt2",), "h.{}", Maps(("attn.c_attn",), "blocks", inputs_first=True), "attn.c_proj",
    (NormName("ln_1", eps="layer_norm_epsilon"),), mask=plain_causal, scale=gpt2_scale, groups=None, tokens="wte",
    places="wpe")
OPT = Family(
    "OPT", ("opt",), "decoder.layers.{}", SELF_ATTENTION, "self_attn.out_proj",
    (NormName("self_attn_layer_norm", eps=1e-5),), mask=plain_causal, groups=None, tokens="decoder.embed_tokens",
    places="decoder.embed_positions", first_place=2, only={"do_layer_norm_before": (True, None)})
LLAMA = Family(
    "Llama", ("llama", "mistral"), "layers.{}", SELF_ATTENTION, "self_attn.o_proj", (RMS,), rotary(), causal,
    tokens="embed_tokens")
QWEN2 = replace(LLAMA, name="Qwen2", model_types=("qwen2",))
GPT_NEOX = Family(
    "GPT-NeoX, Pythia", ("gpt_neox",), "layers.{}", Maps(("attention.query_key_value",), "heads"), "attention.dense",
    (NormName("input_layernorm"),), rotary(), plain_causal, groups=None, tokens="embed_in")

ROWS = (GPT2, OPT, LLAMA, QWEN2, GPT_NEOX)
