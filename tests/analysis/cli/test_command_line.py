"""The command line of the library: what it prints, its exit status, and that importing the package stays light."""

import os
import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from analysis import cli
from analysis.__main__ import main
from tests.analysis.core.test_processes import write_command

ROOT = Path(__file__).parents[3]
NAMES = sorted(module.name for module in pkgutil.iter_modules(cli.__path__))
ARGUMENTS = {"report": ("minilm",)}


@pytest.mark.parametrize("name", NAMES)
def test_every_module_of_the_folder_is_a_command_with_help(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert f"python -m analysis {name}" in said
    assert "--device" in said


def test_list_names_models_and_licences(monkeypatch, capsys):
    monkeypatch.setenv("ANALYSIS_SOURCES", "bundled")
    assert main(["list"]) == 0
    said = capsys.readouterr().out
    lines = {line.split()[0]: line for line in said.splitlines()}
    assert "licence: Apache-2.0" in lines["minilm"]
    assert "bundled: minilm " in lines["minilm"]
    assert "in 4 bits" in lines["smollm2"]
    assert "not here; gpt2-first-layer takes its place" in lines["gpt2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "--device", "meta"], "device must be 'auto', 'cpu', 'cuda' or 'cuda:N'"),
        (["list", "--sources", "shelf"], "sources must be among"),
        (["list", "--sources", "folder,,hub"], "--sources must name sources with one comma between two"),
    ],
)
def test_what_would_pass_in_silence_is_refused(arguments, message, capsys, monkeypatch):
    monkeypatch.setenv("ANALYSIS_SOURCES", "")  # restored afterwards: the command line sets it
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert message in said.err


DEVICES = {"cuda:7": "torch sees 0 CUDA devices", "nonsense": "device must be"}


@pytest.mark.parametrize("command", NAMES)
@pytest.mark.parametrize("name", DEVICES)
def test_every_command_refuses_a_device_that_is_not_here(command, name, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert main([command, *ARGUMENTS.get(command, ()), "--device", name]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: device ")
    assert DEVICES[name] in said.err
    assert said.err.count("\n") == 1


WITHOUT = """
import os, sys, torch
for number, (package, argv, library) in enumerate({cases!r}):
    if not os.fork():
        os.dup2(os.open(f"{{number}}.txt", os.O_WRONLY | os.O_CREAT), 2)
        sys.modules[library] = None
        from importlib import import_module
        sys.exit(import_module(f"{{package}}.__main__").main(argv))
    print(os.waitstatus_to_exitcode(os.wait()[1]))
"""  # one program, which imports torch once, and a fork of it for each case


@pytest.mark.slow
def test_a_library_that_is_not_installed_ends_in_one_line_that_names_its_extra(tmp_path):
    cases = [
        ("analysis", ["census", "--folder", "new"], "transformers"),
        ("book", ["train", "induction", "--steps", "1", "--out", "run"], "tqdm"),
        ("book", ["claims"], "yaml"),
        ("book", ["list"], "nbformat"),
    ]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(cases=cases)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.split() == ["2"] * len(cases), done.stderr
    for number, (_, _, library) in enumerate(cases):
        extra = "book" if library in ("yaml", "nbformat") else "models"
        assert (tmp_path / f"{number}.txt").read_text() == (
            f'error: {library} is not installed: pip install "attention-taken-apart[{extra}]"\n'
        )


def test_import_needs_no_transformers_and_no_network():
    code = (
        "import socket, sys; socket.socket.connect = None; "
        "import analysis, analysis.transformer.attention, analysis.transformer.layernorm, "
        "analysis.models.checkpoints, analysis.models.reading; "
        "print(sorted({'transformers', 'matplotlib', 'huggingface_hub', 'scipy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(("package", "prog"), [("analysis", "python -m analysis"), ("book", "python -m book")])
def test_an_empty_value_is_refused_for_every_option_of_every_command(package, prog, capsys):
    package = import_module(f"{package}.cli")
    top = cli.build_parser(package, prog, "")
    commands = next(action for action in top._actions if action.dest == "command").choices
    options = [
        (name, action.option_strings[-1])
        for name, command in commands.items()
        for action in command._actions
        if action.option_strings and action.nargs != 0
    ]
    assert len(options) > 2 * len(commands)
    for name, option in options:
        for words in ([option, ""], [option, " "], [f"{option}="], [f"{option}= "]):
            assert cli.main(package, prog, "", [name, *words]) == 2
            assert capsys.readouterr().err == f"error: {option} is empty: give a value, or leave it out\n"
        assert cli.main(package, prog, "", [name, ""]) == 2
        assert capsys.readouterr().err == "error: an argument is empty: give a value, or leave it out\n"


def test_a_name_that_the_output_cannot_write_ends_no_command(tmp_path):
    printing = write_command(tmp_path, "print('\\udcff \\u2192')")
    done = subprocess.run(
        [sys.executable, printing],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONIOENCODING": "latin-1", "PYTHONPATH": os.getcwd()},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "\\udcff \\u2192\n", "")


@pytest.mark.parametrize("word", ["m\udcc3\udcb6del", "--out=\udcff"])
def test_bytes_that_are_no_text_here_are_refused_before_anything_is_read(word, capsys):
    assert main(["report", word, "--weights-only"]) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(r"error: '.*' is not text in .*: set PYTHONUTF8=1, or give another.*\n", said)


@pytest.fixture
def odd(tmp_path, monkeypatch):
    """Work beside a link to itself and a folder of git."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / ".git").mkdir()
    (tmp_path / "link").symlink_to(".git")
    return tmp_path


@pytest.mark.parametrize("words", [["report", "gpt2-mini", "--out"], ["census", "--folder"]])
@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("~no-such-user/x", "~no-such-user/x: Could not determine home directory."),
        ("loop", "cannot write to loop: "),
        (".git/x", "cannot write to .git/x: it lies in .git"),
        ("link/x", "cannot write to link/x: it lies in .git"),
    ],
)
def test_a_folder_that_cannot_be_written_to_is_one_line(words, folder, message, capsys, odd):
    assert main([*words, folder]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {message}")
    assert said.count("\n") == 1
    assert not list((odd / ".git").iterdir())


@pytest.mark.parametrize("model", ["~no-such-user/x", "loop", "loop/"])
def test_a_model_that_leads_nowhere_is_one_line(model, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setenv("ANALYSIS_MODELS", "~no-such-user/models")
    assert main(["report", model]) == 2
    said = capsys.readouterr().err
    assert re.match("error: (there is no folder|unknown model)", said)
    assert said.count("\n") == 1
