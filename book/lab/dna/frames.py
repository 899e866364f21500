"""Where the words of a vocabulary lie on a gene: their frames, and words with a base that is written twice."""

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Int

from book.lab.dna.kmers import STRIDE, K

NEAR = 2
"""The mismatches up to which a word counts as a place of the gene."""
BASES = "ACGTN"


def count_frames(words: Iterable[str], gene: str) -> tuple[dict[str, int | float], dict[str, np.ndarray]]:
    """Say in which frames a vocabulary's words lie on its gene.

    A word's frame is its place on the gene modulo the stride: 0 where nothing before it has shifted it. Deletions of
    whole codons shift words by 3 or 6; any other frame needs a shift that no lost codon makes.

    Returns
    -------
    tuple
        ``words``, ``words_with_n``, ``placed`` (words without N with one nearest place of at most :data:`NEAR`
        mismatches) and ``uncodonic``, the share of these in another frame than 0, 3 and 6; ``reference_frames``
        ``(frame, 2)``, how many of the gene's words in each frame there are and how many the vocabulary has, and
        ``frame_shares`` ``(frame,)`` of the placed words.
    """
    words = [word.upper() for word in words]
    known = set(words)
    cut = [[gene[i : i + K] for i in range(frame, len(gene) - K + 1, STRIDE)] for frame in range(STRIDE)]
    reference = np.array([[len(of_frame), sum(word in known for word in of_frame)] for of_frame in cut])
    clean = [word for word in words if "N" not in word]
    places = nearest_places(clean, gene)
    frames = np.bincount(places[places >= 0] % STRIDE, minlength=STRIDE)
    shares = frames / frames.sum()
    return (
        {
            "words": len(words),
            "words_with_n": len(words) - len(clean),
            "placed": int(frames.sum()),
            "uncodonic": float(1 - shares[::3].sum()),
        },
        {"reference_frames": reference, "frame_shares": shares},
    )


def nearest_places(words: Sequence[str], gene: str, near: int = NEAR) -> Int[np.ndarray, " word"]:
    """Return where on the gene each word has its fewest mismatches; -1 if it has more than ``near``, or ties.

    >>> nearest_places(["ACGTACGTACGA"], "TTTACGTACGTACGTTT")
    array([3])
    """

    def code(text: str) -> np.ndarray:
        return np.array([BASES.index(base) for base in text], np.int8)

    windows = np.lib.stride_tricks.sliding_window_view(code(gene), K)
    places = np.full(len(words), -1)
    for i, word in enumerate(words):
        mismatches = (windows != code(word)).sum(1)
        if (least := mismatches.min()) <= near and (mismatches == least).sum() == 1:
            places[i] = mismatches.argmin()
    return places


def count_copies(words: Iterable[str], gene: str) -> dict[str, int]:
    """Count words that are the gene with one of its bases written twice, beside those with another base put in.

    What substitutions could make as well is left out: runs of one base, and words that have at most :data:`NEAR`
    mismatches with the gene in the frame before the new base or behind it.
    """
    known, copied, inserted = {word.upper() for word in words}, set(), set()
    for start in range(1, len(gene) - K):
        window = gene[start : start + K - 1]
        frames = gene[start : start + K], gene[start - 1 : start + K - 1]
        for i in range(1, K - 2):
            if window[i] in (window[i - 1], window[i + 1]):
                continue
            for base in "ACGT":
                word = window[: i + 1] + base + window[i + 1 :]
                if min(sum(map(str.__ne__, word, frame)) for frame in frames) > NEAR:
                    (copied if base == window[i] else inserted).add(word)
    inserted -= copied
    return {
        "copied_possible": len(copied),
        "copied": len(copied & known),
        "inserted_possible": len(inserted),
        "inserted": len(inserted & known),
    }
