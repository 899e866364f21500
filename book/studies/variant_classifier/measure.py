"""Everything that the chapter on the variant classifier shows, and what its claims rest on."""

from dataclasses import dataclass

from analysis.models import checkpoints
from analysis.models.checkpoints import Checkpoint
from book.lab.training import dna_classifier
from book.publish import Inputs, Numbers, choose_inputs
from book.studies.shared import variant_measures
from book.studies.shared.nearest_classifier import Nearest, read_nearest
from book.studies.variant_classifier.authors import Authors, measure_authors
from book.studies.variant_classifier.base import BaseTraining, Recipe, measure_recipe, read_base_training
from book.studies.variant_classifier.compared import Columns, Compared, compare, measure_columns
from book.studies.variant_classifier.controls import read_records
from book.studies.variant_classifier.depth import (
    Depth,
    Emergence,
    RealLineages,
    Rows,
    Table,
    measure_depth,
    measure_emergence,
    measure_real,
    measure_rows,
    measure_table,
)
from book.studies.variant_classifier.maps import Gates, Phases, Weights, measure_gates, measure_phases, measure_weights
from book.studies.variant_classifier.sequence import (
    Example,
    Head,
    measure_example,
    measure_head,
    measure_large,
    pass_example,
    read_sequence,
)

MODEL = "variant-bert-mini"


@dataclass(frozen=True)
class Measured(Numbers):
    """Everything that the chapter shows; ``sources`` says where its records come from.

    ``full_size`` is the recipe at the paper's width, ``base`` its one training, ``recipe`` that of the bundled
    classifier.
    """

    prefix = "variants"
    inputs: Inputs
    checkpoint: Checkpoint
    sources: tuple[str, ...]
    classes: tuple[str, ...]
    recipe: dna_classifier.Recipe
    full_size: Recipe
    base: BaseTraining
    example: Example
    head: Head
    weights: Weights
    gates: Gates
    phases: Phases
    columns: Columns
    rows: Rows
    table: Table
    depth: Depth
    emergence: Emergence
    real: RealLineages
    authors: Authors
    nearest: Nearest
    compared: Compared


def measure(device: str = "auto") -> Measured:
    """Read the records of three seeds, and take one sequence through the bundled classifier and its control."""
    inputs, checkpoint = choose_inputs(device=device), checkpoints.find(MODEL)
    recorded, nearest = read_records(inputs), read_nearest(inputs)
    run = variant_measures.open_run(checkpoint.folder, device=inputs.device)
    passage, classes = pass_example(run, inputs.device), run.data.labels
    base, base_source = read_base_training(inputs, len(classes))
    example, (tuned, tuned_source) = measure_example(passage), read_sequence(inputs)
    phases = measure_phases(recorded, passage, tuned)
    gates = measure_gates(recorded, passage)
    return Measured(
        inputs,
        checkpoint,
        (*recorded.sources, tuned_source, base_source),
        classes,
        dna_classifier.MINI,
        full_size=measure_recipe(dna_classifier.BASE, run.data),
        base=base,
        example=example,
        head=measure_head(passage),
        weights=measure_weights(recorded, passage),
        gates=gates,
        phases=phases,
        columns=measure_columns(recorded, classes, phases.unchanged, example.n),
        rows=measure_rows(recorded),
        table=measure_table(recorded, example.width),
        depth=measure_depth(recorded, example.n),
        emergence=measure_emergence(recorded, len(classes)),
        real=measure_real(recorded),
        authors=measure_authors(passage, inputs),
        nearest=nearest,
        compared=compare(nearest, tuned, recorded, example, gates.gallery, large=measure_large(passage)),
    )
