"""A classifier of two layers, trained once for all tests that need one."""

import pytest

from analysis.sequences.simulate import invent_backbones
from analysis.training import variants


@pytest.fixture(scope="session")
def variant_data():
    recipe = variants.shortened(variants.TINY, sequences=160)
    return variants.make_data(recipe, backbones=invent_backbones(0, codons=60))


@pytest.fixture(scope="session")
def variant_folder(tmp_path_factory, variant_data):
    out = tmp_path_factory.mktemp("classifier")
    variants.train(variants.shortened(variants.TINY, sequences=160, steps=160, batch=8, warmup=5), out,
                   data=variant_data)
    return out
