"""Lilliefors, cone index and stations on rows of a real BERT, against statsmodels, scipy and transformers."""

import numpy as np
import pytest
import torch
from scipy.stats import directional_stats
from statsmodels.stats.diagnostic import lilliefors as by_statsmodels

from analysis import bert, checkpoints, geometry, models, normality, texts
from analysis.stations import pass_through


@pytest.fixture(scope="module")
def loaded():
    checkpoint = checkpoints.find("minilm")
    model = models.load(checkpoint)
    return model, bert.hidden_states(model, models.tokenizer(checkpoint), texts.passages(count=1), 40)[0]


def test_lilliefors_equals_statsmodels_on_real_rows(loaded):
    for rows in loaded[1]:
        due = [by_statsmodels(row)[0] for row in rows.double().numpy()]
        np.testing.assert_allclose(normality.lilliefors(rows).numpy(), due, rtol=0, atol=1e-12)


def test_resultant_length_equals_scipy_on_real_rows(loaded):
    for rows in loaded[1].double():
        due = directional_stats(rows.numpy()).mean_resultant_length
        assert geometry.resultant_length(rows).item() == pytest.approx(due, rel=1e-12)
        assert geometry.cone_index(rows).item() == pytest.approx(np.linalg.norm(rows.numpy().sum(0)), rel=1e-12)


def test_stations_end_where_transformers_does(loaded):
    model, states = loaded
    for x, due, layer in zip(states, states[1:], bert.encoder_layers(model)):
        torch.testing.assert_close(pass_through(x, layer).second, due, rtol=0, atol=2e-5)
