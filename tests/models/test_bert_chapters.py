"""The code of the chapters on similarity and rank runs for another BERT than theirs, small, and on few texts."""

import json
import string
from pathlib import Path

import jaxtyping
import pytest
from myst_nb.core.read import read_myst_markdown_notebook

from analysis import asked
from tests.unit import tiny

BOOK = Path(__file__).resolve().parents[2] / "book"
SMALLER = {"bert-rank": {"SEEDS": 2, "WIDTHS": (8, 16), "DEEP": 40, "DEEP_WIDTH": 8}, "bert-similarity": {}}


def write_bert(path, depth, heads):
    """Write a random BERT with a tokenizer of letters."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *string.ascii_lowercase,
             *(f"##{letter}" for letter in string.ascii_lowercase), *string.digits, *".,;:"]
    tiny.write_model(path, tiny.BERT | {"vocab_size": len(words), "hidden_size": 12 * heads, "num_hidden_layers": depth,
                                        "num_attention_heads": heads, "max_position_embeddings": 20})
    (path / "vocab.txt").write_text("\n".join(words))
    (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))


@pytest.fixture(params=[(1, 1, ["a cat. sat on 2 mats"]), (3, 2, ["one two", "three, four", "five; six 7"])],
                ids=["one layer, head and text", "several"])
def asking(request, tmp_path, monkeypatch):
    """What ``python -m analysis run --model FOLDER --texts FILE`` asks for."""
    depth, heads, texts = request.param
    folder = tmp_path / "my-bert"
    folder.mkdir()
    write_bert(folder, depth, heads)
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # outside the tests nothing checks annotations
    monkeypatch.setattr(asked, "_own", set())
    monkeypatch.setenv(asked.MODEL, str(folder))
    (tmp_path / "texts.txt").write_text("\n\n".join(texts))
    monkeypatch.setenv(asked.TEXTS, str(tmp_path / "texts.txt"))
    monkeypatch.chdir(BOOK)
    return folder


@pytest.mark.parametrize("chapter", SMALLER)
def test_runs_for_another_bert(chapter, asking, capsys):
    notebook = read_myst_markdown_notebook((BOOK / f"{chapter}.md").read_text(encoding="utf-8"), path=f"{chapter}.md")
    variables, ran = {}, 0
    for cell in notebook.cells:
        if cell.cell_type == "code":
            exec(compile(cell.source, f"{chapter}, cell {ran}", "exec"), variables)
            ran += 1
            if "parameters" in cell.metadata.get("tags", []):
                variables |= {"MODEL": str(asking), "TEXTS": str(asking.parent / "texts.txt")} | SMALLER[chapter]
    assert ran > 20
    assert asking.name in capsys.readouterr().out
