"""Numbers derived from the authors' public repository: from its logits, its vocabulary, its ranks and its counts.

The repository (github.com/Giorgia3/BERT-based-SARSCoV2-variant-identification, GPL-3.0) is read from a clone in a
directory of ``ANALYSIS_DATA``, bare or not. Only numbers leave this module: no sequence, no word, no line of code.
"""

import csv
import io
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int

from book.lab.dna import frames
from book.publish import records
from book.publish.records import Experiment, Result, Value

NAME = "BERT-based-SARSCoV2-variant-identification"
HEAD, FIRST, LAST = "d642222", "1b45352", "93cd0cf"
"""The head, and the first and the last commit with the notebook."""
NOTEBOOK = "esperimento_journal.ipynb"
OUTPUTS = "experiment/outputs/mathematical_interpretation/Y_outputs/CLS_embeddings"
GENE = slice(21562, 25384)
"""The spike gene in the reference genome, counted from 0."""
BLOCKS = (24, 143, 300, 300, 300)
"""Rows of the logits by class: at most 300 each, class after class, as the code writes them and the counts fit."""
RANKS = {"maps": "matrix softmax", "weights": "matrix W_v", "outputs": "each head output", "values": "matrix V"}
"""Our names of the notebook's tables of ranks, with the beginnings of their titles."""


def show(folder: Path, commit: str, path: str) -> str:
    """Return a file of the repository as of a commit."""
    return subprocess.run(
        ["git", "-C", folder, "show", f"{commit}:{path}"], capture_output=True, check=True, encoding="utf-8"
    ).stdout


def cell_texts(notebook: str, number: int) -> str:
    """Join the printed outputs of a notebook's cell, counted from 0."""
    outputs = json.loads(notebook)["cells"][number]["outputs"]
    return "\n".join("".join(output.get("text", "")) for output in outputs)


def read_table(text: str) -> Float[np.ndarray, "row column"]:
    """Read rows of numbers separated by commas."""
    return np.array([[float(cell) for cell in row] for row in csv.reader(io.StringIO(text)) if row])


def tally(logits: Float[np.ndarray, "row class"], blocks: Sequence[int]) -> Int[np.ndarray, "class named"]:
    """Count by class, as the blocks of rows have it, which class has the largest logit."""
    counts = np.zeros((len(blocks), logits.shape[1]), int)
    np.add.at(counts, (np.repeat(range(len(blocks)), blocks), logits.argmax(1)), 1)
    return counts


def summarise_logits(
    logits: Float[np.ndarray, "row class"], outputs: Float[np.ndarray, "row class"], blocks: Sequence[int] = BLOCKS
) -> tuple[dict[str, Value], dict[str, np.ndarray]]:
    """Return the confusion table, the errors' confidence, and how far the outputs are from the logits' softmax."""
    due = np.repeat(range(len(blocks)), blocks)
    probabilities = torch.from_numpy(logits).softmax(-1).numpy()
    wrong = logits.argmax(1) != due
    return (
        {
            "logits_rows": Value(len(logits)),
            "logits_right": Value(int((~wrong).sum())),
            "softmax_error": Value(float(np.abs(probabilities - outputs).max())),
            "mean_confidence": Value(float(probabilities.max(1).mean())),
        },
        {"confusion": tally(logits, blocks), "error_confidence": np.sort(probabilities[wrong].max(1))},
    )


def read_ranks(text: str, title: str) -> Int[np.ndarray, "layer head"]:
    """Read a printed table of ranks, one row per layer, by its title."""
    table = text.split(f"Rank of {title}", 1)[1].split("Rank of", 1)[0]
    rows = re.findall(r"^\s*L\d+((?:\s+\d+\.\d+)+)\s*$", table, re.MULTILINE)
    return np.array([[float(number) for number in row.split()] for row in rows]).astype(int)


def read_counts(notebook: str) -> dict[str, np.ndarray]:
    """Read from the notebook how many sequences each class has, in all and in the test part, and each part."""
    classes = re.findall(r"duplicated ids = \d+/(\d+)", cell_texts(notebook, 34))
    parts = re.findall(r"\): (\d+) sequences", cell_texts(notebook, 39))
    tested = re.findall(r"^(\d+)$", cell_texts(notebook, 26), re.MULTILINE)
    return {"by_class": np.array(classes, int), "tested_by_class": np.array(tested, int), "parts": np.array(parts, int)}


def compute(device: torch.device) -> Result:
    """Numbers derived from the authors' public repository (GPL-3.0): logits, vocabulary, ranks and counts."""
    folder = records.data_folder(NAME)
    logits, outputs = (
        read_table(show(folder, HEAD, f"{OUTPUTS}/CLS_{name}.csv")) for name in ("pre_softmax", "final_output")
    )
    values, arrays = summarise_logits(logits, outputs)
    words = json.loads(show(folder, HEAD, "models/added_tokens.json"))
    gene = "".join(show(folder, HEAD, "datasets/reference.fasta").splitlines()[1:]).upper()[GENE]
    counted, of_frames = frames.count_frames(words, gene)
    ranks = cell_texts(show(folder, FIRST, NOTEBOOK), 82)
    values |= {name: Value(count) for name, count in (counted | frames.count_copies(words, gene)).items()}
    values |= {
        "vocabulary": Value(len(show(folder, HEAD, "models/vocab.txt").splitlines())),
        "first_id": Value(min(words.values())),
        "last_id": Value(max(words.values())),
    }
    arrays |= (
        of_frames
        | read_counts(show(folder, LAST, NOTEBOOK))
        | {f"rank_{name}": read_ranks(ranks, title) for name, title in RANKS.items()}
    )
    return Result(values, arrays, {"error_confidence": 1e-6, "frame_shares": 1e-9})


EXPERIMENT = Experiment(compute, data=(NAME,), minutes=0.3)
