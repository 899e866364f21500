"""What the figures 2 to 13 of "The geometry of BERT" and its table 1 show, for a classifier of genes.

:func:`measure` takes one sequence through any BERT classifier; :func:`survey` many.
"""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from analysis.maps import gates
from analysis.matrices import spectra
from analysis.models import checkpoints, pretrained
from analysis.models.reading import load
from analysis.transformer.activations import LayerActivations
from analysis.transformer.encoder import run_layer
from book.lab.dna.fasta import Gene
from book.lab.dna.kmers import load_tokenizer
from book.lab.mathematics import layer_profile, stretching
from book.lab.training import dna_classifier

SEED, WORKERS = 0, 2
PADDED = ("first_failing", "D_sum", "D_total", "cone", "resultant", "cosine", "entropy")
KEPT = [
    "first_failing",
    "bare_failing",
    "D_sum",
    "D_sum_bare",
    "D_total",
    "mean_total",
    "cone",
    "cone_bare",
    "resultant",
    "cosine",
    "cosine_bare",
    "largest",
    "stable_rank",
    "entropy",
    "histogram",
]


@dataclass(frozen=True)
class Run:
    """A trained classifier with the data that it was trained on, made again, and its card."""

    model: nn.Module
    data: dna_classifier.Data
    card: dict
    folder: Path | None

    def control(self, seed: int = SEED) -> nn.Module:
        """Return the same architecture with random weights, where the model lies."""
        return pretrained.load(
            checkpoints.find(str(self.folder)), control_seed=seed, task="classifier", device=self.model.device
        )


def open_run(folder: str | Path, backbones: Path | None = None, device: torch.device | str = "cpu") -> Run:
    """Load a published classifier and simulate its data again from its card, around the lineages of a folder."""
    folder = Path(folder)
    card = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    data = dna_classifier.make_data(dna_classifier.Recipe(**card["recipe"]), card["seed"], backbones)
    if load_tokenizer(folder).get_vocab() != data.tokenizer.get_vocab():
        raise ValueError(
            f"{folder}: the data made again from its report.json ({data.origin}) have another vocabulary "
            f"than its tokenizer ({card['origin']})"
        )
    return Run(pretrained.load(checkpoints.find(str(folder)), task="classifier", device=device), data, card, folder)


@torch.no_grad()
def pass_all(model: nn.Module, inputs: dict[str, Tensor]) -> tuple[list[LayerActivations], Tensor]:
    """Take one encoded sequence through a BERT, layer by layer; return what passed and which positions are tokens."""
    keep = inputs["attention_mask"][0].bool().to(model.device)
    x, passed = getattr(model, "bert", model).embeddings(inputs["input_ids"].to(model.device))[0], []
    for layer in load(model).encoder_layers():
        passed.append(run_layer(x, layer, keep=keep))
        x = passed[-1].second
    return passed, keep


@torch.no_grad()
def measure(model: nn.Module, inputs: dict[str, Tensor], *, read: bool = True) -> dict[str, np.ndarray]:
    """Measure one sequence in a BERT classifier, rows of padding left out and, where there are any, also counted.

    ``inputs`` are as ``Data.encode`` gives them; to ``read`` the gates takes most of the time.

    Returns
    -------
    dict
        What ``layer_profile.measure`` returns, for :data:`KEPT`; with rows of padding counted, after ``padded_``, for
        :data:`PADDED`; ``growth``, by how much rows of X grow into Q, K, V, and ``grown``, the share of rows that do,
        ``(map, layer, head)``; ``received`` and ``class_row``, the mean attention that a key gets from all
        queries and from [CLS], ``(layer, key)``; ``gates`` ``(layer, head, gate)`` and ``columns`` ``(layer, key)``,
        the directional part; ``probabilities`` of the classes.

    Ledger B-12 to B-14, B-42 to B-58, B-72 to B-86.
    """
    passed, keep = pass_all(model, inputs)
    n = int(keep.sum())
    found = layer_profile.measure(passed, keep)
    found = {name: found[name] for name in KEPT}
    if n < len(keep):
        padded = layer_profile.measure(passed, keep, padding=True)
        found |= {f"padded_{name}": padded[name] for name in PADDED}
    rows = torch.stack([s.x[:n] for s in passed])
    growth = stretching.amplifications(rows, [layer.attention for layer in load(model).encoder_layers()])
    maps = [s.attention[:, :n, :n] for s in passed]
    probabilities = model.classifier(model.bert.pooler(passed[-1].second[None])).softmax(-1)[0]
    measured = {
        "growth": growth.mean(-1),
        "grown": (growth > 1).double().mean(-1),
        "probabilities": probabilities,
        "received": torch.stack([a.mean((0, 1)) for a in maps]),
        "class_row": torch.stack([a[:, 0].mean(0) for a in maps]),
    }
    if read:
        scores, columns = read_layers(maps)
        measured |= {"gates": scores, "columns": columns}
    return found | {name: value.double().cpu().numpy() for name, value in measured.items()}


def read_layers(maps: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Read the gates of all layers: shares ``(layer, head, gate)``, columns ``(layer, key)``, means over heads."""

    def one(attention: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            reading = gates.read_gates(attention)
            return reading.scores, reading.columns.mean(0)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # two layers at once are faster than two threads on one
    try:
        with ThreadPoolExecutor(WORKERS) as pool:
            scores, columns = zip(*pool.map(one, maps))
    finally:
        torch.set_num_threads(threads)
    return torch.stack(scores), torch.stack(columns)


def largest_values(model: nn.Module) -> np.ndarray:
    """Return the largest singular value of every head's W_Q, W_K and W_V, ``(map, layer, head)``."""
    layers = [layer.attention for layer in load(model).encoder_layers()]
    return stretching.over_heads(spectra.spectral_norm, layers).cpu().numpy().astype(np.float32)


def survey(
    model: nn.Module,
    data: dna_classifier.Data,
    genes: Sequence[Gene],
    *,
    read: Sequence[bool] | bool = True,
    pad_to: int | None = dna_classifier.POSITIONS,
) -> list[dict[str, np.ndarray]]:
    """Measure a classifier on sequences, one after another; ``read`` says for which of them gates are read."""
    some = [read] * len(genes) if isinstance(read, bool) else read
    return [measure(model, data.encode([gene], pad_to), read=each) for gene, each in zip(genes, some, strict=True)]


def correct(data: dna_classifier.Data, indices: np.ndarray, probabilities: np.ndarray, per_class: int) -> list[int]:
    """Choose the first ``per_class`` correctly classified sequences of each class, class after class."""
    chosen = []
    for number, label in enumerate(data.labels):
        right = [
            int(i) for i, p in zip(indices, probabilities) if data.genes[i].label == label and p.argmax() == number
        ]
        if len(right) < per_class:
            raise ValueError(f"only {len(right)} sequences of {label} are correctly classified, {per_class} are needed")
        chosen += right[:per_class]
    return chosen


def choose(run: Run, per_class: int, most: int | None = None) -> list[Gene]:
    """Return the first test sequences of each class that a classifier names rightly, among the first ``most``."""
    data, test = run.data, run.data.parts.test[:most]
    probabilities = dna_classifier.predict(run.model, data.tokenizer, [data.genes[i].bases for i in test]).numpy()
    return [data.genes[i] for i in correct(data, test, probabilities, per_class)]


def stack(measured: Sequence[dict[str, np.ndarray]], prefix: str = "") -> dict[str, np.ndarray]:
    """Stack what was measured, sequences first; per-key arrays, which differ in length, are left to others."""
    names = [name for name in measured[0] if name not in ("received", "class_row", "columns", "probabilities")]
    return {
        prefix + name: np.stack([one[name] for one in measured if name in one]).astype(np.float32) for name in names
    }


def untrained(
    seed: int,
    recipe: dna_classifier.Recipe = dna_classifier.MINI,
    data: dna_classifier.Data | None = None,
    device: torch.device | str = "cpu",
) -> Run:
    """Return a classifier as its training begins: the seed's own sequences, vocabulary and initial weights."""
    data = data or dna_classifier.make_data(recipe, seed)
    model = dna_classifier.initialise(recipe, data, seed)
    return Run(model.eval().requires_grad_(False).to(device), data, {"seed": seed}, None)


def firsts(data: dna_classifier.Data) -> list[Gene]:
    """Return the first test sequence of each class, in the order of the classes."""
    found = {}
    for i in data.parts.test:
        found.setdefault(data.genes[i].label, data.genes[i])
    return [found[label] for label in data.labels]
