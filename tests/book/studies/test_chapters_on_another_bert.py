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
from book.studies.bert_stream import minilm

pytestmark = pytest.mark.slow
BOOK = Path(__file__).parents[3] / "book" / "evidence"
LAYERS, HEADS, TEXTS = 3, 2, 3


@pytest.fixture
def inputs(tmp_path, monkeypatch):
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
    monkeypatch.setattr(minilm, "SAMPLES", 60)
    return {"MODEL": str(tmp_path / "another"), "TEXTS": str(tmp_path / "own.txt")}


@pytest.mark.parametrize(("name", "drawings"), [("bert-stream", 5)])
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
    assert len(arrays["trained"]["cosine"][0]) == TEXTS
    assert len(arrays["control"]["coupling"]) == LAYERS
