"""The bundled documents are of four kinds and two languages, as their README says; what is not there is refused."""

import hashlib
from collections import Counter

import pytest

from analysis.data import texts
from book.lab import documents


def test_there_are_six_of_each_kind_and_no_text_twice():
    kinds = documents.KINDS + documents.LANGUAGES
    loaded = documents.load_documents(*kinds)
    assert Counter(document.kind for document in loaded) == dict.fromkeys(kinds, 6)
    assert len({document.text for document in loaded}) == 36
    assert all(40 < len(document.text.split()) < 250 for document in loaded)


def test_the_readme_names_every_document_and_the_digest():
    readme = (documents.BUNDLED.parent / "README.md").read_text(encoding="utf-8")
    assert hashlib.sha256(documents.BUNDLED.read_bytes()).hexdigest() in readme
    for document in documents.load_documents(*documents.KINDS, *documents.LANGUAGES):
        assert document.name.rsplit(", ", 1)[-1].split(" ")[-1] in readme


def test_the_technical_documents_are_of_topics_that_no_model_was_trained_on():
    held_out = list(texts.topics())[:: texts.HOLD_OUT]
    for document in documents.load_documents("technical prose"):
        assert document.name.rsplit(", ", 1)[1] in held_out


def test_an_unknown_kind_is_refused_by_name():
    with pytest.raises(ValueError, match=r"technical prose.*got poetry"):
        documents.load_documents("poetry")
