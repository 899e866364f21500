"""Text files are read and written in UTF-8, whatever the locale: no call leaves the encoding to the machine."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = {"read_text", "write_text", "open"}


def left_to_the_locale(source: str) -> list[str]:
    """Return the calls that open a text file without naming an encoding."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [
        ast.unparse(call)
        for call in calls
        if getattr(call.func, "attr", getattr(call.func, "id", "")) in TEXT
        and not any(word.arg in ("encoding", None) for word in call.keywords)
        and not any(map(is_binary, [*call.args, *(word.value for word in call.keywords if word.arg == "mode")]))
        and not ast.unparse(call.func).startswith(("os.", "gzip.", "webbrowser.", "Image."))
    ]


def is_binary(argument: ast.expr) -> bool:
    """Say whether an argument is the mode of a file of bytes."""
    return isinstance(argument, ast.Constant) and bool(re.fullmatch("[rwax]b[+]?", str(argument.value)))


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ("p.read_text()", 1),
        ("p.read_text(encoding='utf-8')", 0),
        ("open(p)", 1),
        ("open(p, 'rb')", 0),
        ("p.open(mode='rb')", 0),
        ("p.open('a')", 1),
        ("os.open(p, 0)", 0),
        ("Image.open(p)", 0),
        ("p.write_text('b')", 1),
    ],
)
def test_the_search_finds_what_it_should(source, left):
    assert len(left_to_the_locale(source)) == left


@pytest.mark.parametrize("package", ["analysis", "book", "tools"])
def test_no_text_is_read_in_the_locales_encoding(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    calls = {path.relative_to(ROOT).as_posix(): left_to_the_locale(path.read_text(encoding="utf-8")) for path in files}
    assert {path: left for path, left in calls.items() if left} == {}


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
