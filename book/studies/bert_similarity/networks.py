"""A trained BERT and its random control on the chapter's texts, and how near our formulas are to its modules."""

from dataclasses import dataclass

import torch
from torch import Tensor

from analysis.data import texts as texts_at_hand
from analysis.decomposition.terms import score_terms
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.models.extraction import Observed
from analysis.models.reading import load
from analysis.transformer.attention import compute_scores, softmax
from analysis.transformer.encoder import encode
from book.publish import Inputs
from book.studies.shared.ladder import SEEDS

# ---- A trained BERT and its random control on the chapter's texts, and the head that the page draws

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


# ---- BERT as published: its size and its limits, and how far our formulas are from the library's modules


@dataclass(frozen=True)
class Architecture:
    """The facts about BERT as a whole, and how far our formulas are from the library's modules."""

    base: int  # parameters of the two published configurations
    large: int
    layers: int
    width: int
    tokens: int  # of the first text
    states: tuple[int, ...]  # shape of its hidden states
    limit: int  # positions of the model
    accepts_limit: bool  # whether it runs on as many tokens
    accepts_more: bool  # and on one more
    order_gap: float  # largest difference in a hidden state
    attention_gap: float  # largest difference in an attention weight
    row_sum_error: float  # of the library's attention
    shift_error: float  # largest change of our softmax when 5 is added to all scores
    channel: int
    added_to_queries: float  # the largest number that the library adds to a query of X W_Q
    added_unevenly: float  # how much of that differs from row to row


def measure_architecture(subjects: Models, layer: int) -> Architecture:
    """Count parameters, and hold our forward pass, attention and queries to the library's."""
    trained, network, tokens = subjects.trained, subjects.network, subjects.tokens
    first, states = trained.attention[layer], trained.states[0]
    own = encode(states[0], trained.layers)
    maps = network(tokens, output_attentions=True).attentions
    attention_gaps = [
        (softmax(compute_scores(states[i], weights_of_layer)) - maps[i][0]).abs().max().item()
        for i, weights_of_layer in enumerate(trained.attention)
    ]
    content = score_terms(states[layer], first).content
    bare = (states[layer] @ first.W_Q).transpose(0, 1).flatten(1)  # (position, head channel)
    added = network.encoder.layer[layer].attention.self.query(states[layer]) - bare
    limit = network.config.max_position_embeddings
    return Architecture(
        base=extraction.count_parameters(12, 12, 768),
        large=extraction.count_parameters(24, 16, 1024),
        layers=len(trained.layers),
        width=first.model,
        tokens=tokens.shape[1],
        states=tuple(states.shape),
        limit=limit,
        accepts_limit=extraction.accepts(network, limit),
        accepts_more=extraction.accepts(network, limit + 1),
        order_gap=max((ours - theirs).abs().max().item() for ours, theirs in zip(own, states, strict=True)),
        attention_gap=max(attention_gaps),
        row_sum_error=max((t.sum(-1) - 1).abs().max().item() for t in maps),
        shift_error=(softmax(content + 5) - softmax(content)).abs().max().item(),
        channel=first.channel,
        added_to_queries=added.abs().max().item(),
        added_unevenly=(added - added.mean(0)).abs().max().item(),
    )
