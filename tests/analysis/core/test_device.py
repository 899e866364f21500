"""Where it is computed: what a provenance says of it, with a GPU that is only pretended."""

import pytest
import torch

from analysis.core import device


def test_only_gpus_that_are_there_can_be_chosen(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [device.choose(name).index for name in ("cuda", "cuda:0", "cuda:1")] == [None, 0, 1]
    for name in ("cuda:2", "gpu", "cuda:01", "cpu:0"):
        with pytest.raises(ValueError, match=f"device .*{name}"):
            device.choose(name)
