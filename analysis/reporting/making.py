"""Making a report: find the model, measure it, write the page and its numbers."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.files import write_atomically, write_json
from analysis.data import texts as bundled_texts
from analysis.models import attention_hooks, checkpoints
from analysis.models.checkpoints import Checkpoint
from analysis.models.reading import load
from analysis.models.text_models import load_text_model, load_tokenizer
from analysis.reporting import state
from analysis.reporting.measurement import PICTURE, Measurement, measure_parameters, observe, to_json
from analysis.reporting.observations import tokenise
from analysis.reporting.page import render
from analysis.reporting.sections import make_sections

LONGEST = 128
"""Tokens of a text, at most: gates are read in maps of so many rows."""
BOOK = ".."


def make_report(
    name: str,
    out: Path,
    *,
    texts: str | Path | None = None,
    device: torch.device | str = "cpu",
    count: int | None = None,
    seeds: int = 1,
    longest: int = LONGEST,
    weights_only: bool = False,
    book: str = BOOK,
    show: bool = False,
) -> Measurement:
    """Measure a model and write ``index.html`` and ``report.json``.

    Parameters
    ----------
    name
        As :func:`analysis.models.checkpoints.find` takes it: a known name, a folder, an id of the hub.
    out
        The folder to write into; it exists.
    texts
        A text file or a folder of them; default: the bundled passages.
    count
        How many of them are read; default: all.
    seeds
        Of each rung of the ladder of controls.
    longest
        Tokens of a text, at most.
    weights_only
        Do not run the model.
    book
        Where the book's pages lie, for links: an address, or a path relative to the page.
    show
        Whether to show on a terminal how far it is.

    Raises
    ------
    NotFound
        If the model is not there; nothing stands in for it.
    ValueError
        If its family is not read, or no text is long enough.
    MemoryError
        If a layer, or the whole model that is to run, does not fit.
    """
    checkpoint = checkpoints.find(name)
    if checkpoint.stands_in_for:
        raise checkpoints.NotFound(
            f"the model {name!r} is not here; give its folder, or ask for a report on "
            f"{checkpoint.name}, which stands in for it"
        )
    measured = measure_parameters(checkpoint, load(checkpoint), show=show)
    progress = None
    if weights_only:
        measured.not_run = "only its weights were asked for"
    else:
        tokenizer, model, measured.not_run = _load(checkpoint, device)
        if model is not None:
            limit = min(longest, getattr(model.config, "max_position_embeddings", None) or longest)
            ids = tokenise(tokenizer, bundled_texts.passages(count=count, source=texts), limit)
            settings = {"seeds": seeds, "longest": longest, "device": str(torch.device(device).type)}
            progress = state.State(out, state.identity(checkpoint.provenance(), [i[0].tolist() for i in ids], settings))
            try:
                observe(measured, model, load(model), [i.to(device) for i in ids], progress, seeds=seeds, show=show)
                measured.maps = draw_maps(model, ids[0][:, :PICTURE].to(device))
                measured.tokens = tokenizer.convert_ids_to_tokens(ids[0][0, :PICTURE].tolist())
            except ValueError as error:
                measured.not_run, measured.trained = str(error), None
    write_report(measured, out, book)
    if progress is not None:
        progress.remove()
    return measured


def _load(checkpoint: Checkpoint, device: torch.device | str) -> tuple[Any, torch.nn.Module | None, str]:
    """Return tokenizer and model; without a model, why it cannot be run."""
    try:
        return load_tokenizer(checkpoint), load_text_model(checkpoint, device=device), ""
    except (checkpoints.NotFound, MemoryError) as error:
        return None, None, str(error)


def draw_maps(model: torch.nn.Module, ids: Tensor) -> Float[np.ndarray, "layer head query key"]:
    """Return the maps of one text."""
    maps = []

    def attend(layer, query, key, value, *, scale, causal=False, lengths=None):
        scores = query.float() @ key.float().mT * scale
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1), -math.inf)
        weights = scores.softmax(-1)
        maps.append(weights[0].cpu())
        return weights.to(value) @ value

    with torch.no_grad(), attention_hooks.with_attention(model, attend):
        model(ids)
    return torch.stack(maps).numpy()


def write_report(measured: Measurement, out: Path, book: str) -> None:
    """Write the page and the numbers, each first under a temporary name."""
    lead = "Every number on this page is also in report.json beside it. "
    if measured.trained is not None:
        seeds = len(next(iter(measured.controls.values()), []))
        lead += (
            f"The model read {measured.trained.texts} texts. Its controls are three networks "
            f"({seeds} seed{'s' if seeds > 1 else ''} of each) that read the first few of them: random weights, "
            "random weights as large as the trained ones, and the trained weights with the entries of each matrix "
            "in random order. What the trained model shares with them, training did not make."
        )
    page = render(f"A report on {measured.about['Model']}", lead, make_sections(measured), book)
    write_json(out / "report.json", to_json(measured))
    write_atomically(out / "index.html", page)
