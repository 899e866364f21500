"""Everything that the chapter on gates shows: the ideal maps, and what a model's heads read as."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int8

from analysis.maps import gates, streaming
from analysis.models import attention_hooks, checkpoints, pretrained
from book.publish import Inputs, Numbers, choose_inputs
from book.studies.bert_gates.controls import (
    CarriedNumbers,
    Classifier,
    LadderNumbers,
    Objections,
    carried_numbers,
    ladder_numbers,
    measure_carried,
    measure_classifier,
    measure_covered,
    measure_objections,
    measure_rungs,
)
from book.studies.bert_gates.gate_census import (
    CensusNumbers,
    Gallery,
    GateCensus,
    census_numbers,
    gallery,
    measure_census,
)
from book.studies.bert_gates.ideal_gates import IdealGates, measure_ideal_gates
from book.studies.bert_gates.interventions import (
    Ablation,
    AblationNumbers,
    BiasExchange,
    BiasNumbers,
    measure_ablation,
    measure_bias_exchange,
)
from book.studies.bert_gates.sink import Removal, RemovalNumbers, measure_removal, removal_numbers
from book.studies.shared.documents import Rungs
from book.studies.shared.nearest_classifier import Nearest, read_nearest

SENTENCE = (
    "The bank raised its rates, and the bank of the river rose too. When the water fell, "
    "the old bridge stood where it had always stood."
)
NEARLY_ONE = 0.99


@dataclass(frozen=True)
class SentenceMaps:
    """A model's maps of one sentence, each cell's gate as an index into ``gates.GATES``, and each map's shares."""

    model: str
    text: str
    tokens: list[str]
    maps: Float[np.ndarray, "layer head query key"]
    cells: Int8[np.ndarray, "layer head query key"]
    scores: Float[np.ndarray, "layer head gate"]
    smallest_weight: float
    weights_for_each_near_one: float  # so many weights for each that exceeds NEARLY_ONE


def measure_sentence(inputs: Inputs) -> SentenceMaps:
    """Run the model on the sentence, keep its maps and read their gates."""
    checkpoint = checkpoints.find(inputs.model)
    tokenizer, model = pretrained.tokenizer(checkpoint), pretrained.load(checkpoint, device=inputs.device)
    encoding = tokenizer(SENTENCE, return_tensors="pt").to(inputs.device)
    by_layer = []
    collect = streaming.visit_maps(lambda _, maps: by_layer.append(maps[0]))
    with torch.no_grad(), attention_hooks.with_attention(model, collect):
        model(**encoding)
    maps = torch.stack(by_layer)
    reading = gates.read_gates(maps, causal=bool(maps.triu(1).max() == 0))
    return SentenceMaps(
        checkpoint.name,
        SENTENCE,
        tokenizer.convert_ids_to_tokens(encoding["input_ids"][0]),
        maps.cpu().numpy(),
        reading.cells.cpu().numpy(),
        reading.scores.cpu().numpy(),
        smallest_weight=maps.min().item(),
        weights_for_each_near_one=(maps > NEARLY_ONE).double().mean().reciprocal().item(),
    )


FAMILIES = ("bert", "gpt2")


@dataclass(frozen=True)
class Measured(Numbers):
    """The measurement of the chapter; the parts that end in ``numbers`` are glued into the page's text."""

    prefix: ClassVar[str] = "gates"

    inputs: Inputs
    ideal: IdealGates
    sentence: SentenceMaps
    census: GateCensus
    gallery: Gallery
    census_numbers: CensusNumbers
    exchange: BiasExchange
    exchange_numbers: BiasNumbers
    ablation: Ablation
    ablation_numbers: AblationNumbers
    rungs: Rungs
    ladder_numbers: LadderNumbers
    carried: Rungs
    removal: Removal
    removal_numbers: RemovalNumbers
    objections: Objections
    covered: float  # of a full diagonal by the detector's longest run, where that is least
    classifier: Classifier
    carried_numbers: CarriedNumbers
    nearest: Nearest


def measure(model: str = "minilm", texts: str | None = None, device: str = "auto") -> Measured:
    """Measure everything that the chapter shows.

    Parameters
    ----------
    model
        Any BERT or GPT-2, by name or folder; for another than the book's own nothing comes from its records.
    texts
        A text file, or a folder of them, in place of the book's texts.
    device
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
    """
    inputs = choose_inputs(model, own="minilm", texts=texts, device=device, families=FAMILIES)
    sentence, census = measure_sentence(inputs), measure_census(inputs)
    exchange, exchange_numbers = measure_bias_exchange(inputs)
    ablation, ablation_numbers = measure_ablation(inputs, census)
    rungs, carried = measure_rungs(inputs), measure_carried(inputs)
    removal = measure_removal(inputs)
    return Measured(
        inputs,
        measure_ideal_gates(),
        sentence=sentence,
        census=census,
        gallery=gallery(census, sentence.maps, sentence.cells),
        census_numbers=census_numbers(census),
        exchange=exchange,
        exchange_numbers=exchange_numbers,
        ablation=ablation,
        ablation_numbers=ablation_numbers,
        rungs=rungs,
        ladder_numbers=ladder_numbers(rungs),
        carried=carried,
        removal=removal,
        removal_numbers=removal_numbers(removal),
        objections=measure_objections(inputs),
        covered=measure_covered(inputs),
        classifier=measure_classifier(inputs),
        carried_numbers=carried_numbers(carried),
        nearest=read_nearest(inputs),
    )
