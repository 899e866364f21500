"""The verdicts on section 2.2 of "The geometry of BERT": the sequences, their words, and the accuracy."""

import numpy as np

from book.lab.dna.kmers import STRIDE, K
from book.publish import Outcome, claim, corrected, reproduced
from book.publish.phrases import percent
from book.studies.variant_data.measure import Measured

PAPER_TRAINING, PAPER_TEST, PAPER_SEQUENCES = 39_522, 9_881, 49_403


@claim("B-06")
def parts_are_stratified_four_to_one(m: Measured) -> Outcome:
    """The 49,403 sequences are 39,522 for training and 9,881 for the test, a stratified split of 80 to 20."""
    training, validation, tested = m.authors.computed
    return corrected(
        f"The {PAPER_TRAINING:,} hold the validation part: {training:,} sequences were trained on, "
        f"{validation:,} validated on and {tested:,} tested.",
        more=(
            "A fifth, rounded up, and 8 % of the rest, rounded up, are exactly the numbers that the authors' "
            "notebook printed, and a fifth of every class, rounded, is its test part, class by class. "
            f"{PAPER_TRAINING:,} + {PAPER_TEST:,} = {PAPER_SEQUENCES:,}; 'distinct' means distinct within a class."
        ),
        when=m.authors.computed == m.authors.recorded
        and training + validation == PAPER_TRAINING != training
        and tested == PAPER_TEST
        and PAPER_TRAINING + PAPER_TEST == PAPER_SEQUENCES
        and np.array_equal(m.authors.test_by_class, m.authors.recorded_test),
    )


@claim("B-07")
def gene_is_cut_into_overlapping_words(m: Measured) -> Outcome:
    """The spike gene is cut into words of 12 bases, one every 9."""
    words, authors = m.corpus.reference_words, m.authors
    return reproduced(
        f"The reference gene has {words} words; the authors' code pads it with N first and has {authors.words}.",
        more=(
            f"It pads to a multiple of {K}; with [CLS] and [SEP] there are {authors.tokens} tokens and "
            f"{authors.padding_rows} rows of padding. With us both are left out."
        ),
        when=words == (m.corpus.reference_bases - K) // STRIDE + 1 == authors.words - 1
        and authors.tokens + authors.padding_rows == m.corpus.positions
        and m.corpus.words_rejoin,
    )


@claim("B-09")
def accuracy_is_very_high(m: Measured) -> Outcome:
    """The classifier tells the variants apart with very high accuracy."""
    own, real = m.partings.table, m.real.table[-1]
    apart = min(row.bert for row in own)
    simple = min(*(row.words for row in own), m.real.simple["kmers"])
    return reproduced(
        f"Of the authors' own test sequences whose logits are public {m.authors.right:,} of "
        f"{m.authors.rows:,} are right, {m.authors.accuracy} ({m.authors.interval}).",
        more=(
            f"Our classifiers name {m.training.whole_test} of theirs, {percent(apart)} where whole lineages are "
            f"kept apart; trained around real lineages {percent(real.bert, 1)} of the sequences of new ones, and "
            f"{m.real.open_right} of {m.real.deposited.n} that were deposited. It is no evidence of depth: a "
            f"logistic regression on words names as many, length alone {m.partings.length}, and with the "
            f"deletions of another class the classifier names that class in {m.evidence.follow}, in "
            f"{m.evidence.balanced_follow} where twice as many telling words are those of the bases' class."
        ),
        when=m.authors.right > 0.97 * m.authors.rows
        and min(m.training.test_share.value, apart, real.bert) > 0.98
        and m.real.deposited.value > 0.95
        and m.evidence.exchanged["deletions"].bert[:, 0].min() > 0.5
        and m.evidence.exchanged["deletions"].balanced.low > 0.5
        and simple > 0.98
        and own[0].length > 0.6,
    )
