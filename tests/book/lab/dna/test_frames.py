"""Frames of a vocabulary's words on its gene, and words with a base written twice, on genes where they are known."""

import numpy as np

from book.lab.dna import frames


def draw_gene(length, seed):
    return "".join(np.random.default_rng(seed).choice(list("ACGT"), length))


def test_frames_of_a_vocabulary_that_was_cut_from_the_gene_itself():
    gene = draw_gene(600, 0)
    cut = [gene[i : i + 12] for i in range(0, len(gene) - 11, 9)]
    counts, arrays = frames.count_frames([word.lower() for word in cut], gene)
    assert counts == {"words": len(cut), "words_with_n": 0, "placed": len(cut), "uncodonic": 0}
    assert arrays["frame_shares"].tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert arrays["reference_frames"][0].tolist() == [len(cut), len(cut)]


def test_words_behind_a_lost_base_lie_in_another_frame():
    gene = draw_gene(600, 0)
    shorter = gene[:3] + gene[4:]
    cut = [shorter[i : i + 12] for i in range(9, len(shorter) - 11, 9)]
    assert frames.count_frames(cut, gene)[1]["frame_shares"][1] == 1


def test_a_word_with_a_copied_base_is_counted_as_one():
    gene = draw_gene(300, 1)
    copied = next(
        word
        for i in range(50, 200)
        if gene[i + 5] not in (gene[i + 4], gene[i + 6])
        and frames.count_copies([word := gene[i : i + 6] + gene[i + 5 : i + 11]], gene)["copied"]
    )
    counts = frames.count_copies([copied], gene)
    assert (counts["copied"], counts["inserted"]) == (1, 0)
