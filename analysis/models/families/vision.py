"""The rows of encoders of images, and of the two halves of models that join images and texts."""

from dataclasses import replace

from analysis.models.families.decoders import SELF_ATTENTION
from analysis.models.families.positions import plain_causal
from analysis.models.families.row import Family, Maps, NormName, by_option

QKV = Maps(("attention.q_proj", "attention.k_proj", "attention.v_proj"))
OLDER_MAPS = (
    ("attention.q_proj", "attention.attention.query"),
    ("attention.k_proj", "attention.attention.key"),
    ("attention.v_proj", "attention.attention.value"),
    ("attention.o_proj", "attention.output.dense"),
)
"""What files call these maps, as older versions of the library did."""
VIT = Family(
    "ViT",
    ("vit", "deit", "vit_msn", "ijepa", "vit_mae"),
    "layers.{}",
    QKV,
    "attention.o_proj",
    (NormName("layernorm_before"),),
    biases=by_option("qkv_bias", "QKV", "O"),
    places="embeddings.position_embeddings",
    older=(("layers.", "encoder.layer."), *OLDER_MAPS),
)
AST = replace(VIT, name="Audio Spectrogram Transformer", model_types=("audio-spectrogram-transformer",))
DINOV2 = replace(
    VIT,
    name="DINOv2",
    model_types=("dinov2", "dinov2_with_registers"),
    layer="encoder.layer.{}",
    norms=(NormName("norm1"),),
    older=OLDER_MAPS,
)
BEIT = replace(
    VIT,
    name="BEiT",
    model_types=("beit",),
    learned="beit",
    biases="QVO",
    has_places=lambda config: config.use_absolute_position_embeddings,
    older=(
        *VIT.older,
        ("relative_position_bias.", "attention.attention.relative_position_bias."),
        ("shared_position_bias.", "encoder.relative_position_bias."),
    ),
)
CLIP = Family(
    "CLIP, SigLIP (vision)",
    ("clip_vision_model", "siglip_vision_model"),
    "encoder.layers.{}",
    SELF_ATTENTION,
    "self_attn.out_proj",
    (NormName("layer_norm1"),),
    places="embeddings.position_embedding",
)
CLIP_TEXT = replace(
    CLIP, name="CLIP (text)", model_types=("clip_text_model",), mask=plain_causal, tokens="embeddings.token_embedding"
)
SIGLIP_TEXT = replace(CLIP_TEXT, name="SigLIP (text)", model_types=("siglip_text_model",), mask=Family.mask)


def _half(row: Family, name: str, model_types: tuple[str, ...], stack: str) -> Family:
    """Return the row of one half of a model that joins two."""
    inside = {key: f"{stack}_model.{getattr(row, key)}" for key in ("layer", "tokens", "places") if getattr(row, key)}
    return replace(row, name=name, model_types=model_types, stack=stack, section=f"{stack}_config", **inside)


ROWS = (
    *(VIT, AST, DINOV2, BEIT, CLIP, CLIP_TEXT, SIGLIP_TEXT),
    _half(CLIP, "CLIP, SigLIP (whole)", ("clip", "siglip"), "vision"),
    _half(CLIP_TEXT, "CLIP (whole)", ("clip",), "text"),
    _half(SIGLIP_TEXT, "SigLIP (whole)", ("siglip",), "text"),
)
