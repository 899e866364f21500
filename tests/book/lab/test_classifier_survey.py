"""Measuring a classifier of genes: against states and maps that the library returns."""

import math

import numpy as np
import pytest
import torch

from analysis.maps import gates
from analysis.statistics import normality
from book.lab import classifier_survey
from book.lab.training import dna_classifier


@pytest.fixture(scope="module")
def library(variant):
    """One sequence: what the library's own forward pass returns."""
    gene = variant.data.genes[variant.data.parts.test[0]]
    with torch.no_grad():
        out = variant.model(**variant.data.encode([gene]), output_attentions=True, output_hidden_states=True)
    return gene, out


@pytest.mark.parametrize("pad_to", [None, 24])
def test_measures_agree_with_the_library(variant, library, pad_to):
    gene, out = library
    found = classifier_survey.survey(variant.model, variant.data, [gene], pad_to=pad_to)[0]
    states, maps = [s[0] for s in out.hidden_states[1:]], torch.cat(out.attentions)
    n = len(states[0])
    np.testing.assert_allclose(found["cone"], [s.sum(0).norm() for s in states], rtol=1e-4)
    np.testing.assert_allclose(found["D_sum"], [normality.lilliefors(s.sum(0)) for s in states], atol=1e-4)
    np.testing.assert_allclose(found["entropy"], torch.special.entr(maps).sum(-1).mean(-1) / math.log(n), rtol=1e-4)
    np.testing.assert_allclose(found["gates"], gates.read_gates(maps).scores, atol=1e-3)
    np.testing.assert_allclose(found["received"], maps.mean((1, 2)), atol=1e-6)
    np.testing.assert_allclose(found["class_row"], maps[:, :, 0].mean(1), atol=1e-6)
    np.testing.assert_allclose(found["probabilities"], out.logits[0].softmax(-1), atol=1e-5)
    assert ("padded_cone" in found) == (pad_to is not None)


def test_padding_rows_count_only_where_they_are_asked_for(variant, library):
    found = classifier_survey.survey(variant.model, variant.data, [library[0]], pad_to=24, read=False)[0]
    with torch.no_grad():
        states = variant.model(**variant.data.encode([library[0]], 24), output_hidden_states=True).hidden_states[1:]
    np.testing.assert_allclose(found["padded_cone"], [s[0].sum(0).norm() for s in states], rtol=1e-4)
    assert (found["padded_cone"] > 1.02 * found["cone"]).all()
    assert "gates" not in found


def test_growth_is_measured_with_biases(variant, library):
    gene, out = library
    found = classifier_survey.survey(variant.model, variant.data, [gene], pad_to=None, read=False)[0]
    layer, heads = variant.model.bert.encoder.layer[1], variant.model.config.num_attention_heads
    x = out.hidden_states[1][0]
    with torch.no_grad():
        rows = layer.attention.self.key(x).unflatten(-1, (heads, -1)).norm(dim=-1) / x.norm(dim=-1)[:, None]
    np.testing.assert_allclose(found["growth"][1, 1], rows.mean(0), rtol=1e-4)
    np.testing.assert_allclose(found["grown"][1, 1], (rows > 1).double().mean(0), atol=1e-6)


def test_the_largest_values_are_those_of_each_heads_map(variant):
    found = classifier_survey.largest_values(variant.model)
    attention, heads = (variant.model.bert.encoder.layer[1].attention.self, variant.model.config.num_attention_heads)
    for i, name in enumerate(("query", "key", "value")):
        by_head = getattr(attention, name).weight.detach().numpy().reshape(heads, -1, variant.model.config.hidden_size)
        np.testing.assert_allclose(found[i, 1], np.linalg.norm(by_head, 2, axis=(1, 2)), rtol=1e-4)


def test_only_right_ones_are_chosen(variant):
    test = variant.data.parts.test
    due = np.eye(8)[[variant.data.labels.index(variant.data.genes[i].label) for i in test]]
    chosen = classifier_survey.correct(variant.data, test, due, 1)
    assert [variant.data.genes[i].label for i in chosen] == list(variant.data.labels)
    wrong = due.copy()
    wrong[[i for i, row in enumerate(due) if row[3]]] = np.eye(8)[0]
    with pytest.raises(ValueError, match=f"only 0 sequences of {variant.data.labels[3]}"):
        classifier_survey.correct(variant.data, test, wrong, 1)


def test_data_that_do_not_fit_the_vocabulary_are_refused(variant_folder):
    """The folder was trained on a shorter gene than its card makes again."""
    with pytest.raises(ValueError, match="another vocabulary"):
        classifier_survey.open_run(variant_folder)


def test_an_untrained_model_is_what_its_training_began_with(variant):
    recipe = dna_classifier.shortened(dna_classifier.TINY, sequences=160)
    began = classifier_survey.untrained(0, recipe, variant.data)
    assert all(map(torch.equal, began.model.parameters(), variant.control(0).parameters()))
    other = classifier_survey.untrained(1, recipe, variant.data)
    assert not torch.equal(began.model.classifier.weight, other.model.classifier.weight)


def test_the_first_sequence_of_each_class_is_of_the_test_part(variant):
    first = classifier_survey.firsts(variant.data)
    assert [gene.label for gene in first] == list(variant.data.labels)
    test = [variant.data.genes[i] for i in variant.data.parts.test]
    assert first[3] is next(gene for gene in test if gene.label == first[3].label)
