"""The command line of the library: what it prints, its exit status, and that importing the package stays light."""

import json
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
from analysis.core import device
from analysis.models import checkpoints, pretrained
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
    ],
)
def test_what_would_pass_in_silence_is_refused(arguments, message, capsys, monkeypatch):
    monkeypatch.setenv("ANALYSIS_SOURCES", "")  # restored afterwards: the command line sets it
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert message in said.err


def test_the_device_is_the_named_one_or_cuda_where_there_is_one(monkeypatch):
    monkeypatch.setenv("ANALYSIS_DEVICE", "cpu")  # read by nothing any more
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert device.choose("cpu").type == "cpu"
    assert device.choose().type == device.choose("auto").type == "cuda"
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert device.choose().type == "cpu"
    with pytest.raises(ValueError, match="device must be"):
        device.choose("quantum")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    with pytest.raises(ValueError, match="sees 0 CUDA devices"):
        device.choose("cuda")


DEVICES = {
    "cuda": "torch sees 0 CUDA devices",
    "cuda:7": "torch sees 0 CUDA devices",
    "cuda:256": "torch sees 0 CUDA devices",
    "nonsense": "device must be",
    "cpu:1": "device must be",
}


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


def test_the_device_reaches_the_computation(capsys, monkeypatch, tmp_path):
    def compute(*_, device, **__):
        raise ValueError(f"computed on {device}")

    monkeypatch.setattr(pretrained, "load", compute)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 8)
    monkeypatch.chdir(tmp_path)
    assert main(["census", "--device", "cuda:3"]) == 2
    assert re.fullmatch(r"error: .*computed on cuda:3.*\n", capsys.readouterr().err)


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
    (tmp_path / "genes.fasta").write_text(f">a\n{'ACGT' * 30}\n")
    cases = [
        ("analysis", ["census", "--folder", "new"], "transformers"),
        ("book", ["classify", "genes.fasta"], "safetensors"),
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


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            ModuleNotFoundError("No module named 'huggingface_hub.errors'", name="huggingface_hub.errors"),
            'huggingface_hub is not installed: pip install "attention-taken-apart[models]"',
        ),
        (
            ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib"),
            'matplotlib is not installed: pip install "attention-taken-apart[figures]"',
        ),
        (
            ModuleNotFoundError("No module named 'no_such'", name="no_such"),
            'no_such is not installed: pip install "attention-taken-apart[book]"',
        ),
    ],
)
def test_the_extra_is_the_one_whose_requirements_name_the_library(error, line):
    assert cli.name_missing_library(error, "book") == line


def test_a_missing_module_of_the_project_itself_is_a_fault_and_shows_its_traceback(monkeypatch):
    monkeypatch.setitem(sys.modules, "analysis.cli.list", None)
    with pytest.raises(ModuleNotFoundError, match=r"analysis\.cli\.list"):
        main(["list"])


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


def test_values_with_an_equals_sign_or_a_dash_are_no_empty_values():
    cli.refuse_empty(["run", "gates", "--model=a=", "-", "--", "b=", "--no-html"])


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (FileNotFoundError(2, "No such file or directory", "a.fasta"), "a.fasta: No such file or directory"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (PermissionError("cannot write to /x: Read-only file system"), "cannot write to /x: Read-only file system"),
        (ValueError("a sentence of ours"), "a sentence of ours"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_what_went_wrong_is_said_in_a_line(error, line):
    assert cli.explain(error) == line


def test_sentences_of_other_libraries_name_their_kind_and_the_line_that_met_them(monkeypatch, capsys):
    for fault, kind in (
        (lambda: {}["layers"], "KeyError: 'layers'"),
        (lambda: json.loads("{"), "JSONDecodeError: Expecting property name"),
    ):
        monkeypatch.setattr(checkpoints, "find", lambda name, fault=fault: fault())
        assert main(["census"]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"error: {kind}")
        assert re.search(r" \(analysis/cli/census\.py, line \d+\)\n$", said)


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


@pytest.mark.parametrize("sources", [",", "folder,", "folder,,hub"])
def test_an_empty_source_is_refused(sources, capsys):
    assert main(["list", "--sources", sources]) == 2
    assert "--sources must name sources with one comma between two" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["m\udcc3\udcb6del", "--out=\udcff"])
def test_bytes_that_are_no_text_here_are_refused_before_anything_is_read(word, capsys):
    assert main(["report", word, "--weights-only"]) == 2
    assert re.fullmatch(
        r"error: '.*' is no text in .*: set PYTHONUTF8=1, or give another name\n", capsys.readouterr().err
    )


@pytest.mark.slow
def test_without_docstrings_and_in_another_encoding_the_commands_end_in_a_line(tmp_path):
    (tmp_path / "m\u00f6del").mkdir()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LC_")} | {
        "PYTHONPATH": str(ROOT)
    }
    for options, more, status in ((["-OO"], ["list"], 0), ([], ["report", str(tmp_path / "m\u00f6del")], 2)):
        done = subprocess.run(
            [sys.executable, *options, "-m", "analysis", *more],
            capture_output=True,
            text=True,
            check=False,
            env=clean if status == 0 else clean | {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"},
        )
        assert (done.returncode, done.stderr.count("\n")) == (status, 1 if status else 0), done.stderr


def test_a_command_without_docstrings_has_help_without_words(monkeypatch, capsys):
    """As under ``python -OO``."""
    for name in NAMES:
        monkeypatch.setattr(import_module(f"analysis.cli.{name}"), "__doc__", None)
    with pytest.raises(SystemExit) as ended:
        main(["census", "--help"])
    assert ended.value.code == 0


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


@pytest.mark.parametrize(
    ("raised", "status"),
    [
        (BrokenPipeError(), 141),
        (ValueError("no"), 2),
        (FileNotFoundError(2, "No such file", "a"), 2),
        (KeyboardInterrupt(), 130),
        (ModuleNotFoundError("No module named 'tqdm'", name="tqdm"), 2),
    ],
)
def test_each_end_has_its_exit_status(raised, status, monkeypatch, capsys):
    def start(arguments):
        raise raised

    monkeypatch.setattr(cli, "start", start)
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # restored afterwards: a broken pipe takes it away
    assert main(["list"]) == status


def test_options_of_every_command_reach_the_environment_only_if_they_are_given(monkeypatch):
    for name in ("ANALYSIS_DOWNLOAD", "ANALYSIS_SOURCES"):
        monkeypatch.setenv(name, "")
    seen = []

    def start(*words):
        arguments = cli.parse(cli, "python -m analysis", "", ["list", *words])
        arguments.run = lambda given: seen.append(given.download)
        assert cli.start(arguments) == 0
        return os.environ["ANALYSIS_DOWNLOAD"], os.environ["ANALYSIS_SOURCES"]

    assert start() == ("", "")
    assert start("--sources", "bundled,folder") == ("", "bundled,folder")
    assert start("--download") == ("1", "bundled,folder")
    assert seen == [False, False, True]
