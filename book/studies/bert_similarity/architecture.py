"""BERT as published: its size and its limits, and how far our formulas are from the library's modules."""

from dataclasses import dataclass

from analysis.decomposition.terms import score_terms
from analysis.models import extraction
from analysis.transformer.attention import compute_scores, softmax
from analysis.transformer.encoder import encode
from book.studies.bert_similarity.networks import Models


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
