"""A census of heads: what every head of a model does on texts, one row per head, without a report around it."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float

from analysis.data import texts as bundled_texts
from analysis.models import checkpoints
from analysis.models.reading import load
from analysis.models.text_models import load_text_model, load_tokenizer
from analysis.reporting.comparison import measure_heads
from analysis.reporting.observations import (
    OF_HEADS,
    OF_REPEATS,
    Observations,
    add_text,
    draw_repeats,
    read_repeats,
    tokenise,
)

if TYPE_CHECKING:
    from pandas import DataFrame

LONGEST = 128
"""Tokens of a text, at most, unless the caller says otherwise."""


@dataclass(frozen=True)
class HeadTable:
    """What each head does on the mean over texts; it prints as a summary.

    Attributes
    ----------
    columns
        By name, ``(layer, head)``: what `describe_map` and `read_repeats` measure, and the share of each gate.
    texts, tokens
        How many were read.
    """

    columns: Mapping[str, Float[np.ndarray, "layer head"]]
    texts: int
    tokens: int

    def rows(self) -> list[dict[str, int | float]]:
        """Return one row per head, beginning with its layer and its number."""
        shape = next(iter(self.columns.values())).shape
        return [
            {"layer": layer, "head": head} | {name: float(of[layer, head]) for name, of in self.columns.items()}
            for layer, head in np.ndindex(shape)
        ]

    def to_frame(self) -> "DataFrame":
        """Return the rows as a frame of pandas, which must be installed."""
        from pandas import DataFrame

        return DataFrame(self.rows())

    def to_json(self) -> str:
        """Return the rows, and how many texts and tokens were read, as JSON; what is not a number becomes null."""
        rows = [{name: value if math.isfinite(value) else None for name, value in row.items()} for row in self.rows()]
        return json.dumps({"texts": self.texts, "tokens": self.tokens, "heads": rows})

    def __repr__(self) -> str:
        layers, heads = next(iter(self.columns.values())).shape
        lines = [f"{layers} layers of {heads} heads, {self.texts} texts, {self.tokens:,} tokens"]
        lines += [f"{'':<22}{'least':>8}{'median':>8}{'most':>8}  in"]
        for name, of in self.columns.items():
            layer, head = np.unravel_index(np.nanargmax(of), of.shape)
            numbers = "".join(f"{value:>8.2f}" for value in (of.min(), np.median(of), of.max()))
            lines.append(f"{name:<22}{numbers}  {layer}.{head}")
        return "\n".join(lines)


def census(
    model: str | Path | torch.nn.Module,
    texts: Sequence[str] | None = None,
    *,
    tokenizer: Any = None,
    longest: int = LONGEST,
    device: torch.device | str = "cpu",
) -> HeadTable:
    """Run a model on texts, one at a time, and return what each of its heads does; no map is kept.

    Parameters
    ----------
    model
        A name or a folder, as `load` takes it, or a model of transformers in evaluation mode with its ``tokenizer``.
    texts
        Strings; default: the passages that come with the package. Cut to ``longest`` tokens; those that are too short
        for a map to be read are left out.
    tokenizer
        That of a model in memory.
    device
        Of a model that is read here.

    Returns
    -------
    HeadTable
        Of a causal model with its scores for induction and for duplicate tokens, on random tokens that are read twice.

    Raises
    ------
    NotFound, NotRunnable
        If the model is not here, or does not read text.
    ValueError
        If a model in memory comes without its tokenizer, no text is long enough, or the model's attention is not full
        or causal (`attention_hooks.with_attention`).

    Examples
    --------
    >>> table = census("gpt2-mini", ["To be or not to be, that is the question."])
    >>> len(table.rows()), 0 <= table.rows()[0]["previous"] <= 1
    (16, True)
    """
    if isinstance(model, torch.nn.Module):
        if tokenizer is None:
            raise ValueError("tokenizer must be that of the model, since the model is one in memory")
    else:
        checkpoint = checkpoints.find(str(model))
        tokenizer, model = load_tokenizer(checkpoint), load_text_model(checkpoint, device=device)
    read = load(model)
    limit = min(longest, getattr(model.config, "max_position_embeddings", None) or longest)
    ids = [each.to(model.device) for each in tokenise(tokenizer, texts or bundled_texts.passages(), limit)]
    seen = Observations.empty(len(read.layers), read.heads)
    for each in ids:
        add_text(seen, model, each)
    if read.causal:
        seen.repeats[:] = read_repeats(model, draw_repeats(ids, model.config.vocab_size, limit), seen.repeats.shape[:2])
    left_out = ("sharpness",) if read.causal else ("sharpness", *OF_REPEATS)
    columns = {"entropy": seen.mean("heads")[..., OF_HEADS.index("entropy")]}
    columns |= {name: of for name, of in measure_heads(seen).items() if name not in left_out}
    return HeadTable(columns, seen.texts, sum(each.shape[-1] for each in ids))
