"""Every option that an attention of transformers reads is followed exactly or refused by name, in every family.

Options and their values come from the library's source (`options`). Each case is a tiny model with random parameters,
read from memory and from its files, with texts padded on the left, on the right and not at all.
"""

import json
import os
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
import torch
from transformers import CONFIG_MAPPING
from transformers.utils import logging

from analysis.core.positions import Rotary
from analysis.models.families import FAMILIES
from analysis.models.families.tiny import SETTINGS, random_model, tiny_inputs, tiny_model, tiny_settings
from analysis.models.reading import load
from analysis.surveys.family_agreement import agreement
from tests.analysis.models.options import ABSENT, find_options, masks, reads_of, values
from tests.analysis.models.test_families import assert_same

STACKS = [(row, model_type) for row in FAMILIES for model_type in row.model_types if not row.files_only]
IDS = [f"{model_type} {row.stack}".strip() for row, model_type in STACKS]
QUICK = ("gpt2", "bert", "mistral", "gemma3_text", "deberta-v2")
"""Families whose options are tried one by one in every run of the tests."""
ALL = bool(os.environ.get("EVERY_VALUE"))
"""Whether every value of every option is tried: ten minutes; else one of each, drawn anew for each family."""
PAIRS = 3
"""Of options that are tried together, for each family."""
OF_MASKS = {option for make in masks() for option in reads_of(make).defaults}
OLDER = {"n_embed": "hidden_size", "rotary_dim": "partial_rotary_factor", "rotary_emb_base": "rope_theta"}
"""Names that a configuration takes and stores under others."""
REFUSES = "refused by the library"
"""No model can be built of such a configuration, or none runs."""


def settings_of(row, model_type, options):
    """Return what config.json holds: a tiny model's settings, and these options in the part that the stack has."""
    given = tiny_settings(model_type)
    part = given[row.section] | options if row.section else given | options
    part = {name: value for name, value in part.items() if not (isinstance(value, str) and value == ABSENT)}
    return given | {row.section: part} if row.section else part


def draw_inputs(model, row):
    """Return inputs without padding, and three texts padded on the right, on the left and not at all."""
    plain = dict(tiny_inputs(model, texts=3))
    padding = getattr(model.config, "pad_token_id", None)
    if padding is not None and "input_ids" in plain:  # some families take these tokens for padding
        plain["input_ids"] = plain["input_ids"].masked_fill(plain["input_ids"] == padding, 7 if padding != 7 else 8)
    if "input_ids" not in plain or row.stack == "vision":
        return [plain]
    mask = torch.ones_like(plain["input_ids"])
    mask[0, -3:], mask[1, :3] = 0, 0
    masks = {"attention_mask": mask} | ({"decoder_attention_mask": mask} if "decoder_input_ids" in plain else {})
    return [plain, plain | masks]


def runs(model, inputs, *, finite=False):
    """Say whether the library computes anything, and ``finite`` numbers, which it may not where queries are padding."""
    try:
        result = model(**inputs, output_attentions=True)
    except Exception:
        return False
    tensors = [value for value in result.values() if isinstance(value, torch.Tensor)]
    return not finite or all(value.isfinite().all() for value in tensors)


def compare(model, read, layers, inputs, options):
    """Return ``"followed"``, ``"refused"`` (some refuse long texts only), or by how much the adapter differs.

    ``None`` where the model cannot run.
    """
    scaled = any(isinstance(layer.positions, Rotary) and layer.positions.scaling != "default" for layer in layers)
    allowed = 1e-6 if scaled or read.family.rounded else 1e-12
    try:
        error = agreement(model, read, inputs, in_double=True)
    except Exception as refusal:
        if not runs(model, inputs):
            return None
        if not not_named(refusal, options):
            return "refused"
        model, allowed = model.float(), 1e-5
        inputs = {name: value.float() if value.is_floating_point() else value for name, value in inputs.items()}
        error = agreement(model, load(model, stack=read.family.stack), inputs)
    worst = max(error.attention, error.output, error.norm)
    return "followed" if worst < allowed else f"differs by {worst:.1e}"


def read_layers(source, row):
    read = load(source, stack=row.stack or None, dtype=torch.float64)
    return read, list(read.layers)


def outcome(row, model_type, options, *, as_written=True):
    """Try options together: ``"followed"``, ``"refused"``, `REFUSES`, or what is wrong.

    Files hold the configuration as the library writes it, or else as somebody may, without what is left at its default.
    """
    settings = settings_of(row, model_type, options)
    try:
        model = random_model(CONFIG_MAPPING[model_type](**json.loads(json.dumps(settings))))
    except Exception:
        return REFUSES
    inputs = draw_inputs(model, row)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        if not as_written:
            (Path(folder) / "config.json").write_text(json.dumps(settings | {"model_type": model_type}))
        try:
            read, layers = read_layers(model, row)
        except Exception as error:
            found = not_named(error, options) or refused_from_files(folder, row, options)
            return found if found == "refused" or any(runs(model, each) for each in inputs) else REFUSES
        for one, other in zip(layers, read_layers(Path(folder), row)[1], strict=True):
            assert_same(one, other)
    tried = inputs if options.keys() & OF_MASKS else inputs[-1:]  # without padding there may be no mask to read them
    found = [said for each in tried if (said := compare(model, read, layers, each, options))]
    if not found or ("differs by nan" in found and not runs(model, inputs[0], finite=True)):
        return REFUSES
    return next((said for said in found if said != "followed"), "followed")


def not_named(error, options):
    """Say what is wrong with a refusal: it must name one of the options, as it is called today."""
    names = {*options, *(name for value in options.values() if isinstance(value, dict) for name in value)}
    names |= {*map(OLDER.get, names & OLDER.keys())}
    if isinstance(error, ValueError) and any(name in str(error) for name in names):
        return ""
    return f"is refused without its name: {type(error).__name__}: {error}"


def refused_from_files(folder, row, options):
    try:
        read_layers(Path(folder), row)
    except Exception as error:
        return not_named(error, options) or "refused"
    return "is refused in memory, and read from files"


def try_all(row, model_type, cases):
    """Try each of the cases; print how many were what, and fail with what was wrong."""
    counts, wrong = Counter(), []
    with torch.random.fork_rng(devices=[]):
        for number, options in enumerate(cases):
            try:
                found = outcome(row, model_type, options, as_written=number % 2 == 0)
            except Exception as error:
                found = f"raises {type(error).__name__}: {error}"
            counts[found if found in ("followed", "refused", REFUSES) else "wrong"] += 1
            if found not in ("followed", "refused", REFUSES):
                wrong.append(f"{options} {found}")
    names = {name for options in cases for name in options}
    print(f"{model_type} {row.stack}: {len(names)} options, {len(cases)} cases:", dict(counts), file=sys.stderr)
    assert not wrong, f"{model_type} {row.stack}:\n" + "\n".join(wrong)
    assert counts["followed"]
    assert counts[REFUSES] <= 2 / 3 * len(cases)  # else the comparison says little
    return counts


def cases_of(row, model_type, *, every=False):
    """Return each option alone, at one or at every value, and some pairs."""
    model = tiny_model(model_type)
    read = load(model, stack=row.stack or None)
    reads, options = find_options(model, read)
    own = SETTINGS.get(model_type, {})
    own = own.get(row.section, {}) if row.section else own
    tried = {name: values(reads, read.config, name, set_here=name in own) for name in options}
    tried = {name: found for name, found in tried.items() if found}
    drawn = random.Random(f"{model_type} {row.stack}")
    alone = [{name: value} for name, found in tried.items() for value in (found if every else [drawn.choice(found)])]
    pairs = [drawn.sample(sorted(tried), 2) for _ in range(PAIRS)]
    return alone + [{name: drawn.choice(tried[name]) for name in pair} for pair in pairs]


@pytest.fixture(autouse=True)
def quiet():
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    yield
    logging.set_verbosity(before)
    logging.enable_progress_bar()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("row", "model_type"), STACKS, ids=IDS)
def test_options_of_every_family_are_followed_or_refused(row, model_type):
    try_all(row, model_type, cases_of(row, model_type, every=ALL))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model_type", QUICK)
def test_options_of_some_families_are_followed_or_refused(model_type):
    row = next(row for row in FAMILIES if model_type in row.model_types)
    try_all(row, model_type, [options for options in cases_of(row, model_type) if len(options) == 1])


WAS_WRONG = [
    ("llama", {"is_causal": False}, "followed"),
    ("mistral", {"is_causal": False}, "followed"),
    ("gptj", {"is_causal": False}, "followed"),
    ("gpt2", {"is_causal": False}, "refused"),
    ("electra", {"head_dim": 16}, "refused"),
    ("bart", {"d_kv": 16}, "refused"),
    ("helium", {"head_dim": 16}, "refused"),
    ("llama", {"head_dim": 16}, "followed"),
    ("gemma3_text", {"use_bidirectional_attention": True}, "followed"),
    ("gemma3_text", {"use_bidirectional_attention": True, "is_causal": False}, "followed"),
    ("gemma3_text", {"attn_logit_softcapping": 2.0}, "followed"),
    ("llama", {"sliding_window": 3}, "followed"),
    ("mistral", {"layer_types": ["full_attention", "full_attention"]}, "followed"),
    ("llama", {"partial_rotary_factor": 0.5}, "followed"),
    ("gpt_neox", {"partial_rotary_factor": 0.5}, "followed"),
    ("phi", {"head_dim": 3}, "refused"),
    ("esm", {"rope_theta": 100.0}, "followed"),
    ("roformer", {"rotary_value": True}, "refused"),
    ("deberta", {"pos_att_type": ["c2p", "p2c", "p2p"]}, "followed"),
    ("deberta", {"pos_att_type": None}, "followed"),
    ("deberta-v2", {"pos_att_type": ["c2p", "p2c", "p2p"]}, "followed"),
    ("deberta-v2", {"norm_rel_ebd": ABSENT, "position_buckets": ABSENT}, "followed"),
    ("deberta-v2", {"share_att_key": False}, "followed"),
    ("mpt", {"attn_config": {"alibi_bias_max": 4}}, "refused"),
    ("mpt", {"attn_config": {"softmax_scale": 0.5}}, "followed"),
    ("gpt_oss", {"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_theta": 100.0}, "followed"),
    ("llama4_text", {"rope_scaling": {"type": "yarn", "factor": 4.0}, "use_qk_norm": False}, "followed"),
    ("llama4_text", {"floor_scale": 3}, "followed"),
    ("mpnet", {"relative_attention_num_buckets": 64}, "followed"),
    ("ctrl", {"layer_norm_epsilon": 0.1}, "followed"),
    ("falcon", {"new_decoder_architecture": False, "multi_query": True, "bias": True}, "followed"),
    ("falcon", {"new_decoder_architecture": False, "multi_query": False, "num_kv_heads": 4}, "followed"),
    ("bloom", {"n_head": 6, "hidden_size": 48}, "followed"),
    ("mpt", {"n_heads": 6, "d_model": 48}, "followed"),
    ("llama", {"attention_bias": True}, "followed"),
    ("beit", {"use_shared_relative_position_bias": True}, "followed"),
    ("beit", {"use_relative_position_bias": False}, "followed"),
    ("esm", {"position_embedding_type": "absolute"}, "followed"),
    ("albert", {"num_hidden_groups": 1}, "followed"),
    ("seed_oss", {"attention_bias": False, "attention_out_bias": True}, "followed"),
    ("seed_oss", {"attention_bias": True, "attention_out_bias": False}, "followed"),
    ("opt", {"do_layer_norm_before": False}, "refused"),
    ("olmo", {"clip_qkv": 5.0}, "refused"),
    ("phi", {"qk_layernorm": True}, "refused"),
    ("falcon", {"alibi": True}, "refused"),
]
"""What was read as something else once, without a word, and what few families have."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("model_type", "options", "due"), WAS_WRONG)
def test_options_that_were_read_as_something_else_once_or_that_few_have(model_type, options, due):
    row = next(row for row in FAMILIES if model_type in row.model_types)
    for as_written in (True, False):
        assert outcome(row, model_type, options, as_written=as_written) == due


@pytest.mark.parametrize(
    ("model_type", "due"),
    [
        ("gemma3_text", {"use_bidirectional_attention", "attn_logit_softcapping", "query_pre_attn_scalar"}),
        ("esm", {"rope_theta", "position_embedding_type"}),
        ("deberta-v2", {"norm_rel_ebd", "position_buckets", "pos_att_type", "share_att_key"}),
        ("mpt", {"attn_config", "is_causal"}),
        ("llama4_text", {"floor_scale", "attn_scale", "attn_temperature_tuning", "attention_chunk_size"}),
        ("gpt_neo", {"window_size", "attention_layers"}),
    ],
)
def test_the_options_of_the_source_are_found(model_type, due):
    model = tiny_model(model_type)
    assert due <= set(find_options(model, load(model))[1])
