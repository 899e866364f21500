"""A classifier of two layers, trained once for all tests that need one."""

import pytest

from analysis.data.dna.simulate import invent_backbones
from analysis.training import dna_classifier


@pytest.fixture(scope="session")
def variant_data():
    recipe = dna_classifier.shortened(dna_classifier.TINY, sequences=160)
    return dna_classifier.make_data(recipe, backbones=invent_backbones(0, codons=60))


@pytest.fixture(scope="session")
def variant_folder(tmp_path_factory, variant_data):
    out = tmp_path_factory.mktemp("classifier")
    dna_classifier.train(dna_classifier.shortened(dna_classifier.TINY, sequences=160, steps=160, batch=8, warmup=5), out,
                   data=variant_data)
    return out
