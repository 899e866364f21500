"""The text that is drawn, run through the trained model and through its control."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.axes import Residual
from analysis.data import texts
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.models.reading import load
from analysis.transformer.activations import LayerActivations
from analysis.transformer.encoder import run_layer
from book.publish import Inputs
from book.studies.shared.layer_lines import by_depth
from book.studies.shared.networks import SEEDS

PASSAGE = 3  # which text is drawn


@dataclass(frozen=True)
class DrawnText:
    """One text in both networks."""

    checkpoint: Checkpoint
    networks: dict[str, torch.nn.Module]
    states: dict[str, Float[Tensor, "state position model"]]
    """By network, what every layer read and what the last one wrote."""
    stations: dict[str, list[LayerActivations]]
    """By network, then by layer."""
    layers: tuple[int, ...]
    """The layers that are drawn: the first, one before the middle, the last."""
    bare: torch.nn.Module
    """The control, whose embeddings here lack the vector of the token type."""
    bare_states: Float[Tensor, "state position model"]

    @property
    def middle(self) -> int:
        """The layer before the middle that is drawn."""
        return self.layers[len(self.layers) // 2]


@dataclass(frozen=True)
class Subject:
    """What the chapter is about: the checkpoint, and one text in it."""

    checkpoint: Checkpoint
    width: int
    tokens: int
    """Of the text that is drawn."""
    before_first: Residual
    """What the first LayerNorm of the trained model reads."""
    middle: int
    """The layer before the middle that is drawn."""
    before_second: Residual
    """What the second LayerNorm of that layer reads."""


def run_networks(inputs: Inputs) -> DrawnText:
    """Run both networks on the text that is drawn."""
    checkpoint = checkpoints.find(inputs.model)
    tokenizer, passages = pretrained.tokenizer(checkpoint), texts.passages(source=inputs.texts)
    passage = passages[PASSAGE % len(passages)]
    networks = {
        name: pretrained.load(checkpoint, control_seed=seed, device=inputs.device) for name, seed in SEEDS.items()
    }
    states = {name: extraction.hidden_states(model, tokenizer, [passage])[0] for name, model in networks.items()}
    stations = {
        name: [run_layer(x, layer) for x, layer in zip(states[name], load(model).encoder_layers())]
        for name, model in networks.items()
    }
    bare = pretrained.load(checkpoint, control_seed=SEEDS["control"], device=inputs.device)
    bare.embeddings.token_type_embeddings.weight.zero_()
    return DrawnText(
        checkpoint,
        networks,
        states,
        stations,
        by_depth(len(stations["trained"])),
        bare,
        extraction.hidden_states(bare, tokenizer, [passage])[0],
    )


def describe(text: DrawnText) -> Subject:
    """Take from the run what the page shows of it."""
    tokens, width = text.states["trained"].shape[1:]
    trained = text.stations["trained"]
    return Subject(
        text.checkpoint, width, tokens, trained[0].before_first, text.middle, trained[text.middle].before_second
    )
