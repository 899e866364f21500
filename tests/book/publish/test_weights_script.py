"""The script of a bundled model: half precision, whole, light, and refused where it would be wrong."""

import json
import shutil

import numpy as np
import pytest

from book.viewers import weights_script


def read(text: str) -> dict:
    return json.loads(text[text.index("{") : text.rindex("}") + 1])


def test_the_script_holds_every_parameter_once_and_is_light():
    text = weights_script.script("gpt2-mini")
    assert len(text.encode()) <= weights_script.LIMIT
    model = read(text)
    ends = [start + length for start, length in model["tensors"].values()]
    assert [0, *ends[:-1]] == [start for start, _ in model["tensors"].values()]
    assert ends[-1] == 675_328
    assert model["config"]["hidden"] == 512
    assert len(model["tokens"]) == model["config"]["vocabulary"]


@pytest.mark.parametrize("entry", [70_000.0, np.inf, np.nan])
def test_what_half_precision_cannot_hold_is_refused(entry):
    with pytest.raises(ValueError, match="W holds entries"):
        weights_script.half(np.array([1.0, entry]), "W")


def test_another_family_and_a_heavy_model_are_refused(tmp_path, monkeypatch):
    shutil.copytree(weights_script.BUNDLED / "gpt2-mini", tmp_path / "mini")
    monkeypatch.setattr(weights_script, "LIMIT", 1_000_000)
    with pytest.raises(ValueError, match="mini would weigh"):
        weights_script.script("mini", tmp_path)
    config = tmp_path / "mini" / "config.json"
    config.chmod(0o644)
    config.write_text(config.read_text().replace('"model_type": "gpt2"', '"model_type": "bert"'))
    with pytest.raises(ValueError, match="must be a GPT-2 or"):
        weights_script.script("mini", tmp_path)
