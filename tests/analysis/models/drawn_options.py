"""Options of configurations drawn at random, several at once: what `attend` and `score_parts` make of such models.

Every field that a configuration's class declares may be drawn, and some that any config.json may hold. What belongs
here: drawing them, and what became of the model. What does not: the options that the library's source reads, tried one
by one (``test_options.py``). By hand: ``python -m tests.analysis.models.drawn_options 2000 7``.
"""

import json
import random
import tempfile
from contextlib import nullcontext
from itertools import product
from pathlib import Path

import torch
from transformers import CONFIG_MAPPING, PreTrainedConfig

from analysis import attend, layer_inputs, load, score_parts, score_terms
from analysis.models.families import FAMILIES
from analysis.models.families.tiny import random_model, tiny_inputs, tiny_settings
from analysis.models.inputs import places, real_rows
from analysis.models.reading import Model
from analysis.surveys.layer_runs import InDouble, default_dtype
from tests.analysis.models.inputs import try_many
from tests.analysis.models.test_families import assert_same

STACKS = [(kind, row) for row in FAMILIES for kind in row.model_types if not row.files_only]
ROTARY = [
    {"rope_type": "default", "rope_theta": 100.0},
    {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
    {"rope_type": "linear", "rope_theta": 50.0, "factor": 3.0},
    {"rope_type": "dynamic", "rope_theta": 50.0, "factor": 3.0},
    {"rope_type": "yarn", "rope_theta": 50.0, "factor": 4.0, "original_max_position_embeddings": 16},
    {"rope_type": "yarn", "rope_theta": 50.0, "factor": 2.0, "attention_factor": 0.6, "beta_fast": 8.0},
    {"rope_type": "yarn", "rope_theta": 50.0, "factor": 2.0, "mscale": 0.7, "mscale_all_dim": 0.4, "truncate": False},
    {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    | {"original_max_position_embeddings": 32},
    {"rope_type": "longrope", "rope_theta": 100.0, "factor": 2.0, "original_max_position_embeddings": 32}
    | {"short_factor": [1.0, 1.5, 2.0, 2.5], "long_factor": [2.0, 3.0, 4.0, 5.0]},
    {"rope_type": "proportional", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
]
WORDS = ("full_attention", "sliding_attention", "chunked_attention")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads")
EPS = ("layer_norm_eps", "layer_norm_epsilon", "rms_norm_eps", "norm_eps", "norm_epsilon")
VALUES: dict[str, list] = {
    **{key: [1, 2, 8] for key in (*HEADS, "attention_heads")},
    **{key: [1, 2, 4, None] for key in ("num_key_value_heads", "num_kv_heads")},
    **{key: [4, 6, 16, None] for key in ("head_dim", "d_kv")},
    **{key: [0.001, 0.1] for key in EPS},
    **{key: [*ROTARY, {"type": "linear", "factor": 4.0}] for key in ("rope_parameters", "rope_scaling")},
    **{key: [0.25, 1.0, 3.0] for key in ("attention_multiplier", "embedding_multiplier", "residual_multiplier")},
    **{key: [None, 0.5, 5.0] for key in ("attn_logit_softcapping", "final_logit_softcapping", "clip_qkv")},
    **{key: ["gelu", "relu", "silu"] for key in ("hidden_act", "activation_function", "hidden_activation")},
    "query_pre_attn_scalar": [3, 16, 64],
    "sliding_window": [None, 1, 3, 64],
    "sliding_window_pattern": [None, 1, 2, 3, "LG"],
    "max_window_layers": [0, 1, 2],
    "layer_types": [list(pair) for pair in product(WORDS, repeat=2)],
    "window_size": [1, 3, 100],
    "local_attention": [2, 4, 64],
    "attention_types": [[[["local"], 2]], [[["global"], 2]], [[["local", "global"], 1]]],
    "attention_chunk_size": [None, 3, 5, 64],
    "attn_scale": [0.3, 2.0],
    "floor_scale": [2, 5],
    "no_rope_layers": [[0, 0], [0, 1], [1, 1], []],
    "no_rope_layer_interval": [1, 2, 3],
    "rotary_dim": [2, 6, 8, None],
    "rope_theta": [20.0, 1e6],
    "partial_rotary_factor": [0.25, 0.5, 0.75, 1.0],
    "position_embedding_type": ["absolute", "rotary", "relative_key", "relative_key_query"],
    "pos_att_type": [None, [], ["c2p"], ["p2c"], ["p2p"], "c2p|p2c", ["p2p", "c2p", "p2c"]],
    "position_buckets": [-1, 4, 8],
    "max_relative_positions": [-1, 5, 30],
    "norm_rel_ebd": ["none", "layer_norm"],
    "relative_attention_num_buckets": [4, 8, 32],
    "relative_attention_max_distance": [3, 16, 128],
    "attn_config": [
        {"alibi": False},
        {"softmax_scale": 0.2},
        {"qk_ln": True},
        {"clip_qkv": 1.0},
        {"alibi_bias_max": 2},
    ],
    "num_ln_in_parallel_attn": [1, 2],
    "max_position_embeddings": [12, 16, 40],
    "original_max_position_embeddings": [8, 32],
    "num_register_tokens": [0, 3],
    "num_hidden_groups": [1, 2],
    "inner_group_num": [1, 2],
    "embedding_size": [16, 32],
    "word_embed_proj_dim": [16],
    "type_vocab_size": [0, 1, 3],
    "image_size": [8, 16],
    "patch_size": [2, 4, 8],
    "mask_ratio": [0.0, 0.5],
    "layerscale_value": [0.3],
    "feat_extract_norm": ["group", "layer"],
    "feed_forward_proj": ["relu", "gated-gelu"],
    "pretraining_tp": [1, 2],
    "num_layers": [1, 3],
    "num_hidden_layers": [1, 3],
    "intermediate_size": [16, 40],
}
"""What an option may be; one that is true or false is not listed."""
ANYWHERE = ("is_causal", "is_decoder", "use_bidirectional_attention", "attention_bias", "qkv_bias", "use_qk_norm")
ANYWHERE += ("sliding_window", "partial_rotary_factor", "rope_scaling", "rope_theta", "position_embedding_type")
ANYWHERE += ("head_dim", "scale_attn_weights", "position_buckets", "norm_rel_ebd", "share_att_key", "layer_types")
"""What a config.json may hold whether or not its class declares it."""
ELSEWHERE = ("use_cache", "summary", "output", "classifier", "conv", "ctc", "norm_topk", "reshape")
"""What options begin with that no attention reads, which would be drawn most often."""
OLDER = {"rotary_dim": "partial_rotary_factor"}
"""Names that a configuration stores under others."""


def declared(kind: type) -> dict[str, str]:
    """Return the options that a configuration's class declares, with their annotations."""
    classes = kind.__mro__[: kind.__mro__.index(PreTrainedConfig)]
    return {name: str(said) for each in classes for name, said in getattr(each, "__annotations__", {}).items()}


def draw_options(kind: type, drawn: random.Random) -> dict:
    """Draw one to five options of a class."""
    fields = declared(kind)
    known = [name for name, said in fields.items() if name in VALUES or "bool" in said]
    known = [name for name in known if not name.startswith(ELSEWHERE)]
    names = drawn.sample(known, min(drawn.choice((1, 2, 3, 4, 5)), len(known)))
    names += drawn.sample(ANYWHERE, drawn.choice((0, 0, 0, 1)))
    return {name: drawn.choice(VALUES.get(name, [True, False])) for name in names}


def draw_case(seed: int) -> dict:
    """Draw a stack of a model type, its options, the padding and the precision."""
    drawn = random.Random(seed)
    kind, row = drawn.choice(STACKS)
    own = CONFIG_MAPPING[kind]
    part = own.sub_configs[row.section] if row.section else own
    return {
        "kind": kind,
        "stack": row.stack,
        "section": row.section,
        "options": draw_options(part, drawn),
        "padding": drawn.choice(("none", "none", "right", "right", "right", "left")),
        "double": drawn.random() < 0.6,
        "files": drawn.random() < 0.3,
    }


def build(case: dict) -> torch.nn.Module:
    given = tiny_settings(case["kind"])
    if case["section"]:
        given[case["section"]] = given[case["section"]] | case["options"]
    else:
        given |= case["options"]
    model = random_model(CONFIG_MAPPING[case["kind"]](**json.loads(json.dumps(given))))
    return model if case["double"] else model.float()


def draw_inputs(model: torch.nn.Module, case: dict) -> dict:
    given = dict(tiny_inputs(model, texts=3))
    if "pixel_values" in given:
        size = model.config.vision_config.image_size if case["section"] else model.config.image_size
        given["pixel_values"] = torch.randn(3, 3, size, size, generator=torch.Generator().manual_seed(1))
    dtype = next(model.parameters()).dtype
    given = {name: value.to(dtype) if value.is_floating_point() else value for name, value in given.items()}
    if case["padding"] != "none" and "input_ids" in given and case["stack"] != "vision":
        mask = torch.ones_like(given["input_ids"])
        mask[0, -3:] = 0
        mask = mask.flip(-1) if case["padding"] == "left" else mask
        padding = getattr(model.config, "pad_token_id", None)
        for name, of in (("attention_mask", "input_ids"), ("decoder_attention_mask", "decoder_input_ids")):
            if of in given:
                tokens = given[of] if padding is None else given[of].masked_fill(given[of] == padding, 9)
                given |= {of: tokens if padding is None else tokens.masked_fill(mask == 0, padding), name: mask}
    return given


def own_maps(model: torch.nn.Module, given: dict, stack: str) -> tuple:
    """Return the attention that a model itself returns."""
    torch.manual_seed(0)  # a ViT-MAE draws an order of its patches in every run
    result = model(**given, output_attentions=True)
    result = getattr(result, f"{stack}_model_output", result)
    found = next(getattr(result, name) for name in (f"{stack}_attentions", "attentions") if getattr(result, name, None))
    if not all(map.isfinite().all() for map in found):
        raise ArithmeticError("its attention is not finite")
    return found


def worst_gap(model: torch.nn.Module, read: Model, given: dict, case: dict) -> float:
    """Return the largest difference of the model's own attention from that of `attend` and from that of the parts."""
    keep, largest, layers, numbers = real_rows(read, given), 0.0, list(read.layers), read.layers.numbers
    model_computes = InDouble if case["double"] else nullcontext
    with default_dtype(next(model.parameters()).dtype), model_computes():
        maps, rows = own_maps(model, given, case["stack"]), []
        for number in numbers:
            torch.manual_seed(0)
            rows.append(layer_inputs(read, given, number))
    maps = [maps[number] for number in numbers] if len(maps) == read.depth else maps
    for number, own, x, layer in zip(numbers, maps, rows, layers, strict=True):
        at = places(read, layer.positions, given)
        torch.manual_seed(0)
        parts = score_terms(x, layer, positions=at) if case["double"] else score_parts(read, given, number)
        total = parts.total()
        total = total if layer.soft_cap is None else layer.soft_cap * torch.tanh(total / layer.soft_cap)
        seen = own / own.sum(-1, keepdim=True)  # without a sink's share
        gaps = [attend(x, layer, keep=keep, positions=at).attention - own]
        gaps += [total.masked_fill(own == 0, -torch.inf).softmax(-1) - seen]
        for gap in gaps:
            real = gap.abs().transpose(1, 2) if keep is None else gap.abs().transpose(1, 2)[keep]
            largest = max(largest, real.nan_to_num(nan=9.0).max().item())
    return largest


def differs_in_files(model: torch.nn.Module, case: dict) -> None:
    """Read a model from a folder; raise where its layers are others than in memory."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        stack, dtype = case["stack"] or None, next(model.parameters()).dtype
        for one, other in zip(
            load(model, stack=stack).layers, load(Path(folder), stack=stack, dtype=dtype).layers, strict=True
        ):
            assert_same(one, other)


@torch.no_grad()
def outcome(case: dict) -> str:
    """Try a case: ``"agrees"``, ``"refused: ..."``, ``"the library fails: ..."``, or what is wrong."""
    double = case["double"]
    try:
        model = build(case)
        given = draw_inputs(model, case)
        with default_dtype(next(model.parameters()).dtype), InDouble() if double else nullcontext():
            own_maps(model, given, case["stack"])
    except Exception as error:
        return f"the library fails: {type(error).__name__}: {str(error)[:60]!r}"
    names = set(case["options"]) | {OLDER.get(name, name) for name in case["options"]} | {"attention_mask"}
    names |= {key for value in case["options"].values() if isinstance(value, dict) for key in value}
    try:
        if case["files"]:
            differs_in_files(model, case)
        read = load(model, stack=case["stack"] or None)
        gap = worst_gap(model, read, given, case)
    except ValueError as refusal:
        named = any(name in str(refusal) for name in names)
        return f"{'refused' if named else 'refused without its name'}: {' '.join(str(refusal).split())[:160]}"
    except Exception as error:
        return f"WRONG, raises {type(error).__name__}: {' '.join(str(error).split())[:160]}"
    allowed = 1e-10 if double and not read.family.rounded else 1e-4
    return "agrees" if gap <= allowed else f"WRONG, differs by {gap:.1e}"


if __name__ == "__main__":
    try_many(draw_case, outcome)
