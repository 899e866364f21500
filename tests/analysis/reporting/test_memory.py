"""What a report needs: two networks at a time, asked for before they are made, in the type of the model."""

import gc
import subprocess
import sys

import pytest
import torch

from analysis.models import checkpoints, memory, pretrained
from analysis.models.controls import LEVELS, fresh_model, permute_entries, scale_matrices
from analysis.reporting.measurement import observe_controls
from tests.analysis.reporting.random_models import make_random, save


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
    model = make_random("LlamaConfig", hidden_size=32, num_hidden_layers=2, num_attention_heads=4)
    folder = save(model.to(dtype), tmp_path)
    model = pretrained.load(checkpoints.find(str(folder)), dtype=None)
    due = torch.bfloat16 if dtype == torch.bfloat16 else torch.float32
    assert model.dtype == fresh_model(model, 0).dtype == due


def test_the_memory_of_both_networks_is_asked_for_before_the_first_is_made(tmp_path, monkeypatch):
    model = make_random("LlamaConfig", hidden_size=32, num_hidden_layers=30, num_attention_heads=4)
    folder, size = save(model, tmp_path), 4 * sum(parameter.numel() for parameter in model.parameters())
    checkpoint = checkpoints.find(str(folder))
    monkeypatch.setattr(memory, "available_memory", lambda device="cpu": int(2.2 * size))
    pretrained.load(checkpoint, controls=1)
    monkeypatch.setattr(memory, "available_memory", lambda device="cpu": int(1.8 * size))
    pretrained.load(checkpoint)  # alone it fits
    with pytest.raises(MemoryError, match="and a control beside it"):
        pretrained.load(checkpoint, controls=1)


def test_maps_of_a_report_are_drawn_in_little_memory():
    """Sixteen maps took six gigabytes as long as each was drawn into a buffer as large as the figure."""
    code = (
        "import io, resource, numpy as np; from analysis.reporting import figures\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "figures.small_maps([np.eye(8)] * 2, 'ab', ['a'] * 8).savefig(io.StringIO(), format='svg'); before = peak()\n"
        "figures.small_maps([np.eye(8)] * 16, 'a' * 16, ['a'] * 8).savefig(io.StringIO(), format='svg')\n"
        "print(peak() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 200_000, "kilobytes"
