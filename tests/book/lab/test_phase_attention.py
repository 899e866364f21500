"""What of a head's attention stays within words of one phase, counted pair by pair."""

import numpy as np
import pytest
import torch

from book.lab import classifier_survey, phase_attention
from book.lab.dna import sites
from book.lab.training import dna_classifier


def test_attention_within_a_phase_is_that_of_the_librarys_maps(variant_data):
    model = classifier_survey.untrained(0, dna_classifier.TINY, variant_data).model
    shifted = next(g for g in variant_data.genes if len(np.unique(sites.token_phases(g))) > 1)
    found = phase_attention.survey(model, variant_data, [shifted])
    phase = sites.token_phases(shifted)
    coded = {name: values for name, values in variant_data.encode([shifted]).items() if name != "labels"}
    with torch.no_grad():
        maps = model(**coded, output_attentions=True).attentions[1][0, 1].numpy()[1:, 1:]
    due = sum(maps[i, j] for i in range(len(maps)) for j in range(len(maps)) if phase[i] == phase[j]) / maps.sum()
    assert found["within"][0, 1, 1] == pytest.approx(due, rel=1e-4)
    assert found["pairs"][0] == pytest.approx(np.mean([a == b for a in phase for b in phase]))


def test_uniform_attention_keeps_the_share_of_the_pairs():
    phase = np.array([0, 0, 3, 3, 3])
    even = torch.full((2, 5, 5), 0.2)
    assert phase_attention.kept_within(even, phase).tolist() == pytest.approx([13 / 25] * 2)
