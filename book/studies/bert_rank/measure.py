"""What the page on rank collapse shows and what its claims rest on.

Residuals are relative, ``|X - 1 mean| / |X|`` in the Frobenius norm. *Parts* are a layer's parts in words, such as
``attention + skip``; a *run* follows the residual through one stack, state by state. Dictionaries with the keys
``trained`` and ``control`` hold one value for the model and one for its random control.
"""

from dataclasses import dataclass

import torch

from analysis.data import texts as texts_at_hand
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.models.reading import load
from book.publish import Inputs, Numbers, choose_inputs
from book.studies.bert_rank.controls import LadderNumbers, measure_rungs, write_ladder
from book.studies.bert_rank.prose import Prose, write_prose
from book.studies.bert_rank.ranks import Ranks, measure_ranks
from book.studies.bert_rank.stacks import (
    Activations,
    OneLayer,
    Stacks,
    TrainedStack,
    measure_activations,
    measure_one_layer,
    measure_stacks,
    measure_trained_stack,
)
from book.studies.bert_rank.statements import (
    CentredCases,
    Examples,
    LayerNormCheck,
    find_examples,
    measure_norm,
    try_centring,
)
from book.studies.shared.documents import Rungs
from book.studies.shared.networks import SEEDS

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
