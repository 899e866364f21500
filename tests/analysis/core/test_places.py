"""The dotted places of the package: which a guess names, and which the installed libraries can give."""

from analysis.core import face


def test_words_of_a_name_and_places_that_have_them_all():
    assert face.words_of("__score_Terms__of") == {"score", "term", "of"}
    assert face.find_places("") == []
    found = face.find_places("gates", most=2)
    assert [len(face.words_of(place.rpartition(".")[2])) for place in found] == [2, 2]
    assert all("gate" in face.words_of(place.rpartition(".")[2]) for place in face.find_places("Gates", most=99))
    assert face.find_places("matrices_of_heads") == []
