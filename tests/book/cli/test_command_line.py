"""The command line of the book: experiments, records and claims, and what is refused in one line."""

import json
import pkgutil
import subprocess
import sys

import pytest
import torch

from book import cli
from book.__main__ import main
from book.publish import experiments, ledger, records
from book.publish.ledger import MIME, ROOT

NAMES = sorted(module.name for module in pkgutil.iter_modules(cli.__path__))
ARGUMENTS = {"record": ("semi-bias-gpt2",), "run": ("notation",), "study": ("rank", "minilm"), "train": ("induction",)}


@pytest.mark.parametrize("name", NAMES)
def test_every_module_of_the_folder_is_a_command_with_help(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"python -m book {name}" in capsys.readouterr().out


def test_list_names_every_experiment_and_whether_it_has_a_record(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(experiments.modules())
    assert any(line.split()[1] == "recorded" for line in lines)


def test_unknown_names_exit_with_2_and_one_line(capsys):
    assert main(["record", "nothing"]) == 2
    first = min(experiments.modules())
    assert capsys.readouterr().err.startswith(f"error: unknown experiment 'nothing'; known: {first}")
    assert main(["build", "--chapter", "no-such"]) == 2
    assert "there is no chapter 'no-such'; the chapters are" in capsys.readouterr().err
    assert main(["claims", "Z-1"]) == 2
    assert "no claim Z-1; give a document's letter (K, M, I, P, B)" in capsys.readouterr().err


def test_what_would_pass_in_silence_is_refused(tmp_path, capsys):
    for arguments, message in (
        (["check", "--folder", str(tmp_path)], "nothing was checked"),
        (["claims", "--from", str(tmp_path / "nowhere")], "must be a folder"),
    ):
        assert main(arguments) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("error: ")
        assert message in said.err


@pytest.mark.parametrize("command", NAMES)
def test_every_command_refuses_a_device_that_is_not_here(command, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert main([command, *ARGUMENTS.get(command, ()), "--device", "cuda:7"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith("error: device 'cuda:7' was chosen, but torch sees 0 CUDA devices")


def test_a_reader_that_leaves_early_is_no_error():
    command = ["sh", "-c", f"{sys.executable} -m book claims | head -n 1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("K-01")
    assert done.stderr == ""


@pytest.fixture
def toy(monkeypatch):
    """Have one experiment, which tells the devices that it was computed on."""
    devices = []

    def compute(where):
        devices.append(where)
        return records.Result({"a": records.Value(1.0)})

    spec = records.Experiment(compute, "a toy", name="toy")
    monkeypatch.setattr(experiments, "modules", lambda: {"toy": "book.experiments.toy"})
    monkeypatch.setattr(experiments, "find", lambda name: spec)
    spec.compute.devices = devices
    return spec


@pytest.fixture
def own(toy, monkeypatch, tmp_path):
    """Have the toy and a second experiment with their records in the book's own folder."""
    second = records.Experiment(lambda where: records.Result({"a": records.Value(2.0)}), "another", name="second")
    specs = {"toy": toy, "second": second}
    monkeypatch.setattr(experiments, "modules", lambda: dict.fromkeys(specs, "somewhere"))
    monkeypatch.setattr(experiments, "find", specs.__getitem__)
    folder = tmp_path / "book" / "records"
    for spec in (toy, second):
        records.write(spec, torch.device("cpu"), folder)
    monkeypatch.setattr(experiments, "FOLDER", folder)
    return specs


def check(*options):
    return main(["check", "--folder", str(experiments.FOLDER), "--device", "cpu", *options])


def test_a_record_that_was_resealed_with_another_number_or_is_not_there_fails(own, capsys):
    assert check() == 0
    path = experiments.FOLDER / "toy.json"
    whole, body = path.read_text(), json.loads(path.read_text())
    body["values"]["a"]["value"] = 1.5
    body["sha256"] = records.seal(body)
    path.write_text(json.dumps(body))
    assert records.load("toy", experiments.FOLDER)["a"] == 1.5  # its own seal says nothing
    assert check() == check("toy") == 1
    assert capsys.readouterr().out.count("FAIL toy: toy: a is 1.0, recorded 1.5") == 2
    assert check("second") == 0
    path.unlink()
    assert check() == 1
    said = capsys.readouterr().out
    assert "FAIL toy: there is no record" in said
    assert "ok   second: recomputed" in said
    path.write_text(whole)
    assert check() == 0


@pytest.mark.parametrize("minutes", ["nan", "-1", "-inf"])
def test_a_limit_that_is_none_is_refused(minutes, capsys):
    assert main(["check", f"--longest={minutes}"]) == 2
    assert "--longest must be minutes, 0 or more" in capsys.readouterr().err


def test_check_fails_on_a_damaged_record(toy, tmp_path):
    path = records.write(toy, torch.device("cpu"), tmp_path)
    assert main(["check", "--folder", str(tmp_path)]) == 0
    path.write_text(path.read_text().replace("1.0", "2.0"))
    assert main(["check", "--folder", str(tmp_path)]) == 1


def test_record_and_check_compute_on_the_device(toy, tmp_path):
    assert main(["record", "toy", "--folder", str(tmp_path), "--device", "cpu"]) == 0
    assert main(["check", "--folder", str(tmp_path), "--device", "cpu"]) == 0
    assert toy.compute.devices == [torch.device("cpu")] * 2


def test_claims_counts_what_is_open(tmp_path, capsys):
    output = {"output_type": "display_data", "data": {MIME: {"id": "K-01", "outcome": "reproduced", "evidence": "e"}}}
    (tmp_path / "semi-bias.json").write_text(json.dumps([{"source": "", "outputs": [output]}]))
    assert main(["claims", "K", "--from", str(tmp_path)]) == 0
    mine = sum(claim.id[0] == "K" for claim in ledger.claims())
    assert f"1 of {mine} claims have a verdict" in capsys.readouterr().out
    assert main(["claims", "K", "--check", "--from", str(tmp_path)]) == 1
    assert main(["claims", "k-01", "--check", "--from", str(tmp_path)]) == 0
