"""A model's configuration is read in UTF-8, whatever the locale; ruff sees to it that no call leaves that open."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_configuration_with_other_letters_is_read_under_a_locale_without_them(tmp_path):
    settings = '{"model_type": "gpt2", "n_layer": 1, "n_head": 1, "n_embd": 8, "by": "\u010d"}'
    (tmp_path / "config.json").write_text(settings, encoding="utf-8")
    (tmp_path / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    code = (
        "from analysis.models.checkpoints import find\n"
        "from analysis.models.configuration import read_configuration\n"
        f"print(read_configuration(find({str(tmp_path)!r})).num_hidden_layers)"
    )
    done = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PATH": ""},
        check=False,
    )
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr
