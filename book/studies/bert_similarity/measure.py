"""What the page on Q and K shows and what its claims rest on, measured on a BERT and on its random control.

The *control* has the architecture of the trained model and random weights. Dictionaries with the keys ``trained`` and
``control`` hold one value for each of the two; lists of three are for the maps Q, K and V, in this order.
"""

from dataclasses import dataclass

from analysis.models.checkpoints import Checkpoint
from book.publish import Inputs, Numbers, choose_inputs
from book.studies.bert_similarity.architecture import Architecture, measure_architecture
from book.studies.bert_similarity.asymmetry import Asymmetry, measure_asymmetry
from book.studies.bert_similarity.cone import Cone, measure_cone
from book.studies.bert_similarity.controls import (
    Classifier,
    LadderPhrases,
    measure_classifier,
    measure_rungs,
    phrase_rungs,
)
from book.studies.bert_similarity.form import Form, measure_form
from book.studies.bert_similarity.lengths import Lengths, measure_lengths
from book.studies.bert_similarity.networks import DrawnHead, choose_head, observe_models
from book.studies.bert_similarity.positions import Order, Positions, measure_order, measure_positions
from book.studies.bert_similarity.prose import Prose, write_prose
from book.studies.bert_similarity.stretching import Stretching, measure_stretching
from book.studies.bert_similarity.terms import Terms, measure_terms
from book.studies.shared.documents import Rungs
from book.studies.shared.nearest_classifier import Nearest, read_nearest


@dataclass(frozen=True)
class Measured(Numbers):
    """Everything that the page shows, section by section."""

    inputs: Inputs
    checkpoint: Checkpoint
    drawn: DrawnHead
    architecture: Architecture
    positions: Positions
    order: Order
    stretching: Stretching
    cone: Cone
    terms: Terms
    form: Form
    asymmetry: Asymmetry
    lengths: Lengths
    rungs: Rungs
    classifier: Classifier
    nearest: Nearest
    prose: Prose
    ladder_phrases: LadderPhrases


def measure(model: str = "minilm", texts: str | None = None, device: str = "auto") -> Measured:
    """Measure everything that the page shows.

    Parameters
    ----------
    model
        A BERT, by name or folder.
    texts
        A text file or a folder of them in place of the book's texts.
    device
        Where to compute.
    """
    inputs = choose_inputs(model, own="minilm", texts=texts, device=device)
    subjects = observe_models(inputs)
    drawn = choose_head(subjects.trained)
    sections = {
        "architecture": measure_architecture(subjects, drawn.layer),
        "positions": measure_positions(subjects),
        "order": measure_order(subjects),
        "stretching": measure_stretching(subjects, drawn),
        "cone": measure_cone(subjects),
        "terms": measure_terms(subjects, drawn.layer),
        "form": measure_form(subjects, drawn),
        "asymmetry": measure_asymmetry(subjects),
        "lengths": measure_lengths(subjects, drawn.layer),
    }
    prose = write_prose(**{name: sections[name] for name in ("stretching", "cone", "terms", "form", "asymmetry")})
    rungs, nearest = measure_rungs(inputs), read_nearest(inputs)
    return Measured(
        inputs=inputs,
        checkpoint=subjects.checkpoint,
        drawn=drawn,
        **sections,
        prose=prose,
        rungs=rungs,
        classifier=measure_classifier(inputs),
        nearest=nearest,
        ladder_phrases=phrase_rungs(rungs),
    )
