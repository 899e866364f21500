"""The rows of models with an encoder and a decoder, one for each, and of encoders of sound."""

from dataclasses import replace

from analysis.models.families.decoders import SELF_ATTENTION, no_scale
from analysis.models.families.positions import plain_causal
from analysis.models.families.row import Family, Maps, NormName, stream

BEFORE = (NormName("self_attn_layer_norm", eps=1e-5),)
AFTER = (NormName("self_attn_layer_norm", "sum", eps=1e-5),)
BART = Family(
    "BART, PLBART",
    ("bart", "plbart"),
    "encoder.layers.{}",
    SELF_ATTENTION,
    "self_attn.out_proj",
    AFTER,
    stack="encoder",
    heads="encoder_attention_heads",
    layers="encoder_layers",
    places="encoder.embed_positions",
    first_place=2,
)


def _decoder(row: Family) -> Family:
    """Return the row of the decoder that belongs to an encoder's."""
    return replace(
        row,
        stack="decoder",
        layer=row.layer.replace("encoder", "decoder"),
        mask=plain_causal,
        heads="decoder_attention_heads",
        layers="decoder_layers",
        places=row.places and row.places.replace("encoder", "decoder"),
    )


def _sinusoidal(name: str, norms: tuple[NormName, ...], *model_types: str) -> Family:
    return replace(BART, name=name, model_types=model_types, norms=norms, positions=stream("sinusoidal"), places=None)


MBART = replace(BART, name="mBART", model_types=("mbart",), norms=BEFORE)
BLENDERBOT = replace(MBART, name="Blenderbot", model_types=("blenderbot",), first_place=0)
MARIAN = _sinusoidal("Marian", AFTER, "marian")
PEGASUS = _sinusoidal("Pegasus, M2M-100, Speech-to-Text", BEFORE, "pegasus", "m2m_100", "speech_to_text")
WHISPER = replace(_sinusoidal("Whisper", BEFORE, "whisper"), biases="QVO")
WHISPER_DECODER = replace(
    _decoder(WHISPER), positions=stream("learned"), places="decoder.embed_positions", tokens="decoder.embed_tokens"
)
T5 = Family(
    "T5, mT5, umT5",
    ("t5", "mt5", "umt5", "switch_transformers"),
    "encoder.block.{}",
    Maps(("layer.0.SelfAttention.q", "layer.0.SelfAttention.k", "layer.0.SelfAttention.v")),
    "layer.0.SelfAttention.o",
    (NormName("layer.0.layer_norm", kind="rms", eps="layer_norm_epsilon"),),
    learned="t5",
    scale=no_scale,
    biases="",
    stack="encoder",
    heads="num_heads",
    layers="num_layers",
    tokens="shared",
)
T5_DECODER = replace(T5, stack="decoder", layer="decoder.block.{}", mask=plain_causal, layers="num_decoder_layers")
WAV2VEC2 = Family(
    "wav2vec 2.0, HuBERT",
    ("wav2vec2", "hubert"),
    "encoder.layers.{}",
    Maps(("attention.q_proj", "attention.k_proj", "attention.v_proj")),
    "attention.out_proj",
    (NormName("layer_norm", "sum"),),
    stream("convolution"),
    only={"do_stable_layer_norm": (False,)},
)

ROWS = (
    *(stack for row in (BART, MBART, BLENDERBOT, MARIAN, PEGASUS) for stack in (row, _decoder(row))),
    *(WHISPER, WHISPER_DECODER, T5, T5_DECODER, WAV2VEC2),
)
