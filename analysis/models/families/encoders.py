"""The rows of encoders of text."""

from dataclasses import replace

from analysis.core.positions import Positions, StreamPositions
from analysis.models.families.decoders import SELF_ATTENTION
from analysis.models.families.llamas import like_llama
from analysis.models.families.positions import causal, causal_if_decoder, fixed_rotary, rotary, two_sided_window
from analysis.models.families.row import Config, Family, Maps, NormName, Rest, by_option


def esm_positions(config: Config, layer: int, channel: int) -> Positions:
    """Return ESM's positions, rotary or learned by an option."""
    if config.position_embedding_type == "rotary":
        return fixed_rotary("halves", base="rope_theta")(config, layer, channel)
    return StreamPositions("learned")


def deberta_scale(config: Config, layer: int, channel: int) -> float:
    """Return DeBERTa's scale: one over the root of the width times the number of parts that are added."""
    kinds = config.pos_att_type or ()
    parts = 1 + (len(kinds) if config.model_type == "deberta" else ("c2p" in kinds) + ("p2c" in kinds))
    return (channel * parts) ** -0.5


def albert_group(config: Config, layer: int) -> int:
    """Return the group of layers whose parameters a layer has.

    Raises
    ------
    ValueError
        If there are more groups than layers, so that some belong to none.
    """
    groups, layers = config.num_hidden_groups, config.num_hidden_layers
    if groups > layers:
        raise ValueError(f"num_hidden_groups must be at most num_hidden_layers = {layers}, got {groups}")
    return int(layer / (layers / groups))


BERT = Family(
    "BERT",
    ("bert", "electra", "ernie", "rembert", "bert-generation", "layoutlm"),
    "encoder.layer.{}",
    Maps(("attention.self.query", "attention.self.key", "attention.self.value")),
    "attention.output.dense",
    (NormName("attention.output.LayerNorm", "sum"),),
    mask=causal_if_decoder,
    tokens="embeddings.word_embeddings",
    places="embeddings.position_embeddings",
    only={
        "position_embedding_type": ("absolute", None),
        "is_causal": (False, None),
        "sliding_window": (None,),
        "attention_chunk_size": (None,),
    },
    older=(("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")),
    rest=Rest(
        ("bert",),
        ("intermediate.dense", "output.dense"),
        {"mlp": "output.LayerNorm", "embeddings": "embeddings.LayerNorm"},
        "embeddings.token_type_embeddings",
        "embeddings",
    ),
)
ROBERTA = replace(
    BERT, name="RoBERTa", model_types=("roberta", "xlm-roberta", "camembert", "data2vec-text"), first_place=2
)
PRE_NORM = replace(
    BERT,
    name="RoBERTa-PreLayerNorm",
    model_types=("roberta-prelayernorm",),
    first_place=2,
    norms=(NormName("attention.LayerNorm"),),
)
MEGATRON = replace(BERT, name="Megatron-BERT", model_types=("megatron-bert",), norms=(NormName("attention.ln"),))
ROFORMER = replace(
    BERT,
    name="RoFormer",
    model_types=("roformer",),
    positions=fixed_rotary("neighbours"),
    only={**BERT.only, "rotary_value": (False,)},
    places=None,
    rounded="The model stores its cosines and sines in float32.",
)
ESM = replace(
    BERT,
    name="ESM",
    model_types=("esm",),
    positions=esm_positions,
    has_places=lambda config: config.position_embedding_type == "absolute",
    only={"is_folding_model": (False,)},
    buffers=("attention.self.rotary_embeddings.inv_freq",),
    norms=(NormName("attention.LayerNorm"),),
    first_place=2,
)
DISTILBERT = Family(
    "DistilBERT",
    ("distilbert",),
    "transformer.layer.{}",
    Maps(("attention.q_lin", "attention.k_lin", "attention.v_lin")),
    "attention.out_lin",
    (NormName("sa_layer_norm", "sum", eps=1e-12),),
    tokens="embeddings.word_embeddings",
    places="embeddings.position_embeddings",
    older=BERT.older,
)
ALBERT = Family(
    "ALBERT",
    ("albert",),
    "encoder.albert_layer_groups.{}.albert_layers.0",
    Maps(("attention.query", "attention.key", "attention.value")),
    "attention.dense",
    (NormName("attention.LayerNorm", "sum"),),
    tokens="embeddings.word_embeddings",
    places="embeddings.position_embeddings",
    only={"inner_group_num": (1,)},
    older=BERT.older,
    number=albert_group,  # all layers of a group share their parameters
)
MPNET = Family(
    "MPNet",
    ("mpnet",),
    "encoder.layer.{}",
    Maps(("attention.attn.q", "attention.attn.k", "attention.attn.v")),
    "attention.attn.o",
    (NormName("attention.LayerNorm", "sum"),),
    learned="mpnet",
    tokens="embeddings.word_embeddings",
    places="embeddings.position_embeddings",
    first_place=2,
)
DEBERTA = Family(
    "DeBERTa",
    ("deberta",),
    "encoder.layer.{}",
    Maps(("attention.self.in_proj",), "heads", biases=("attention.self.q_bias", None, "attention.self.v_bias")),
    "attention.output.dense",
    (NormName("attention.output.LayerNorm", "sum"),),
    learned="deberta",
    scale=deberta_scale,
    tokens="embeddings.word_embeddings",
    places="embeddings.position_embeddings",
    biases="QVO",
    has_places=lambda config: config.position_biased_input,
    only={"talking_head": (False, None)},
)
DEBERTA_V2 = replace(
    DEBERTA,
    name="DeBERTa-v2, v3",
    model_types=("deberta-v2",),
    maps=Maps(("attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj")),
    learned="deberta-v2",
    biases="QKVO",
    only={},
)
JINA = Family(
    "Jina embeddings v3",
    ("jina_embeddings_v3",),
    "layers.{}",
    SELF_ATTENTION,
    "self_attn.o_proj",
    (NormName("post_attention_layernorm", "sum"),),
    rotary(),
    tokens="embeddings.word_embeddings",
)
JINA_FILES = replace(
    JINA,
    layer="encoder.layers.{}",
    maps=Maps(("mixer.Wqkv",), "blocks"),
    output="mixer.out_proj",
    norms=(NormName("norm1", "sum"),),
    files_only=True,
)
NOMIC = replace(JINA, name="Nomic BERT", model_types=("nomic_bert",), biases="")
NOMIC_FILES = replace(
    JINA_FILES,
    name="Nomic BERT",
    model_types=("nomic_bert",),
    maps=Maps(("attn.Wqkv",), "blocks"),
    output="attn.out_proj",
    biases="",
)
EUROBERT = like_llama("EuroBERT", "eurobert", mask=Family.mask)
MODERNBERT = Family(
    "ModernBERT",
    ("modernbert",),
    "layers.{}",
    Maps(("attn.Wqkv",), "blocks"),
    "attn.Wo",
    (NormName("attn_norm", eps="norm_eps", bias="norm_bias", when=lambda config, layer: layer > 0),),
    rotary(),
    two_sided_window,
    biases=by_option("attention_bias"),
    tokens="embeddings.tok_embeddings",
)
MODERNBERT_DECODER = replace(
    MODERNBERT,
    name="ModernBERT decoder",
    model_types=("modernbert-decoder",),
    maps=Maps(("attn.q_proj", "attn.k_proj", "attn.v_proj")),
    mask=causal,
)
XLM = Family(
    "XLM, FlauBERT",
    ("xlm", "flaubert"),
    "attentions.{}",
    Maps(("q_lin", "k_lin", "v_lin")),
    "out_lin",
    (NormName("/layer_norm1.{}", "sum"),),
    heads="n_heads",
    layers="n_layers",
    tokens="embeddings",
    places="position_embeddings",
    only={"causal": (False,), "pre_norm": (False,)},
)

ROWS = tuple(row for row in globals().values() if isinstance(row, Family))
"""In the order in which they stand above."""
