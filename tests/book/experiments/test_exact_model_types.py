"""The table of model types: each step of a type has an error, or a reason in few words."""

from itertools import product

import numpy as np

from book.experiments import exact_model_types as experiment
from book.publish import experiments


def test_a_type_is_measured_or_the_reason_is_in_few_words():
    found = experiment.try_types(("nomic_bert", "clip", "llama", "vit_mae"))
    assert {name: value.value for name, value in found.values.items()} == {
        "certified/nomic_bert": "the library renames its tensors as it loads them"
    }
    assert found.array("read").max() < 1e-12
    assert found.array("measured").max() < 1e-5
    assert found.array("certified")[1:].max() < 1


def test_the_record_has_every_type_and_each_is_measured():
    record = experiments.load("exact-model-types")
    for step, (number, kind) in product(("read", "measured", "certified"), enumerate(experiment.TYPES)):
        assert np.isnan(record.array(step)[number]) == (f"{step}/{kind}" in record.values)
    assert record.array("measured").max() < 1e-5, "the page says that every type that is read is measured"
