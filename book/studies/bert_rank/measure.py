"""What the page on rank collapse shows and what its claims rest on.

Residuals are relative, ``|X - 1 mean| / |X|`` in the Frobenius norm. *Parts* are a layer's parts in words, such as
``attention + skip``; a *run* follows the residual through one stack, state by state. Dictionaries with the keys
``trained`` and ``control`` hold one value for the model and one for its random control.
"""

import math
from dataclasses import dataclass, field

import torch

from analysis.data import texts as texts_at_hand
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.models.reading import load
from book.publish import Inputs, Numbers, choose_inputs
from book.studies.bert_rank.controls import LadderNumbers, measure_rungs, write_ladder
from book.studies.bert_rank.stacks import (
    NO_MLP,
    WHOLE,
    Activations,
    OneLayer,
    Stacks,
    TrainedStack,
    expected_factor,
    measure_activations,
    measure_one_layer,
    measure_stacks,
    measure_trained_stack,
    typical,
)
from book.studies.bert_rank.statements import (
    DROPPED,
    CentredCases,
    Examples,
    LayerNormCheck,
    Ranks,
    find_examples,
    measure_norm,
    measure_ranks,
    try_centring,
)
from book.studies.shared.documents import Rungs
from book.studies.shared.ladder import SEEDS


@dataclass(frozen=True)
class Prose(Numbers):
    """The numbers of the page's text, as they are written there."""

    prefix = "rank"
    cutoff: str = field(metadata={"scale": 1e-12})  # a tolerance
    kept: str
    dropped_below: str
    short_read: str
    short_centred: str
    long_read: str
    long_centred: str
    long_bias: str
    worst_without: str
    initial_gain: str
    least_skip: str
    deep_skip: str
    deep_mlp: str
    deep_linear: str
    deep_all: str
    hard_pure: str
    hard_norm: str
    depth: int
    long_most: str
    rate_one: str
    rate_expected: str
    slow_least: str
    trained_all: str
    control_all: str
    trained_mlp: str  # taken out
    trained_mlp_cosine: float
    trained_none: str
    dead_gains: int
    last_divided: str
    last_gain: str
    last_bias: str


def write_prose(ranks: Ranks, stacks: Stacks, trained: TrainedStack, std: float) -> Prose:
    """Write the numbers of the text; ``std`` is the standard deviation of the model's weights at initialisation."""
    two = "{:.2f}".format
    counts = [count for steps in ranks.all_steps for count in steps]
    short, long = (ranks.through["trained", tokens][0] for tokens in (ranks.short, ranks.limit))
    deep = {name: two(typical(run, 12)) for name, run in stacks.runs[1.0].items()}
    slowest = min(typical(run, stacks.depth) for run in stacks.deep[0.55].values())
    final = trained.final
    return Prose(
        cutoff=f"{max(c.cutoff for c in counts):.1e}",
        kept=f"{min(c.kept for c in counts):.0e}",
        dropped_below=f"{DROPPED:.0e}",
        short_read=str(short.read.rank),
        short_centred=str(short.centred.rank),
        long_read=str(long.read.rank),
        long_centred=str(long.centred.rank),
        long_bias=str(long.with_bias.rank),
        worst_without=bound(stacks.worst_without_skip, 12),
        initial_gain=two(std * 768**0.5),
        least_skip=two(stacks.least_with_skip),
        deep_skip=deep["attention + skip"],
        deep_mlp=deep["attention + skip + MLP"],
        deep_linear=deep["attention + skip + linear MLP"],
        deep_all=deep[WHOLE],
        hard_pure=two(typical(stacks.runs[2.0]["attention"], 6)),
        hard_norm=f"{typical(stacks.runs[2.0]['attention + LayerNorm'], 6):.3f}",
        depth=stacks.depth,
        long_most=bound(stacks.most_left, 3),
        rate_one=two(math.exp(stacks.rate[1.0].value)),
        rate_expected=two(expected_factor(1.0)),
        slow_least=f"{math.floor(10 * slowest) / 10:.1f}",
        trained_all=two(final["trained"][WHOLE]),
        control_all=two(final["control"][WHOLE]),
        trained_mlp=two(final["trained"][NO_MLP]),
        trained_mlp_cosine=trained.cosines["trained"][NO_MLP],
        trained_none=bound(trained.most_without_skip, 9, "below ", "of "),
        dead_gains=ranks.dead_gains,
        last_divided=str(ranks.last.divided.rank),
        last_gain=str(ranks.last.with_gain.rank),
        last_bias=str(ranks.last.with_bias.rank),
    )


def bound(size: float, digits: int, below: str = "", otherwise: str = "") -> str:
    """Write the power of ten below which a number lies, or the number itself where it does not.

    Examples
    --------
    >>> bound(1e-13, 12), bound(2e-3, 3), bound(1e-10, 9, "below ", "of ")
    ('10⁻¹²', '2e-03', 'below 10⁻⁹')
    """
    exponent = str(-digits).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{below}10{exponent}" if size < 10.0**-digits else f"{otherwise}{size:.0e}"


COUNT, LONGEST = 6, 32  # texts for the switches, and their length in tokens


@dataclass(frozen=True)
class Measured(Numbers):
    """Everything that the page shows, section by section."""

    inputs: Inputs
    checkpoint: Checkpoint
    norm: LayerNormCheck
    examples: Examples
    centred: CentredCases
    ranks: Ranks
    one_layer: OneLayer
    stacks: Stacks
    activations: Activations
    trained: TrainedStack
    prose: Prose
    rungs: Rungs
    ladder_numbers: LadderNumbers


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
    checkpoint, where = checkpoints.find(inputs.model), inputs.device
    networks = {
        which: pretrained.load(checkpoint, control_seed=seed, dtype=torch.float64, device=where)
        for which, seed in SEEDS.items()
    }
    tokenizer, config = pretrained.tokenizer(checkpoint), load(checkpoint).config
    ranks = measure_ranks(networks, tokenizer, texts_at_hand.passages(source=inputs.texts))
    passages = texts_at_hand.passages(count=COUNT, source=inputs.texts)
    observed = {
        which: extraction.observe(network, tokenizer, passages, min(LONGEST, ranks.limit))
        for which, network in networks.items()
    }
    stacks, trained = measure_stacks(where), measure_trained_stack(observed)
    one_layer, rungs = measure_one_layer(where), measure_rungs(inputs)
    return Measured(
        inputs=inputs,
        checkpoint=checkpoint,
        ranks=ranks,
        stacks=stacks,
        trained=trained,
        one_layer=one_layer,
        norm=measure_norm(networks["trained"], observed["trained"]),
        examples=find_examples(),
        centred=try_centring(),
        activations=measure_activations(where),
        rungs=rungs,
        ladder_numbers=write_ladder(rungs),
        prose=write_prose(ranks, stacks, trained, config.initializer_range),
    )
