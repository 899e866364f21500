"""The baselines on data checked by hand, the phase of the words, and the interval of groups."""

import numpy as np
import pytest

from book.lab.dna import phase, simulate
from book.lab.dna.baselines import (
    KmerRegression,
    Lookup,
    NearestLineage,
    by_length,
    by_nothing,
    by_phase,
    exchanged,
    fitted,
)
from book.lab.dna.fasta import BadSequence, Gene, read_fasta
from book.lab.dna.kmers import kmers

BASES = "".join(np.random.default_rng(3).choice(list("ACGT"), 90))


def gene(aligned, label="", lineage="", name=""):
    return Gene(name or aligned, aligned.replace("-", ""), label, lineage or label, aligned=aligned)


def changed(at, to, text=BASES):
    return text[:at] + to + text[at + len(to) :]


def test_phases_by_hand():
    aligned = changed(20, "---")
    assert list(phase.phases(aligned)) == [0, 0, 0, 3, 3, 3, 3, 3, 3, 3]
    nine = changed(20, "-" * 9)
    assert set(phase.phases(nine)) == {0}
    both = changed(50, "-" * 6, aligned)
    assert list(phase.phases(both)) == [0, 0, 0, 3, 3, 3, 0, 0, 0, 0]


@pytest.mark.parametrize("width", [3, 6, 9])
def test_words_after_a_deletion_are_other_words_unless_it_is_a_multiple_of_nine(width):
    short = changed(20, "-" * width).replace("-", "")
    before, after = kmers(BASES), kmers(short)
    assert after[0] == before[0]
    later = set(after[4:])
    assert (later <= set(before)) == (width == 9)
    assert bool(later & set(before)) == (width == 9)


def test_only_deletions_leaves_phase_and_takes_bases():
    backbones = simulate.invent_backbones(0, codons=120)
    plain, fixed = phase.only_deletions(backbones), phase.only_substitutions(backbones)
    for old, deletions, substitutions in zip(backbones, plain, fixed):
        assert [a == "-" for a in old.aligned] == [a == "-" for a in deletions.aligned]
        assert "-" not in substitutions.aligned
        assert all(a in ("-", b) for a, b in zip(old.aligned, substitutions.aligned))
    for column in zip(*(b.aligned for b in plain)):
        assert len(set(column) - {"-"}) <= 1


def test_placing_finds_the_gaps_and_passes_over_ambiguity():
    templates = [changed(20, "---"), changed(40, "---"), BASES]
    for template in templates:
        bases = template.replace("-", "")
        spoilt = "NR" + bases[2:60] + "N" * 5 + bases[65:]
        assert phase.place(spoilt, templates).replace("-", "") == spoilt
        assert [c == "-" for c in phase.place(spoilt, templates)] == [c == "-" for c in template]
    with pytest.raises(ValueError, match="no template has 80 bases"):
        phase.place(BASES[:80], templates)


def test_lookup_by_phase_knows_nothing_of_bases():
    train = [gene(changed(20, "---"), "Mu"), gene(changed(40, "---"), "Beta"), gene(BASES, "Beta")]
    other = "".join(np.random.default_rng(4).choice(list("ACGT"), 90))
    places = (21, "---"), (40, "---"), (30, "-" * 9), (60, "---")
    asked = [gene(changed(at, to, other)) for at, to in places]
    assert Lookup(by_phase).fit(train).predict(asked) == ["Mu", "Beta", "Beta", "Beta"]  # the last: never seen
    assert Lookup(by_length).fit(train).predict(asked) == ["Beta", "Beta", "Beta", "Beta"]
    assert Lookup(by_nothing).fit(train[:1]).predict(asked) == ["Mu"] * 4


def test_a_gap_is_a_letter_of_the_nearest_lineage():
    train = [gene(BASES, "Beta"), gene(changed(20, "---"), "Mu")]
    assert NearestLineage().fit(train).predict([gene(changed(20, "---")), gene(BASES)]) == ["Mu", "Beta"]


def test_lookup_prefers_the_more_frequent_and_then_the_alphabet():
    train = [gene("A", "Mu"), gene("C", "Mu"), gene("G", "Beta")]
    assert Lookup(by_length).fit(train).predict([gene("T")]) == ["Mu"]
    assert Lookup(by_length).fit(train[1:]).predict([gene("T")]) == ["Beta"]


def test_regression_by_hand():
    """Two classes that differ in one word; presence counts, order and unknown words do not."""
    train = [gene(BASES, "Mu"), gene(changed(45, "ACGT"), "Beta")]
    fitted = KmerRegression().fit(train)
    assert fitted.words.keys() == set(kmers(train[0].bases)) | set(kmers(train[1].bases))
    assert fitted.predict(train) == ["Mu", "Beta"]
    words = kmers(BASES)
    assert fitted._presence([gene(BASES)]).sum() == len(words)
    marked = "".join(word[:9] for word in words[5:]) + words[-1][9:]  # the second half alone
    assert fitted.predict([gene(marked), gene("T" * 90 + "")])[0] == "Mu"
    assert fitted._presence([gene("T" * 90)]).sum() == 0


def test_gapped_words_do_not_shift():
    full, short = gene(BASES, "Mu"), gene(changed(20, "---"), "Beta")
    assert len(set(KmerRegression(aligned=True)._cut(full)) & set(KmerRegression(aligned=True)._cut(short))) == 7
    assert len(set(KmerRegression()._cut(full)) & set(KmerRegression()._cut(short))) == 1


def test_words_with_ambiguity_codes_are_words_of_their_own():
    """Neither resolved nor dropped: known if training has that very word."""
    spoilt = changed(4, "N")
    fitted = KmerRegression().fit([gene(BASES, "Mu"), gene(spoilt, "Beta")])
    assert {BASES[:12], spoilt[:12]} <= fitted.words.keys()
    assert changed(4, "R")[:12] not in fitted.words
    assert fitted.predict([gene(spoilt)]) == ["Beta"]


def test_nearest_lineage_takes_the_consensus_and_passes_over_ambiguity():
    train = [
        gene(changed(3, "A"), "Mu", "m", "1"),
        gene(changed(3, "A"), "Mu", "m", "2"),
        gene(changed(3, "N"), "Mu", "m", "3"),
        gene(changed(3, "C", changed(60, "GG")), "Beta", "b"),
    ]
    fitted = NearestLineage().fit(train)
    assert fitted.consensus[fitted.labels.index("Mu")].tobytes().decode() == changed(3, "A")
    beta = changed(3, "C", changed(60, "GG"))
    spoilt = changed(0, "N" * 50, beta)
    distance = {"Beta": 0, "Mu": sum(a != b for a, b in zip(BASES[50:], beta[50:]))}
    assert distance["Mu"] > 0
    assert fitted.predict([gene(spoilt)]) == ["Beta"]
    assert fitted.predict([gene("N" * 90)]) == ["Beta"]  # nothing to compare: the first in the alphabet


def test_nearest_lineage_without_alignment_is_led_by_the_deletion():
    train = [gene(BASES, "Mu"), gene(changed(9, "---"), "Beta")]
    hybrid = phase.exchange_gaps(changed(60, "TTTT"), train[1].aligned, BASES)
    assert NearestLineage(aligned=False).fit(train).predict([gene(hybrid)]) == ["Beta"]
    longer = Gene("x", BASES + "ACG")
    assert NearestLineage(aligned=False).fit(train).predict([longer]) == ["Mu"]


def test_backbones_from_a_file(tmp_path):
    path = tmp_path / "own.fasta"
    path.write_text(f">a class=Mu\n{BASES}\n>b class=Beta\n{changed(20, '---')}\n")
    mu, beta = simulate.read_backbones(path)
    assert (mu.label, mu.aligned, beta.aligned) == ("Mu", BASES, changed(20, "---"))
    path.write_text(f">a class=Mu\n{BASES}\n>b\n{BASES}\n")
    with pytest.raises(BadSequence, match="record 'b' needs class=NAME"):
        simulate.read_backbones(path)
    path.write_text(f">a class=Mu\n{BASES}\n>b class=Beta\n{BASES[:-3]}\n")
    with pytest.raises(BadSequence, match="'b' has 87 columns, 'a' has 90: not aligned"):
        read_fasta(path, aligned=True)


def test_exchanged_sequences_have_the_bases_of_one_and_the_gaps_of_another():
    backbones = simulate.invent_backbones(0, codons=150)
    genes = list(simulate.simulate(backbones, 80))
    fill = phase.fill_letters([b.aligned for b in backbones])
    rows = {g.name: g for g in genes}
    made = exchanged(genes, fill)
    assert len(made) > 40
    for one, label in made:
        assert label != one.label
        own = rows[one.name]
        assert by_phase(one) != by_phase(own)
        assert all(a in ("-", b) for a, b in zip(one.aligned, own.aligned) if b != "-")
        assert one.aligned.replace("-", "") == one.bases


def test_the_penalty_is_chosen_on_the_validation_part():
    train = [gene(BASES, "Beta"), gene(changed(45, "ACGT"), "Mu"), gene(changed(45, "ACGT", changed(0, "T")), "Mu")]
    chosen = fitted("kmers", train, [gene(BASES, "Beta")], (1e-9, 1.0))
    assert chosen.strength == 1.0  # with so strong a penalty only the most frequent class is named
    assert fitted("kmers", train, [gene(BASES, "Mu")], (1e-9, 1.0)).strength == 1e-9
    mostly = [gene(BASES, "Beta"), gene(BASES, "Beta"), gene(BASES, "Mu")]  # no penalty gets all three
    assert fitted("kmers", train, mostly, (1.0, 1e-9)).strength == 1.0
