"""The table of families: every row, and the families that are refused with the reason."""

from analysis.models.families import decoders, encoders, hybrids, llamas, pairs, vision
from analysis.models.families.row import Family

FAMILIES: tuple[Family, ...] = (*decoders.ROWS, *llamas.ROWS, *hybrids.ROWS, *encoders.ROWS, *vision.ROWS, *pairs.ROWS)

LATENT = (
    "its queries, keys and values pass through a latent row with a norm of its own (multi-head latent "
    "attention), so no head has one matrix W_K that the identities could be about"
)
SPARSE = "its attention is not one softmax over all keys that a query sees"
OTHER_ROWS = "its values read other rows than its queries and keys do"
CONVOLUTION = "its attention is mixed with convolutions"
NO_ATTENTION = "it has no attention with a softmax"
REFUSED: dict[str, str] = {
    **dict.fromkeys(
        ("deepseek_v2", "deepseek_v3", "deepseek_v32", "minicpm3", "youtu", "glm4_moe_lite", "longcat_flash"), LATENT
    ),
    **dict.fromkeys(("longformer", "big_bird", "bigbird_pegasus", "led", "longt5", "nystromformer"), SPARSE),
    **dict.fromkeys(("reformer", "yoso", "mra", "fnet"), SPARSE),
    **dict.fromkeys(("bailing_hybrid", "kimi_linear"), LATENT),
    **dict.fromkeys(
        ("qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"),
        "the outputs of its heads are multiplied by a gate that reads the token, so W_O is not the map behind them",
    ),
    **dict.fromkeys(
        ("zamba", "zamba2"),
        "its attention reads each row beside the embedding of its token, twice as wide as the stream",
    ),
    **dict.fromkeys(("falcon_mamba", "mamba", "mamba2", "rwkv", "xlstm"), NO_ATTENTION),
    "mobilebert": OTHER_ROWS,
    **dict.fromkeys(("squeezebert", "convbert"), CONVOLUTION),
    "bitnet": "the outputs of its heads pass through a norm before W_O, so they do not add up",
    "xlnet": "its scores have a map of their own for positions, four parts by design (Transformer-XL)",
    "doge": "it drops keys by a mask that it computes from their values",
    "dinov3_vit": "its rotary positions have two axes, which depend on the size of the image",
}
"""Why models of a ``model_type`` are not read."""
