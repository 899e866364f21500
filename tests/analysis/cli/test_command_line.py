"""The command line: what it prints, its exit status, and that importing the package stays light."""

import json
import subprocess
import sys

import pytest
from analysis.commands import NAMES

from analysis.__main__ import main
from analysis.core import device
from book.publish.ledger import MIME, ROOT


def test_list_names_models_and_experiments(capsys):
    assert main(["list"]) == 0
    assert "minilm" in capsys.readouterr().out


def test_unknown_names_exit_with_2_and_one_line(capsys):
    assert main(["record", "nothing"]) == 2
    assert capsys.readouterr().err.startswith("error: unknown experiment 'nothing'")
    assert main(["ledger", "Z-1"]) == 2
    assert "no claim Z-1; give a document's letter (K, M, I, P, B)" in capsys.readouterr().err


def test_what_would_pass_in_silence_is_refused(tmp_path, capsys, monkeypatch):
    for variable in ("ANALYSIS_DEVICE", "ANALYSIS_SOURCES"):
        monkeypatch.setenv(variable, "")
    for arguments, message in ((["list", "--device", "meta"], "device must be 'auto', 'cpu', 'cuda' or 'cuda:N'"),
                               (["list", "--sources", "shelf"], "sources must be among"),
                               (["check", "--folder", str(tmp_path)], "nothing was checked"),
                               (["ledger", "--from", str(tmp_path / "nowhere")], "must be a folder")):
        monkeypatch.setenv("ANALYSIS_DEVICE", "")
        monkeypatch.setenv("ANALYSIS_SOURCES", "")
        assert main(arguments) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("error: ")
        assert message in said.err


def test_a_reader_that_leaves_early_is_no_error():
    code = f"{sys.executable} -m analysis ledger | head -n 1"
    done = subprocess.run(["sh", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("K-01")
    assert done.stderr == ""


def test_list_names_licences(capsys):
    main(["list"])
    assert "licence: Apache-2.0" in capsys.readouterr().out


def test_check_fails_on_a_damaged_record(tmp_path, capsys, monkeypatch):
    import torch

    from analysis import experiments
    from analysis.surveys import records
    spec = records.Experiment("a toy", lambda device: records.Result({"a": records.Value(1.0)}), name="toy")
    monkeypatch.setattr(experiments, "NAMES", ("toy",))
    monkeypatch.setattr(experiments, "find", lambda name: spec)
    path = records.write(spec, torch.device("cpu"), tmp_path)
    assert main(["check", "--folder", str(tmp_path)]) == 0
    path.write_text(path.read_text().replace("1.0", "2.0"))
    assert main(["check", "--folder", str(tmp_path)]) == 1


def test_ledger_counts_open_claims(tmp_path, capsys):
    output = {"output_type": "display_data",
              "data": {MIME: {"id": "K-01", "outcome": "reproduced", "evidence": "e"}}}
    (tmp_path / "semi-bias.json").write_text(json.dumps([{"source": "", "outputs": [output]}]))
    assert main(["ledger", "K", "--from", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "1 of 30 claims have a verdict" in printed
    assert main(["ledger", "K", "--check", "--from", str(tmp_path)]) == 1
    assert main(["ledger", "k-01", "--check", "--from", str(tmp_path)]) == 0
    assert main(["ledger", "--json", "--from", str(tmp_path)]) == 0
    assert main(["ledger", "--json", "--check", "--from", str(tmp_path)]) == 1
    assert main(["ledger", "K", "--json", "--from", str(tmp_path)]) == 2


@pytest.fixture
def _no_device(monkeypatch):
    monkeypatch.delenv("ANALYSIS_DEVICE", raising=False)


@pytest.mark.usefixtures("_no_device")
def test_device_order(monkeypatch):
    assert device.choose("cpu").type == "cpu"
    monkeypatch.setenv("ANALYSIS_DEVICE", "cpu")
    assert device.choose().type == "cpu"
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert device.choose().type == "cpu"  # the variable overrides what the machine has
    assert device.choose("auto").type == "cpu"
    monkeypatch.delenv("ANALYSIS_DEVICE")
    assert device.choose().type == "cuda"
    with pytest.raises(ValueError, match="device must be"):
        device.choose("quantum")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    with pytest.raises(ValueError, match="sees 0 CUDA devices"):
        device.choose("cuda")


COMMANDS = {"list": (), "record": ("semi_bias",), "check": (), "run": ("notation",), "train": ("induction",),
            "classify": ("genes.fasta",), "ledger": (), "census": ()}
DEVICES = {"cuda": "torch sees 0 CUDA devices", "cuda:7": "torch sees 0 CUDA devices",
           "cuda:256": "torch sees 0 CUDA devices", "nonsense": "device must be", "cpu:1": "device must be"}


@pytest.mark.usefixtures("_no_device")
@pytest.mark.parametrize("command", NAMES)
@pytest.mark.parametrize("name", DEVICES)
def test_every_command_refuses_a_device_that_is_not_here(command, name, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setenv("ANALYSIS_DEVICE", "")
    assert main([command, *COMMANDS[command], "--device", name]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: device ")
    assert DEVICES[name] in said.err
    assert said.err.count("\n") == 1


def test_make_hands_the_device_on_and_fails_in_one_line():
    made = subprocess.run(["make", "-o", ".venv/.ready", "chapter", "C=notation", "DEVICE=cuda:99",
                           f"PY={sys.executable}"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 2
    assert made.stderr.startswith("error: device 'cuda:99' was asked for")
    assert "Traceback" not in made.stderr


def test_import_needs_no_transformers_and_no_network():
    code = ("import socket, sys; socket.socket.connect = None; "
            "import analysis, analysis.transformer.attention, analysis.transformer.layernorm, "
            "analysis.models.checkpoints, analysis.models.parameters; "
            "print(sorted({'transformers', 'matplotlib', 'huggingface_hub', 'scipy'} & set(sys.modules)))")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
