"""Where it is computed: what a provenance says of it, with a GPU that is only pretended."""

import pytest
import torch

from analysis.core import device


def test_a_gpu_is_named_and_its_memory_counted(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda where: f"card {where.index}")
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda where: 1000 + where.index)
    assert device.describe(torch.device("cuda", 3)) == "card 3"
    assert device.peak_memory(torch.device("cuda", 3)) == 1003
    assert device.describe(torch.device("cpu")) == "cpu"
    assert device.peak_memory(torch.device("cpu")) == 0


def test_only_gpus_that_are_there_can_be_chosen(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [device.choose(name).index for name in ("cuda", "cuda:0", "cuda:1")] == [None, 0, 1]
    for name in ("cuda:2", "gpu", "cuda:01", "cpu:0"):
        with pytest.raises(ValueError, match=f"device .*{name}"):
            device.choose(name)
