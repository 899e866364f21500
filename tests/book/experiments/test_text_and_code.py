"""The records of the paper's code: a small BERT as it computes and as the code does, and what is read of a notebook."""

import json

import numpy as np
import pytest
import torch

from analysis.data import texts
from analysis.models import checkpoints, pretrained
from book.experiments import text_and_code_minilm, text_and_code_repository
from book.lab import released_survey as survey
from book.lab.map_counts import correlate
from tests.analysis.tiny import draw


@pytest.fixture(scope="module")
def minilm():
    """MiniLM with a text of a few words, padded as the code pads."""
    checkpoint = checkpoints.find("minilm")
    network, tokenizer = pretrained.load(checkpoint), pretrained.tokenizer(checkpoint)
    return network, text_and_code_minilm.encode(tokenizer, "A small text.", 512)


def test_a_text_has_the_padding_of_a_gene(minilm):
    _, coded = minilm
    n, rows = int(coded["attention_mask"].sum()), coded["input_ids"].shape[1]
    assert rows == round(n * 512 / 427)
    tokenizer = pretrained.tokenizer(checkpoints.find("minilm"))
    long = text_and_code_minilm.encode(tokenizer, texts.passages(count=1)[0], positions=20)
    assert (int(long["attention_mask"].sum()), long["input_ids"].shape[1]) == (16, 19)


def test_the_models_own_maps_are_the_librarys_and_the_codes_are_not(minilm):
    network, coded = minilm
    passage = survey.run(network, **coded)
    maps = network(**coded, output_attentions=True).attentions
    for ours, theirs in zip(passage.stations, maps, strict=True):
        torch.testing.assert_close(ours.attention, theirs[0], atol=1e-5, rtol=0)
    measured = survey.compare_attention(passage)
    assert measured["distance"].shape == (len(survey.FAULTS), len(maps), 12)
    assert measured["distance"][-1].mean() > 0.3
    assert survey.measure_rows(passage)["cone"].shape == (len(maps) + 1,)


def test_entries_on_a_line_are_fully_correlated_and_with_a_constant_not_at_all():
    entries = draw(2, 16).softmax(-1)
    torch.testing.assert_close(correlate(entries, 3 * entries + 1), torch.ones(2, dtype=torch.float64))
    assert not correlate(entries, 0 * entries + 1).any()


def test_the_rank_is_numpys_in_single_precision():
    low = (draw(40, 5) @ draw(5, 30, seed=0)).float()
    assert survey.rank(low) == np.linalg.matrix_rank(low.numpy()) == 5


def test_class_means_are_blanked_from_the_end(variant_folder, variant_data):
    model = pretrained.load(checkpoints.find(str(variant_folder)), task="classifier")
    genes = {label: [g for g in variant_data.genes if g.label == label][:2] for label in variant_data.labels[:2]}
    found = text_and_code_minilm.survey_class_means(model, variant_data, genes)
    assert {name: array.shape for name, array in found.items()} == {
        f"mean_{name}": (2, 2, 2) for name in ("value_entropy", "row_entropy", "seen", "empty")
    }
    assert found["mean_row_entropy"].max() <= 1 + 1e-6


def test_a_confusion_table_counts_blocks_of_rows():
    logits = np.eye(3)[[0, 0, 2, 1, 2]]
    assert text_and_code_repository.tally(logits, (2, 3)).tolist() == [[2, 0, 0], [0, 1, 2]]


def test_printed_ranks_are_read_by_their_title():
    text = "Rank of matrix V\n====\n  L1  64.00  63.00\n  L2  64.00  64.00\nRank of each layer output Y\n L1 5.0 1.0\n"
    assert text_and_code_repository.read_ranks(text, "matrix V").tolist() == [[64, 63], [64, 64]]


def test_counts_are_read_off_the_notebooks_cells():
    cells = [{"outputs": []}] * 40
    cells[34] = {"outputs": [{"text": ["duplicated ids = 1/24\n", "duplicated ids = 0/143\n"]}]}
    cells[39] = {"outputs": [{"text": ["training (72%): 10 sequences\n", "test (20%): 3 sequences\n"]}]}
    cells[26] = {"outputs": [{"text": ["5\n29\n"]}]}
    found = text_and_code_repository.read_counts(json.dumps({"cells": cells}))
    due = {"by_class": [24, 143], "tested_by_class": [5, 29], "parts": [10, 3]}
    assert {name: counts.tolist() for name, counts in found.items()} == due
