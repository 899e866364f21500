"""Everything that the chapter on rotary positions shows: neox-mini measured live, its training runs from a record."""

from dataclasses import dataclass

from analysis.data.texts import passages
from analysis.models import checkpoints, reading
from analysis.models.text_models import load_tokenizer
from book.lab.training import gpt2_mini
from book.publish import Inputs, Numbers, choose_inputs
from book.studies.rotary_bias.emergence import Emergence, measure_emergence
from book.studies.rotary_bias.exactness import Exactness, measure_exactness
from book.studies.rotary_bias.heads import Heads, measure_heads
from book.studies.rotary_bias.kernels import SOURCES, Kernels, measure_kernels, ranges
from book.studies.rotary_bias.run_measures import load
from book.studies.rotary_bias.rungs import Rungs, measure_rungs
from book.studies.rotary_bias.seed_kernels import SeedKernels, measure_seed_kernels
from book.studies.rotary_bias.seeds import Seeds, measure_seeds
from book.studies.rotary_bias.shares import Shares, measure_shares

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
    rungs: Rungs
    loss: float  # of the bundled model on held-out text, in nats per token
    texts: int = TEXTS
    tokens: int = TOKENS


def measure(device: str = "auto") -> Measured:
    """Measure the bundled neox-mini, and read the record of the trainings."""
    inputs = choose_inputs(device=device)
    checkpoint = checkpoints.find(MODEL)
    card, trace = gpt2_mini.read_trace(checkpoint.folder)
    model = load(checkpoint.folder, inputs.device)
    rotary = reading.load(model).layers[0].positions
    kernels = measure_kernels(trace, rotary)
    head = divmod(int(ranges(kernels.curves[SOURCES[-1]]).argmax()), gpt2_mini.HEADS)
    shares = measure_shares(
        model, load_tokenizer(checkpoint), passages(count=TEXTS), trace, rotary=rotary, head=head, tokens=TOKENS
    )
    seeds, record, sentence = measure_seeds(inputs)
    rungs, ladder_sentence = measure_rungs(inputs)
    return Measured(
        inputs,
        (sentence, ladder_sentence),
        measure_exactness(),
        kernels,
        measure_emergence(trace, rotary),
        shares,
        seeds,
        measure_heads(record),
        measure_seed_kernels(record),
        rungs,
        loss=card["held_out_loss"],
    )
