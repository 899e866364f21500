"""The probe of the variant classifier's training: against maps and states that the library itself returns."""

import math

import numpy as np
import pytest
import torch
from transformers import BertForSequenceClassification

from analysis.maps import gates
from book.lab.dna_probe import look, make_probe
from book.lab.training import dna_classifier

RECIPE = dna_classifier.shortened(dna_classifier.TINY, sequences=160)


@pytest.fixture(scope="module")
def model(variant_data):
    torch.manual_seed(0)
    config = dna_classifier.configure(RECIPE, variant_data)
    made = BertForSequenceClassification._from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "query" in name or "key" in name:
                parameter.mul_(20)  # maps that are not uniform
    return made.eval()


def test_probe_agrees_with_the_library(variant_data, model):
    data = variant_data
    found = make_probe(data)(0, model)
    labels = sorted({g.label for g in data.genes})[:2]
    genes = [next(data.genes[i] for i in data.parts.validation if data.genes[i].label == label) for label in labels]
    cone, spread, shares = [], [], []
    for turn, gene in enumerate(genes):
        coded = data.encode([gene])
        with torch.no_grad():
            out = model(**coded, output_attentions=True, output_hidden_states=True)
        n = coded["input_ids"].shape[1]
        cone.append([states[0].sum(0).norm() for states in out.hidden_states[1:]])
        spread.append([torch.special.entr(a).sum(-1).mean() / math.log(n) for a in out.attentions])
        shares.append([gates.read_gates(a[0, turn::2]).scores.sum(0) for a in out.attentions])
    np.testing.assert_allclose(found["cone"], np.mean(cone, 0), rtol=1e-5)
    np.testing.assert_allclose(found["entropy"], np.mean(spread, 0), rtol=1e-5)
    due = torch.stack([torch.stack(rows) for rows in shares]).sum(0).numpy() / RECIPE.heads
    np.testing.assert_allclose(found["gates"], due, atol=1e-5)
    assert found["entropy"].max() < 0.999  # not a test on uniform maps


def test_probe_leaves_model_and_threads_alone(variant_data, model):
    coded, threads = variant_data.encode(variant_data.genes[:1]), torch.get_num_threads()
    with torch.no_grad():
        before = model(**coded).logits
        look(model, [coded])
        assert torch.equal(model(**coded).logits, before)
    assert model.config._attn_implementation == "eager"
    assert torch.get_num_threads() == threads


def test_probe_in_training(variant_data, tmp_path):
    recipe, probe = dna_classifier.shortened(RECIPE, steps=4, warmup=1), make_probe(variant_data)
    dna_classifier.train(recipe, tmp_path, data=variant_data, probe=probe, probe_at=(0, 4))
    trace = np.load(tmp_path / "trace.npz")
    assert trace["gates"].shape == (2, RECIPE.layers, len(gates.GATES))
    np.testing.assert_allclose(trace["gates"].sum(-1), 1, atol=1e-5)
    assert (trace["cone"][0] != trace["cone"][1]).all()
