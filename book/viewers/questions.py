"""What the three questions of the first page show: two facts of GPT-2's first layer, and an induction head."""

import math

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from analysis.decomposition.folding import fold_norm
from analysis.maps.locality import causal_attention, position_scores
from analysis.models.reading import load
from analysis.plotting import style
from analysis.transformer import induction
from analysis.transformer.layernorm import sigma

LETTERS = "!abaca"
QUERY, HEAD, BACK = 300, 3, 30
CARD = (2.4, 1.9)
"""Inches: about as wide as a card on a large screen, which so shows letters in their own size."""


def card(ax: style.Panels | None) -> tuple[Figure, Axes]:
    """Return a figure of the size of a card, or the panel that was given, with its figure."""
    fig, [[panel]] = style.panels(ax, 1, 1, size="half")
    if ax is None:
        fig.set_size_inches(CARD)
    return fig, panel


def scores_of_positions() -> tuple[Float[Tensor, "head key"], Float[Tensor, "head query key"]]:
    """Return what positions alone add to the scores of GPT-2's first layer, tokens as wide as a position."""
    model = load("gpt2", stand_in=True, dtype=torch.float64)
    p, ln = model.positions, model.norm("attention")
    own = sigma(p, ln.eps)
    return position_scores(p, torch.sqrt(own**2 + own.median() ** 2), fold_norm(model.layers[0], ln))


@style.in_style
def which_bias(*, ax: style.Panels | None = None) -> Figure:
    """Draw the semi-bias of every head over the positions."""
    rows, _ = scores_of_positions()
    fig, panel = card(ax)
    shown = (rows - rows.mean(1, keepdim=True))[:, :-1].numpy()
    panel.imshow(shown, cmap=style.SCORE_CMAP, norm=style.centred(shown), aspect="auto", interpolation="nearest")
    panel.set(xlabel="position of the key", ylabel="head", yticks=(0, 5, 10))
    panel.set_title("What every query prefers", loc="left")
    return fig


@style.in_style
def neighbours(*, ax: style.Panels | None = None) -> Figure:
    """Draw where one query of one head looks by positions alone."""
    rows, pairs = scores_of_positions()
    weights = causal_attention(pairs + rows[:, None])[HEAD, QUERY, QUERY - BACK : QUERY + 1]
    fig, panel = card(ax)
    panel.bar(range(-BACK, 1), weights.numpy(), width=1.0, color=style.COLOURS["positional"])
    panel.set(xlabel="places back", ylabel="attention", xticks=(-30, -20, -10, 0), xticklabels=("30", "20", "10", "0"))
    panel.set_title("Where one head looks", loc="left")
    return fig


@style.in_style
def induction_head(*, ax: style.Panels | None = None) -> Figure:
    """Draw what each letter of a short text attends to in a head that was built by hand."""
    alphabet = sorted(set(LETTERS))
    head = induction.build(len(alphabet), len(LETTERS))
    _, second = induction.run(torch.tensor([alphabet.index(letter) for letter in LETTERS]), head)
    fig, panel = card(ax)
    weights = second.attention.masked_fill(torch.ones(len(LETTERS), len(LETTERS)).triu(1).bool(), math.nan)
    panel.imshow(weights.numpy(), cmap=style.WEIGHT_CMAP, vmin=0, vmax=1, aspect="auto")
    panel.set(xticks=range(len(LETTERS)), yticks=range(len(LETTERS)), xticklabels=LETTERS, yticklabels=LETTERS)
    panel.set(xlabel="looks at", ylabel="letter")
    panel.set_title("Where each letter looks", loc="left")
    return fig
