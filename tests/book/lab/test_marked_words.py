"""The words of a gene that tell, on three classes that can be read by eye."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from book.lab import marked_words
from book.lab.dna.fasta import GAP, Gene
from book.lab.dna.simulate import invent_backbones
from book.lab.dna.splits import Split
from book.lab.training.dna_classifier import Data


def gene(name, aligned, label, lineage):
    return Gene(name, aligned.replace(GAP, ""), label, lineage, aligned=aligned)


@pytest.fixture
def marked():
    """Three classes of two lineages on 39 columns: B has a substitution, C a deletion; four words a sequence."""
    plain = ("ACGTTGCATCCA" * 4)[:39]
    rows = {"A": plain, "B": plain[:14] + "T" + plain[15:], "C": plain[:22] + "---" + plain[25:]}
    kinds = [(label, row, f"{label}{lineage}") for label, row in rows.items() for lineage in (1, 2)]
    genes = [gene(f"{lineage}{i}", row, label, lineage) for label, row, lineage in kinds for i in range(6)]
    odd = rows["A"][:1] + "TTTT" + rows["A"][5:]  # a private change: a rare word
    genes.append(gene("odd", odd, "A", "A1"))
    everything = np.arange(len(genes))
    return Data(genes, Split(everything, everything, everything), None, ("A", "B", "C"), "here")


def test_marks_are_where_classes_differ(marked):
    plain, b, c, odd = marked_words.marks(marked, [marked.genes[i] for i in (0, 12, 24, -1)])
    assert {kind: m.tolist() for kind, m in b.items()} == {
        "site": [False, True, False, False],
        "any site": [False, True, True, False],  # words from 9 and 18 on
        "telling": [False, True, False, False],
        "rare": [False] * 4,
    }
    assert {kind: m.tolist() for kind, m in c.items()} == {
        "site": [False, False, True],
        "any site": [False, True, True],
        "telling": [False, False, True],
        "rare": [False] * 3,
    }
    assert not plain["site"].any()
    assert plain["any site"].tolist() == [False, True, True, False]
    assert not plain["telling"].any()  # what A has, another class has as well
    assert odd["rare"].tolist() == [True, False, False, False]


def test_marks_rest_on_the_training_part_alone(marked):
    only_a = replace(marked, parts=Split(np.arange(12), np.arange(12, 37), np.arange(12, 37)))
    found = marked_words.marks(only_a, [marked.genes[0]])[0]
    assert not found["any site"].any()
    assert found["telling"].all()  # all twelve that have these words are of one class


def test_marked_words_are_compared_with_all():
    """Of four words the second, which is marked, gets twice as much as each of the others."""
    profile = np.zeros((1, 3, 5))
    profile[0, :, :4] = [1, 2, 1, 1]
    kinds = np.zeros((1, 4, 5), bool)
    kinds[0, 0, 1] = True
    ratios = marked_words.by_sequence(profile, kinds)[0]
    assert ratios[0, 0] == pytest.approx(2 / 1.25)
    assert ratios[0, 1] <= 1 <= ratios[0, 2]
    assert not ratios[1:].any()


def test_a_consensus_is_the_commonest_letter_and_never_n():
    rows = [row.split() for row in ("x A one AC-T", "y A one AC-N", "z A one GCTN", "w A two TTTT", "v B one GGGG")]
    found = marked_words.consensuses([gene(name, aligned, label, lineage) for name, label, lineage, aligned in rows])
    assert [f"{b.label} {b.name} {b.aligned}" for b in found] == ["A one AC-T", "A two TTTT", "B one GGGG"]


def test_consensuses_of_simulated_sequences_are_their_backbones(variant_data):
    found = {b.name: b.aligned for b in marked_words.consensuses(variant_data.genes)}
    due = {b.name: b.aligned for b in invent_backbones(0, codons=60)}
    often = Counter(g.lineage for g in variant_data.genes)
    apart = [sum(a != b for a, b in zip(found[name], due[name])) for name in found if often[name] >= 12]
    assert apart
    assert np.mean(apart) < 1.5
