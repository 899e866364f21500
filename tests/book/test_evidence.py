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

MODEL = re.compile(r'^MODEL = "(minilm|gpt2)', re.MULTILINE)
PAGES = {name: path for name, path in execution.pages().items() if MODEL.search(path.read_text("utf-8"))}
FAMILY = {name: MODEL.search(path.read_text("utf-8"))[1] for name, path in PAGES.items()}
SENTENCES = "The value of the name is returned. ", "The name of a file. ", "Is the value an expression? "
LONG = [40 * sentence for sentence in SENTENCES]  # more than the context of gpt2-mini
SEVERAL = {"one layer, head and text": False, "several": True}


def write_bert(path, depth, heads):
    """Write a random BERT with a tokenizer of letters."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = string.ascii_lowercase
    words = [*special, *letters, *(f"##{letter}" for letter in letters), *string.digits, *".,;:"]
    shape = {"hidden_size": 12 * heads, "num_hidden_layers": depth, "num_attention_heads": heads}
    tiny.write_model(path, tiny.BERT | shape | {"vocab_size": len(words), "max_position_embeddings": 20})
    (path / "vocab.txt").write_text("\n".join(words))
    (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))


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
@pytest.mark.parametrize("several", SEVERAL.values(), ids=SEVERAL)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_runs_on_another_model_and_says_of_each_claim_whether_it_holds_there(
    name, several, tmp_path, monkeypatch
):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # outside the tests nothing checks annotations
    folder, file = tmp_path / "my-model", tmp_path / "texts.txt"
    if FAMILY[name] == "minilm":
        folder.mkdir()
        write_bert(folder, *((3, 2) if several else (1, 1)))
        texts = ["one two", "three, four", "five; six 7"] if several else ["a cat. sat on 2 mats"]
    else:
        with torch.random.fork_rng():
            tiny.write_model(folder, tiny.GPT2 | {"vocab_size": 2048, "n_positions": 40})
        pretrained.tokenizer(checkpoints.find("gpt2-mini")).save_pretrained(folder)
        texts = LONG if several else LONG[:1]
    file.write_text("\n\n".join(texts))
    shown = run(PAGES[name], {"MODEL": str(folder), "TEXTS": str(file), "DEVICE": "cpu"})
    check_verdicts(name, shown)
    assert FAMILY[name] == "gpt2" or "the model my-model and the texts of texts.txt" in shown
