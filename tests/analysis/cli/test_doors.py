"""One door with one set of checks: whatever a folder or a text file holds, every command ends, in one line."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.models.checkpoints import BUNDLED
from analysis.models.families.tiny import tiny_model
from tests.analysis.tiny import GPT2, change_tensors, rewrite, write_model

WORDS = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
LONG = "Every row of an attention map sums to one, whatever the scores of the row are, and the next one too."


@pytest.fixture(autouse=True)
def limit():
    """End a test that hangs."""

    def end(*_):
        raise TimeoutError("a command hangs")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def add_words(folder: Path) -> Path:
    for name in WORDS:
        if (BUNDLED / "gpt2-mini" / name).exists():
            shutil.copy(BUNDLED / "gpt2-mini" / name, folder / name)
    return folder


def write_family(folder: Path, model_type: str, **settings) -> Path:
    """Write a tiny model of any family."""
    tiny_model(model_type, **settings).save_pretrained(folder)
    return folder


@pytest.fixture
def folder(tmp_path):
    """Write a whole GPT-2 of two small layers with a tokenizer."""
    return add_words(write_model(tmp_path / "tiny", GPT2 | {"vocab_size": 2048, "n_positions": 64}))


@pytest.fixture
def llama(tmp_path):
    """Write a whole Llama of two small layers with a tokenizer."""
    return add_words(write_family(tmp_path / "llama", "llama", vocab_size=2048))


@pytest.fixture
def ask(tmp_path, capsys, monkeypatch):
    """Ask for a report and for a census; return the lines that they end with."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text(LONG)

    def ask(folder, *options, commands=("report", "census"), status=2):
        lines = []
        for words in (["report", str(folder)], ["census", "--model", str(folder)]):
            if words[0] in commands:
                texts = () if "--texts" in options else ("--texts", "texts.txt")
                assert main([*words, *texts, *options]) == status
                said = capsys.readouterr().err.splitlines()
                lines += said[-1:] if status else []
                assert status == 0 or not Path("runs").exists() or not list(Path("runs").iterdir())
        return lines

    return ask


@pytest.mark.slow
def test_the_folders_of_these_tests_are_read(folder, llama, ask):
    ask(folder, status=0)
    ask(llama, status=0, commands=("report",))


NAMES = "model.safetensors.index.json more.safetensors config.json SHA256SUMS tokenizer.json added_tokens.json"


@pytest.mark.parametrize("name", NAMES.split())
def test_a_pipe_in_a_folder_is_never_waited_for(folder, ask, name):
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    if name == "SHA256SUMS":  # a list that is none is no list
        ask(folder, status=0, commands=("census",))
        return
    for line in ask(folder):
        assert name in line
        assert "is a pipe, a socket or a device" in line or "no config.json" in line


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_link_to_itself_in_a_folder_is_said(folder, ask, name):
    (folder / name).unlink()
    (folder / name).symlink_to(name)
    for line in ask(folder):
        assert name in line
        assert line.startswith("error: ")


@pytest.mark.parametrize("content", ["/dev/zero", "pipe"])
def test_texts_that_never_end_are_not_read(folder, ask, content, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for line in ask(folder, "--texts", content):
        assert f"{content} " in line
        assert "is a pipe, a socket or a device" in line


def test_a_text_too_large_to_be_read_at_once_is_refused(folder, ask, tmp_path):
    with open(tmp_path / "large.txt", "wb") as file:
        file.truncate(2**30 + 1)
    for line in ask(folder, "--texts", "large.txt"):
        assert "has 1,073,741,825 bytes: at most 1,073,741,824 are read: 'large.txt'" in line


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"n_head": -8}, "n_head as a positive whole number, got -8"),
        ({"n_layer": 2 * 10**9}, "at most 1000 layers, got n_layer = 2000000000"),
        ({"layer_norm_epsilon": float("nan")}, "layer_norm_epsilon as a finite number, not negative, got nan"),
        ({"n_inner": 47}, "tensor 'h.0.mlp.c_"),
    ],
)
def test_a_config_that_is_none_ends_both_commands_in_the_same_line(folder, ask, settings, said):
    rewrite(folder / "config.json", **settings)
    report, census = ask(folder)
    assert said in report
    assert said in census


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"intermediate_size": 33}, "down_proj.weight' of llama"),
        ({"num_key_value_heads": -2}, "llama"),
        ({"num_hidden_layers": 2 * 10**9}, "at most 1000 layers, got num_hidden_layers = 2000000000"),
        ({"rms_norm_eps": -1.0}, "rms_norm_eps as a finite number, not negative, got -1.0"),
        ({"rms_norm_eps": "1e-5"}, "rms_norm_eps"),
        ({"hidden_act": "no such"}, "no such"),
    ],
)
def test_what_the_library_would_stumble_over_is_one_line(llama, ask, settings, said):
    rewrite(llama / "config.json", **settings)
    (line,) = ask(llama, commands=("report",))
    assert line.startswith("error: ")
    assert said in line


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["report", "gpt2-mini", "--weights-only", "--out"], "heads.csv"),
        (["report", "gpt2-mini", "--weights-only", "--out"], "report.json"),
        (["report", "gpt2-mini", "--certify", "--longest", "8", "--out"], "badge.svg"),
        (["census", "--model", "gpt2-mini", "--count", "1", "--name", "table", "--folder"], "table.csv"),
    ],
)
def test_a_file_of_the_user_in_the_folder_of_an_earlier_run_is_never_replaced(words, name, tmp_path, capsys):
    out = tmp_path / "out"
    assert main([*words, str(out)]) == 0
    assert main([*words, str(out)]) == 0
    (out / name).write_text("mine")
    assert main([*words, str(out)]) == 2
    assert f"{out / name} was not written by an earlier run, or was changed since" in capsys.readouterr().err
    assert (out / name).read_text() == "mine"


def test_a_table_of_an_earlier_report_does_not_stay_beside_a_new_one(folder, tmp_path):
    """The table of heads of one model would lie beside the page on another."""
    out = tmp_path / "out"
    (tmp_path / "texts.txt").write_text(LONG)
    options = ["--texts", str(tmp_path / "texts.txt"), "--seeds", "1", "--longest", "8", "--out", str(out)]
    assert main(["report", str(folder), *options]) == 0
    assert (out / "heads.csv").exists()
    assert main(["report", "gpt2-mini", "--weights-only", "--out", str(out)]) == 0
    assert not (out / "heads.csv").exists()
    assert main(["report", "gpt2-mini", "--weights-only", "--out", str(out)]) == 0


def test_a_table_of_positions_that_is_narrower_than_the_rows_is_no_reason_to_stop(ask, tmp_path):
    """An ALBERT widens the sum of its embeddings afterwards, so its positions have no score in the first layer."""
    folder = write_family(tmp_path / "albert", "albert", embedding_size=8)
    ask(folder, "--weights-only", commands=("report",), status=0)


def test_a_norm_behind_the_attention_of_another_shape_is_one_line(folder, ask):
    change_tensors(folder, lambda tensors: tensors | {"ln_f.weight": tensors["ln_f.weight"][:-1].contiguous()})
    for line in ask(folder):
        assert "tensor 'ln_f.weight' of tiny" in line


@pytest.mark.parametrize(
    "normalizer",
    [
        {"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 16}] * 7},
        {"type": "Replace", "pattern": {"Regex": ""}, "content": "a" * 10**6},
        {"type": "Prepend", "prepend": "a" * 10**6},
    ],
)
def test_a_tokenizer_that_lengthens_texts_without_end_is_refused(folder, ask, normalizer):
    rewrite(folder / "tokenizer.json", normalizer=normalizer)
    for line in ask(folder):
        assert "replaces a letter by up to" in line
