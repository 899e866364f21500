"""The code of the chapters on similarity and rank runs for another BERT than theirs, small, and on few texts."""

import json
import string
from importlib import import_module
from pathlib import Path

import jaxtyping
import pytest
from myst_nb.core.read import read_myst_markdown_notebook

from book.publish.claims import claim_functions
from tests.analysis import tiny

pytestmark = pytest.mark.slow
BOOK = Path(__file__).resolve().parents[3] / "book" / "evidence"
SMALLER = {"SEEDS": 2, "WIDTHS": (8, 16), "DEEP": 40, "DEEP_WIDTH": 8}  # random stacks of the chapter on rank


def write_bert(path, depth, heads):
    """Write a random BERT with a tokenizer of letters."""
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *string.ascii_lowercase,
        *(f"##{letter}" for letter in string.ascii_lowercase),
        *string.digits,
        *".,;:",
    ]
    tiny.write_model(
        path,
        tiny.BERT
        | {
            "vocab_size": len(words),
            "hidden_size": 12 * heads,
            "num_hidden_layers": depth,
            "num_attention_heads": heads,
            "max_position_embeddings": 20,
        },
    )
    (path / "vocab.txt").write_text("\n".join(words))
    (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))


@pytest.fixture(
    params=[(1, 1, ["a cat. sat on 2 mats"]), (3, 2, ["one two", "three, four", "five; six 7"])],
    ids=["one layer, head and text", "several"],
)
def parameters(request, tmp_path, monkeypatch):
    """What an execution with a reader's model and texts injects after the cell of parameters."""
    depth, heads, texts = request.param
    folder = tmp_path / "my-bert"
    folder.mkdir()
    write_bert(folder, depth, heads)
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # outside the tests nothing checks annotations
    (tmp_path / "texts.txt").write_text("\n\n".join(texts))
    for name, value in SMALLER.items():
        monkeypatch.setattr(import_module("book.studies.bert_rank.stacks"), name, value)
    return {"MODEL": str(folder), "TEXTS": str(tmp_path / "texts.txt"), "DEVICE": "cpu"}


@pytest.mark.parametrize("chapter", ["bert-rank"])
def test_runs_for_another_bert(chapter, parameters, capsys):
    notebook = read_myst_markdown_notebook((BOOK / f"{chapter}.md").read_text(encoding="utf-8"), path=f"{chapter}.md")
    variables, ran = {}, 0
    for cell in notebook.cells:
        if cell.cell_type == "code":
            exec(compile(cell.source, f"{chapter}, cell {ran}", "exec"), variables)
            ran += 1
            if "parameters" in cell.metadata.get("tags", []):
                assert set(variables) - {"__builtins__"} == set(parameters)
                variables |= parameters
    assert ran > 20
    printed = capsys.readouterr().out
    assert "my-bert" in printed
    claims = list(claim_functions(variables["study"].claims))
    assert all(
        f"{function.claim_id} not here" in printed or f"{function.claim_id} {judged}" in printed
        for function in claims
        for judged in [function(variables["m"]).verdict]
    )
    assert "With the model my-bert and the texts of texts.txt" in printed
