"""The simulated sequences, the words that a gene is cut into, and the size of the authors' data."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int

from analysis.statistics.intervals import share_interval
from book.lab.dna.kmers import STRIDE, kmers
from book.lab.training.dna_classifier import POSITIONS, Data
from book.lab.training.masked_kmers import position_entropy
from book.publish import Numbers
from book.publish.phrases import percent
from book.publish.records import Record
from book.studies.shared import released_code as code

# ---- The simulated sequences of the bundled classifier, and the words that a gene is cut into

GENE = (21563, 25384)
"""The first and the last base of the spike gene in the reference genome."""


@dataclass(frozen=True)
class Corpus(Numbers):
    """The simulated sequences of the bundled classifier, and the words that a gene is cut into.

    ``training``, ``validation`` and ``test`` count the sequences of each part; ``words_rejoin`` says whether the words
    of a sequence, each without what it shares with the next, are the sequence again. ``guess_by_position`` is the loss
    in nats of who knows how often each word stands at each position.
    """

    prefix = "vdata-corpus"
    classes: tuple[str, ...]
    sequences: int
    training: int
    validation: int
    test: int
    vocabulary: int
    reference_bases: int
    reference_words: int
    words_rejoin: bool
    positions: int
    guess_by_position: float


def measure_corpus(data: Data, device: torch.device) -> Corpus:
    """Count the sequences and their words; see how well a word is known by its position alone."""
    parts = data.parts
    coded = data.encode([data.genes[i] for i in data.parts.train], device=device)
    words = coded["attention_mask"].bool() & (coded["input_ids"] != data.tokenizer.cls_token_id)
    bases = GENE[1] - GENE[0] + 1
    return Corpus(
        classes=data.labels,
        sequences=len(data.genes),
        training=len(parts.train),
        validation=len(parts.validation),
        test=len(parts.test),
        vocabulary=len(data.tokenizer),
        reference_bases=bases,
        reference_words=len(kmers("A" * bases)),
        words_rejoin=words_rejoin(data.genes[0].bases),
        positions=POSITIONS,
        guess_by_position=position_entropy(coded["input_ids"], words),
    )


def words_rejoin(bases: str) -> bool:
    """Say whether the words of a sequence make it up again, but for fewer bases at its end than a stride."""
    *words, last = kmers(bases)
    joined = "".join(word[:STRIDE] for word in words) + last
    return bases.startswith(joined) and len(bases) - len(joined) < STRIDE


# ---- The authors' data: what their public repository records of its size, and what arithmetic makes of it


@dataclass(frozen=True)
class Authors(Numbers):
    """What the authors' public repository records of their data, and what arithmetic makes of it.

    ``computed`` are training, validation and test by the code's rule, ``recorded`` as the notebook printed them;
    ``test_by_class`` is the stratified share of every class, ``recorded_test`` the printed one. ``words`` are those of
    the reference gene after its padding, ``padding_rows`` the rows of 512 that no token has.
    """

    prefix = "vdata-authors"
    accuracy: str
    interval: str
    right: int
    rows: int
    words: int
    tokens: int
    padding_rows: int
    computed: tuple[int, int, int]
    recorded: tuple[int, int, int]
    test_by_class: Int[np.ndarray, " class"]
    recorded_test: Int[np.ndarray, " class"]


def measure_authors(record: Record) -> Authors:
    """Do the arithmetic of the authors' split and of their cutting, beside what they recorded."""
    by_class, bases = record.array("by_class"), GENE[1] - GENE[0] + 1
    words, right, rows = len(code.padded_words("A" * bases)), record["logits_right"], record["logits_rows"]
    share = share_interval(right, rows)
    return Authors(
        accuracy=percent(share.value, 1),
        interval=f"{100 * share.low:.1f} to {100 * share.high:.1f} %",
        right=right,
        rows=rows,
        words=words,
        tokens=words + 2,
        padding_rows=POSITIONS - words - 2,
        computed=code.split_sizes(int(by_class.sum())),
        recorded=tuple(record.array("parts").tolist()),
        test_by_class=np.rint(code.TEST_SHARE * by_class).astype(int),
        recorded_test=record.array("tested_by_class"),
    )
