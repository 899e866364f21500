"""Exchanged deletions where the words still tell the class of the bases: whom the bundled classifier follows.

Deletions shift the words behind them, so after an exchange fewer words of the class of the bases are left, and a
classifier might follow the deletions because it has nothing else to read. A *telling* word is one that stood in at
least ``LEAST`` training sequences, ``PURE`` of them of one class. An exchange is *balanced* in favour of the bases
if the sequence has at least ``TIMES`` as many telling words of their class as of that of the deletions.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import torch

from analysis.models import checkpoints
from analysis.statistics.intervals import share_interval
from book.lab import classifier_survey
from book.lab.dna.baselines import exchanged
from book.lab.dna.fasta import Gene
from book.lab.dna.kmers import kmers
from book.lab.dna.phase import fill_letters
from book.lab.dna.simulate import invent_backbones
from book.lab.training import dna_classifier
from book.publish.records import Experiment, Result, Value

LEAST, PURE, TIMES = 5, 0.9, 2


def find_telling_words(genes: Sequence[Gene]) -> dict[str, str]:
    """Return the words that tell a class, with that class.

    >>> first = [Gene(f"a{i}", "A" * 12, "a") for i in range(9)]
    >>> find_telling_words([*first, Gene("b", "A" * 12, "b")])
    {'AAAAAAAAAAAA': 'a'}
    """
    counts: dict[str, Counter] = defaultdict(Counter)
    for gene in genes:
        for word in set(kmers(gene.bases)):
            counts[word][gene.label] += 1
    common = {word: of_class.most_common(1)[0] for word, of_class in counts.items()}
    return {
        word: label
        for word, (label, count) in common.items()
        if counts[word].total() >= LEAST and count >= PURE * counts[word].total()
    }


def count_telling_words(gene: Gene, label: str, telling: dict[str, str]) -> int:
    """Count the words of a sequence that tell that class."""
    return sum(telling.get(word) == label for word in kmers(gene.bases))


def compute(device: torch.device) -> Result:
    """Exchange deletions in the whole test part, keep the balanced ones, and ask the bundled classifier."""
    run = classifier_survey.open_run(checkpoints.find("variant-bert-mini").folder, device=device)
    data = run.data
    telling = find_telling_words([data.genes[i] for i in data.parts.train])
    test = [data.genes[i] for i in data.parts.test]
    pairs = exchanged(test, fill_letters([backbone.aligned for backbone in invent_backbones(0)]))
    words = np.array(
        [[count_telling_words(gene, label, telling) for label in (gene.label, other)] for gene, other in pairs]
    )
    chosen = np.flatnonzero((words[:, 0] >= TIMES * words[:, 1]) & (words[:, 0] > 0))
    balanced = [pairs[i] for i in chosen]
    named = dna_classifier.predict(run.model, data.tokenizer, [gene.bases for gene, _ in balanced]).argmax(-1).tolist()
    due = {"bases": [gene.label for gene, _ in balanced], "deletions": [other for _, other in balanced]}
    values = {
        "words_before": Value(float(np.mean([count_telling_words(gene, gene.label, telling) for gene in test])), 0.01)
    }
    for column, (part, labels) in enumerate(due.items()):
        share = share_interval(sum(data.labels[i] == label for i, label in zip(named, labels)), len(labels))
        values[f"named_{part}"] = Value(share.value, 0.02, share.low, share.high, len(labels))
        values[f"words_{part}"] = Value(float(words[chosen, column].mean()), 0.01, n=len(labels))
        values[f"words_all_{part}"] = Value(float(words[:, column].mean()), 0.01, n=len(pairs))
    return Result(values)


EXPERIMENT = Experiment(
    models=("variant-bert-mini",),
    compute=compute,
    minutes=1,
    seed=0,
    summary="Exchanged deletions where the words still tell the class of the bases",
)
