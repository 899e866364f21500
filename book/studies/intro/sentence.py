"""One sentence in gpt2-mini's first layer: the head with the strongest semi-bias, its score in parts, its weights."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.decomposition.terms import score_terms
from analysis.models import checkpoints, pretrained
from analysis.models.reading import load
from analysis.transformer.attention import softmax
from analysis.transformer.layernorm import apply_norm

TEXT = "If the name is not found in the module, the value of the expression is returned."
MODEL = "gpt2-mini"


@dataclass(frozen=True)
class Sentence:
    """The sentence's tokens, the head that is shown, the query and the key that are chosen at first, and the maps."""

    text: str
    tokens: tuple[str, ...]
    head: int
    query: int
    key: int
    parts: dict[str, Float[np.ndarray, "query key"]]  # each less its mean; what a query does not see is nan
    weights: Float[np.ndarray, "query key"]

    def start(self) -> dict[str, str | int]:
        """Return what the viewer shows at first."""
        return {"text": self.text, "layer": 0, "head": self.head, "query": self.query, "key": self.key}


def measure(text: str = TEXT) -> Sentence:
    """Take one head's scores of a sentence apart; the query chosen is the one that reads the most of what comes before.

    Of the queries in the last third of the sentence it is the one with the largest weight on a single earlier key.

    Examples
    --------
    >>> sentence = measure("The list of the names.")
    >>> bool(np.allclose(np.nansum(sentence.weights, axis=1), 1))
    True
    """
    checkpoint = checkpoints.find(MODEL)
    tokenizer = pretrained.tokenizer(checkpoint)
    ids = tokenizer.encode(text)
    model = load(checkpoint, dtype=torch.float64)
    weights, ln, tokens, positions = model.layers[0].plain(), model.norm("attention"), model.tokens, model.positions
    terms = score_terms(apply_norm(tokens[ids] + positions[: len(ids)], ln), weights)
    head = int(terms.semi_bias[:, 0].std(1).argmax())
    future = torch.ones(len(ids), len(ids)).triu(1).bool()
    attention = softmax(terms.total()[head].masked_fill(future, -math.inf))
    constants = terms.query_side[head] + terms.kernel[head]
    parts = {"content": terms.content[head], "semi-bias": terms.semi_bias[head], "constants": constants}
    late = len(ids) * 2 // 3
    query = late + int(attention.tril(-1)[late:].amax(1).argmax())
    key = int(attention.tril(-1)[query].argmax())
    return Sentence(
        text,
        tuple(tokenizer.decode([i]).strip() for i in ids),
        head,
        query,
        key,
        {name: _centred(_seen(part, future)) for name, part in parts.items()},
        _seen(attention, future),
    )


def _seen(part: Tensor, future: Tensor) -> np.ndarray:
    """Spread a part over the map and leave out what a query does not see."""
    return part.expand(future.shape).masked_fill(future, math.nan).numpy()


def _centred(part: np.ndarray) -> np.ndarray:
    return part - np.nanmean(part)
