"""Everything that the page on normality, cone index and entropy shows, and what its verdicts rest on."""

from dataclasses import dataclass
from typing import ClassVar

from analysis.statistics.intervals import Interval
from book.publish import Inputs, Numbers, choose_inputs
from book.publish.phrases import enumerated, percent
from book.studies.bert_normality import controls
from book.studies.bert_normality.cone import Cone, measure_cone
from book.studies.bert_normality.controls import ControlPhrases, measure_rungs, phrase_rungs
from book.studies.bert_normality.heads import (
    Effects,
    Entropies,
    Silenced,
    Spectra,
    measure_effects,
    measure_entropies,
    measure_silenced,
    measure_spectra,
)
from book.studies.bert_normality.released import Classifier, Released, measure_classifier, measure_released
from book.studies.bert_normality.rows import (
    Invariance,
    Padding,
    Rows,
    Subject,
    Threshold,
    describe,
    measure_invariance,
    measure_padding,
    measure_rows,
    measure_threshold,
    run_networks,
)
from book.studies.bert_normality.sums import Sums, Total, measure_sums, measure_total
from book.studies.shared.documents import Rungs
from book.studies.shared.ladder import Survey, load_survey
from book.studies.shared.nearest_classifier import Nearest, read_nearest

TEXTS_SURVEYED = 8  # of a reader's texts, the most that are surveyed in all layers


@dataclass(frozen=True)
class RowPhrases(Numbers):
    """Thresholds of the test, and the lowest and highest share of rows that fail over layers."""

    rule: str
    five: str
    level: str
    critical: str
    dim: str
    trained_low: str
    trained_high: str
    plain_low: str
    plain_high: str
    kept_low: str
    kept_high: str
    plain_kept_low: str
    plain_kept_high: str
    control_low: str
    control_high: str


@dataclass(frozen=True)
class SumPhrases(Numbers):
    """The statistic of sums, and what padding does to it and to the cone index."""

    sum_low: str
    sum_last: str
    sum_plain_last: str
    sum_control: str
    silent: str
    silent_share: str
    padded: str
    pad_last: str
    pad_last_fails: str
    pad: str
    pad_control: str
    climb: str
    climb_control: str


@dataclass(frozen=True)
class HeadPhrases(Numbers):
    """What a head's effect goes with, and the sink heads."""

    linked_all: str
    linked_deep: str
    linked_deep_control: str
    linked_first: str
    linked_last: str
    ablated: int
    """Texts on which heads were made uniform."""
    ablated_tokens: int
    """Tokens at which these were cut."""
    sinks: int
    heads: int
    sink_places: str
    chance_ends: str


@dataclass(frozen=True)
class Measured(Numbers):
    """The measurement, by section of the page."""

    prefix: ClassVar[str] = "normality"
    inputs: Inputs
    survey: Survey
    subject: Subject
    threshold: Threshold
    invariance: Invariance
    rows: Rows
    sums: Sums
    padding: Padding
    cone: Cone
    spectra: Spectra
    entropies: Entropies
    effects: Effects
    total: Total
    released: Released
    rungs: Rungs
    silenced: Silenced
    classifier: Classifier
    nearest: Nearest
    row_phrases: RowPhrases
    sum_phrases: SumPhrases
    head_phrases: HeadPhrases
    control_phrases: ControlPhrases


def measure(model: str = "minilm", texts: str | None = None, device: str = "auto") -> Measured:
    """Measure a BERT and its control.

    Parameters
    ----------
    model
        A BERT, by name or folder.
    texts
        A text file, or a folder of them, in place of the book's texts.
    device
        Where the models run.
    """
    inputs = choose_inputs(model, own="minilm", texts=texts, device=device)
    survey = load_survey("bert-normality-minilm", controls.survey, inputs, count=TEXTS_SURVEYED)
    arrays, text = survey.arrays, run_networks(inputs)
    subject = describe(text)
    threshold = measure_threshold(subject.width)
    rows, sums = measure_rows(text, arrays, subject.width), measure_sums(text, arrays, threshold.critical)
    padding, cone = measure_padding(arrays, threshold.critical), measure_cone(text, arrays)
    effects, rungs = measure_effects(arrays), measure_rungs(inputs)
    return Measured(
        inputs=inputs,
        survey=survey,
        subject=subject,
        threshold=threshold,
        invariance=measure_invariance(text, threshold.critical),
        rows=rows,
        sums=sums,
        padding=padding,
        cone=cone,
        spectra=measure_spectra(text, arrays),
        entropies=measure_entropies(text, arrays),
        effects=effects,
        total=measure_total(text, arrays),
        released=measure_released(text, inputs),
        rungs=rungs,
        silenced=measure_silenced(inputs),
        classifier=measure_classifier(inputs),
        nearest=read_nearest(inputs),
        control_phrases=phrase_rungs(rungs),
        row_phrases=_phrase_rows(threshold, rows, subject.width),
        sum_phrases=_phrase_sums(sums, padding, cone),
        head_phrases=_phrase_heads(effects),
    )


def _phrase_rows(threshold: Threshold, rows: Rows, width: int) -> RowPhrases:
    shares = {}
    for kind in ("trained", "plain", "kept", "plain kept", "control"):
        means, digits = rows.failing[kind][:, 0], 1 if kind == "control" else 0
        name = kind.replace(" ", "_")
        shares |= {f"{name}_low": percent(means.min(), digits), f"{name}_high": percent(means.max(), digits)}
    return RowPhrases(
        rule=f"{threshold.rule:.5f}",
        five=f"{threshold.table:.4f}",
        level=percent(threshold.level, 1),
        critical=f"{threshold.critical:.4f}",
        dim=str(width),
        **shares,
    )


def _phrase_sums(sums: Sums, padding: Padding, cone: Cone) -> SumPhrases:
    trained = sums.statistics["trained"][:, 0]
    return SumPhrases(
        sum_low=f"{trained[:-1].min():.2f}",
        sum_last=f"{trained[-1]:.3f}",
        sum_plain_last=f"{sums.statistics['plain'][-1, 0]:.2f}",
        sum_control=f"{sums.statistics['control'][:, 0].max():.3f}",
        silent=enumerated(sums.silent) or "none",
        silent_share=percent(sums.silent_share),
        padded=str(padding.texts),
        pad_last=f"{padding.sums['trained']['with'][-1, 0]:.3f}",
        pad_last_fails=percent(padding.last_sum_fails["trained"]["with"]),
        pad=f"{padding.cone_ratio['trained']:.1f}",
        pad_control=f"{padding.cone_ratio['control']:.1f}",
        climb=f"{cone.climb['trained']:.2f}",
        climb_control=f"{cone.climb['control']:.2f}",
    )


def _phrase_heads(effects: Effects) -> HeadPhrases:
    def phrase(estimate: Interval) -> str:
        return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]".replace("-", "−")

    places = (f"{enumerated(places)} (layer {layer})" for layer, places in effects.sink_places.items())
    return HeadPhrases(
        linked_all=phrase(effects.with_entropy["trained"]),
        linked_deep=phrase(effects.with_depth["trained"]),
        linked_deep_control=phrase(effects.with_depth["control"]),
        linked_first=phrase(effects.within[0]),
        linked_last=phrase(effects.within[-1]),
        ablated=len(effects.effect["trained"]),
        ablated_tokens=controls.LONGEST_ABLATED,
        sinks=int(effects.is_sink.sum()),
        heads=effects.is_sink.shape[1],
        sink_places="; ".join(places) or "none",
        chance_ends=percent(max(effects.chance[0], effects.chance[-1]), 1),
    )
