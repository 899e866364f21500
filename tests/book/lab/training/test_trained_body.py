"""A trained body under a new vocabulary: every layer is the trained one, the rows of new words are not."""

from dataclasses import replace

import pytest
import torch

from book.lab.dna.kmers import build_tokenizer
from book.lab.training import dna_classifier, trained_body

WORDS = "ACGTACGTACGTACGTACGTA"


@pytest.fixture(scope="module")
def trained(variant_folder):
    return dna_classifier.load(variant_folder)


@pytest.fixture(scope="module")
def other_data(variant_data):
    return replace(variant_data, tokenizer=build_tokenizer([WORDS]))


def test_layers_are_the_trained_ones_and_new_rows_those_of_the_seed(variant_folder, trained, other_data):
    recipe = replace(dna_classifier.TINY, start=str(variant_folder))
    random = dna_classifier.initialise(dna_classifier.TINY, other_data, 3).state_dict()
    made = dna_classifier.initialise(recipe, other_data, 3).state_dict()
    body = trained[0].state_dict()
    table = f"bert.{trained_body.TABLE}"
    for name in made:
        expected = body if name.startswith("bert.") and name != table else random
        if name != table:
            assert torch.equal(made[name], expected[name]), name
    special = len(other_data.tokenizer.all_special_ids)
    assert torch.equal(made[table][special:], random[table][special:])
    for token in other_data.tokenizer.all_special_tokens:
        own, theirs = (each.convert_tokens_to_ids(token) for each in (other_data.tokenizer, trained[1]))
        assert torch.equal(made[table][own], body[table][theirs])


def test_another_size_is_refused(variant_folder, other_data):
    recipe = replace(dna_classifier.TINY, start=str(variant_folder), hidden=128)
    with pytest.raises(ValueError, match=r"cannot be the start: encoder\.layer\.0\.intermediate"):
        dna_classifier.initialise(recipe, other_data, 0)
