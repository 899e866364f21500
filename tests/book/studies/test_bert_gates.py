"""The chapter on gates measured with models and texts of a reader's own: notes in place of verdicts, and no error."""

import math

import pytest
import torch
from transformers import BertConfig, BertModel

from analysis.data import texts
from analysis.models import checkpoints, pretrained
from book import publish
from book.publish import ledger
from book.publish.numbers import named_numbers
from book.studies import bert_gates as study

LAYERS, HEADS = 2, 3
EMPIRICAL = {"B-41", "B-45", "B-51", "B-54", "B-61", "B-64", "B-67"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a small random BERT with the tokenizer of MiniLM."""
    path = tmp_path_factory.mktemp("models") / "my-bert"
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
    model.save_pretrained(path)
    pretrained.tokenizer(checkpoints.find("minilm")).save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def measured(folder, tmp_path_factory):
    """Measure that model on two texts, too few for an interval."""
    path = tmp_path_factory.mktemp("texts") / "mine.txt"
    path.write_text("\n\n".join(texts.passages(count=2, longest=60)))
    return study.measure(folder, str(path), "cpu")


def test_the_measurement_is_of_the_other_model(measured):
    assert measured.inputs.describe() == "the model my-bert and the texts of mine.txt"
    assert measured.sentence.model == "my-bert"
    assert measured.census.trained.scores.shape[:2] == measured.ablation.closed["trained"].shape == (LAYERS, HEADS)
    assert {measured.census.source, measured.exchange.source, measured.ablation.source} == {"Computed just now."}
    assert dict(named_numbers(measured))["gates-texts"] == 2


def test_what_too_few_texts_show_has_no_bounds(measured):
    assert measured.census.spans == []
    assert all(math.isnan(ratio.low) for ratio in measured.census.summary.values())
    assert all(best.share.format() == "too few texts to tell" for best in measured.census.best.values())


def test_claims_about_the_model_are_notes_and_the_formulas_keep_their_verdicts(measured, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    publish.verdicts(study, measured)
    notes = {output.id: output for output in shown if isinstance(output, publish.claims.NoVerdict)}
    assert set(notes) == EMPIRICAL
    assert not any(note.outcome.decided for note in notes.values())
    assert "an interval needs 3: composed 0% (2 of 2 texts)" in notes["B-67"].outcome.evidence
    assert len(shown) == sum(claim.chapter == "evidence/bert-gates" for claim in ledger.claims())
