"""What the chapter on attention as a weighted mean shows: means of prefixes, folded maps, uniform layers, the dial."""

from collections.abc import Mapping
from dataclasses import dataclass

from book import publish
from book.publish import Inputs, Numbers
from book.studies.shared.equality import draw, random_layer
from book.studies.weighted_mean.dial import Dial, measure_dial
from book.studies.weighted_mean.identities import (
    Case,
    Dropout,
    Folding,
    MeanLayer,
    Merging,
    RandomLayer,
    Word,
    measure_cases,
    measure_dropout,
    measure_folding,
    measure_mean_layer,
    measure_random_layer,
    measure_word,
    merging_ratio,
)

OWN_MODEL = "gpt2-mini"
MODELS = (OWN_MODEL, "minilm")  # whole models, run on text


@dataclass(frozen=True)
class Survey(Numbers):
    """How many attention modules of transformers have an output projection; ``counts`` as they were recorded."""

    none: str
    beside: str
    without: str  # the modules that have none, by name
    counts: Mapping[str, int | str]


@dataclass(frozen=True)
class Measured(Numbers):
    """Everything that the chapter shows or judges; ``sources`` says of each record whether it was recomputed."""

    prefix = "weighted-mean"

    inputs: Inputs
    models: tuple[str, ...]
    word: Word
    random: RandomLayer
    folding: Folding
    dropout: Dropout
    cases: Mapping[str, Case]
    mean_layer: MeanLayer
    merging: Merging
    dial: Dial
    survey: Survey
    sources: Mapping[str, str]


def measure(model: str = OWN_MODEL, texts: str | None = None, device: str = "auto") -> Measured:
    """Compute everything that the chapter shows; ``model`` is a GPT-2 or a BERT to put beside the chapter's two."""
    inputs = publish.choose_inputs(model, own=OWN_MODEL, texts=texts, device=device, families=("gpt2", "bert"))
    models = tuple(dict.fromkeys((*MODELS, model)))
    where = inputs.device
    layer, x = random_layer(3, 12, 4).to(where), draw(9, 12, device=where)
    folding, folding_source = measure_folding(layer, inputs)
    dial, dial_source = measure_dial(models, inputs)
    return Measured(
        inputs=inputs,
        models=models,
        word=measure_word(),
        random=measure_random_layer(layer, x),
        folding=folding,
        dropout=measure_dropout(layer, x),
        cases=measure_cases(layer, x),
        mean_layer=measure_mean_layer(x),
        merging=Merging(merging_ratio(768, 1), merging_ratio(768, 12)),
        dial=dial,
        survey=measure_survey(inputs),
        sources={"folding": folding_source, "dial": dial_source},
    )


def measure_survey(inputs: Inputs) -> Survey:
    """Read the recorded survey of the attention modules in the transformers library."""
    record, _ = publish.live_or_record("weighted-mean-output-projections", inputs, recompute=False)
    counts = {name: record[name] for name in ("modules", "files", "own", "beside", "none", "without", "transformers")}
    return Survey(
        "one" if counts["none"] == 1 else str(counts["none"]), str(counts["beside"]), counts["without"], counts
    )
