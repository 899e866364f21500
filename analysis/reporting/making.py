"""Making a report: find the model, measure it, write the page and its numbers."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.files import claim_folder, write_atomically, write_json
from analysis.data import texts as bundled_texts
from analysis.models import attention_hooks, checkpoints
from analysis.models.checkpoints import Checkpoint
from analysis.models.reading import Model, load
from analysis.models.text_models import load_text_model, load_tokenizer
from analysis.reporting import state
from analysis.reporting.measurement import PICTURE, Measurement, measure_parameters, observe, to_json
from analysis.reporting.observations import tokenise
from analysis.reporting.page import render
from analysis.reporting.sections import make_sections

LONGEST = 128
"""Tokens of a text, at most: gates are read in maps of so many rows."""
SHORTEST = 8
"""The least that `longest` may be: gates need so many rows."""
BOOK = ".."
KIND = "report"


def report(
    model: str | Path | Model,
    *,
    out: str | Path,
    texts: str | Path | None = None,
    count: int | None = None,
    seeds: int = 1,
    longest: int = LONGEST,
    weights_only: bool = False,
    device: torch.device | str = "cpu",
    book: str = BOOK,
    show: bool = False,
) -> Path:
    """Write a report on a model: one page of HTML that opens anywhere, and the same numbers as JSON.

    What was measured so far lies beside it until it is written, so an interrupted report goes on where it was.

    Parameters
    ----------
    model
        A name or folder as :func:`analysis.models.checkpoints.find` takes it, or what `analysis.load` read of files.
    out
        The folder for ``index.html`` and ``report.json``: a new or empty one, or that of an earlier report.
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

    Returns
    -------
    Path
        The page.

    Raises
    ------
    NotFound
        If the model is not there; nothing stands in for it.
    ValueError
        If its family is not read, no text is long enough, or a number means nothing.
    Refused
        If the folder holds what is no report.
    MemoryError
        If a layer, or the whole model that is to run, does not fit.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = report("gpt2-mini", out=folder, weights_only=True)
    ...     "preferred positions" in page.read_text(encoding="utf-8").lower()
    True
    """
    for name, value, least in (("seeds", seeds, 1), ("longest", longest, SHORTEST)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    checkpoint = _files_of(model)
    read = model if isinstance(model, Model) else load(checkpoint)
    with claim_folder(out, KIND) as folder:
        measured = measure_parameters(checkpoint, read, show=show)
        if weights_only:
            measured.not_run = "only its weights were asked for"
        else:
            passages = bundled_texts.passages(count=count, source=texts)
            _run(measured, checkpoint, passages, folder, longest=longest, seeds=seeds, device=device, show=show)
        write_report(measured, folder, book)
        state.remove(folder)
    return Path(out) / "index.html"


def _files_of(model: str | Path | Model) -> Checkpoint:
    """Return where a model's files are."""
    if not isinstance(model, Model):
        checkpoint = checkpoints.find(str(model))
    elif model.checkpoint is None:
        raise ValueError(
            "model is a module in memory: save it with its tokenizer (save_pretrained), and give the folder"
        )
    else:
        checkpoint = model.checkpoint
    if checkpoint.stands_in_for:
        raise checkpoints.NotFound(
            f"the model {checkpoint.stands_in_for!r} is not here; give its folder, or ask for a report on "
            f"{checkpoint.name}, which stands in for it"
        )
    return checkpoint


def _run(
    measured: Measurement,
    checkpoint: Checkpoint,
    passages: Sequence[str],
    folder: Path,
    *,
    longest: int,
    seeds: int,
    device: torch.device | str,
    show: bool,
) -> None:
    """Measure what a model does on texts, or say why it was not run."""
    tokenizer, model, measured.not_run = _load(checkpoint, device)
    if model is None:
        return
    limit = min(longest, getattr(model.config, "max_position_embeddings", None) or longest)
    ids = tokenise(tokenizer, passages, limit)
    settings = {"seeds": seeds, "longest": longest, "device": str(torch.device(device).type)}
    progress = state.State(folder, state.identity(checkpoint.provenance(), [i[0].tolist() for i in ids], settings))
    try:
        observe(measured, model, load(model), [i.to(device) for i in ids], progress, seeds=seeds, show=show)
        measured.maps = draw_maps(model, ids[0][:, :PICTURE].to(device))
        measured.tokens = tokenizer.convert_ids_to_tokens(ids[0][0, :PICTURE].tolist())
    except ValueError as error:
        measured.not_run, measured.trained = str(error), None


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
