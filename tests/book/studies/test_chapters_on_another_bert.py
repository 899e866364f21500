"""The chapters on whole layers run on any BERT: here a small random one in a folder, with three short texts."""

from pathlib import Path

import jupytext
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from transformers import BertConfig, BertModel

from analysis.data import texts
from analysis.models import checkpoints, pretrained
from analysis.plotting.style import BookFigure
from book.publish.claims import claim_functions
from book.studies import bert_normality

pytestmark = pytest.mark.slow
BOOK = Path(__file__).parents[3] / "book" / "evidence"
LAYERS, HEADS, TEXTS = 3, 2, 3


@pytest.fixture
def inputs(tmp_path):
    """Return the parameters of a page: another model, and three texts."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertModel(
            BertConfig(
                num_hidden_layers=LAYERS,
                num_attention_heads=HEADS,
                hidden_size=24,
                intermediate_size=48,
                max_position_embeddings=40,
            )
        )
        for parameter in model.parameters():  # gains and biases are trivial at initialisation
            torch.nn.init.normal_(parameter, mean=float(parameter.ndim == 1), std=0.3)
    model.save_pretrained(tmp_path / "another")
    pretrained.tokenizer(checkpoints.find("minilm")).save_pretrained(tmp_path / "another")
    (tmp_path / "own.txt").write_text("\n\n".join([*texts.passages(count=2, longest=60), "A very short text of ours."]))
    return {"MODEL": str(tmp_path / "another"), "TEXTS": str(tmp_path / "own.txt")}


@pytest.mark.parametrize(("name", "drawings"), [("bert-normality", 13)])
def test_chapter_runs_on_another_bert(name, drawings, inputs):
    shell, figures = InteractiveShell(), 0
    shell.display_formatter.active_types = ["text/plain"]  # each figure is drawn once, below
    shell.display_formatter.mimebundle_formatter.enabled = False
    for cell in jupytext.read(BOOK / f"{name}.md").cells:
        if cell.cell_type == "code":
            result = shell.run_cell(cell.source)
            result.raise_error()
            if "parameters" in cell.metadata.get("tags", []):
                shell.user_ns.update(inputs)
            if isinstance(result.result, BookFigure):
                figures += result.result._repr_svg_().startswith("<?xml")
    assert figures == drawings
    measured = shell.user_ns["m"]
    arrays = measured.survey.arrays
    assert measured.inputs.departs
    assert len(arrays["trained"]["tokens"]) == TEXTS
    assert len(arrays["control"]["D_sum"][0]) == LAYERS


def test_one_text_leaves_what_rests_on_intervals_undecided(inputs, tmp_path):
    (tmp_path / "one.txt").write_text("A very short text of ours.")
    measured = bert_normality.measure(inputs["MODEL"], str(tmp_path / "one.txt"))
    outcomes = {function.claim_id: function(measured) for function in claim_functions(bert_normality.claims)}
    undecided = {claim_id for claim_id, outcome in outcomes.items() if not outcome.decided}
    assert undecided == {"B-72", "B-76", "B-78", "B-79", "B-81", "B-82", "B-84", "B-85"}
