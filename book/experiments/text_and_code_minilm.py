"""MiniLM, the variant classifier and their controls, in the forms that the released code of the paper computes.

Every text is padded by the same share as the paper's genes, which have 427 tokens in 512 rows. Of the classifier one
sequence of Omicron goes through every network; through the trained one also a sequence of every class, and class means
of maps are taken over a few.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from analysis.data import texts
from analysis.maps import entropy
from analysis.models import checkpoints, pretrained
from analysis.models.controls import SEEDS, make_controls
from book.lab import classifier_survey
from book.lab import released_code as code
from book.lab import released_survey as survey
from book.lab.dna.fasta import Gene
from book.lab.released_code import ROWS, TOKENS
from book.lab.training.dna_classifier import Data
from book.publish.records import Experiment, Result

PASSAGES = 6


def survey_texts(name: str, passages: Sequence[str], device: torch.device | str = "cpu") -> dict[str, np.ndarray]:
    """Measure a model on passages, and five random initialisations on the longest; by network and measure."""
    checkpoint = checkpoints.find(name)
    trained, tokenizer = pretrained.load(checkpoint, device=device), pretrained.tokenizer(checkpoint)
    coded = [encode(tokenizer, text, trained.config.max_position_embeddings) for text in passages]
    longest = max(coded, key=lambda each: each["input_ids"].shape[1])
    found = {
        "trained": [_measure(trained, each) for each in coded],
        "random": [_measure(pretrained.load(checkpoint, control_seed=seed, device=device), longest) for seed in SEEDS],
    }
    return {
        f"{network}/{measure}": values
        for network, measured in found.items()
        for measure, values in survey.stacked(measured).items()
    }


def encode(tokenizer, text: str, positions: int) -> dict[str, Tensor]:
    """Return the ids and the mask of a text with padding.

    A text of more tokens than a gene is cut, and so is one that with its padding is longer than the model's positions.
    """
    longest = min(TOKENS, positions * TOKENS // ROWS)
    coded = tokenizer(text, truncation=True, max_length=longest, return_tensors="pt")
    return pad(coded, tokenizer.pad_token_id)


def pad(coded: Mapping[str, Tensor], padding_id: int) -> dict[str, Tensor]:
    """Add padding until a text has the share of padding that a gene has in the authors' layout."""
    rows = round(coded["input_ids"].shape[1] * ROWS / TOKENS)
    missing = (0, rows - coded["input_ids"].shape[1])
    return {
        "input_ids": functional.pad(coded["input_ids"], missing, value=padding_id),
        "attention_mask": functional.pad(coded["attention_mask"], missing),
    }


def _measure(model: torch.nn.Module, coded: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    passage = survey.run(model, coded["input_ids"], coded["attention_mask"])
    return (
        survey.compare_attention(passage)
        | survey.measure_rows(passage)
        | survey.measure_maps(passage)
        | survey.measure_ranks(passage)
        | {"tokens": np.array(int(passage.keep.sum()))}
    )


def survey_model(name: str, passages: Sequence[str], device: torch.device | str = "cpu") -> Result:
    """Measure a BERT on passages."""
    arrays = survey_texts(name, passages, device)
    return Result({}, arrays, {each: survey.tolerance(each) for each in arrays})


def compute(device: torch.device) -> Result:
    """MiniLM on six passages in the forms that the released code of the paper computes, five controls beside."""
    return survey_model("minilm", texts.passages(count=PASSAGES), device)


MODEL, CLASS = "variant-bert-mini", "Omicron"
AVERAGED = 4
"""Sequences of each class in a class mean."""


def survey_networks(run: classifier_survey.Run, gene: Gene) -> dict[str, np.ndarray]:
    """Take one sequence through the trained network and through every control.

    Returns
    -------
    dict
        By level and measure, ``"level/measure"``, seeds first.
    """
    by_level: dict[str, list[dict[str, np.ndarray]]] = {}
    ladder = ((control.level, control.network) for control in make_controls(run.model, run.control))
    for name, model in chain([("trained", run.model)], ladder):
        passage = survey.run(model, **encode_gene(run.data, gene))
        measured = survey.measure_rows(passage) | survey.measure_coded_maps(passage)
        if name in ("trained", "random"):
            measured |= survey.compare_attention(passage) | survey.measure_maps(passage) | survey.measure_ranks(passage)
        by_level.setdefault(name, []).append(measured)
    return {
        f"{name}/{measure}": values
        for name, found in by_level.items()
        for measure, values in survey.stacked(found).items()
    }


def encode_gene(data: Data, gene: Gene) -> dict[str, Tensor]:
    """Return the ids and the mask of one sequence, padded as the code pads."""
    coded = data.encode([gene], code.ROWS)
    return {name: coded[name] for name in ("input_ids", "attention_mask")}


@torch.no_grad()
def survey_class_means(model: nn.Module, data: Data, genes: Mapping[str, Iterable[Gene]]) -> dict[str, np.ndarray]:
    """Average the maps of each class as the code does, and measure the means beside the maps themselves.

    Returns
    -------
    dict
        ``(class, layer, head)``: ``mean_value_entropy``, the code's entropy of the class mean; ``mean_row_entropy``,
        the rows' entropy relative to ln n, mean over sequences; ``mean_seen``, the share of the mean map's mass in
        cells that the code draws; ``mean_empty``, 1 where it draws none.
    """
    found: dict[str, list[Tensor]] = {name: [] for name in ("value_entropy", "row_entropy", "seen", "empty")}
    for sequences in genes.values():
        total, rows, count = 0, 0, 0
        for gene in sequences:
            passage = survey.run(model, **encode_gene(data, gene))
            n = int(passage.keep.sum())
            maps = torch.stack([each.attention[:, :n, :n] for each in passage.stations])
            total, count = total + code.blank_from(maps, n), count + 1
            rows = rows + entropy.relative_entropy(maps).mean(-1)
        mean, drawn = total / count, total / count >= code.HIDDEN_BELOW
        for name, value in {
            "value_entropy": code.value_entropy(mean),
            "row_entropy": rows / count,
            "seen": (mean * drawn).sum((-2, -1)) / mean.sum((-2, -1)),
            "empty": (~drawn).flatten(-2).all(-1).float(),
        }.items():
            found[name].append(value)
    return {f"mean_{name}": torch.stack(values).cpu().numpy().astype(np.float32) for name, values in found.items()}


def compute_classifier(device: torch.device) -> Result:
    """The variant classifier and its controls in the forms that the released code of the paper computes."""
    run = classifier_survey.open_run(checkpoints.find(MODEL).folder, device=device)
    tested = [run.data.genes[i] for i in run.data.parts.test]
    genes = {label: [gene for gene in tested if gene.label == label][:AVERAGED] for label in run.data.labels}
    arrays = survey_networks(run, genes[CLASS][0])
    by_class = survey.stacked(
        [
            survey.measure_rows(survey.run(run.model, **encode_gene(run.data, of_class[0])))
            for of_class in genes.values()
        ]
    )
    arrays |= {f"classes/{name}": by_class[name] for name in ("cone", "padded_code_cone")}
    for name, model in (("trained", run.model), ("random", run.control())):
        arrays |= {f"{name}/{key}": values for key, values in survey_class_means(model, run.data, genes).items()}
    arrays["words"] = np.array(
        [[len(code.padded_words(gene.bases)) for gene in of_class] for of_class in genes.values()]
    )
    return Result({}, arrays, {name: survey.tolerance(name) for name in arrays})


EXPERIMENTS = {
    "text-and-code-minilm": Experiment(compute, models=("minilm",), minutes=2, seed=0),
    "text-and-code-classifier": Experiment(compute_classifier, models=(MODEL,), minutes=6, seed=0),
}
