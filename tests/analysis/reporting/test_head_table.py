"""A census of heads: its columns against maps that are read by hand, its forms, its refusals."""

import json

import numpy as np
import pytest
import torch

from analysis import census
from analysis.models.checkpoints import find
from analysis.models.text_models import load_text_model, load_tokenizer

TEXTS = ["One should never be too sure of what one has read so far, or of what comes next.", "A second, shorter text."]


def test_columns_are_means_of_the_models_maps():
    model, tokenizer = load_text_model(find("minilm")), load_tokenizer(find("minilm"))
    table = census(model, TEXTS, tokenizer=tokenizer)
    maps = [torch.stack(model(**tokenizer(t, return_tensors="pt"), output_attentions=True).attentions) for t in TEXTS]
    previous = np.mean([m[:, 0].diagonal(-1, -2, -1).mean(-1).numpy() for m in maps], 0)
    entropy = [(-(m[:, 0] * m[:, 0].log()).sum(-1).mean(-1) / np.log(m.shape[-1])).numpy() for m in maps]
    np.testing.assert_allclose(table.columns["previous"], previous, atol=1e-6)
    np.testing.assert_allclose(table.columns["entropy"], np.mean(entropy, 0), atol=1e-5)
    assert "induction" not in table.columns
    assert (table.texts, table.tokens) == (2, sum(m.shape[-1] for m in maps))


def test_a_name_is_enough_and_a_causal_model_is_scored_for_induction():
    table = census("gpt2-mini", TEXTS)
    model, tokenizer = load_text_model(find("gpt2-mini")), load_tokenizer(find("gpt2-mini"))
    again = census(model, TEXTS, tokenizer=tokenizer)
    for name, column in table.columns.items():
        assert np.array_equal(column, again.columns[name]), name
    assert 0 < table.columns["induction"].max() < 0.05  # it has no such head: two layers, trained on prose
    assert table.columns["next"].max() == 0


def test_forms():
    table = census("gpt2-mini", TEXTS, longest=9)
    frame, read = table.to_frame(), json.loads(table.to_json())
    assert list(frame.columns[:3]) == ["layer", "head", "entropy"]
    assert len(frame) == len(read["heads"]) == table.columns["entropy"].size
    assert read["tokens"] == table.tokens <= 18
    place = frame["previous"].idxmax()
    line = next(line for line in repr(table).splitlines() if line.startswith("previous"))
    assert line.split()[-1] == f"{frame['layer'][place]}.{frame['head'][place]}"
    assert len(repr(table).splitlines()) < 20


def test_refusals():
    with pytest.raises(ValueError, match="tokenizer must be that of the model"):
        census(load_text_model(find("gpt2-mini")), TEXTS)
    with pytest.raises(ValueError, match="none of the 1 texts"):
        census("gpt2-mini", ["short"])
