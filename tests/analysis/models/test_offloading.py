"""Models whose parameters stay in their files compute what those do that are held whole, and hold nothing."""

from pathlib import Path

import pytest
import torch

from analysis.core.precision import default_dtype
from analysis.models.checkpoints import find
from analysis.models.families.tiny import tiny_inputs, tiny_model
from analysis.models.offloading import Offloaded
from analysis.models.reading import load
from analysis.surveys.layer_runs import InDouble


@pytest.mark.parametrize(
    "model_type", ["gpt2", "albert", "bart", "gemma3_text", "apertus", "imagegpt", "whisper", "clip"]
)
def test_it_computes_what_the_whole_model_does(model_type, tmp_path):
    """Shared layers, tied tables, tables asked for their device, buffers of files, parameters that are not on meta."""
    model = tiny_model(model_type)
    model.save_pretrained(tmp_path)
    offloaded, inputs = Offloaded(find(str(tmp_path)), torch.float64), tiny_inputs(model)
    with torch.no_grad(), default_dtype(torch.float64):
        with InDouble():
            whole = model(**inputs)
        with offloaded, InDouble():
            ours = offloaded.model(**inputs)
    assert offloaded.absent == []
    torch.testing.assert_close(ours[0], whole[0], rtol=1e-12, atol=1e-12)
    assert all(p.is_meta or model_type == "imagegpt" for p in offloaded.model.parameters())


def test_what_the_library_renames_counts_as_zero_and_is_named(tmp_path):
    tiny_model("mixtral").save_pretrained(tmp_path)
    offloaded = Offloaded(find(str(tmp_path)), torch.float32)
    absent = {name.rpartition("mlp.")[2] for name in offloaded.absent}
    assert absent == {"experts.down_proj", "experts.gate_up_proj", "gate.weight"}


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks at what Linux says is mapped")
def test_no_file_stays_open(tmp_path):
    """Pages of an open file count as memory of the process: reading layer by layer would end up with all of it."""
    tiny_model("llama").save_pretrained(tmp_path)
    read = load(tmp_path, dtype=torch.float64)
    layer = read.layers[1].to(torch.float32)
    assert layer.heads == 4
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
