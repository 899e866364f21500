"""The rows of encoders of text and images."""

from analysis.models.families.positions import causal_if_decoder
from analysis.models.families.row import Family, Maps, NormName

BERT = Family(
    "BERT", ("bert",), "encoder.layer.{}",
    Maps(("attention.self.query", "attention.self.key", "attention.self.value")), "attention.output.dense",
    (NormName("attention.output.LayerNorm", "sum"),), mask=causal_if_decoder, groups=None,
    tokens="embeddings.word_embeddings", places="embeddings.position_embeddings",
    only={"position_embedding_type": ("absolute", None)},
    older=(("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")))

VIT_FILES = (("layers.", "encoder.layer."), ("attention.q_proj", "attention.attention.query"),
             ("attention.k_proj", "attention.attention.key"), ("attention.v_proj", "attention.attention.value"),
             ("attention.o_proj", "attention.output.dense"))
VIT = Family(
    "ViT", ("vit",), "layers.{}", Maps(("attention.q_proj", "attention.k_proj", "attention.v_proj")),
    "attention.o_proj", (NormName("layernorm_before"),), groups=None, places="embeddings.position_embeddings",
    older=VIT_FILES)

ROWS = (BERT, VIT)
