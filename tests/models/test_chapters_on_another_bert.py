"""The chapters on whole layers run on any BERT: here a small random one in a folder, with three short texts."""

import os
from pathlib import Path

import jupytext
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from transformers import BertConfig, BertModel

from analysis import asked, checkpoints, models, texts
from analysis.experiments import stream_minilm
from analysis.figures.style import BookFigure

BOOK = Path(__file__).parents[2] / "book"
LAYERS, HEADS = 3, 2


@pytest.fixture
def another(tmp_path, monkeypatch):
    """Ask for another model and own texts, as ``python -m analysis run`` does."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertModel(BertConfig(num_hidden_layers=LAYERS, num_attention_heads=HEADS, hidden_size=24,
                                     intermediate_size=48, max_position_embeddings=40))
        for parameter in model.parameters():  # gains and biases are trivial at initialisation
            torch.nn.init.normal_(parameter, mean=float(parameter.ndim == 1), std=0.3)
    model.save_pretrained(tmp_path / "another")
    models.tokenizer(checkpoints.find("minilm")).save_pretrained(tmp_path / "another")
    (tmp_path / "own.txt").write_text("\n\n".join([*texts.passages(count=2, longest=60), "A very short text of ours."]))
    monkeypatch.setenv(asked.MODEL, str(tmp_path / "another"))
    monkeypatch.setenv(asked.TEXTS, str(tmp_path / "own.txt"))
    monkeypatch.setattr(stream_minilm, "SAMPLES", 60)


@pytest.mark.usefixtures("another")
@pytest.mark.parametrize("name", ["bert-normality", "bert-stream"])
def test_chapter_runs_on_another_bert(name):
    shell = InteractiveShell()
    figures, parameters = 0, {"MODEL": os.environ[asked.MODEL], "TEXTS": os.environ[asked.TEXTS]}
    for cell in jupytext.read(BOOK / f"{name}.md").cells:
        if cell.cell_type == "code":
            result = shell.run_cell(cell.source)
            result.raise_error()
            if "parameters" in cell.metadata.get("tags", []):
                shell.user_ns.update(parameters)
            if isinstance(result.result, BookFigure):
                figures += result.result._repr_svg_().startswith("<?xml")
    assert figures >= 4
    if name == "bert-stream":
        arrays = shell.user_ns["m"].survey.arrays
        assert len(arrays["trained"]["cosine"][0]) == 3
        assert len(arrays["control"]["coupling"]) == LAYERS
    else:
        found = shell.user_ns["found"]
        assert len(found["tokens"]) == 3
        assert len(found["control_D_sum"][0]) == LAYERS
