"""The swap in which the words still tell the class of the bases: what counts as telling, and what the record says."""

from book.lab.dna.fasta import Gene
from book.publish.experiments import load
from book.studies.variant_data.experiments import LEAST, TIMES, count_telling_words, find_telling_words
from tests.book.studies.measurements import measurement

FIRST, SECOND = "ACGTACGTACGT", "GGGGCCCCAAAA"  # words of twelve bases, of which a sequence of twelve has one


def genes(bases, label, count):
    return [Gene(f"{label}{i}", bases, label) for i in range(count)]


def test_a_word_tells_a_class_if_nine_in_ten_of_enough_sequences_are_of_it():
    assert find_telling_words(genes(FIRST, "a", 9) + genes(FIRST, "b", 1)) == {FIRST: "a"}
    assert find_telling_words(genes(FIRST, "a", 8) + genes(FIRST, "b", 1)) == {}
    assert find_telling_words(genes(FIRST, "a", LEAST - 1)) == {}


def test_every_telling_word_of_a_sequence_counts_for_its_class_alone():
    gene = Gene("a", "A" * 27 + SECOND, "a")  # three words of the first kind begin it, the third with letters of both
    telling = {"A" * 12: "a", SECOND: "b"}
    assert [count_telling_words(gene, label, telling) for label in ("a", "b", "c")] == [2, 1, 0]


def test_the_classifier_follows_the_deletions_even_where_words_favour_the_bases():
    record, found = load("variant-data-balanced-swap"), measurement("variant_data").evidence
    deletions, bases = record.values["named_deletions"], record.values["named_bases"]
    assert record["words_bases"] > TIMES * record["words_deletions"]
    assert record["words_all_bases"] < record["words_all_deletions"]  # without choosing, the exchange is tilted
    assert deletions.low > 0.8
    assert bases.high < 0.05
    assert found.balanced_sequences == deletions.n == bases.n
