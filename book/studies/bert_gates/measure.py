"""Everything that the chapter on gates shows: the ideal maps, and what a model's heads read as."""

from dataclasses import dataclass
from typing import ClassVar

from book.publish import Inputs, Numbers, choose_inputs
from book.studies.bert_gates.bias_exchange import BiasExchange, BiasNumbers, measure_bias_exchange
from book.studies.bert_gates.carried import (
    CarriedNumbers,
    Classifier,
    carried_numbers,
    measure_carried,
    measure_classifier,
    measure_covered,
)
from book.studies.bert_gates.closed_heads import Ablation, AblationNumbers, measure_ablation
from book.studies.bert_gates.controls import LadderNumbers, ladder_numbers, measure_rungs
from book.studies.bert_gates.gate_census import (
    CensusNumbers,
    Gallery,
    GateCensus,
    census_numbers,
    gallery,
    measure_census,
)
from book.studies.bert_gates.ideal_gates import IdealGates, measure_ideal_gates
from book.studies.bert_gates.sentence_maps import SentenceMaps, measure_sentence
from book.studies.bert_gates.sink import Removal, RemovalNumbers, measure_removal, removal_numbers
from book.studies.shared.documents import Rungs
from book.studies.shared.nearest_classifier import Nearest, read_nearest

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
        covered=measure_covered(inputs),
        classifier=measure_classifier(inputs),
        carried_numbers=carried_numbers(carried),
        nearest=read_nearest(inputs),
    )
