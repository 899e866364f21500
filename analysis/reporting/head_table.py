"""A census of heads: what every head of a model does on texts, one row per head, without a report around it."""

import csv
import io
import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.data import texts as bundled_texts
from analysis.maps.gates import PATTERNS
from analysis.models import pretrained
from analysis.models.inputs import input_device, main_input, read_inputs, real_rows, running_part
from analysis.models.reading import AnyModel, Model, load
from analysis.reporting.comparison import measure_heads
from analysis.reporting.observations import (
    ALL,
    OF_HEADS,
    OF_REPEATS,
    Choice,
    Observations,
    Tokenised,
    add_batch,
    add_layer,
    draw_repeats,
    read_repeats,
    tokenise,
)
from analysis.reporting.progress import count_steps
from analysis.reporting.state import State
from analysis.surveys.layer_runs import LayerOnText, visit_layers

if TYPE_CHECKING:
    from pandas import DataFrame

MEASURES = (*OF_HEADS, *OF_REPEATS, "gates")
"""What a census can measure of a head; ``"gates"`` stands for the share of each."""
QUICK = MEASURES[:-1]
"""What it measures unless it is asked for more."""
LONGEST = 128
"""Tokens of a text, at most, unless the caller says otherwise."""
SECONDS = 10.0
"""Between two states of a long census in a file, at least."""
NOUNS = {"pixel_values": "image", "input_features": "sound", "input_values": "sound"}
"""What a model reads whose main input has this name; others read texts."""


@dataclass(frozen=True)
class HeadTable:
    """What each head does on the mean over texts, images or sounds; it prints as a summary.

    Attributes
    ----------
    columns
        By name, ``(layer, head)``, from 0 to 1, each the mean over texts. ``entropy``: of a row, as a share of that of
        uniform attention. ``sink``: the weight of the key that gets most; ``sink with values``: its share of the
        weights times the lengths of the values. ``previous``, ``next``, ``itself``: the weight of these positions.
        Only of a causal model, on random tokens that are read twice: ``induction``, the weight of what followed the
        same token; ``duplicate``, that of the same token; ``previous on random tokens``. Where they were asked for, the
        others are shares of the gates (`read_gates`). Heads that were not chosen have nan, and no row.
    texts, tokens
        How many were read; of images and sounds their number, and that of the positions that the layers read.
    short, cut
        How many texts were left out as too short for a map to be read, and how many were cut.
    lengths
        The same in words; nothing where there were none.
    heads
        Those that were chosen, if not all were.
    layers
        Those with attention, if not all have it; the others have nan, and no rows.
    stack
        Which part was measured of a model with more than one: ``"encoder"``, ``"decoder"``, ``"text"``, ``"vision"``.
    noun
        What was read: ``"text"``, ``"image"`` or ``"sound"``.
    """

    columns: Mapping[str, Float[np.ndarray, "layer head"]]
    texts: int
    tokens: int
    short: int = 0
    cut: int = 0
    lengths: str = ""
    heads: tuple[tuple[int, int], ...] | None = None
    layers: tuple[int, ...] | None = None
    stack: str = ""
    noun: str = "text"

    def rows(self) -> list[dict[str, int | float]]:
        """Return one row per head, beginning with its layer and its number."""
        depth, heads = next(iter(self.columns.values())).shape
        every = ((layer, head) for layer in self.layers or range(depth) for head in range(heads))
        return [
            {"layer": layer, "head": head} | {name: float(of[layer, head]) for name, of in self.columns.items()}
            for layer, head in self.heads or every
        ]

    def to_frame(self) -> "DataFrame":
        """Return the rows as a frame of pandas, which must be installed."""
        from pandas import DataFrame

        return DataFrame(self.rows())

    def to_csv(self) -> str:
        """Return the rows as a table, its names in the first line."""
        rows, text = self.rows(), io.StringIO()
        writer = csv.DictWriter(text, rows[0], lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: of if isinstance(of, int) else f"{of:.6g}" for name, of in row.items()})
        return text.getvalue()

    def to_json(self) -> str:
        """Return the rows, and how many texts and tokens were read, as JSON; what is not a number becomes null.

        Beside them, how many texts were too short, or cut, and the part of a model that has more than one.
        """
        rows = [{name: value if math.isfinite(value) else None for name, value in row.items()} for row in self.rows()]
        counts = {name: getattr(self, name) for name in ("texts", "tokens", "short", "cut")}
        counts |= {"stack": self.stack} if self.stack else {}
        return json.dumps(counts | {"heads": rows})

    def __repr__(self) -> str:
        layers, heads = next(iter(self.columns.values())).shape
        lines = [
            f"{self.stack and self.stack + ', '}{len(self.layers or range(layers))} layers of {heads} heads, "
            f"{self.texts} {self.noun}{'s' * (self.texts != 1)}, "
            f"{self.tokens:,} {'tokens' if self.noun == 'text' else 'positions'}",
            *filter(None, [self.lengths]),
        ]
        wide = max(map(len, self.columns))
        lines += [f"{'':<{wide}}{'least':>8}{'median':>8}{'most':>8}  in layer.head"]
        for name, of in self.columns.items():
            if np.isnan(of).all():  # such as the key after the last query
                continue
            layer, head = np.unravel_index(np.nanargmax(of), of.shape)
            numbers = "".join(f"{value:>8.2f}" for value in (np.nanmin(of), np.nanmedian(of), np.nanmax(of)))
            lines.append(f"{name:<{wide}}{numbers}  {layer}.{head}")
        return "\n".join(lines)


def census(
    model: AnyModel,
    texts: Sequence[str] | str | Path | Tensor | Mapping[str, Tensor] | None = None,
    *,
    tokenizer: Any = None,
    measures: Sequence[str] = QUICK,
    heads: Sequence[tuple[int, int]] | None = None,
    queries: slice | None = None,
    longest: int = LONGEST,
    batch: int = 1,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    device_map: str | Mapping[str, int | str | torch.device] | None = None,
) -> HeadTable:
    """Run a model on texts, images or sounds and return what each of its heads does; no map is kept.

    The command ``python -m analysis census`` does the same for many texts, in several processes, and goes on where it
    was interrupted.

    Parameters
    ----------
    model
        A model as `load` takes it; a module of transformers in evaluation mode. Of a model with two stacks the first
        is measured, an encoder or the half of images; ``load(model, stack="decoder")`` or ``"text"`` is the other.
    texts
        Strings, or one, or a file or folder of texts; default: the passages that come with the package. Cut to
        ``longest`` tokens; those that are too short for a map to be read are left out. The table says how many. A
        decoder is given a text that its encoder is given too. Or, as `layer_inputs` takes them, images, sounds or ids
        as a tensor, or all that the model takes by name, such as the features of a sound and ``decoder_input_ids``;
        these are neither cut nor left out, and padding is on the right.
    tokenizer
        Tokenizer of a module in memory; default: `Model.tokenizer`.
    measures
        Columns of the table, out of :data:`MEASURES`; default: all but ``"gates"``, whose shares take far longer to
        read than all else.
    heads
        Which heads, as ``(layer, head)``; default: all.
    queries
        Whose rows count, such as ``slice(-1, None)`` for the last token of a text; default: all. Not for gates, nor on
        random tokens, of which the second reading counts.
    batch
        How many texts the model reads at once; those of similar length go together, padded on the right.
    device, dtype, device_map
        Passed to `pretrained.load`, for a model given by name or folder.

    Returns
    -------
    HeadTable
        Of a causal model that is given texts with its scores for induction and for duplicate tokens, on random tokens
        that are read twice.

    Raises
    ------
    NotFound, NotRunnable
        If the model is not here, or does not read text and is given no other inputs.
    ValueError
        If a model in memory is given texts without its tokenizer, no text is long enough, ``batch`` is below 1, an
        input is not followed, or a measure, a head or the queries cannot be chosen.
    MemoryError
        If the maps of a layer do not fit.

    Examples
    --------
    >>> table = census("gpt2-mini", ["To be or not to be, that is the question."])
    >>> len(table.rows()), 0 <= table.rows()[0]["previous"] <= 1
    (16, True)
    >>> table = census("gpt2-mini", heads=[(0, 4)], measures=["entropy", "gates"])
    >>> sorted(table.rows()[0])[:4]
    ['backward', 'cluster', 'directional', 'entropy']
    """
    read = load(model, tokenizer=tokenizer)
    choice = choose(read, measures, heads, queries)
    if batch < 1:
        raise ValueError(f"batch must be at least 1, got {batch}")
    if not isinstance(model, torch.nn.Module | Model):
        tokenizer = None if isinstance(texts, Tensor | Mapping) else read.tokenizer  # before the model is loaded
        module = pretrained.load(read.checkpoint, device=device, dtype=dtype, device_map=device_map)
        read = replace(read, held=(module, tokenizer))
    if isinstance(texts, Tensor | Mapping):
        return measure_inputs(read, texts, choice, measures, batch=batch)
    pretrained.check_reads_text(read)
    tokenizer = read.tokenizer
    if texts is None:
        texts = bundled_texts.passages()
    elif isinstance(texts, Path) or (isinstance(texts, str) and os.path.exists(texts)):
        texts = bundled_texts.passages(source=texts)
    elif isinstance(texts, str):
        texts = [texts]
    given = tokenise(tokenizer, texts, min(longest, read.room or longest), read.config.vocab_size)
    seen = observe_heads(read, given.ids, choice, batch=batch, padding=tokenizer.pad_token_id or 0)
    return tabulate(seen, read, given, choice, measures)


def choose(
    read: Model,
    measures: Sequence[str] = QUICK,
    heads: Sequence[tuple[int, int]] | None = None,
    queries: slice | None = None,
) -> Choice:
    """Return what is to be measured; refuse what is not there to choose from."""
    if isinstance(measures, str) or not measures or not set(measures) <= set(MEASURES):
        raise ValueError(f"measures must be some of {', '.join(MEASURES)}, got {measures!r}")
    if not read.causal and set(measures) <= set(OF_REPEATS):
        raise ValueError(f"{', '.join(measures)} are measures of causal models, and this one is none")
    queries = queries or slice(None)
    if queries.step not in (None, 1):
        raise ValueError(f"queries must be a slice of neighbouring tokens, got {queries}")
    if queries != slice(None) and "gates" in measures:
        raise ValueError("gates are read in whole maps: leave queries out, or gates")
    numbers = read.layers.numbers
    for layer, head in heads or ():
        if layer not in numbers or head not in range(read.heads):
            where = read.where_attention()
            raise ValueError(
                f"heads must be (layer, head), 0..{numbers[-1]} and 0..{read.heads - 1}, got {(layer, head)}"
                + (where and f": {where}")
            )
    chosen = None if heads is None else tuple(sorted({(int(layer), int(head)) for layer, head in heads}))
    return Choice("gates" in measures, "sink with values" in measures, chosen, (queries.start or 0, queries.stop))


def observe_heads(
    read: Model,
    ids: Sequence[Tensor],
    choice: Choice = ALL,
    *,
    batch: int = 1,
    padding: int = 0,
    share: tuple[int, int] = (0, 1),
    state: State | None = None,
    show: bool = False,
) -> Observations:
    """Add up what the heads of a model do on the texts of this process.

    ``share`` is ``(rank, processes)``: of the batches of all texts, which are the same whatever the number of
    processes, this process takes every ``processes``-th, from ``rank`` on. In ``state`` the sums are kept every few
    seconds, and an interrupted census goes on from there.
    """
    order = sorted(range(len(ids)), key=lambda text: ids[text].shape[-1])
    batches = [order[start : start + batch] for start in range(0, len(order), batch)][share[0] :: share[1]]
    part, where = f"heads, {share[0]} of {share[1]}", input_device(read.module)
    seen = (state.load(part) if state else None) or Observations.empty(read.depth, read.heads)
    bar = count_steps(sum(map(len, batches)), "texts", "text", start=seen.texts, show=show)
    done, kept = 0, time.monotonic()
    for texts in batches:
        done += len(texts)
        if done <= seen.texts:  # before it was interrupted
            continue
        add_batch(seen, read, [ids[text].to(where) for text in texts], padding, choice)
        bar.update(len(texts))
        if state and (time.monotonic() - kept > SECONDS or texts is batches[-1]):
            state.save(part, seen)
            kept = time.monotonic()
    bar.close()
    return seen


def measure_inputs(
    read: Model,
    inputs: Tensor | Mapping[str, Tensor],
    choice: Choice = ALL,
    measures: Sequence[str] = MEASURES,
    *,
    batch: int = 1,
) -> HeadTable:
    """Return what the heads of a model do on inputs as it takes them, such as images; no random tokens are read."""
    running = read.running
    part = running_part(running, inputs if isinstance(inputs, Mapping) else ())
    if isinstance(inputs, Mapping) and inputs.get("position_ids") is not None:
        raise ValueError("position_ids is not followed in a census: leave it out, and pad on the right")
    named = read_inputs(part, running, inputs)
    keep, lengths = real_rows(running, named), None
    if keep is not None:
        lengths = keep.sum(-1).tolist()
        if keep.long().cumprod(-1).sum(-1).tolist() != lengths:
            raise ValueError("padding must be on the right: tokenizer.padding_side = 'right'")
    seen, rows = Observations.empty(read.depth, read.heads), []

    def add(on: LayerOnText) -> None:
        add_layer(seen, on, {}, choice)
        rows.append(len(on.x))

    count = len(next(iter(named.values())))
    for few in (slice(start, start + batch) for start in range(0, count, batch)):
        of_these = {name: value[few] for name, value in named.items()}
        visit_layers(read, of_these, add, lengths=lengths and lengths[few], only=choice.layers())
    seen.texts = count
    tokens = sum(rows) // len(choice.layers() or read.layers.numbers)
    noun = "text" if read.family.stack == "decoder" else NOUNS.get(main_input(part), "text")
    return _table(seen, read, choice, measures, tokens=tokens, noun=noun)


def tabulate(
    seen: Observations, read: Model, given: Tokenised, choice: Choice = ALL, measures: Sequence[str] = MEASURES
) -> HeadTable:
    """Return what was seen on all texts as a table; a causal model reads random tokens twice for some columns more."""
    wanted = [name for name in OF_REPEATS if name in measures and read.causal]
    if wanted:
        repeats = draw_repeats(given.first, read.config.vocab_size, given.longest)
        seen.repeats[:] = read_repeats(
            read, repeats.to(input_device(read.module)), seen.repeats.shape[:2], only=choice.layers()
        )
    told = {"short": given.short, "cut": given.cut, "lengths": given.lengths()}
    return _table(seen, read, choice, measures, wanted, tokens=sum(each.shape[-1] for each in given.ids), **told)


def _table(
    seen: Observations, read: Model, choice: Choice, measures: Sequence[str], repeats: Sequence[str] = (), **told
) -> HeadTable:
    """Return the measures, and those on random tokens that were taken, as means over texts."""
    wanted = [*repeats, *(name for name in OF_HEADS if name in measures), *(PATTERNS if choice.gates else ())]
    found = measure_heads(seen)
    found = {"entropy": seen.mean("heads")[..., OF_HEADS.index("entropy")]} | found
    columns = {name: np.array(of) for name, of in found.items() if name in wanted}
    left_out = np.ones(seen.heads.shape[:2], bool)
    left_out[tuple(zip(*choice.heads, strict=True)) if choice.heads is not None else list(read.layers.numbers)] = False
    for of in columns.values():
        of[left_out] = np.nan
    layers = None if len(read.layers) == read.depth else tuple(read.layers.numbers)
    return HeadTable(columns, seen.texts, heads=choice.heads, layers=layers, stack=read.family.stack, **told)
