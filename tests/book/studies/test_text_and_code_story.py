"""The cells of the story on the paper's code find what the study of its evidence measured."""

from types import SimpleNamespace

import pytest

from book.publish import dependencies, execution, records
from book.publish.experiments import FOLDER
from book.studies.text_and_code.layers import split_faults


@pytest.fixture(scope="module")
def ran():
    """Run the story's cells one after the other, and keep what they leave."""
    space = {"__name__": "__main__"}
    for cell in dependencies.cell_sources(execution.pages()["text-and-code"].read_text(encoding="utf-8")):
        exec(compile(cell, "story", "exec"), space)
    return SimpleNamespace(**space)


def moved(ran, cut):
    maps = [ran.attention(n, cut) for n in range(6)]
    return [
        ((ours - own[0]).abs().sum(-1).mean() / 2).item() for ours, own in zip(maps, ran.seen.attentions, strict=True)
    ]


def test_rows_are_the_models_own_heads(ran):
    assert max(moved(ran, ran.as_rows)) < 1e-5


def test_columns_move_as_much_as_the_study_says(ran):
    """The study's texts are others and longer: layer by layer the shares are alike."""
    record = records.load("text-and-code-minilm", FOLDER)
    measured = split_faults(record.array("trained/distance"))["stored columns"].mean(0)
    assert moved(ran, ran.as_columns) == pytest.approx(measured, abs=0.12)


def test_even_attention_is_at_opposite_ends_of_two_entropies(ran):
    assert ran.row_entropy(ran.even).exp().round().unique().tolist() == [4]
    assert ran.histogram_entropy(ran.even).item() == 0
