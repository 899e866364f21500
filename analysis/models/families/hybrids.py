"""The rows of hybrids: models some of whose layers are attention with a softmax, and others something else."""

from dataclasses import replace

from analysis.core.positions import Positions, StreamPositions
from analysis.models.families.llamas import RMS, RMS_AFTER, WHOLE, like_llama, multiplier
from analysis.models.families.positions import rotary, windowed
from analysis.models.families.row import Config, Maps, QueryKeyNames, by_option, stream

NOWHERE = stream("none")


def rotary_if_chosen(config: Config, layer: int, channel: int) -> Positions:
    """Return Granite's positions: most of its hybrids have none."""
    chosen = config.position_embedding_type == "rope"
    return rotary()(config, layer, channel) if chosen else StreamPositions("none")


def falcon_scale(config: Config, layer: int, channel: int) -> float:
    """Return Falcon-H1's scale, with the number that its keys are multiplied with."""
    return float(config.key_multiplier) * channel**-0.5


ROWS = (
    like_llama("Jamba", "jamba", hybrid=True, biases="", positions=NOWHERE),
    like_llama("Bamba", "bamba", hybrid=True, positions=rotary(partial=True)),
    like_llama("Granite 4 (hybrid)", "granitemoehybrid", hybrid=True, scale=multiplier, positions=rotary_if_chosen),
    # Attention and a Mamba stand side by side in each layer.
    like_llama("Falcon-H1", "falcon_h1", scale=falcon_scale, only={"attention_in_multiplier": (1.0,)}),
    like_llama(
        "OLMo Hybrid",
        "olmo_hybrid",
        hybrid=True,
        norms=(RMS_AFTER,),
        qk_norm=WHOLE,
        older=(("post_attention_layernorm", "feedforward_layer_norm"),),
    ),
    like_llama(
        "LFM2",
        "lfm2",
        "lfm2_moe",
        hybrid=True,
        biases="",
        output="self_attn.out_proj",
        norms=(replace(RMS, path="operator_norm", eps="norm_eps"),),
        qk_norm=QueryKeyNames("self_attn.q_layernorm", "self_attn.k_layernorm", eps="norm_eps"),
    ),
    like_llama(
        "Nemotron-H",
        "nemotron_h",
        hybrid=True,
        biases="",
        maps=Maps(("mixer.q_proj", "mixer.k_proj", "mixer.v_proj")),
        output="mixer.o_proj",
        norms=(replace(RMS, path="norm", eps="layer_norm_epsilon"),),
        positions=NOWHERE,
        tokens="embeddings",
    ),
    like_llama("MiniMax-Text-01", "minimax", hybrid=True, biases="", mask=windowed),
    like_llama(
        "RecurrentGemma",
        "recurrent_gemma",
        hybrid=True,
        biases=by_option("attention_bias", "QKV", always="O"),
        maps=Maps(("temporal_block.q_proj", "temporal_block.k_proj", "temporal_block.v_proj")),
        output="temporal_block.o_proj",
        norms=(replace(RMS, path="temporal_pre_norm", plus_one=True),),
        positions=rotary(partial=True),
        mask=windowed,
    ),
)
