"""Making a report: find the model, measure it, write the page and its numbers."""

import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.device import describe_run
from analysis.core.files import claim_folder, write_atomically
from analysis.data import sounds
from analysis.data import texts as bundled_texts
from analysis.maps import gates
from analysis.maps.sinks import find_sink
from analysis.models import pretrained, sound_models
from analysis.models.checkpoints import Checkpoint, NotFound, find
from analysis.models.files import MissingTensor
from analysis.models.reading import AnyModel, Model, load
from analysis.plotting import style
from analysis.plotting.attention_viewer import AttentionViewer
from analysis.reporting import state
from analysis.reporting.comparison import compare, measure_heads
from analysis.reporting.measurement import (
    BESIDE,
    PICTURE,
    SEEDS,
    Measurement,
    SinkKeys,
    measure_parameters,
    observe,
    to_json,
)
from analysis.reporting.observations import tokenise
from analysis.reporting.page import render
from analysis.reporting.sections import make_sections
from analysis.reporting.summary import statements
from analysis.surveys.layer_runs import visit_layers

LONGEST = 128
"""Tokens of a text, at most: gates are read in maps of so many rows."""
SHORTEST = 8
"""The least that `longest` may be: gates need so many rows."""
KIND = "report"
FILES = ("index.html", "report.json", "heads.csv", "heads-beside.csv")
"""All that a report may write; the last two only where a model was run."""
VIEWED = 150_000
"""Cells of the maps to look through: more make a page heavy."""


def report(
    model: AnyModel,
    *,
    out: str | Path,
    texts: str | Path | None = None,
    count: int | None = None,
    seeds: int = SEEDS,
    longest: int = LONGEST,
    weights_only: bool = False,
    device: torch.device | str = "cpu",
    beside: AnyModel | None = None,
    book: str | None = None,
    show: bool = False,
    command: str = "",
) -> Path:
    """Write a report on a model: one page of HTML that opens anywhere, and the same numbers as JSON.

    What was measured so far lies beside it until it is written, so an interrupted report goes on where it was.

    Parameters
    ----------
    model
        A model as `load` takes it.
    out
        The folder for ``index.html`` and ``report.json``: a new or empty one, or that of an earlier report.
    texts
        A text file or a folder of them; default: the bundled passages. Of a Whisper, whose encoder is run on sounds, a
        WAV file or a folder of them (`sounds.read`); default: sounds that are made, none of them speech, which the
        page says.
    count
        How many of them are read; default: all.
    seeds
        Random seeds per control level; at least 3 to compare.
    longest
        Tokens of a text, at most.
    weights_only
        Do not run the model.
    beside
        Another model or another checkpoint, as ``model``, that reads the same texts and stands beside it on the page.
    book
        Where the book's pages lie, for links: an address, or a path relative to the page; default: no links, so that
        the page can be sent to somebody who has no book.
    show
        Show progress and skipped steps.
    command
        What the page says that it was made by; default: the call of this function.

    Raises
    ------
    NotFound
        If the model is not there; nothing stands in for it.
    ValueError
        If its family is not read, no text is long enough, or a number means nothing.
    Refused
        If the folder holds what is not a report.
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
    models = [model] if beside is None else [model, beside]
    with ExitStack() as stack:
        checkpoints = [stack.enter_context(files_of(each)) for each in models]
        of_sound = sound_models.reads_sound(checkpoints[0])
        if any(sound_models.reads_sound(each) != of_sound for each in checkpoints):
            raise ValueError("beside must read texts or sounds as model does: they are run on the same ones")
        passages = [] if weights_only else _find_inputs(texts, count, of_sound=of_sound)
        folder = stack.enter_context(claim_folder(out, KIND, FILES))
        began, each = time.monotonic(), []
        for checkpoint, given in zip(checkpoints, models, strict=True):
            measured = measure_parameters(
                checkpoint, given if isinstance(given, Model) else load(checkpoint), show=show
            )  # what was read of its files is let go before the model runs
            if weights_only:
                measured.not_run = "only its weights were asked for"
            else:
                measured = _run(
                    measured, checkpoint, passages, folder, longest=longest, seeds=seeds, device=device, show=show
                )
            _tell(measured, show)
            each.append(measured)
        second = "" if beside is None else f", beside={checkpoints[1].name!r}"
        command = command or f"analysis.report({checkpoints[0].name!r}, seeds={seeds}, longest={longest}{second})"
        run = describe_run(torch.device(device), time.monotonic() - began, command)
        each[0].provenance = _provenance(run, passages, texts, seeds)
        if of_sound and passages:
            for measured in each:
                measured.sounds = _say_sounds(passages, texts, longest)
        write_report(*each, out=folder, book=book)
        state.remove(folder)
    return Path(out) / "index.html"


def _find_inputs(
    source: str | Path | None, count: int | None, *, of_sound: bool
) -> Sequence[str] | Sequence[sounds.Sound]:
    """Return the texts or the sounds that models read."""
    if not of_sound:
        return bundled_texts.passages(count=count, source=source)
    if count is not None and count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    return sounds.make(count or sounds.COUNT) if source is None else sounds.read(source)[:count]


def _say_sounds(given: Sequence[sounds.Sound], source: str | Path | None, longest: int) -> str:
    """Describe what stood in for texts, which is not speech."""
    seconds = min(max(map(len, given)), longest * sound_models.SAMPLES) / sound_models.RATE
    what = (
        f"No recording comes with the package, so the encoder was given {len(given)} sounds that were made: "
        "pitches that rise, clicks, buzzes with the resonances of vowels, and noise. None is speech. On speech it may "
        "do other things."
        if source is None
        else f"The encoder was given recordings from {source}, {len(given)} in number."
    )
    return (
        f"{what} It was given at most {seconds:.1f} s of each, and not the 30 s that it was trained on. Below, a text "
        "is such a sound, and a token is 20 ms of it."
    )


def _provenance(
    run: dict[str, Any], passages: Sequence[str] | Sequence[sounds.Sound], given: str | Path | None, seeds: int
) -> dict[str, str]:
    """Describe what repeats a report, in words for a table."""
    rows = {
        "Command": str(run["command"]),
        "Versions": ", ".join(f"{name} {version}" for name, version in run["versions"].items()),
        "Computed on": f"{run['device']}, in {run['seconds']:.0f} s",
    }
    if not passages:
        return rows
    if isinstance(passages[0], str):
        digest, source = bundled_texts.digest(json.dumps(list(passages))), given or "the bundled passages"
        rows["Texts"] = f"{len(passages)} from {source}; sha256 of their JSON {digest}"
        rows["Seeds"] = f"0 to {seeds - 1} of each control; 0 of the random tokens"
    else:
        source = f"from {given}" if given else "made by analysis.data.sounds"
        rows["Sounds"] = f"{len(passages)} {source}; sha256 of their samples {sounds.digest(passages)}"
        rows["Seeds"] = f"0 to {seeds - 1} of each control"
    return rows


def _tell(measured: Measurement, show: bool) -> None:
    """Say on the terminal what was left out, and why."""
    left_out = {
        "not run": measured.not_run,
        "lengths": measured.lengths,
        "scores not split into parts": measured.not_split,
    }
    for what, why in left_out.items():
        if show and why:
            print(f"{measured.about['Model']}: {what}: {why}", file=sys.stderr)


@contextmanager
def files_of(model: AnyModel) -> Iterator[Checkpoint]:
    """Give a model's files; a module in memory is written into a temporary folder, with its tokenizer if it has one."""
    read = load(model)
    if read.checkpoint is not None:
        yield read.checkpoint
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, type(read.module).__name__)
        read.module.save_pretrained(place)
        with suppress(ValueError):
            read.tokenizer.save_pretrained(place)
        yield find(place)


def _run(
    measured: Measurement,
    checkpoint: Checkpoint,
    passages: Sequence[str] | Sequence[sounds.Sound],
    folder: Path,
    *,
    longest: int,
    seeds: int,
    device: torch.device | str,
    show: bool,
) -> Measurement:
    """Add what a model does on texts: all of it, or, where that cannot be measured, none of it and why."""
    first, (tokenizer, model, reason) = None, _load(checkpoint, device)
    if model is None:
        return replace(measured, not_run=reason)
    if tokenizer is None:
        limit = min(longest, model.config.max_source_positions)
        ids = sound_models.frames_of(passages, model.config.num_mel_bins, limit)
        ids = [sound for sound in ids if sound.shape[-1] >= 2 * gates.SHORTEST]
        if not ids:
            raise ValueError(f"none of the {len(passages)} sounds has {gates.SHORTEST} positions of 20 ms or more")
        if short := len(passages) - len(ids):
            measured.lengths = f"{short} of {len(passages)} sounds {'is' if short == 1 else 'are'} too short to be read"
        pictured = ids[0][..., : 2 * PICTURE]
        names = [sound_models.name_positions(sound.shape[-1] // 2) for sound in ids[:BESIDE]]
    else:
        room = load(model).room
        given = tokenise(tokenizer, passages, min(longest, room or longest), model.config.vocab_size)
        ids, limit, first, measured.lengths = given.ids, given.longest, given.first, given.lengths()
        pictured = ids[0][:, :PICTURE]
        names = [name_tokens(tokenizer, text[0].tolist()) for text in ids[:BESIDE]]
    settings = {"seeds": seeds, "longest": longest, "first": first, "device": str(torch.device(device).type)}
    progress = state.State(folder, state.identity(checkpoint.provenance(), [i[0].tolist() for i in ids], settings))
    seen = replace(measured, controls={})
    try:
        texts = [i.to(device) for i in ids]
        observe(seen, model, texts, progress, seeds=seeds, longest=limit, first=first, show=show)
        seen.maps = draw_maps(model, pictured.to(device))
        seen.tokens = names[0][: seen.maps.shape[-1]]
        seen.sinks = find_sinks(model, texts[:BESIDE], names)
    except ValueError as error:
        return replace(measured, not_run=str(error))
    return seen


def _load(checkpoint: Checkpoint, device: torch.device | str) -> tuple[Any, torch.nn.Module | None, str]:
    """Return tokenizer and model; without a model, why it cannot be run; without a tokenizer, one of sound."""
    try:
        if sound_models.reads_sound(checkpoint):
            return None, sound_models.load_sound_encoder(checkpoint, device=device, controls=1), ""
        tokenizer = pretrained.tokenizer(checkpoint)
        model = pretrained.load(checkpoint, dtype=None, device=device, controls=1)
        pretrained.check_reads_text(load(model))
        return tokenizer, model, ""
    except (NotFound, MissingTensor, MemoryError) as error:
        return None, None, str(error)


def name_tokens(tokenizer, ids: Sequence[int]) -> list[str]:
    """Name tokens as one reads them: a blank before a word is a middle dot, what is not a whole letter stays coded.

    >>> tokenizer = pretrained.tokenizer("gpt2-mini")
    >>> name_tokens(tokenizer, tokenizer("If the name is")["input_ids"])
    ['If', '·the', '·name', '·is']
    """
    coded = tokenizer.convert_ids_to_tokens(list(ids))
    plain = [tokenizer.decode([number], clean_up_tokenization_spaces=False) for number in ids]
    readable = [
        code.replace("▁", " ") if "▁" in code or not text or "\N{REPLACEMENT CHARACTER}" in text else text
        for text, code in zip(plain, coded, strict=True)
    ]
    return [text.replace(" ", "·").replace("\n", "↵").replace("\t", "→") for text in readable]


def draw_maps(model: AnyModel, ids: Tensor) -> Float[np.ndarray, "layer head query key"]:
    """Return the maps of one text."""
    return torch.stack(_read_maps(model, ids, lambda maps: maps)).numpy()


def find_sinks(model: AnyModel, texts: Sequence[Tensor], names: Sequence[Sequence[str]]) -> SinkKeys:
    """Return which key gets most in each head on each text, and the name of what stands there."""
    positions = [
        torch.stack(_read_maps(model, ids, lambda maps: find_sink(maps).key)).numpy()  # of a layer at a time
        for ids in texts
    ]
    tokens = [np.array(of)[places] for of, places in zip(names, positions, strict=True)]
    return SinkKeys(np.stack(positions), np.stack(tokens))


def _read_maps(model: AnyModel, ids: Tensor, read: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """Return what is read of the maps of each layer on one text."""
    found: dict[int, Tensor] = {}
    visit_layers(model, ids, lambda seen: found.update({seen.number: read(seen.attention).cpu()}))
    return [found[number] for number in sorted(found)]


def make_viewer(measured: Measurement) -> AttentionViewer | None:
    """Return the maps of the text to look through, of as many tokens as a page can carry; none if too few fit."""
    maps, tokens = measured.maps, measured.tokens
    shown = min(len(tokens), int((VIEWED / (maps.shape[0] * maps.shape[1])) ** 0.5))
    if shown < gates.SHORTEST:
        return None
    maps = torch.from_numpy(maps[..., :shown, :shown])
    maps = maps / maps.sum(-1, keepdim=True)  # of the tokens shown, where later ones were cut off
    read = [gates.read_gates(of, causal=measured.causal) for of in maps]
    cells, scores = (np.stack([getattr(of, name).cpu().numpy() for of in read]) for name in ("cells", "scores"))
    label = "Attention maps of one text"
    return AttentionViewer(maps.numpy(), tokens[:shown], cells=cells, scores=scores, order=gates.GATES, label=label)


@style.in_style
def write_report(measured: Measurement, other: Measurement | None = None, *, out: Path, book: str | None) -> None:
    """Write the page, its numbers and a table of heads, each first under a temporary name; another model beside it."""
    if measured.maps is not None:
        measured.viewer = make_viewer(measured)
    numbers = to_json(measured) | {"unusual": [str(said) for said in statements(measured, compare(measured))]}
    names = {"heads.csv": measured} | ({} if other is None else {"heads-beside.csv": other})
    files = {name: heads_table(of) for name, of in names.items() if of.beside is not None}
    if other is not None:
        said = [str(said) for said in statements(other, compare(other))]
        numbers["beside_model"] = to_json(other) | {"unusual": said}
    # Without indentation, which more than doubles a file of many short lists, and the page that carries it.
    files["report.json"] = json.dumps(numbers, ensure_ascii=False) + "\n"
    seeds = len(next(iter(measured.controls.values()), []))
    lead = "Every number on this page is also in report.json, which the page carries."
    if measured.trained is not None:
        lengths = f" ({measured.lengths})" if measured.lengths else ""
        lead += (
            f" The model read {measured.trained.texts} "
            f"{'sounds' if measured.sounds else 'texts'}{lengths}. The first {measured.beside.texts} of them were also "
            f"read by its controls, {seeds} networks of each kind: random weights, "
            "random weights as large as the trained ones, and the trained weights with the entries of each matrix in "
            "random order. What the model shares with them, training did not make. "
            "Distances are counted in spreads, the standard deviation of one more seed."
        )
    page = render(f"A report on {measured.about['Model']}", lead, make_sections(measured, other), book, files)
    for name, text in files.items():
        write_atomically(out / name, text)
    write_atomically(out / "index.html", page)
    for name in set(FILES) - {*files, "index.html"}:  # of an earlier report, maybe on another model
        (out / name).unlink(missing_ok=True)


def heads_table(measured: Measurement) -> str:
    """Return one row per head as CSV: what each does on the texts that the controls read, and the most in a control."""
    numbers = measure_heads(measured.beside)
    controls = [measure_heads(of) for level in measured.controls.values() for of in level]
    most = {name: max((float(of[name].max()) for of in controls), default=math.nan) for name in numbers}
    lines = [["layer", "head", *(part for name in numbers for part in (name, f"most {name} in a control"))]]
    for layer, head in np.ndindex(next(iter(numbers.values())).shape):
        cells = (f"{value:.6g}" for name, of in numbers.items() for value in (of[layer, head], most[name]))
        lines.append([str(layer), str(head), *cells])
    return "\n".join(",".join(line) for line in lines) + "\n"
