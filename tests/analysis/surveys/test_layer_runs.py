"""Model in, parts out: what a layer reads, padded on either side, in half precision, from arrays."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers.models.t5.modeling_t5 import T5Attention

from analysis import attend, compute_scores, layer_inputs, load, score_parts
from analysis.maps.streaming import MapStatistics
from analysis.models import pretrained
from analysis.models.checkpoints import find
from analysis.models.families import FAMILIES
from analysis.models.families.tiny import tiny_inputs, tiny_model
from analysis.models.memory import available_memory
from analysis.surveys.layer_runs import MAPS, MAPS_BESIDE, InDouble, check_maps, run_layers, visit_layers
from tools.other_machine import OtherMachine

TEXTS = ["Nobody expects it.", "A longer sentence, so that the first one is padded on one of its sides."]


def encode(name, side):
    tokenizer = pretrained.tokenizer(find(name))
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
    tokenizer.padding_side = side
    inputs = dict(tokenizer(TEXTS, padding=True, return_tensors="pt"))
    if side == "left" and name != "neox-mini":  # learned positions, which count padding
        inputs["position_ids"] = (inputs["attention_mask"].cumsum(-1) - 1).clamp(min=0)
    return inputs


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["gpt2-mini", "neox-mini", "minilm"])
def test_attention_of_what_a_layer_reads_is_the_models_own(name, side):
    model, inputs = pretrained.load(find(name)), encode(name, side)
    maps = model(**inputs, output_attentions=True).attentions
    keep = inputs["attention_mask"].bool()
    layers = load(model).layers
    for number in (0, len(layers) - 1):
        ours = attend(layer_inputs(model, inputs, number), layers[number], keep=keep).attention
        gap = (ours - maps[number]).abs().transpose(1, 2)[keep]
        assert gap.max() < 2e-6


@pytest.mark.parametrize("name", ["gpt2-mini", "neox-mini", "minilm"])
def test_parts_add_up_to_the_scores(name):
    model, inputs = pretrained.load(find(name)).double(), encode(name, "left")
    layer, x = load(model).layers[-1], layer_inputs(model, inputs, -1)
    parts = score_parts(model, inputs, -1, origin=x.mean((0, 1)))
    assert len(parts.total()) == len(TEXTS)
    torch.testing.assert_close(parts.total(), compute_scores(x, layer), rtol=0, atol=1e-10)
    assert parts.common.abs().max() > 1e-3


def test_half_precision_is_taken_apart_in_single():
    model, inputs = pretrained.load(find("gpt2-mini"), dtype=torch.bfloat16), encode("gpt2-mini", "right")
    whole = score_parts(pretrained.load(find("gpt2-mini")), inputs, 1).total()
    parts = score_parts(model, inputs, 1)
    assert parts.content.dtype == torch.float32
    assert 0 < (parts.total() - whole)[:, :, :4, :4].abs().max() < 0.3  # what bfloat16 rounds


def test_ids_alone_and_arrays_are_inputs():
    model = pretrained.load(find("gpt2-mini"))
    ids = np.array([[5, 6, 7, 8]])
    assert torch.equal(layer_inputs(model, ids, 1), layer_inputs(model, {"input_ids": torch.tensor(ids)}, 1))


READ = [family for family in FAMILIES if not family.files_only]


@pytest.mark.parametrize("family", READ, ids=[f"{family.name} {family.stack}" for family in READ])
def test_every_family_is_shown_layer_by_layer_as_it_runs(family):
    model = tiny_model(family.model_types[0]).float()
    inputs = {name: each.float() if each.is_floating_point() else each for name, each in tiny_inputs(model).items()}
    read, shown = load(model, stack=family.stack), []
    own = run_layers(model, read, inputs)
    visit_layers(read, inputs, lambda seen: shown.append(seen.attention) if seen.text == 0 else None)
    assert len(shown) == len(own)
    for maps, due in zip(shown, own, strict=True):
        torch.testing.assert_close(maps, due.attention[0].to(maps.dtype), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["mistral", "gpt_oss", "bloom", "gpt_neo", "bert"])
def test_padding_is_left_out_of_what_is_shown(kind):
    model, shown = tiny_model(kind), {}
    ids = torch.arange(2, 26).reshape(2, 12)
    mask = torch.ones_like(ids)
    mask[1, 9:] = 0
    keep = lambda seen: shown.update({(seen.number, seen.text): seen.attention})  # noqa: E731
    visit_layers(model, {"input_ids": ids, "attention_mask": mask}, keep, lengths=[12, 9])
    alone = model(ids[1:, :9], output_attentions=True).attentions
    for number, due in enumerate(alone):
        torch.testing.assert_close(shown[number, 1], due[0].to(shown[number, 1].dtype), rtol=0, atol=1e-5)
        assert shown[number, 0].shape[-1] == 12


@pytest.mark.parametrize("kind", ["gpt2", "gpt_oss"])
def test_maps_are_counted_however_they_were_made(kind):
    model, ids = tiny_model(kind), torch.arange(2, 22).reshape(2, 10)
    layers, heads = len(load(model).layers), load(model).heads
    counted = MapStatistics(layers, heads, 10)
    visit_layers(model, ids, lambda seen: counted.add(seen.number, seen.attention))
    own = torch.stack(model(ids, output_attentions=True).attentions).double()  # (layer, text, head, query, key)
    assert counted.sequences().tolist() == [0] * 10 + [2]
    for found, due in (
        (counted.entropy(), torch.special.entr(own).sum(-1).mean((1, 3))),
        (counted.row_mass(), own.sum(-1).mean(1)),
        (counted.column_mass(), own.sum(-2).mean(1)),
        (counted.diagonal_profile()[..., 8], own.diagonal(-1, -2, -1).mean((1, -1))),
    ):
        torch.testing.assert_close(found, due, rtol=0, atol=1e-6)


def test_layers_that_share_their_modules_are_told_apart():
    model = tiny_model("albert")
    inputs, layers = tiny_inputs(model), load(model).layers
    assert len(layers) > 1
    maps = model(**inputs, output_attentions=True).attentions
    for number, layer in enumerate(layers):
        ours = attend(layer_inputs(model, inputs, number), layer).attention
        assert (ours - maps[number]).abs().max() < 1e-6


def test_refusals():
    model = pretrained.load(find("gpt2-mini"))
    ids = torch.tensor([[5, 6, 7]])
    with pytest.raises(IndexError, match=r"layer must be 0\.\.1, got 4"):
        layer_inputs(model, ids, 4)
    with pytest.raises(ValueError, match="training mode"):
        layer_inputs(model.train(), ids)


def test_a_run_in_float64_puts_distances_into_the_buckets_of_float32():
    distance = torch.arange(32) - torch.arange(32)[:, None]
    with OtherMachine(1):  # whose logarithm of a border is another one in float64
        due = T5Attention._relative_position_bucket(distance)
        with InDouble():
            found = T5Attention._relative_position_bucket(distance)
    torch.testing.assert_close(found, due, rtol=0, atol=0)


PEAK = """
import sys
import torch
from analysis import load
from analysis.models.families.tiny import tiny_model
from analysis.reporting.head_table import choose
from analysis.reporting.observations import Observations, add_batch
kind, n, texts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
read = load(tiny_model(kind, **{"max_position_embeddings": n + 2} if kind != "bloom" else {}).float())
seen, choice = Observations.empty(read.depth, read.heads), choose(read)
most = lambda: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) * 1024
add_batch(seen, read, [torch.full((1, 16), 5)], 0, choice)
open("/proc/self/clear_refs", "w").write("5")
before = most()
add_batch(seen, read, [torch.full((1, n), 5)] * texts, 0, choice)
print((most() - before) / (4 * read.heads * n**2))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux says how much memory was taken")
@pytest.mark.parametrize(
    ("kind", "texts", "asked"), [("llama", 1, MAPS), ("llama", 3, 3 * MAPS), ("deberta-v2", 1, MAPS + MAPS_BESIDE)]
)
def test_the_memory_that_is_asked_for_is_what_a_census_takes(kind, texts, asked):
    command = [sys.executable, "-c", PEAK, kind, "1536", str(texts)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert asked / 2 < float(ran.stdout) < asked


def test_maps_are_refused_where_those_of_the_model_do_not_fit():
    room = available_memory() or pytest.skip("the system does not say")
    fits = math.isqrt(int(0.8 * room / (MAPS * 4 * 4)))
    check_maps(4, 1, fits)
    with pytest.raises(MemoryError, match="1 x"):
        check_maps(4, 1, 2 * fits)
    with pytest.raises(MemoryError, match="read at most"):
        check_maps(4, 1, fits, beside=MAPS)
