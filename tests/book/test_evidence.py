"""Every page of evidence that takes a BERT or a GPT-2 runs on another one, with three texts and with one."""

import json
import re
import string

import jaxtyping
import pytest
import torch
from IPython.utils.capture import capture_output
from myst_nb.core.read import read_myst_markdown_notebook

from analysis.models import checkpoints, pretrained
from book.publish import execution, ledger
from tests.analysis import tiny


def pages_of(model):
    """Return the pages that take a model of that name."""
    return {name: path for name, path in execution.pages().items() if f'\nMODEL = "{model}' in path.read_text("utf-8")}


BERTS, GPT2S = pages_of('minilm"'), pages_of("gpt2")


def write_bert(path, depth, heads):
    """Write a random BERT with a tokenizer of letters."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = string.ascii_lowercase
    words = [*special, *letters, *(f"##{letter}" for letter in letters), *string.digits, *".,;:"]
    shape = {"hidden_size": 12 * heads, "num_hidden_layers": depth, "num_attention_heads": heads}
    tiny.write_model(path, tiny.BERT | shape | {"vocab_size": len(words), "max_position_embeddings": 20})
    (path / "vocab.txt").write_text("\n".join(words))
    (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))


@pytest.fixture(
    params=[(1, 1, ["a cat. sat on 2 mats"]), (3, 2, ["one two", "three, four", "five; six 7"])],
    ids=["one layer, head and text", "several"],
)
def parameters(request, tmp_path, monkeypatch):
    """What an execution with a reader's model and texts injects after the cell of parameters."""
    depth, heads, texts = request.param
    (tmp_path / "my-bert").mkdir()
    write_bert(tmp_path / "my-bert", depth, heads)
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # outside the tests nothing checks annotations
    (tmp_path / "texts.txt").write_text("\n\n".join(texts))
    return {"MODEL": str(tmp_path / "my-bert"), "TEXTS": str(tmp_path / "texts.txt"), "DEVICE": "cpu"}


def run(page, parameters) -> str:
    """Execute the cells of a page with other parameters; return what they print and display."""
    from IPython.core.interactiveshell import InteractiveShell

    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()  # without one, what is displayed is printed as Python writes it
    shell.display_formatter.active_types = ["text/plain"]
    notebook = read_myst_markdown_notebook(page.read_text(encoding="utf-8"), path=page.name)
    with capture_output() as captured:
        for cell in notebook.cells:
            if cell.cell_type == "code":
                shell.run_cell(cell.source).raise_error()
                if "parameters" in cell.metadata.get("tags", []):
                    shell.user_ns.update(parameters)
    return captured.stdout + "".join(out.data.get("text/plain", "") for out in captured.outputs)


def check_verdicts(name, shown):
    """Hold a page with a reader's model to the ledger's verdict on each claim, or a note in its place."""
    verdicts = ledger.collect()
    own = {claim.id: verdicts[claim.id].outcome for claim in ledger.claims() if claim.chapter == name}
    assert not [claim for claim, outcome in own.items() if not re.search(f"{claim} (?:not here|{outcome})", shown)]
    assert "cannot be told:" not in shown  # what would follow are values, and they may be the book's own records


@pytest.mark.slow
@pytest.mark.parametrize("name", BERTS)
def test_a_page_runs_on_another_bert_and_says_of_each_claim_whether_it_holds_there(name, parameters):
    shown = run(BERTS[name], parameters)
    check_verdicts(name, shown)
    assert "the model my-bert and the texts of texts.txt" in shown


SENTENCES = "The value of the name is returned. ", "The name of a file. ", "Is the value an expression? "
LONG = [40 * sentence for sentence in SENTENCES]  # more than the context of gpt2-mini
TEXTS = {"one text": LONG[:1], "three texts": LONG}


@pytest.fixture(params=TEXTS.values(), ids=TEXTS)
def of_gpt2(request, tmp_path):
    """What an execution with a reader's model and texts injects after the cell of parameters."""
    with torch.random.fork_rng():
        tiny.write_model(tmp_path / "my-gpt2", tiny.GPT2 | {"vocab_size": 2048, "n_positions": 40})
    pretrained.tokenizer(checkpoints.find("gpt2-mini")).save_pretrained(tmp_path / "my-gpt2")
    (tmp_path / "texts.txt").write_text("\n\n".join(request.param))
    return {"MODEL": str(tmp_path / "my-gpt2"), "TEXTS": str(tmp_path / "texts.txt"), "DEVICE": "cpu"}


@pytest.mark.slow
@pytest.mark.parametrize("name", GPT2S)
def test_a_page_runs_on_another_gpt2_and_says_of_each_claim_whether_it_holds_there(name, of_gpt2, monkeypatch):
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)  # outside the tests nothing checks annotations
    check_verdicts(name, run(GPT2S[name], of_gpt2))
