"""Everything that the chapter on the whole score shows, measured on its models and read from its records."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from analysis.models import checkpoints
from analysis.transformer import constructed_heads
from book.publish import Inputs, Numbers, choose_inputs, experiments, live_or_record
from book.publish.phrases import enumerated, percent
from book.publish.records import Record, Result
from book.studies.one_score_four_parts import parts, shares
from book.studies.one_score_four_parts.causes import (
    Causes,
    MiniSeeds,
    Rungs,
    measure_causes,
    measure_mini_seeds,
    measure_rungs,
)
from book.studies.one_score_four_parts.experiments import POSITIONS
from book.studies.one_score_four_parts.parts import GPT2, Atlas, Distances, Survey
from book.studies.one_score_four_parts.shares import (
    SEMI_BIAS,
    FirstLayer,
    GPT2MiniNumbers,
    HeadShares,
    Lengths,
    MiniLMNumbers,
    MixedTerms,
    OneText,
    OtherSplits,
    TextShares,
    VariantNumbers,
    measure_lengths,
)

MODELS = ("gpt2-mini", "minilm", "variant-bert-mini")
EXACT = 1e-12  # what the text promises of identity and split
SEEDS = 3  # classifiers trained on exchanged deletions


@dataclass(frozen=True)
class Exactness(Numbers):
    """How exact identity and split are, by model and with its control; ``error`` and ``gap`` are bounds in the text."""

    prefix = "os"
    errors: Mapping[str, float]
    gaps: Mapping[str, float]
    error: str
    gap: str
    texts: int = parts.PASSAGES
    tokens: int = parts.TOKENS
    sharp: str = f"{constructed_heads.SHARP:.0f}"


@dataclass(frozen=True)
class Nearest(Numbers):
    """The heads nearest to formulas in the text: distances, and layer.head."""

    prefix = "os"
    prev_minilm: str
    prev_control: str
    prev_head: str
    matched: str
    const_gpt2: str
    const_gpt2_control: str
    const_gpt2_head: str
    both_gpt2: str
    both_control: str


@dataclass(frozen=True)
class Positions(Numbers):
    """GPT-2's first layer on positions alone: the heads far from uniform, and what the semi-bias does in them."""

    prefix = "os"
    far_heads: str
    early: str
    against: str
    places: int = POSITIONS


@dataclass(frozen=True)
class OtherChapters(Numbers):
    """Numbers of other chapters' records that the list of findings names."""

    prefix = "os"
    columns_own: str
    columns_none: str
    columns_random: str
    follow: str


@dataclass(frozen=True)
class Shares(Numbers):
    """What each part explains; ``layers (layer, part)`` is MiniLM's, the mappings are by model."""

    prefix = "os"
    heads: Mapping[str, HeadShares]
    panels: Mapping[str, Float[np.ndarray, "head part"]]
    texts: Mapping[str, TextShares]
    layers: Float[np.ndarray, "layer part"]
    first_layers: Mapping[str, FirstLayer]
    minilm: MiniLMNumbers
    gpt2_mini: GPT2MiniNumbers
    variant: VariantNumbers
    mixed: MixedTerms
    positions: Positions


@dataclass(frozen=True)
class Measured(Numbers):
    """The chapter's measurement; mappings are by model, the reader's own last. ``models`` are their names or folders.

    ``sources`` says whether the record of GPT-2's positions was recomputed, which depends on the machine; a tuple is no
    part of the page's text. The formulas' maps are those on ``tokens``.
    """

    prefix = "os"
    inputs: Inputs
    models: tuple[str, ...]
    sources: tuple[str, ...]
    exactness: Exactness
    tokens: Int[Tensor, " position"]
    atlas: Atlas
    distances: Mapping[str, Distances]
    nearest: Nearest
    shares: Shares
    one_text: OneText
    splits: OtherSplits
    causes: Causes
    rungs: Rungs
    lengths: Lengths
    mini_seeds: MiniSeeds
    other_chapters: OtherChapters


def labelled(model: str) -> dict[str, str]:
    """Return the models to show, by the label that they have on the page: a folder's own name, unless it is taken.

    Examples
    --------
    >>> list(labelled("models/my-bert"))
    ['gpt2-mini', 'minilm', 'variant-bert-mini', 'my-bert']
    >>> list(labelled("minilm")) == list(MODELS)
    True
    """
    models = {name: name for name in MODELS}
    if model not in models:
        label = Path(model).name
        models[model if label in models else label] = model
    return models


def bound(value: float) -> str:
    """Return the bound that a value keeps to, or the value if it does not keep to it."""
    return f"{EXACT:.0e}" if value < EXACT else f"{value:.0e}"


def measure_exactness(surveys: Mapping[str, Survey], controls: Mapping[str, Survey]) -> Exactness:
    """Collect how far product and parts are from what they must be."""
    errors = {name: max(surveys[name].error, controls[name].error) for name in surveys}
    gaps = {name: max(surveys[name].gap, controls[name].gap) for name in surveys}
    return Exactness(errors, gaps, bound(max(errors.values())), bound(max(gaps.values())))


def measure_nearest(distances: Mapping[str, Distances], minilm: Survey, gpt2: Record | Result) -> Nearest:
    """Collect the distances that the text names."""
    previous, previous_control = distances["minilm"].of("previous")
    constant, constant_control = distances[GPT2].of("constant")
    both, both_control = distances[GPT2].of("both")
    layer, head, _ = minilm.nearest("previous")
    constant_head = gpt2.array("distance")[:, list(parts.FAMILIES).index("constant")].argmin()
    matched = min(distances[name].of("matched")[0] for name in distances if name != GPT2)
    return Nearest(
        prev_minilm=percent(previous),
        prev_control=percent(previous_control),
        prev_head=f"{layer}.{head}",
        matched=f"{matched:.2f}",
        const_gpt2=f"{constant:.2f}",
        const_gpt2_control=f"{constant_control:.2f}",
        const_gpt2_head=f"0.{constant_head}",
        both_gpt2=f"{both:.2f}",
        both_control=f"{both_control:.2f}",
    )


def measure_positions(heads: HeadShares) -> Positions:
    """Collect what the text says of GPT-2's positions."""
    semi_bias = heads.parts[:, SEMI_BIAS]
    lead = int(semi_bias.argmax())
    return Positions(
        far_heads=enumerated(np.flatnonzero(heads.divergence > 0.5)),
        early=percent(semi_bias[lead] / heads.divergence[lead]),
        against=" and ".join(map(str, np.flatnonzero(semi_bias < -0.1))),
    )


def measure_other_chapters() -> OtherChapters:
    """Read the numbers of other chapters' records."""
    bias, seeds = experiments.load("bert-gates-query-bias"), experiments.load("variant-seeds")
    follow = np.mean([seeds[f"exchanged_deletions_{seed}"] for seed in range(SEEDS)])
    return OtherChapters(
        columns_own=percent(bias["columns_own"]),
        columns_none=percent(bias["columns_none"]),
        columns_random=percent(bias["columns_random"]),
        follow=percent(float(follow)),
    )


def measure_heads(
    gpt2: Record | Result, surveys: Mapping[str, Survey], controls: Mapping[str, Survey]
) -> dict[str, HeadShares]:
    """Return the shares in all heads of all models, GPT-2's positions first."""
    recorded = HeadShares(
        gpt2.array("divergence"), shares.heads_of(gpt2.array("parts")), gpt2.array("control_divergence")
    )
    return {GPT2: recorded} | {name: shares.measure_heads(surveys[name], controls[name]) for name in surveys}


def panels(
    heads: Mapping[str, HeadShares], controls: Mapping[str, Survey], mini_seeds: MiniSeeds
) -> dict[str, Float[np.ndarray, "head part"]]:
    """Return what is drawn of the parts in all heads: every model, of gpt2-mini all seeds; the control of MiniLM."""
    titles = {GPT2: f"{GPT2}, layer 0", MODELS[0]: f"{MODELS[0]}, seeds 0 to {mini_seeds.count - 1}"}
    drawn = {name: table.parts for name, table in heads.items()} | {MODELS[0]: mini_seeds.parts}
    return {titles.get(name, name): of_heads for name, of_heads in drawn.items()} | {
        "control of minilm": shares.heads_of(controls["minilm"].parts)
    }


def measure_shares(
    gpt2: Record | Result, surveys: Mapping[str, Survey], controls: Mapping[str, Survey], mini_seeds: MiniSeeds
) -> Shares:
    """Measure what each part explains: by model, by text, by layer, and over tokens and positions."""
    heads = measure_heads(gpt2, surveys, controls)
    texts = {name: shares.measure_texts(survey) for name, survey in surveys.items()}
    first = {name: FirstLayer(survey.divergence[0], survey.first) for name, survey in surveys.items()}
    layers = shares.measure_layers(surveys["minilm"])
    numbers = {name: shares.model_numbers(heads[name], texts[name], first[name]) for name in MODELS}
    return Shares(
        heads=heads,
        panels=panels(heads, controls, mini_seeds),
        texts=texts,
        layers=layers,
        first_layers=first,
        minilm=MiniLMNumbers(**numbers["minilm"], **shares.minilm_numbers(surveys["minilm"], layers)),
        gpt2_mini=GPT2MiniNumbers(**numbers["gpt2-mini"]),
        variant=VariantNumbers(**numbers["variant-bert-mini"]),
        mixed=shares.mixed_terms(first),
        positions=measure_positions(heads[GPT2]),
    )


def measure(model: str = MODELS[0], texts: str | None = None, device: str = "auto") -> Measured:
    """Measure all that the chapter shows.

    Parameters
    ----------
    model
        A GPT-2 or BERT, by name or folder, that is shown beside the book's own three.
    texts
        A text file, or a folder of them, in place of the book's passages.
    device
        ``"auto"``, ``"cpu"`` or ``"cuda"``.
    """
    inputs = choose_inputs(model, own=MODELS[0], texts=texts, device=device, families=("gpt2", "bert"))
    gpt2, source = live_or_record("one-score-four-parts-gpt2", inputs)
    models, options = labelled(model), {"source": inputs.texts, "device": inputs.device}
    surveys = {label: parts.survey(checkpoints.find(name), **options) for label, name in models.items()}
    controls = {
        label: parts.survey(checkpoints.find(name), control_seed=0, **options) for label, name in models.items()
    }
    tokens, distances = parts.random_tokens(), parts.measure_distances(gpt2, surveys, controls)
    one_text = shares.measure_one_text("minilm", surveys["minilm"], inputs)
    mini_seeds = measure_mini_seeds(inputs)
    measured_shares = measure_shares(gpt2, surveys, controls, mini_seeds)
    return Measured(
        inputs=inputs,
        models=tuple(models.values()),
        sources=(source,),
        exactness=measure_exactness(surveys, controls),
        tokens=tokens,
        atlas=parts.measure_atlas(tokens, gpt2, surveys),
        distances=distances,
        nearest=measure_nearest(distances, surveys["minilm"], gpt2),
        shares=measured_shares,
        one_text=one_text,
        splits=shares.other_splits(one_text),
        causes=measure_causes(measured_shares.heads, inputs),
        rungs=measure_rungs(inputs),
        lengths=measure_lengths(inputs),
        mini_seeds=mini_seeds,
        other_chapters=measure_other_chapters(),
    )
