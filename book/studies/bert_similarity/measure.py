"""What the page on Q and K shows and what its claims rest on, measured on a BERT and on its random control.

The *control* has the architecture of the trained model and random weights. Dictionaries with the keys ``trained`` and
``control`` hold one value for each of the two; lists of three are for the maps Q, K and V, in this order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from analysis.models.checkpoints import Checkpoint
from book.lab.mathematics.stretching import MAPS
from book.publish import Inputs, Numbers, choose_inputs
from book.publish.phrases import percent
from book.studies.bert_similarity.asymmetry import (
    COMMON,
    CONTENT,
    EQUAL,
    LESS_COMMON,
    POSITIVE,
    SYMMETRIC,
    TRAINED,
    Asymmetry,
    Lengths,
    Stretching,
    measure_asymmetry,
    measure_lengths,
    measure_stretching,
)
from book.studies.bert_similarity.cone import Cone, Order, Positions, measure_cone, measure_order, measure_positions
from book.studies.bert_similarity.controls import (
    Classifier,
    LadderPhrases,
    measure_classifier,
    measure_rungs,
    phrase_rungs,
)
from book.studies.bert_similarity.networks import (
    Architecture,
    DrawnHead,
    choose_head,
    measure_architecture,
    observe_models,
)
from book.studies.bert_similarity.terms import Form, Terms, measure_form, measure_terms
from book.studies.shared.documents import Rungs
from book.studies.shared.nearest_classifier import Nearest, read_nearest

# ---- The numbers of the page's text


@dataclass(frozen=True)
class Prose(Numbers):
    """The numbers of the page's text, as they are written there."""

    prefix = "similarity"
    over_Q: str
    over_K: str
    over_V: str
    grown_Q: str
    grown_K: str
    grown_V: str
    joint_Q: str
    joint_K: str
    joint_V: str
    furthest_V: str
    pairs_V: str
    amplified_V: str
    heads_V: str
    top_control: str
    best_Q: str
    best_K: str
    best_V: str
    half_Q: str
    half_K: str
    half_V: str
    middle_Q: str
    middle_K: str
    middle_V: str
    chance_Q: str
    chance_K: str
    chance_V: str
    drop_low: str
    drop_high: str
    symmetric: str
    share: str
    share_control: str
    channel: str
    skew_trained: str
    skew_content: str
    skew_symmetric: str
    skew_symmetric_raw: str
    skew_positive: str
    skew_less_common: str
    skew_common: str
    skew_trained_equal: str
    skew_last_content: str
    skew_last_symmetric: str
    negative_trained: str
    negative_control: str


def write_prose(stretching: Stretching, cone: Cone, terms: Terms, form: Form, asymmetry: Asymmetry) -> Prose:
    """Write the numbers of the text, with the digits that they have there."""
    two = "{:.2f}".format
    antisymmetric, attention = form.antisymmetric, asymmetry.mean_attention
    medians = {which: torch.as_tensor(shares).median() for which, shares in antisymmetric.items()}
    sigma, moved = stretching.largest, [w.value for w in terms.without_b_Q]
    alone = [share.value for share in stretching.alone["trained"]]
    more_symmetric = np.mean(antisymmetric["trained"] < antisymmetric["control"].min())
    return Prose(
        **by_map("over", stretching.over["trained"], percent),
        **by_map("grown", alone, lambda v: percent(v, 1)),
        **by_map("joint", stretching.joint["trained"], percent),
        furthest_V=two(stretching.furthest[2]),
        pairs_V=f"{stretching.growth['trained'][2].numel():,}",
        amplified_V=f"{stretching.amplified_V:,}",
        heads_V=f"{int((sigma['trained'][2] > 1).sum())} of {sigma['trained'][2].size}",
        top_control=two(sigma["control"].max()),
        **by_map("best", cone.best, two),
        **by_map("half", cone.half, two),
        **by_map("middle", cone.middle["trained"], two),
        **by_map("chance", cone.middle["isotropic"], two),
        drop_low=percent(min(moved)),
        drop_high=percent(max(moved)),
        symmetric=percent(more_symmetric),
        share=two(medians["trained"]),
        share_control=two(medians["control"]),
        channel=str(form.channel),
        skew_trained=two(attention[TRAINED]),
        skew_trained_equal=two(attention[TRAINED + EQUAL]),
        skew_content=two(attention[CONTENT]),
        skew_symmetric=two(attention[SYMMETRIC + EQUAL]),
        skew_symmetric_raw=two(attention[SYMMETRIC]),
        skew_last_content=two(asymmetry.attention[CONTENT][-1]),
        skew_last_symmetric=two(asymmetry.attention[SYMMETRIC + EQUAL][-1]),
        skew_positive=two(attention[POSITIVE + EQUAL]),
        skew_less_common=two(attention[LESS_COMMON + EQUAL]),
        skew_common=two(attention[COMMON]),
        **{f"negative_{which}": percent(share) for which, share in asymmetry.negative.items()},
    )


def by_map(name: str, values: Sequence[float], form: Callable[[float], str]) -> dict[str, str]:
    """Write one value for each of Q, K and V, under names that end in the map's letter."""
    return {f"{name}_{letter}": form(value) for letter, value in zip(MAPS, values, strict=True)}


# ---- What the page on Q and K shows and what its claims rest on, measured on a BERT and on its random control


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
