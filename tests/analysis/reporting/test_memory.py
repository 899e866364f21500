"""What a report needs: two networks at a time, asked for before they are made, in the type of the model."""

import gc
import os
import subprocess
import sys

import pytest
import torch

from analysis.models import checkpoints, memory, pretrained
from analysis.models.controls import LEVELS, fresh_model, permute_entries, scale_matrices
from analysis.reporting.measurement import observe_controls
from tests.analysis.reporting.random_models import make_random, save

SIZES = {"20 M": (512, 6), "60 M": (768, 8), "150 M": (1024, 12)}
"""Widths and layers of GPT-2s with so many parameters."""
MEASURE = """
import sys
from pathlib import Path
from analysis import report

def held(key):
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024

folder, out, texts = sys.argv[1:]
report("gpt2-mini", out=out + "-first", texts=texts, seeds=1, longest=32)  # what any report needs
before = held("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
report(folder, out=out, texts=texts, seeds=2, longest=32)
print(held("VmHWM") - before)
"""


@pytest.mark.slow
def test_no_more_than_two_networks_are_alive():
    model = pretrained.load(checkpoints.find("gpt2-mini"))
    shape, alive = model.wpe.weight.shape, []

    def see(_network):
        gc.collect()
        alive.append(sum(issubclass(type(x), torch.Tensor) and x.shape == shape for x in gc.get_objects()))

    see(model)
    (one,) = alive
    for seed in range(2):
        assert [level for level, _ in observe_controls(model, see, seed)] == list(LEVELS)
    assert len(alive) == 7
    assert max(alive[1:]) <= 2 * one


def test_controls_made_in_place_are_those_of_the_ladder():
    model, seen = pretrained.load(checkpoints.find("gpt2-mini")), {}

    def see(network):
        seen[len(seen)] = [parameter.clone() for parameter in network.parameters()]

    list(observe_controls(model, see, 3))
    random = fresh_model(model, 3)
    for place, due in enumerate((random, scale_matrices(random, model), permute_entries(model, 3))):
        for mine, right in zip(seen[place], due.parameters(), strict=True):
            torch.testing.assert_close(mine, right, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_model_runs_in_bf16_where_its_files_are(dtype, tmp_path):
    folder = save(
        make_random("LlamaConfig", hidden_size=32, num_hidden_layers=2, num_attention_heads=4).to(dtype), tmp_path
    )
    model = pretrained.load(checkpoints.find(str(folder)), dtype=None)
    due = torch.bfloat16 if dtype == torch.bfloat16 else torch.float32
    assert model.dtype == fresh_model(model, 0).dtype == due


@pytest.mark.parametrize(("networks", "fits"), [(2.2, True), (1.8, False)])
def test_the_memory_of_both_networks_is_asked_for_before_the_first_is_made(networks, fits, tmp_path, monkeypatch):
    model = make_random("LlamaConfig", hidden_size=32, num_hidden_layers=30, num_attention_heads=4)
    folder, size = save(model, tmp_path), 4 * sum(parameter.numel() for parameter in model.parameters())
    monkeypatch.setattr(memory, "available_memory", lambda device="cpu": int(networks * size))
    checkpoint = checkpoints.find(str(folder))
    assert pretrained.load(checkpoint) is not None, "alone it fits"
    if fits:
        pretrained.load(checkpoint, controls=1)
    else:
        with pytest.raises(MemoryError, match="and a control beside it"):
            pretrained.load(checkpoint, controls=1)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="takes the peak of a process from Linux")
def test_a_report_needs_eight_bytes_per_parameter_and_a_little(tmp_path):
    """Print the peak over three sizes; what a parameter adds is the slope between the first and the last."""
    texts, found = tmp_path / "texts.txt", []
    texts.write_text("Every row of an attention map sums to one, whatever the scores of the row are.")
    for name, (width, layers) in SIZES.items():
        model = make_random("GPT2Config", n_embd=width, n_layer=layers, n_head=8)
        parameters, folder = sum(parameter.numel() for parameter in model.parameters()), save(model, tmp_path / name)
        del model
        command = [sys.executable, "-c", MEASURE, str(folder), str(tmp_path / f"out {name}"), str(texts)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append((parameters, int(done.stdout.split()[-1])))
        print(f"{name}: {parameters:,} parameters, {found[-1][1] / parameters:.1f} bytes per parameter")
    (small, least), *_, (large, most) = found
    slope = (most - least) / (large - small)
    print(f"each further parameter: {slope:.1f} bytes")
    assert slope < 10


def test_maps_of_a_report_are_drawn_in_little_memory():
    """Sixteen maps took six gigabytes as long as each was drawn into a buffer as large as the figure."""
    code = (
        "import io, resource, numpy as np; from analysis.reporting import figures\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "figures.small_maps([np.eye(64)] * 2, 'ab', ['a'] * 64).savefig(io.StringIO(), format='svg'); before = peak()\n"
        "figures.small_maps([np.eye(64)] * 16, 'a' * 16, ['a'] * 64).savefig(io.StringIO(), format='svg')\n"
        "print(peak() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 200_000, "kilobytes"
