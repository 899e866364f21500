"""The simulated sequences of the bundled classifier, and the words that a gene is cut into."""

from dataclasses import dataclass

import torch

from book.lab.dna.kmers import STRIDE, kmers
from book.lab.training.dna_classifier import POSITIONS, Data
from book.lab.training.masked_kmers import position_entropy
from book.publish import Numbers

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
