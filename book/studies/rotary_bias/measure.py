"""Everything that the chapter on rotary positions shows: neox-mini measured live, its training runs from a record."""

from dataclasses import dataclass

import numpy as np

from analysis.data.texts import passages
from analysis.models import checkpoints, pretrained, reading
from book.lab.training import gpt2_mini
from book.publish import Inputs, Numbers, choose_inputs
from book.studies.rotary_bias.heads import Heads, measure_heads
from book.studies.rotary_bias.kernels import Curves, Emergence, Kernels, measure_emergence, measure_kernels
from book.studies.rotary_bias.ladder import Rungs, measure_rungs
from book.studies.rotary_bias.parts import Exactness, Shares, measure_exactness, measure_shares
from book.studies.rotary_bias.runs import RUNS, SEQUENTIAL, load, seeds_of
from book.studies.rotary_bias.seeds import Order, SeedKernels, Seeds, measure_order, measure_seed_kernels, measure_seeds

MODEL = "neox-mini"
TEXTS, TOKENS = 6, 48


@dataclass(frozen=True)
class Measured(Numbers):
    """The chapter's measurement; ``sources`` says whether the record was recomputed, which depends on the machine."""

    prefix = "rb"

    inputs: Inputs
    sources: tuple[str, ...]
    exactness: Exactness
    kernels: Kernels
    emergence: Emergence
    shares: Shares
    seeds: Seeds
    heads: Heads
    seed_kernels: SeedKernels
    order: Order
    rungs: Rungs

    @property
    def every_run(self) -> tuple[tuple[str, int], ...]:
        """Return variant and seed of all trainings, with parallel blocks and without."""
        return RUNS + SEQUENTIAL

    @property
    def every_kernel(self) -> dict[str, tuple[Curves, ...]]:
        """Return the kernels of all trainings, in the order of `every_run`, by source."""
        return {source: (*of, *self.order.of_runs[source]) for source, of in self.seed_kernels.of_runs.items()}

    @property
    def rises(self) -> dict[str, np.ndarray]:
        """Return by how much the loss rises without a part, ``(seed, counted, way)`` of each variant."""
        parallel = {name: self.seeds.rise[seeds_of(name)] for name, seed in RUNS if not seed}
        return {**parallel, SEQUENTIAL[0][0]: self.order.rise}


def measure(device: str = "auto") -> Measured:
    """Measure the bundled neox-mini, and read the record of the trainings."""
    inputs = choose_inputs(device=device)
    checkpoint = checkpoints.find(MODEL)
    _, trace = gpt2_mini.read_trace(checkpoint.folder)
    model = load(checkpoint.folder, inputs.device)
    rotary = reading.load(model).layers[0].positions
    kernels = measure_kernels(trace, rotary)
    tokenizer = pretrained.tokenizer(checkpoint)
    shares = measure_shares(model, tokenizer, passages(count=TEXTS), trace, rotary=rotary, tokens=TOKENS)
    seeds, record, sentence = measure_seeds(inputs)
    rungs, ladder_sentence = measure_rungs(inputs)
    seed_kernels = measure_seed_kernels(record)
    order, order_sentence = measure_order(inputs, seed_kernels)
    return Measured(
        inputs,
        (sentence, ladder_sentence, order_sentence),
        measure_exactness(),
        kernels,
        measure_emergence(trace, rotary),
        shares,
        seeds,
        measure_heads(record),
        seed_kernels,
        order,
        rungs,
    )
