"""The table of model types: each step of a type has an error, or a reason in few words."""

from itertools import product

import numpy as np

from book.experiments import exact_model_types as experiment
from book.publish import experiments


def test_a_type_is_measured_or_the_reason_is_in_few_words():
    found = experiment.try_types(("nomic_bert", "clip", "llama"))
    assert {name: value.value for name, value in found.values.items()} == {
        "certified/nomic_bert": "the library renames its tensors as it loads them",
        "measured/clip": "it reads a text and images",
    }
    assert found.array("read").max() < 1e-12
    assert found.array("measured")[[0, 2]].max() < 1e-5
    assert found.array("certified")[1:].max() < 1


def test_the_record_has_every_type_and_only_what_reads_no_single_text_is_not_measured():
    record = experiments.load("exact-model-types")
    for step, (number, kind) in product(("read", "measured", "certified"), enumerate(experiment.TYPES)):
        assert np.isnan(record.array(step)[number]) == (f"{step}/{kind}" in record.values)
    refusals = {value.value for name, value in record.values.items() if name.startswith("measured/")}
    assert all(words.startswith("it reads") for words in refusals), "the page: what reads one text is measured"
