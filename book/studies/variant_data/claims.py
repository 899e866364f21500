"""The verdicts on section 2.2 of "The geometry of BERT": the sequences, their words, and the accuracy."""

import numpy as np

from analysis.data.dna.kmers import STRIDE, K
from book.publish import Outcome, claim, conditional, reproduced
from book.publish.phrases import percent
from book.studies.variant_data.measure import Measured

PAPER_TRAINING, PAPER_TEST, PAPER_SEQUENCES = 39_522, 9_881, 49_403
TEST_SHARE = 0.2


@claim("B-06")
def parts_are_stratified_four_to_one(m: Measured) -> Outcome:
    """The 49,403 sequences are 39,522 for training and 9,881 for the test, a stratified split of 80 to 20."""
    by_class, share = m.corpus.test_by_class, PAPER_TEST / PAPER_SEQUENCES
    return reproduced(
        f"{PAPER_TRAINING:,} + {PAPER_TEST:,} = {PAPER_SEQUENCES:,}, a share of {share:.3f} for the test. "
        "Our parts are stratified by class too.",
        when=PAPER_TRAINING + PAPER_TEST == PAPER_SEQUENCES and abs(share - TEST_SHARE) < 1e-4
        and np.ptp(by_class) <= 1 and by_class.sum() == round(TEST_SHARE * m.corpus.sequences))


@claim("B-07")
def gene_is_cut_into_overlapping_words(m: Measured) -> Outcome:
    """The spike gene is cut into words of 12 bases, one every 9."""
    words = m.corpus.reference_words
    return reproduced(
        f"The reference gene has {words} words; with [CLS] {words + 1} of {m.corpus.positions} rows. "
        "The rest is padding or, with us, left out.",
        when=words == (m.corpus.reference_bases - K) // STRIDE + 1 and words + 1 <= m.corpus.positions
        and m.corpus.words_rejoin)


@claim("B-09")
def accuracy_is_very_high(m: Measured) -> Outcome:
    """The classifier tells the variants apart with very high accuracy."""
    own, real = m.partings.table, m.real.table[-1]
    apart = min(row.bert for row in own)
    simple = min(*(row.words for row in own), m.real.simple["kmers"])
    return conditional(
        f"Our classifiers name {m.training.whole_test} of their test sequences, {percent(apart)} where whole lineages "
        f"are kept apart. Trained around real lineages they name {percent(real.bert, 1)} of the sequences of new ones, "
        f"and {m.real.open_right} of {m.real.deposited.n} that were deposited. But a logistic regression on words "
        f"names as many, length alone {m.partings.length}; with the deletions of another class the classifier names "
        f"that class in {m.evidence.follow}.",
        when=min(m.training.test_share.value, apart, real.bert) > 0.98 and m.real.deposited.value > 0.95
        and m.evidence.exchanged["deletions"].bert.min() > 0.5 and simple > 0.98 and own[0].length > 0.6)
