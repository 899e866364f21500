"""Where classes differ: columns, tokens and words, on sequences small enough to see; and turning marks round."""

import numpy as np

from book.lab.dna import sites
from book.lab.dna.fasta import Gene
from book.lab.dna.phase import phases
from book.lab.dna.simulate import Backbone, invent_backbones

ROWS = {"a1": "AAAAAA", "b1": "AACAAA", "b2": "AACAAG", "c1": "AAAA-A"}
LINEAGES = [Backbone(name, name[0].upper(), row) for name, row in ROWS.items()]


def test_defining_columns_are_those_that_the_whole_class_has():
    found = sites.defining_columns(LINEAGES)
    assert [np.flatnonzero(found[label]).tolist() for label in "ABC"] == [[], [2], [4]]
    assert np.flatnonzero(sites.defining_columns(LINEAGES, share=0.5)["B"]).tolist() in ([2], [2, 5])


def test_invented_classes_have_defining_columns():
    backbones = invent_backbones(0)
    found = sites.defining_columns(backbones)
    for label, columns in found.items():
        rows = [b.aligned for b in backbones if b.label == label]
        assert 5 <= columns.sum() <= 60
        for column in np.flatnonzero(columns)[:5]:
            assert len({row[column] for row in rows}) <= 2


def test_tokens_are_marked_where_their_bases_are():
    columns = np.zeros(40, bool)
    columns[20] = True
    gene = Gene("x", "A" * 40, aligned="A" * 40)
    assert np.flatnonzero(sites.mark_tokens(gene, columns)).tolist() == [1, 2]  # bases 9..20 and 18..29
    gapped = Gene("x", "A" * 37, aligned="A" * 10 + "---" + "A" * 27)  # base 17 now stands in column 20
    assert np.flatnonzero(sites.mark_tokens(gapped, columns)).tolist() == [1]


def test_a_deletion_is_marked_where_it_is_bridged():
    columns = np.zeros(40, bool)
    columns[10:13] = True
    gapped = Gene("x", "A" * 37, aligned="A" * 10 + "---" + "A" * 27)
    assert np.flatnonzero(sites.mark_tokens(gapped, columns)).tolist() == [0, 1]


def test_gaps_behind_the_last_base_have_its_phase():
    assert phases("AC-G--", stride=1).tolist() == [0] * 6
    assert phases("A-CGT--", stride=3).tolist() == [0, 1, 1]


def test_phases_count_the_gaps_before():
    gapped = Gene("x", "A" * 61, aligned="A" * 10 + "---" + "A" * 30 + "------" + "A" * 21)
    assert sites.token_phases(gapped).tolist() == [0, 0, 3, 3, 3, 0]  # the fifth ends beyond the second gap


def test_words_that_tell_and_rare_ones():
    genes = [Gene(str(i), "C" * 12 if i < 9 else "G" * 12, "one" if i < 9 else "two") for i in range(18)]
    genes += [Gene("last", "C" * 12, "two"), Gene("odd", "T" * 12, "two")]
    counts = sites.word_counts(genes)
    assert counts["C" * 12] == {"one": 9, "two": 1}
    assert sites.telling_words(counts) == {"C" * 12}  # the other has 9 sequences only
    assert sites.telling_words(counts, share=0.95) == set()
    assert sites.rare_words(counts) == {"T" * 12}
