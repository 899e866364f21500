"""Everything that the page on the information stream shows, and what its verdicts rest on."""

from dataclasses import dataclass
from typing import ClassVar

from book.publish import Inputs, Numbers, choose_inputs
from book.publish.phrases import enumerated, percent
from book.studies.bert_stream import minilm
from book.studies.bert_stream.controls import Anisotropy, LadderPhrases, measure_anisotropy, measure_rungs, phrase_rungs
from book.studies.bert_stream.layer import (
    Biases,
    Composition,
    Expansion,
    Heads,
    Normalisation,
    Order,
    Perceptron,
    RealRows,
    measure_biases,
    measure_composition,
    measure_expansion,
    measure_heads,
    measure_normalisation,
    measure_order,
    measure_perceptron,
    measure_real_rows,
)
from book.studies.bert_stream.networks import Algebra, Subject, measure_algebra, run_networks
from book.studies.bert_stream.survey import (
    Coupling,
    Patterns,
    ReadBack,
    Sums,
    measure_coupling,
    measure_patterns,
    measure_read_back,
    measure_sums,
)
from book.studies.shared.documents import Rungs
from book.studies.shared.ladder import Survey, load_survey
from book.studies.shared.nearest_classifier import Nearest, read_nearest

TEXTS_SURVEYED = 24  # of a reader's texts, the most that are surveyed in all layers


@dataclass(frozen=True)
class MixingPhrases(Numbers):
    """Shares of a coupling that lie off the diagonal, over layers."""

    ln: str
    wo_low: str
    wo_high: str
    mixed: str
    mlp_alone_low: str
    mlp_alone_high: str
    mlp_trained_low: str
    mlp_trained_high: str
    mlp_control_low: str
    mlp_control_high: str


@dataclass(frozen=True)
class SumPhrases(Numbers):
    """The MLP as a sum, and the mean cosine of rows."""

    additive_low: str
    additive_high: str
    control_additive: str
    product_low: str
    product_high: str
    rise: str
    fall: str


@dataclass(frozen=True)
class ReadBackPhrases(Numbers):
    """What the layer's input and output tell of its heads."""

    input_low: str
    input_high: str
    input_better: str
    added_low: str
    added_high: str
    added_control_low: str


@dataclass(frozen=True)
class Measured(Numbers):
    """The measurement, by section of the page."""

    prefix: ClassVar[str] = "stream"
    inputs: Inputs
    survey: Survey
    subject: Subject
    algebra: Algebra
    heads: Heads
    normalisation: Normalisation
    coupling: Coupling
    perceptron: Perceptron
    sums: Sums
    biases: Biases
    order: Order
    read_back: ReadBack
    composition: Composition
    expansion: Expansion
    real_rows: RealRows
    patterns: Patterns
    mixing_phrases: MixingPhrases
    sum_phrases: SumPhrases
    read_back_phrases: ReadBackPhrases
    rungs: Rungs
    anisotropy: Anisotropy
    ladder_phrases: LadderPhrases
    nearest: Nearest


def measure(model: str = "minilm", texts: str | None = None, device: str = "auto") -> Measured:
    """Measure a BERT and its control.

    Parameters
    ----------
    model
        A BERT, by name or folder.
    texts
        A text file, or a folder of them, of three texts or more, in place of the book's texts.
    device
        Where the models run.
    """
    inputs = choose_inputs(model, own="minilm", texts=texts, device=device)
    survey = load_survey("bert-stream-minilm", minilm.survey, inputs, count=TEXTS_SURVEYED)
    arrays = survey.arrays
    subject, networks = run_networks(inputs)
    coupling, sums, read_back = measure_coupling(arrays), measure_sums(arrays), measure_read_back(arrays)
    rungs = measure_rungs(inputs)
    anisotropy = measure_anisotropy(rungs)
    return Measured(
        inputs=inputs,
        survey=survey,
        subject=subject,
        algebra=measure_algebra(),
        heads=measure_heads(subject, networks["trained"]),
        normalisation=measure_normalisation(subject, networks),
        coupling=coupling,
        perceptron=measure_perceptron(subject, networks),
        sums=sums,
        biases=measure_biases(subject, networks["trained"]),
        order=measure_order(subject),
        read_back=read_back,
        composition=measure_composition(subject, networks),
        expansion=measure_expansion(subject),
        real_rows=measure_real_rows(subject, networks["trained"]),
        patterns=measure_patterns(arrays),
        mixing_phrases=_phrase_mixing(coupling),
        sum_phrases=_phrase_sums(sums),
        read_back_phrases=_phrase_read_back(read_back),
        rungs=rungs,
        anisotropy=anisotropy,
        ladder_phrases=phrase_rungs(rungs, anisotropy),
        nearest=read_nearest(inputs),
    )


def _phrase_mixing(coupling: Coupling) -> MixingPhrases:
    joined = coupling.off_diagonal("trained", "W_O and LN")
    alone = coupling.off_diagonal("trained", "MLP")
    trained, control = (coupling.off_diagonal(network, "MLP, skip and LN") for network in ("trained", "control"))
    return MixingPhrases(
        ln=percent(coupling.off_diagonal("trained", "LN").max(), 1),
        wo_low=percent(joined.min(), 1),
        wo_high=percent(joined.max(), 1),
        mixed=percent(coupling.mixed, 1),
        mlp_alone_low=percent(alone.min()),
        mlp_alone_high=percent(alone.max()),
        mlp_trained_low=percent(trained.min()),
        mlp_trained_high=percent(trained.max()),
        mlp_control_low=percent(control.min()),
        mlp_control_high=percent(control.max()),
    )


def _phrase_sums(sums: Sums) -> SumPhrases:
    additive, error = sums.additive["trained"], sums.product_error["trained"]
    return SumPhrases(
        additive_low=percent(additive.min()),
        additive_high=percent(additive.max()),
        control_additive=percent(sums.additive["control"].mean()),
        product_low=f"{error.min():.1f}",
        product_high=f"{error.max():.1f}",
        rise=f"{sums.rise.mean():.2f}",
        fall=f"{sums.fall().mean():.2f}",
    )


def _phrase_read_back(read_back: ReadBack) -> ReadBackPhrases:
    told, added, better = read_back.band("heads", "x")[:, 0], read_back.added(), read_back.input_better
    return ReadBackPhrases(
        input_low=percent(told.min()),
        input_high=percent(told.max()),
        input_better=f"layer {enumerated(better)}" if len(better) else "no layer",
        added_low=percent(added.min()),
        added_high=percent(added.max()),
        added_control_low=percent(read_back.added("control").min()),
    )
