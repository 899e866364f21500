"""MiniLM and five random initialisations of it, in the forms that the released code of the paper computes.

Every text is padded by the same share as the paper's genes, which have 427 tokens in 512 rows.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from analysis.data import texts
from analysis.models import checkpoints, pretrained
from analysis.models.controls import SEEDS
from book.lab import released_survey as survey
from book.lab.released_code import ROWS, TOKENS
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
    """Measure MiniLM on the first of the book's passages."""
    return survey_model("minilm", texts.passages(count=PASSAGES), device)


EXPERIMENT = Experiment(
    models=("minilm",),
    compute=compute,
    minutes=2,
    seed=0,
    summary="MiniLM on six passages in the forms that the released code of the paper computes, five controls beside",
)
