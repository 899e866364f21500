"""Lilliefors, cone index and stations on rows of a real BERT, against statsmodels, scipy and transformers."""

import numpy as np
import pytest
import torch
from scipy.stats import directional_stats
from statsmodels.stats.diagnostic import lilliefors as by_statsmodels

from analysis.data import texts
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.representations import anisotropy
from analysis.statistics import normality
from analysis.transformer.encoder import run_layer


@pytest.fixture(scope="module")
def loaded():
    checkpoint = checkpoints.find("minilm")
    model = pretrained.load(checkpoint)
    return model, extraction.hidden_states(model, pretrained.tokenizer(checkpoint), texts.passages(count=1), 40)[0]


def test_lilliefors_equals_statsmodels_on_real_rows(loaded):
    for rows in loaded[1]:
        due = [by_statsmodels(row)[0] for row in rows.double().numpy()]
        np.testing.assert_allclose(normality.lilliefors(rows).numpy(), due, rtol=0, atol=1e-12)


def test_resultant_length_equals_scipy_on_real_rows(loaded):
    for rows in loaded[1].double():
        due = directional_stats(rows.numpy()).mean_resultant_length
        assert anisotropy.resultant_length(rows).item() == pytest.approx(due, rel=1e-12)
        assert anisotropy.cone_index(rows).item() == pytest.approx(np.linalg.norm(rows.numpy().sum(0)), rel=1e-12)


def test_stations_end_where_transformers_does(loaded):
    model, states = loaded
    for x, due, layer in zip(states, states[1:], load(model).encoder_layers()):
        torch.testing.assert_close(run_layer(x, layer).second, due, rtol=0, atol=2e-5)
