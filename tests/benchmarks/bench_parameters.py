"""Reading one layer's attention out of a file of GPT-2's size, against loading the model."""

import json

import pytest
import torch
from safetensors.torch import save_file

from analysis.models import checkpoints
from analysis.models.reading import load
from tests.benchmarks.machine import FLOAT, fresh_interpreter, probes, race

MODEL, LAYERS, VOCABULARY, POSITIONS = 768, 12, 50257, 1024
SHAPES = {
    "ln_1.weight": [MODEL],
    "ln_1.bias": [MODEL],
    "ln_2.weight": [MODEL],
    "ln_2.bias": [MODEL],
    "attn.bias": [1, 1, POSITIONS, POSITIONS],
    "attn.c_attn.weight": [MODEL, 3 * MODEL],
    "attn.c_attn.bias": [3 * MODEL],
    "attn.c_proj.weight": [MODEL, MODEL],
    "attn.c_proj.bias": [MODEL],
    "mlp.c_fc.weight": [MODEL, 4 * MODEL],
    "mlp.c_fc.bias": [4 * MODEL],
    "mlp.c_proj.weight": [4 * MODEL, MODEL],
    "mlp.c_proj.bias": [MODEL],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a checkpoint of GPT-2's shape, 548 MB of zeros."""
    folder = tmp_path_factory.mktemp("gpt2")
    state = {"wte.weight": torch.zeros(VOCABULARY, MODEL), "wpe.weight": torch.zeros(POSITIONS, MODEL)}
    state |= {f"h.{i}.{name}": torch.zeros(shape) for i in range(LAYERS) for name, shape in SHAPES.items()}
    save_file(state, folder / "model.safetensors")
    (folder / "config.json").write_text(
        json.dumps({"model_type": "gpt2", "n_embd": MODEL, "n_layer": LAYERS, "n_head": 12, "vocab_size": VOCABULARY})
    )
    return folder


def test_one_layer_costs_one_layer(folder, say, at_least):
    """It takes a small part of the time that transformers takes to load the model, its import aside."""
    from transformers import GPT2Model
    from transformers.utils import logging

    logging.set_verbosity_error(), logging.disable_progress_bar()
    checkpoint = checkpoints.find("made-up", folder=str(folder))
    found = race(
        {
            "layer": lambda: (load(checkpoint).layers[0], load(checkpoint).positions),
            "model": lambda: GPT2Model.from_pretrained(folder),
            **probes(),
        }
    )
    over_limit = found.over_limit("layer", FLOAT * (4 * MODEL * (MODEL + 1) + POSITIONS * MODEL))
    say(
        f"layer-1 attention and positions out of 548 MB: {1e3 * found.least('layer'):.1f} ms, {over_limit:.0f} times "
        f"this machine's limit ({found.machine()}); the model by transformers {1e3 * found.least('model'):.0f} ms"
    )
    at_least("one layer out of a file: the model by transformers / ours", found.ratio("model", "layer"))


def test_one_layer_takes_the_memory_of_one_layer(folder, say):
    """It takes 30 MB of a file of 548 MB at most, and does not import transformers."""
    assert (folder / "model.safetensors").stat().st_size >= 548e6
    megabytes, imported = fresh_interpreter(f"""
        import torch
        from analysis.models import checkpoints
        from analysis.models.reading import load
        checkpoint = checkpoints.find("made-up", folder={str(folder)!r})
        before = peak()
        for _ in range(8):
            model = load(checkpoint)
            model.layers[0], model.positions
        print(json.dumps((peak() - before, "transformers" in sys.modules)))
    """)
    say(f"layer-1 attention and positions: {megabytes:.0f} MB")
    assert megabytes <= 30
    assert not imported
