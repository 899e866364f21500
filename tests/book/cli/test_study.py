"""Several models on one page of evidence: what the table holds is what each model's weights say."""

import json

import nbformat
import pytest
import torch
from safetensors.torch import load_file
from scipy.stats import spearmanr

from analysis.models import checkpoints, pretrained
from book.__main__ import main
from book.cli import study
from book.publish import ledger
from book.publish.tables import table
from tests.analysis import tiny

SHAPE = {"n_positions": 1024, "n_embd": 768, "n_layer": 2, "n_head": 12, "vocab_size": 50_257}


def notebook(rows, verdict):
    """Make an executed page with a table that sums it up, and a verdict."""
    import pandas as pd

    shown = repr(table(pd.DataFrame({"value": rows}).rename_axis("measure"), "A caption."))
    out = nbformat.v4.new_output("execute_result", {"text/plain": shown})
    judged = nbformat.v4.new_output("display_data", {ledger.MIME: verdict})
    cells = [nbformat.v4.new_code_cell(outputs=[judged]), nbformat.v4.new_code_cell(outputs=[out])]
    cells[1].metadata["tags"] = [study.TAG]
    return nbformat.v4.new_notebook(cells=cells)


def test_a_page_is_summed_up_by_its_own_table_and_verdicts():
    page = notebook({"heads that rise": "11 of 12", "a | b": "2"}, {"id": "K-27", "outcome": "reproduced"})
    assert study.summary(page) == {"heads that rise": "11 of 12", "a": "b | 2"}
    assert study.verdicts(page) == {"K-27": "reproduced"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["patterns-and-messages", "gpt2-mini"], "has no table that sums it up; these pages have: evidence/semi-bias"),
        (["semi-bias", "gpt-3"], "unknown model 'gpt-3'"),
        (["semi-bias", "gpt2-mini", "gpt2-mini"], "the models must have different names"),
        (["semi-bias", "gpt2-mini", "--out", "book/evidence"], "lies in the book itself"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(arguments, message, capsys):
    assert main(["study", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("counted", [True, False], ids=["with a tokenizer", "without one"])
def test_a_gpt2_of_full_shape_is_summed_up_as_its_weights_say(counted, tmp_path):
    with torch.random.fork_rng():
        folder = tiny.write_model(tmp_path / "full", tiny.GPT2 | SHAPE)
    if counted:
        pretrained.tokenizer(checkpoints.find("gpt2-mini")).save_pretrained(folder)
    assert main(["study", "semi-bias", str(folder), "--out", str(tmp_path / "out"), "--device", "cpu"]) == 0
    rows = json.loads((tmp_path / "out" / "table.json").read_text())["models"]["full"]

    # the formula b_Q W_K^T p and b_Q W_K^T e, head by head, from the file
    tensors = load_file(folder / "model.safetensors")
    of = {name.removeprefix("transformer."): tensors[name].double() for name in tensors}
    weight, bias = of["h.0.attn.c_attn.weight"], of["h.0.attn.c_attn.bias"]
    heads = [slice(64 * head, 64 * head + 64) for head in range(12)]
    directions = [weight[:, 768:1536][:, head] @ bias[:768][head] for head in heads]
    rising = sum(spearmanr(range(1024), of["wpe.weight"] @ to).statistic > 0 for to in directions)
    lengths = of["wte.weight"].norm(dim=1)
    by_norm = sorted(spearmanr(lengths, of["wte.weight"] @ to).statistic for to in directions)

    assert rows["layers, positions"] == "2, 1,024"
    assert rows["heads that rise with the position, by the formula"] == f"{rising} of 12"
    assert rows["width of the tokens"].startswith("real")
    found = rows["rank correlation of norm and semi-bias, all tokens"]
    assert found.endswith(f"({by_norm[0]:.2f} to {by_norm[-1]:.2f})")
    assert (rows["... among tokens of equal counts in the texts"] == "needs the token table") != counted
