"""The command `census`: what its table says was measured, and what it refuses before anything is computed."""

import json
from pathlib import Path

import pytest

import analysis
from analysis.__main__ import main
from analysis.core.files import MARK, WRITTEN, claim_folder
from analysis.reporting import head_table
from tests.analysis import tiny
from tests.analysis.processes import run_together

WORDS = (
    "several words that are enough for a map of attention to be read here\n\n"
    "and as many other words of another text that can be read as well as that"
)


@pytest.fixture
def model(tmp_path, monkeypatch) -> Path:
    """Write a tiny BERT with a tokenizer that knows a few letters; work in an empty folder."""
    folder = tiny.write_model(tmp_path / "tiny", tiny.BERT)
    letters = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]
    (folder / "vocab.txt").write_text("\n".join(letters))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    (tmp_path / "texts.txt").write_text(WORDS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANALYSIS_SOURCES", "")  # restored afterwards: the command line sets it
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    return folder


def take(*options: str) -> int:
    return main(["census", "--model", "tiny", "--texts", "texts.txt", "--device", "cpu", *options])


def read(path: str) -> dict:
    return json.loads(Path(path).read_text())


def test_the_model_may_stand_by_itself_and_is_given_once(model, capsys):
    given = ("--texts", "texts.txt", "--device", "cpu")
    assert main(["census", "tiny", *given, "--folder", "alone"]) == take("--folder", "behind") == 0
    tables = [Path(folder, "census-tiny.csv").read_text() for folder in ("alone", "behind")]
    assert tables[0] == tables[1]
    assert take("--folder", "twice", "tiny") == 2
    assert "MODEL is given twice: tiny and --model tiny" in capsys.readouterr().err
    assert main(["census", "", *given]) == 2, "an empty name is not the default"


def test_a_control_is_named_and_described_as_one(model, capsys):
    assert take() == take("--control", "3") == 0
    written = [line.split()[2] for line in capsys.readouterr().out.splitlines() if line.startswith("written to")]
    assert written == ["runs/census-tiny/census-tiny.csv,", "runs/census-tiny-control-3/census-tiny-control-3.csv,"]
    trained, control = (read(path.replace(".csv,", ".json")) for path in written)
    heads = tiny.BERT["num_hidden_layers"] * tiny.BERT["num_attention_heads"]
    assert (trained["texts"], len(trained["heads"])) == (2, heads)
    assert list(trained["provenance"]["models"][0]["sha256"]) == ["model.safetensors"]
    (about,) = control["provenance"]["models"]
    assert (about["weights"], list(about["sha256"])) == ("random initialisation, seed 3", ["config.json"])
    assert control["provenance"]["seed"] == 3
    assert trained["heads"] != control["heads"]


def test_the_table_is_that_of_the_function(model):
    assert take("--batch", "1", "--longest", "20", "--dtype", "float32") == 0
    table = analysis.census("tiny", WORDS.split("\n\n"), longest=20)
    assert read("runs/census-tiny/census-tiny.json")["heads"] == json.loads(table.to_json())["heads"]
    assert Path("runs/census-tiny/census-tiny.csv").read_text() == table.to_csv()


def test_measures_heads_and_queries_are_chosen(model, capsys):
    chosen = ("--measures", "entropy,next", "--heads", "0.1,1.0", "--queries", "1:9")
    assert take("--batch", "1", "--dtype", "float32", *chosen) == 0
    options = {"measures": ["entropy", "next"], "heads": [(0, 1), (1, 0)], "queries": slice(1, 9)}
    table = analysis.census("tiny", WORDS.split("\n\n"), **options)
    assert Path("runs/census-tiny/census-tiny.csv").read_text() == table.to_csv()
    assert take("--measures", "entropie") == 2
    assert "measures must be some of entropy, " in capsys.readouterr().err


def test_provenance_holds_the_command_and_the_texts(model):
    assert take("--control", "3", "--name", "mine", "--folder", "my results") == 0
    about = read("my results/mine.json")["provenance"]
    assert about["command"] == (
        "python -m analysis census --model tiny --texts texts.txt --device cpu --control 3 "
        "--name mine --folder 'my results'"
    )
    assert (about["texts"]["count"], about["texts"]["from"]) == (2, "texts.txt")
    (model.parent / "texts.txt").write_text(WORDS.replace("several", "diverse"))
    assert take("--name", "other") == 0
    assert read("runs/other/other.json")["provenance"]["texts"]["sha256"] != about["texts"]["sha256"]


@pytest.mark.slow
def test_two_processes_write_the_table_of_one(model):
    for processes in (1, 2):
        run_together(take, processes, "--batch", "1", "--folder", str(processes))
        written = sorted(path.name for path in Path(str(processes)).iterdir())
        assert written == [MARK, WRITTEN, "census-tiny.csv", "census-tiny.json"]
    assert Path("1/census-tiny.csv").read_text() == Path("2/census-tiny.csv").read_text()
    assert "torchrun --nproc-per-node 2" in read("2/census-tiny.json")["provenance"]["command"]


def test_an_interrupted_census_does_not_go_on_under_another_configuration(model, monkeypatch):
    add, added = head_table.add_batch, []

    def stops(*of):
        if len(added) == 1:
            added.append("interrupted")
            raise KeyboardInterrupt
        added.append("text")
        add(*of)

    monkeypatch.setattr(head_table, "add_batch", stops)
    monkeypatch.setattr(head_table, "SECONDS", -1.0)
    assert take("--batch", "1") == 130
    settings = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(settings | {"layer_norm_eps": 0.5}))
    assert take("--batch", "1") == take("--batch", "1", "--folder", "whole") == 0
    assert added == ["text", "interrupted", *["text"] * 4], "began anew"
    assert Path("runs/census-tiny/census-tiny.csv").read_text() == Path("whole/census-tiny.csv").read_text()


def test_the_folder_is_ours_and_has_one_writer(model, capsys):
    Path("site").mkdir()
    Path("site", "census-tiny.json").write_text("{}")
    assert take("--folder", "site") == 2
    assert "site holds what was not written here: census-tiny.json" in capsys.readouterr().err
    assert Path("site", "census-tiny.json").read_text() == "{}"
    with claim_folder("held", "census"):
        assert take("--folder", "held") == 2
    assert "another census is writing into held" in capsys.readouterr().err
    assert take("--folder", "shared") == take("--folder", "shared", "--control", "0") == 0
    assert sorted(path.name for path in Path("shared").iterdir()) == sorted(
        [MARK, WRITTEN, *(f"census-tiny{of}.{kind}" for of in ("", "-control-0") for kind in ("json", "csv"))]
    )


def test_what_was_left_out_or_cut_is_said_and_recorded(model, capsys):
    Path("texts.txt").write_text(f"Short.\n\n{WORDS}")
    assert take("--longest", "9") == 0
    said, due = capsys.readouterr(), "1 of 3 texts has fewer than 8 tokens and was left out; 2 were cut to 9 tokens\n"
    assert due in said.err
    assert due in said.out
    about = json.loads(Path("runs/census-tiny/census-tiny.json").read_text())
    assert (about["texts"], about["short"], about["cut"]) == (2, 1, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--control", "-1"], "--control must be 0 to 2**63 - 1"),
        (["--name", "../up"], "--name must be letters"),
        (["--name", "x" * 200], "at most 100"),
        (["--count", "0"], "--count must be 1 to"),
        (["--longest", "7"], "--longest must be 8 to"),
        (["--batch", "0"], "--batch must be 1 to"),
        (["--device-map", "auto", "--control", "1"], "leave out --control and torchrun"),
        (["--model", "bert", "--sources", "bundled"], "or take minilm by its name"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(model, options, message, capsys):
    assert take(*options) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert message in said.err
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"RANK": "x"}, "the variable RANK must be a whole number, as torchrun sets it, got 'x'"),
        ({"WORLD_SIZE": "2"}, "MASTER_ADDR and MASTER_PORT is not set: start the processes with torchrun"),
        ({"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "65536"}, "MASTER_PORT must be 1 to 65535"),
        ({"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "http"}, "MASTER_PORT must be 1 to 65535"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK must be below WORLD_SIZE, got 2 and 2"),
    ],
)
def test_variables_that_torchrun_would_not_set_are_refused(model, variables, message, capsys, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert take() == 2
    assert message in capsys.readouterr().err
