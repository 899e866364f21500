"""Kamoda's third figure with the token table of a GPT-2 of full shape: every token, both controls, the real width."""

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from myst_nb.core.read import read_myst_markdown_notebook

from analysis.models import checkpoints, pretrained
from book.publish import execution
from tests.analysis import tiny

HEADS = 12
SHAPE = {"n_positions": 1024, "n_embd": 768, "n_layer": 1, "n_head": HEADS}


@pytest.fixture(params=[(50_257, True), (500, False)], ids=["with a tokenizer", "without one"])
def model(request, tmp_path):
    """A random GPT-2 of one layer, the number of its tokens, and whether those of a text can be counted."""
    tokens, counted = request.param
    with torch.random.fork_rng():
        folder = tiny.write_model(tmp_path / "whole-gpt2", tiny.GPT2 | SHAPE | {"vocab_size": tokens})
    if counted:
        pretrained.tokenizer(checkpoints.find("gpt2-mini")).save_pretrained(folder)
    return folder, tokens, counted


def execute(page, model, monkeypatch):
    """Run the cells of a page with another model; return what they print and display, and their variables."""
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)
    shell = InteractiveShell.instance()
    notebook = read_myst_markdown_notebook(execution.pages()[page].read_text(encoding="utf-8"), path=page)
    with capture_output() as captured:
        for cell in notebook.cells:
            if cell.cell_type == "code":
                shell.run_cell(cell.source).raise_error()
                if "parameters" in cell.metadata.get("tags", []):
                    shell.user_ns.update({"MODEL": str(model), "DEVICE": "cpu"})
    InteractiveShell.clear_instance()
    return captured.stdout + "".join(out.data.get("text/plain", "") for out in captured.outputs), shell.user_ns


@pytest.mark.slow
def test_every_token_of_gpt2_is_drawn_and_heads_7_and_10_are_judged(model, monkeypatch):
    folder, tokens, counted = model
    shown, page = execute("evidence/semi-bias", folder, monkeypatch)
    assert "the real width of tokens" in shown
    assert "K-28 not here: The book's verdict is 'not testable'. With the model whole-gpt2 its condition" in shown
    assert f"Norm and semi-bias of all {tokens:,} tokens" in shown
    figure = page["scatter_tokens"](
        page["gpt2"], page["counts_in_text"], page["whole_found"], "count in the texts", page["named"]
    )
    panels = figure.axes[:HEADS]
    drawn = [[len(marks.get_offsets()) for marks in panel.collections] for panel in panels]
    assert {sum(marks) for marks in drawn} == {tokens}
    assert (min(map(len, drawn)) == 2) == counted
    assert page["named"] == [7, 10]
    figure.draw_without_rendering()
    titles = [panel.get_title(loc="left") for panel in panels]
    boxes = [panel._left_title.get_window_extent() for panel in panels]
    assert titles[7].startswith("head 7: ")
    assert not [n for n, box in enumerate(boxes) if any(box.overlaps(other) for other in boxes[n + 1 :])]
