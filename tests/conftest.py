"""Every annotated function is checked by beartype while the tests run, on one thread; some fixtures are shared."""

import json
import os

import hypothesis
import jaxtyping
import pytest
import threadpoolctl

from tools import other_machine

hypothesis.settings.register_profile("book", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("book")
jaxtyping.install_import_hook(["analysis", "book.lab"], "beartype.beartype")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # no test depends on the cores, and two workers share them
threadpoolctl.threadpool_limits(int(os.environ["OMP_NUM_THREADS"]))  # of what a plugin imported before this file


@pytest.fixture
def unchecked():
    """Run one test without the type checker, as a user does: what is refused then is refused by the function itself."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def variant_data():
    """Make the data of a small classifier."""
    from book.lab.dna.simulate import invent_backbones
    from book.lab.training import dna_classifier

    recipe = dna_classifier.shortened(dna_classifier.TINY, sequences=160)
    return dna_classifier.make_data(recipe, backbones=invent_backbones(0, codons=60))


@pytest.fixture(scope="session")
def variant_folder(tmp_path_factory, variant_data):
    """Train a classifier of two layers, once for all tests that need one."""
    from book.lab.training import dna_classifier

    recipe = dna_classifier.shortened(dna_classifier.TINY, sequences=160, steps=160, batch=8, warmup=5)
    out = tmp_path_factory.mktemp("classifier")
    dna_classifier.train(recipe, out, data=variant_data, probe_at=(0, 40))
    return out


@pytest.fixture(scope="session")
def variant(variant_folder, variant_data):
    """Read that classifier with its data and its report."""
    from analysis.models import checkpoints, pretrained
    from book.lab import classifier_survey

    model = pretrained.load(checkpoints.find(str(variant_folder)), task="classifier")
    card = json.loads((variant_folder / "report.json").read_text())
    return classifier_survey.Run(model, variant_data, card, variant_folder)


other_machine.enter()
