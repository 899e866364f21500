"""What the three questions of the first page show: two facts of GPT-2's first layer, and an induction head."""

import math

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from analysis.decomposition.folding import fold_norm
from analysis.maps.locality import causal_attention, position_scores
from analysis.models.reading import load
from analysis.plotting import style
from analysis.transformer import induction
from analysis.transformer.layernorm import sigma

LETTERS = "!abaca"
QUERY, HEAD, BACK = 300, 3, 60


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
    fig, [[panel]] = style.panels(ax, 1, 1, size="half")
    shown = (rows - rows.mean(1, keepdim=True))[:, :-1].numpy()
    panel.imshow(shown, cmap=style.SCORE_CMAP, norm=style.centred(shown), aspect="auto", interpolation="nearest")
    panel.set(xlabel="position of the key", ylabel="head")
    panel.set_title("What every query prefers", loc="left")
    return fig


@style.in_style
def neighbours(*, ax: style.Panels | None = None) -> Figure:
    """Draw where one query of one head looks by positions alone."""
    rows, pairs = scores_of_positions()
    weights = causal_attention(pairs + rows[:, None])[HEAD, QUERY, QUERY - BACK : QUERY + 1]
    fig, [[panel]] = style.panels(ax, 1, 1, size="half")
    panel.bar(range(-BACK, 1), weights.numpy(), width=1.0, color=style.COLOURS["positional"])
    panel.set(xlabel="places back from the query", ylabel="attention")
    panel.set_title("Where a head looks before it reads", loc="left")
    return fig


@style.in_style
def induction_head(*, ax: style.Panels | None = None) -> Figure:
    """Draw what each letter of a short text attends to in a head that was built by hand."""
    alphabet = sorted(set(LETTERS))
    head = induction.build(len(alphabet), len(LETTERS))
    _, second = induction.run(torch.tensor([alphabet.index(letter) for letter in LETTERS]), head)
    fig, [[panel]] = style.panels(ax, 1, 1, size="half")
    weights = second.attention.masked_fill(torch.ones(len(LETTERS), len(LETTERS)).triu(1).bool(), math.nan)
    panel.imshow(weights.numpy(), cmap=style.WEIGHT_CMAP, vmin=0, vmax=1, aspect="auto")
    panel.set(xticks=range(len(LETTERS)), yticks=range(len(LETTERS)), xticklabels=LETTERS, yticklabels=LETTERS)
    panel.set(xlabel="looks at", ylabel="letter")
    panel.set_title("The last a looks at what followed a", loc="left")
    return fig
