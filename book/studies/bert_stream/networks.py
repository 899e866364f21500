"""The model and its control on the chapter's texts, in float64."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Residual
from analysis.core.weights import EncoderLayer
from analysis.data import texts
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.models.reading import load
from analysis.transformer.activations import LayerActivations
from analysis.transformer.encoder import run_layer
from book.publish import Inputs
from book.studies.shared.layer_lines import by_depth
from book.studies.shared.networks import SEEDS

COUNT, LONGEST = 8, 96  # the texts for what is computed with the page, and the tokens at which they are cut


@dataclass(frozen=True)
class Network:
    """One network, its layers, and what passed them."""

    model: torch.nn.Module
    layers: list[EncoderLayer]
    states: list[Float[Tensor, "state position model"]]
    """For each text, what every layer read and what the last one wrote."""
    stations: list[list[LayerActivations]]
    """By layer, then by text."""


@dataclass(frozen=True)
class Subject:
    """What the chapter is about: the checkpoint, and the layer of the trained model that is looked at closely."""

    checkpoint: Checkpoint
    depth: int
    heads: int
    width: int
    level: int
    """Which layer is looked at, counted from 0; never the last."""
    layer: EncoderLayer
    after: AttentionLayer
    """The attention of the layer after it."""
    before_first: Residual
    """What its first LayerNorm reads, the rows of all texts one after another."""
    first: Residual
    """What its first LayerNorm writes and its perceptron reads, the rows of all texts."""


def run_networks(inputs: Inputs) -> tuple[Subject, dict[str, Network]]:
    """Run the trained model and its control on the texts, and choose the layer that is looked at."""
    checkpoint = checkpoints.find(inputs.model)
    passages = texts.passages(count=COUNT, source=inputs.texts)
    networks = {
        name: _run(
            pretrained.load(checkpoint, control_seed=seed, device=inputs.device),
            pretrained.tokenizer(checkpoint),
            passages,
        )
        for name, seed in SEEDS.items()
    }
    trained = networks["trained"]
    level = by_depth(len(trained.layers))[-2]
    layer = trained.layers[level]
    return Subject(
        checkpoint=checkpoint,
        depth=len(trained.layers),
        heads=layer.attention.heads,
        width=layer.attention.model,
        level=level,
        layer=layer,
        after=trained.layers[level + 1].attention,
        before_first=torch.cat([stations.before_first for stations in trained.stations[level]]),
        first=torch.cat([stations.first for stations in trained.stations[level]]),
    ), networks


def _run(model: torch.nn.Module, tokenizer, passages: Sequence[str]) -> Network:
    longest = min(LONGEST, model.config.max_position_embeddings)
    states = [text.double() for text in extraction.hidden_states(model, tokenizer, passages, longest)]
    layers = [layer.to(torch.float64) for layer in load(model).encoder_layers()]
    stations = [[run_layer(text[level], layer) for text in states] for level, layer in enumerate(layers)]
    return Network(model, layers, states, stations)
