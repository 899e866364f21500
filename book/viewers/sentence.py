"""One sentence in gpt2-mini's first layer: the head with the strongest semi-bias, its score in parts, its weights.

It is what the first page shows before a reader types another sentence, on paper, and in browsers without scripts.
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from analysis.decomposition.terms import score_terms
from analysis.models import checkpoints, pretrained
from analysis.models.reading import load
from analysis.plotting import style
from analysis.transformer.attention import softmax
from analysis.transformer.layernorm import apply_norm

MODEL = "gpt2-mini"
TEXT = "If the name is not found in the module, the value of the expression is returned."
START = {"text": TEXT, "layer": 0, "head": 4, "query": 16, "key": 15}
"""Of the last third of the sentence the query with the largest weight on a single earlier key."""

Map = Float[np.ndarray, "query key"]


def take_apart(text: str, head: int) -> tuple[dict[str, Map], Map]:
    """Return the parts of one head's scores of a sentence, and its weights.

    What a query does not see is nan, and each part is less its mean.

    >>> parts, weights = take_apart("The list of the names.", 4)
    >>> bool(np.allclose(np.nansum(weights, axis=1), 1))
    True
    """
    checkpoint = checkpoints.find(MODEL)
    ids = pretrained.tokenizer(checkpoint).encode(text)
    model = load(checkpoint, dtype=torch.float64)
    norm, tokens, positions = model.norm("attention"), model.tokens, model.positions
    terms = score_terms(apply_norm(tokens[ids] + positions[: len(ids)], norm), model.layers[0].plain())
    future = torch.ones(len(ids), len(ids)).triu(1).bool()
    attention = softmax(terms.total()[head].masked_fill(future, -math.inf))
    constants = terms.query_side[head] + terms.kernel[head]
    parts = {"content": terms.content[head], "semi-bias": terms.semi_bias[head], "constants": constants}
    seen = {name: _seen(part, future) for name, part in parts.items()}
    return {name: part - np.nanmean(part) for name, part in seen.items()}, _seen(attention, future)


def _seen(part: Tensor, future: Tensor) -> Map:
    """Spread a part over the map and leave out what a query does not see."""
    return part.expand(future.shape).masked_fill(future, math.nan).numpy()


@style.in_style
def draw() -> Figure:
    """Draw one head's scores as the sum of their three parts, on one scale, and the weights that they lead to."""
    parts, weights = take_apart(TEXT, START["head"])
    fig, [axes] = style.panels(None, 1, 5, size="page", sharex=True, sharey=True)
    maps = {"score": sum(parts.values()), **parts}
    norm = style.centred(np.stack(list(maps.values())))
    for panel, (name, part), sign in zip(axes, maps.items(), ("", "= ", "+ ", "+ "), strict=False):
        shown = panel.imshow(part, cmap=style.SCORE_CMAP, norm=norm)
        panel.set_title(sign + name, loc="left")
    seen = axes[-1].imshow(weights, cmap=style.WEIGHT_CMAP, vmin=0, vmax=1)
    axes[-1].set_title("→ attention", loc="left")
    axes[0].set_ylabel("query")
    for panel in axes:
        panel.set(xlabel="key", xticks=[], yticks=[])
    fig.colorbar(shown, ax=axes[:-1], label="nats", orientation="horizontal", aspect=40, shrink=0.5)
    fig.colorbar(seen, ax=axes[-1], label="weight", orientation="horizontal", aspect=10)
    return fig
