"""Reading one layer's attention out of a file of GPT-2's size, against loading the model."""

import json

import torch
from safetensors.torch import save_file

from tests.benchmarks.machine import FLOAT, fresh_interpreter, limits

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


def test_one_layer_costs_one_layer(tmp_path, say):
    """It takes a tenth of the time and of the memory of the whole model, without importing transformers."""
    state = {"wte.weight": torch.zeros(VOCABULARY, MODEL), "wpe.weight": torch.zeros(POSITIONS, MODEL)}
    state |= {f"h.{i}.{name}": torch.zeros(shape) for i in range(LAYERS) for name, shape in SHAPES.items()}
    save_file(state, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "gpt2", "n_embd": MODEL, "n_layer": LAYERS, "n_head": 12, "vocab_size": VOCABULARY})
    )
    megabytes = (tmp_path / "model.safetensors").stat().st_size / 1e6
    common = f"""
        import torch
        from analysis.models import checkpoints, parameters
        from analysis.models.reading import load
        checkpoint = checkpoints.find("made-up", folder={str(tmp_path)!r})
        def run(work, repeats):
            seconds, before = [], peak()
            for _ in range(repeats):
                start = time.process_time()
                result = work()
                seconds.append(time.process_time() - start)
                del result
            imported = "transformers" in sys.modules
            print(json.dumps({{"seconds": min(seconds), "megabytes": peak() - before, "imported": imported}}))
    """
    layer = fresh_interpreter(common + "    run(lambda: (load(checkpoint).layers[0], load(checkpoint).positions), 8)")
    whole = fresh_interpreter(
        common
        + """
        from transformers import GPT2Model
        from transformers.utils import logging
        logging.set_verbosity_error(), logging.disable_progress_bar()
        run(lambda: GPT2Model.from_pretrained(checkpoint.folder), 2)
    """
    )
    machine = limits()
    limit = machine.seconds(FLOAT * (4 * MODEL * (MODEL + 1) + POSITIONS * MODEL))
    say(
        f"layer-1 attention and positions out of {megabytes:.0f} MB: {1e3 * layer['seconds']:.1f} ms, "
        f"{layer['seconds'] / limit:.0f} times this machine's limit ({machine}), {layer['megabytes']:.0f} MB; "
        f"transformers, its import aside, {1e3 * whole['seconds']:.0f} ms, {whole['megabytes']:.0f} MB; "
        f"ratio {whole['seconds'] / layer['seconds']:.0f}"
    )
    assert megabytes >= 548
    assert whole["seconds"] / layer["seconds"] >= 5  # 10 on a machine that was busy with much else
    assert layer["megabytes"] <= 30
    assert not layer["imported"]
