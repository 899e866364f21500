"""The authors' own classifier, as far as their public repository tells: its recipe, its outputs, its heads."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from book.publish import Inputs, Numbers, live_or_record
from book.publish.records import Record
from book.studies.shared import released_code
from book.studies.shared import released_code as code
from book.studies.shared.released_code import compare_slices, correlate_outputs
from book.studies.variant_classifier.base import Recipe, describe
from book.studies.variant_classifier.sequence import Passage


@dataclass(frozen=True)
class Authors(Numbers):
    """What the repository records, and what its steps give on our classifier.

    ``padding`` counts the rows of 512 that no token has. ``recipe`` is the library's classifier with the authors'
    vocabulary and their updates, ``training`` the sequences of one epoch. ``slices`` are rank correlations over heads
    of the largest singular values of the heads' W_Q, W_K and W_V with those of the columns that the code takes;
    ``head_outputs`` is the same of S V. ``softmax_error`` is how far the recorded outputs are from the softmax of the
    recorded logits.
    """

    prefix = "variants-authors"
    padding: int
    start: str
    rate: str
    parameters: str
    training: int
    epochs: int
    recipe: Recipe
    slices: Float[np.ndarray, " map"]
    head_outputs: float
    softmax_error: float


def measure_authors(passage: Passage, inputs: Inputs) -> Authors:
    """Build the authors' classifier, and take the code's steps on ours."""
    repository, classifier = (read(name, inputs) for name in ("text-and-code-repository", "text-and-code-classifier"))
    settings, by_class = released_code.load_authors_outputs(), repository.array("by_class")
    training = code.split_sizes(int(by_class.sum()))[0]
    model = code.build_classifier(code.BASE_VOCABULARY + repository["words"], len(by_class))
    return Authors(
        padding=code.ROWS - code.TOKENS,
        start=settings.start,
        rate=f"{settings.rate:.0e}".replace("e-0", "e-"),
        parameters=f"{sum(each.numel() for each in model.parameters()) / 1e6:.1f}",
        training=training,
        epochs=settings.epochs,
        recipe=describe(model, settings.batch, *code.count_updates(training)),
        slices=compare_slices(passage.run.model).rank_correlation,
        head_outputs=correlate_outputs(classifier, "trained"),
        softmax_error=repository["softmax_error"],
    )


def read(name: str, inputs: Inputs) -> Record:
    """Read a record."""
    return live_or_record(name, inputs, recompute=False)[0]
