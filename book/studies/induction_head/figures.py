"""Figures and tables of the chapter on the induction head. Arrays in, a figure or a table out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.plotting import style

CELL = "padding: 0.15em 0.5em; text-align: right"
CAPTION = "caption-side: top; text-align: left; color: inherit; white-space: nowrap"
PAIR = (
    "display: flex; flex-wrap: wrap; gap: 1rem 2rem; align-items: flex-start; overflow-x: auto; font-size: 0.85em; "
    "margin-bottom: 1.2rem"
)


@dataclass(frozen=True)
class Compared:
    """A printed and a recomputed table side by side; cells that differ are marked. Shown as HTML, or in words."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    printed: np.ndarray
    computed: np.ndarray

    @property
    def differing(self) -> list[tuple[str, str, float, float]]:
        """Return row, column, printed and computed value of each cell that differs by more than rounding."""
        return [
            (f"{self.rows[i]} {i}", self.columns[j], self.printed[i, j], self.computed[i, j])
            for i, j in np.argwhere(np.abs(self.printed - self.computed) > 1e-9)
        ]

    def __repr__(self) -> str:
        cells = "; ".join(f"row {r}, column {c}: printed {p:g}, computed {v:g}" for r, c, p, v in self.differing)
        count = len(self.differing)
        said = "1 cell differs" if count == 1 else f"{count} cells differ"
        return f"{self.title}: {said}{': ' if cells else ''}{cells}"

    def _repr_html_(self) -> str:
        count = len(self.differing)
        said = ("no cell differs", "1 cell differs, marked", f"{count} cells differ, marked")[min(count, 2)]
        both = self._table(f"{self.title}, printed", self.printed, False) + self._table(
            f"{self.title}, recomputed: {said}", self.computed, True
        )
        return f'<div style="{PAIR}">{both}</div>'

    def _table(self, caption: str, values: np.ndarray, mark: bool) -> str:
        head = "".join(f'<th scope="col" style="{CELL}">{escape(c)}</th>' for c in self.columns)
        body = ""
        for i, row in enumerate(values):
            cells = "".join(f'<td style="{CELL}">{self._cell(i, j, mark)}</td>' for j in range(len(row)))
            body += f'<tr><th scope="row">{escape(self.rows[i])} <small>{i}</small></th>{cells}</tr>'
        return (
            f'<table><caption style="{CAPTION}">{escape(caption)}</caption>'
            f'<thead><tr><th scope="col">token</th>{head}</tr></thead><tbody>{body}</tbody></table>'
        )

    def _cell(self, i: int, j: int, mark: bool) -> str:
        value = (self.computed if mark else self.printed)[i, j]
        text = f"{value:.2f}".rstrip("0").rstrip(".")
        differs = mark and abs(self.printed[i, j] - self.computed[i, j]) > 1e-9
        return f"<mark><strong>{text}</strong></mark>" if differs else text


@style.in_style
def matrices(named: Mapping[str, np.ndarray], *, ax: style.Panels | None = None) -> Figure:
    """Draw the six matrices of the hand-built head: what each layer scores, copies and keeps."""
    figure, axes = style.panels(ax, 2, 3, size="wide", sharex=True, sharey=True)
    for panel, (name, matrix) in zip(axes.flat, named.items(), strict=True):
        image = panel.imshow(matrix, cmap=style.SCORE_CMAP, norm=style.centred(matrix))
        half = len(matrix) / 2 - 0.5
        panel.axhline(half, color=style.COLOURS["muted"])
        panel.axvline(half, color=style.COLOURS["muted"])
        panel.set(
            title=name,
            xticks=[half / 2, half * 3 / 2],
            yticks=[half / 2, half * 3 / 2],
            xticklabels=["token", "position"],
            yticklabels=["token", "position"],
        )
        figure.colorbar(image, ax=panel, ticks=sorted({matrix.min(), 0.0, matrix.max()}))
    return figure


@style.in_style
def attention_rows(
    rows: Mapping[str, tuple[Sequence[str], np.ndarray, np.ndarray]], *, ax: style.Panels | None = None
) -> Figure:
    """Draw single rows of layer-2 attention as bars: for each title, the tokens, the weights, the marked keys."""
    figure, [axes] = style.panels(ax, 1, len(rows), sharey=True)
    for panel, (title, (tokens, weights, marked)) in zip(axes, rows.items(), strict=True):
        colours = [style.COLOURS["highlight" if m else "uniform"] for m in marked]
        panel.bar(np.arange(len(tokens)), weights, color=colours)
        panel.set(title=title, xticks=np.arange(len(tokens)), xticklabels=tokens, xlabel="key", ylim=(0, 1.02))
    axes[0].set(ylabel="attention of the last token")
    return figure


@style.in_style
def sharpness(
    beta: np.ndarray,
    curves: Mapping[int, np.ndarray],
    measured: Mapping[int, tuple[np.ndarray, np.ndarray]],
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw the attention that one match gets: closed form as lines, one per number of keys, measured as points."""
    figure, [[panel]] = style.panels(ax, 1, 1, size="wide")
    for keys, mass in curves.items():
        (line,) = panel.plot(beta, mass, label=f"{keys:,} keys")
        panel.plot(*measured[keys], "o", color=line.get_color())
    panel.set(xlabel=r"sharpness $\beta$ (nats)", ylabel="attention to the one match", ylim=(0, 1.02))
    panel.legend(loc="lower right")
    return figure


@style.in_style
def training(runs: Mapping[str, Mapping[str, np.ndarray]], chance: float, *, ax: style.Panels | None = None) -> Figure:
    """Draw losses, prefix matching, copying and attention to the previous token over training, a line per run.

    The runs of two layers have one colour; that of a single layer, ``one-layer``, another.
    """
    figure, axes = style.panels(ax, 2, 2, size="tall", sharex=True)
    loss, prefix, copied, previous = axes.flat
    labels = {"two layers": "trained", "one layer": "control"}
    for name, run in runs.items():
        label = "one layer" if name == "one-layer" else "two layers"
        step, colour = run["step"], style.COLOURS[labels[label]]
        loss.plot(step, run["repeated"], color=colour, label=label)
        loss.plot(step, run["new"], ":", color=colour)
        last = run["prefix"].shape[1] - 1
        for head in range(run["prefix"].shape[2]):
            prefix.plot(step, run["prefix"][:, last, head], color=colour, alpha=0.6)
            copied.plot(step, run["copying"][:, last, head], color=colour, alpha=0.6)
            previous.plot(step, run["previous"][:, 0, head], color=colour, alpha=0.6)
    loss.axhline(chance, linestyle="--", color=style.COLOURS["ink"])
    loss.set(title="loss: repeats (solid), new tokens (dotted)", ylabel="nats per token", ylim=(0, None))
    handles = dict(zip(*reversed(loss.get_legend_handles_labels()), strict=True))
    loss.legend(handles.values(), handles.keys(), loc="lower right", bbox_to_anchor=(1, 0.12))
    prefix.set(title="prefix matching, heads of the last layer", ylim=(0, 1))
    copied.set(title="copying, heads of the last layer", xlabel="step", ylim=(0, 1))
    previous.set(title="attention to the previous token, layer 0", xlabel="step", ylim=(0, 1))
    return figure


@style.in_style
def learned(runs: Mapping[str, Mapping[str, np.ndarray]], *, ax: style.Panels | None = None) -> Figure:
    """Draw the loss on repeats and the best head's prefix matching over training; the run of one layer in grey."""
    figure, [(loss, prefix)] = style.panels(ax, 1, 2, size="wide", sharex=True)
    for name, run in runs.items():
        colour = style.COLOURS["control" if name == "one-layer" else "trained"]
        loss.plot(run["step"], run["repeated"], color=colour)
        prefix.plot(run["step"], run["prefix"][:, -1].max(1), color=colour)
    single = runs["one-layer"]
    loss.annotate(
        "one layer", (single["step"][-1], single["repeated"][-1]), (0, 6), textcoords="offset points", ha="right"
    )
    double = next(run for name, run in runs.items() if name != "one-layer")
    loss.annotate(
        "two layers", (double["step"][-1], double["repeated"][-1]), (0, 6), textcoords="offset points", ha="right"
    )
    loss.set(title="Loss on letters that repeat", xlabel="training step", ylabel="nats per letter", ylim=(0, None))
    prefix.set(title="Attention to what came next", xlabel="training step", ylim=(0, 1))
    return figure


@style.in_style
def circuits(
    rows: Sequence[Mapping[str, np.ndarray]], axes_names: Sequence[tuple[str, str]], *, ax: style.Panels | None = None
) -> Figure:
    """Draw circuits built by hand, trained and untrained in the same bases: attention above, scores below.

    Each panel of scores has its own scale, centred at 0. ``axes_names`` are x and y of each row.
    """
    figure, axes = style.panels(ax, len(rows), len(rows[0]), size="tall", sharey=True)
    for panels, named, (x, y) in zip(list(axes), rows, axes_names, strict=True):
        panels[0].set(ylabel=y)
        for panel, (title, matrix) in zip(panels, named.items(), strict=True):
            if y == axes_names[0][1]:
                image = panel.imshow(matrix, cmap=style.WEIGHT_CMAP, vmin=0, vmax=1)
            else:
                image = panel.imshow(matrix, cmap=style.SCORE_CMAP, norm=style.centred(matrix))
            panel.set(title=title, xlabel=x)
            panel.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            panel.yaxis.set_major_locator(MaxNLocator(4, integer=True))
            figure.colorbar(image, ax=panel, orientation="horizontal", ticks=MaxNLocator(3))
    return style.many_marks(figure)


@style.in_style
def ablations(losses: Mapping[str, float], whole: float, chance: float, *, ax: style.Panels | None = None) -> Figure:
    """Draw the loss on repeated tokens with heads switched off, beside the whole model and chance."""
    figure, [[panel]] = style.panels(ax, 1, 1, size="wide")
    place = np.arange(len(losses))
    panel.barh(place, list(losses.values()), color=style.COLOURS["trained"])
    panel.axvline(whole, color=style.COLOURS["ink"], label="whole model")
    panel.axvline(chance, linestyle="--", color=style.COLOURS["ink"], label="chance, log vocabulary")
    panel.set(yticks=place, yticklabels=list(losses), xlabel="loss on repeated tokens (nats)")
    panel.invert_yaxis()
    panel.legend(loc="upper center")
    return figure
