"""A trained BERT and its random control on the chapter's texts, and the head that the page draws."""

from dataclasses import dataclass

import torch
from torch import Tensor

from analysis.data import texts as texts_at_hand
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.models.extraction import Observed
from analysis.models.reading import load
from book.publish import Inputs
from book.studies.shared.networks import SEEDS

COUNT, LONGEST = 16, 128  # how many texts, and where each is cut, in tokens
DEPTH, HEAD = 0.0, 3  # the head that is drawn: its layer as a share of the depth, and its number


@dataclass(frozen=True)
class Models:
    """A trained BERT with its tokenizer and texts, and what it and its control do with the texts."""

    checkpoint: Checkpoint
    network: torch.nn.Module
    tokens: Tensor  # (1, position): the first text
    trained: Observed
    control: Observed

    @property
    def both(self) -> dict[str, Observed]:
        """The trained model and its control by name."""
        return {"trained": self.trained, "control": self.control}


@dataclass(frozen=True)
class DrawnHead:
    """The head that the page draws."""

    layer: int
    head: int


def choose_head(trained: Observed) -> DrawnHead:
    """Choose the head that the page draws, or the nearest to it that the model has."""
    layers, heads = len(trained.layers), trained.attention[0].heads
    return DrawnHead(round(DEPTH * (layers - 1)), min(HEAD, heads - 1))


def observe_models(inputs: Inputs) -> Models:
    """Load the model and its control and run both on the texts."""
    checkpoint = checkpoints.find(inputs.model)
    tokenizer, passages = pretrained.tokenizer(checkpoint), texts_at_hand.passages(count=COUNT, source=inputs.texts)
    longest = min(LONGEST, load(checkpoint).config.max_position_embeddings)
    network, fresh = (pretrained.load(checkpoint, control_seed=seed, device=inputs.device) for seed in SEEDS.values())
    tokens = tokenizer(passages[0], truncation=True, max_length=longest, return_tensors="pt")["input_ids"]
    return Models(
        checkpoint,
        network,
        tokens.to(inputs.device),
        *(extraction.observe(loaded, tokenizer, passages, longest) for loaded in (network, fresh)),
    )
