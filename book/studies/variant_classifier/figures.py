"""Figures of the chapter on the variant classifier. Arrays in, a figure out."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from scipy.stats import norm

from analysis.plotting import style
from book.studies.shared.layer_lines import Line, lines, name_ends, over_units

PRETRAINING = {"pre-trained": ("trained", "-"), "control": ("control", "-"), "before the classes": ("muted", ":")}
"""Concept and dashes of the curves beside the three seeds without pre-training."""


@style.in_style
def leak(
    classes: Sequence[str],
    phases: np.ndarray,
    lengths: Sequence[int],
    counts: np.ndarray,
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw the phase of the words along the gene in each class, ``(class, place)``, and how long its sequences are.

    The title counts the classes that no other one shares a length with.
    """
    figure, [(left, right)] = style.panels(ax, 1, 2, width_ratios=[3, 2], sharey=True)
    image = left.imshow(phases, aspect="auto", cmap=style.WEIGHT_CMAP, vmin=0, vmax=8, interpolation="nearest")
    left.set_yticks(range(len(classes)), classes)
    left.set(xlabel="word along the gene", title="letters by which words are shifted")
    figure.colorbar(image, ax=left, label="letters", location="left", shrink=0.8)
    shares = 100 * counts / counts.sum(1, keepdims=True)
    right.imshow(shares, aspect="auto", cmap=style.WEIGHT_CMAP, vmin=0, vmax=100)
    right.set_xticks(range(len(lengths)), [str(n) for n in lengths], rotation="vertical")
    right.set(xlabel="letters", title="length of the sequence")
    own = int(((counts > 0) & ((counts > 0).sum(0) == 1)).any(1).sum())
    figure.suptitle(f"{own} of {len(classes)} variants have a length that no other has.")
    for (i, j), share in np.ndenumerate(shares):
        if share >= 1:
            right.text(
                j, i, f"{share:.0f}", ha="center", va="center", color=style.COLOURS["ink"] if share > 60 else "white"
            )
    return style.many_marks(figure)


@style.in_style
def accuracies(
    rows: Mapping[str, Sequence[tuple[float, float, float]]],
    groups: Sequence[str],
    highlight: Sequence[str] = (),
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw accuracies with intervals: a line a classifier, a mark a group; highlighted ones in the trained colour.

    The title counts the classifiers that are always right, whatever is kept apart.
    """
    figure, [[axes]] = style.panels(ax, 1, 1, size="wide")
    markers = "osD^vP"
    for i, (name, values) in enumerate(rows.items()):
        concept = "trained" if name in highlight else "ink"
        for j, (value, low, high) in enumerate(values):
            y = i + (j - (len(values) - 1) / 2) * 0.22
            axes.plot([100 * low, 100 * high], [y, y], color=style.COLOURS[concept])
            axes.plot(100 * value, y, markers[j], color=style.COLOURS[concept], label=groups[j] if i == 0 else None)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    right = sum(all(value == 1 for value, _, _ in values) for values in rows.values())
    axes.set(xlabel="accuracy (%)", xlim=(0, 102), title=f"{right} of {len(rows)} ways are always right.")
    figure.legend(loc="outside lower center", ncols=len(groups), title="tested on another")
    return figure


@style.in_style
def training(
    losses: np.ndarray, steps: np.ndarray, validation: np.ndarray, *, ax: style.Panels | None = None
) -> Figure:
    """Draw the loss (mean of 10 batches) and the validation accuracy over training, one line per seed."""
    figure, [(left, right)] = style.panels(ax, 1, 2)
    for seed, (loss, step, share) in enumerate(zip(losses, steps, validation, strict=True)):
        smooth = loss[: len(loss) // 10 * 10].reshape(-1, 10).mean(1)
        left.plot(
            np.arange(5, 10 * len(smooth), 10),
            smooth,
            style.SEEDS[seed % 3],
            color=style.COLOURS["trained"],
            label=f"seed {seed}",
        )
        right.plot(step, 100 * share, style.SEEDS[seed % 3], marker="o", color=style.COLOURS["trained"])
    left.axhline(np.log(8), color=style.COLOURS["muted"], label="ln 8, chance")
    right.axhline(100 / 8, color=style.COLOURS["muted"])
    left.set(xlabel="updates", ylabel="loss (nats)", ylim=(0, None))
    right.set(xlabel="updates", ylabel="validation accuracy (%)", ylim=(0, 103))
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


@style.in_style
def full_size(
    losses: np.ndarray,
    updates: int,
    steps: np.ndarray,
    shares: Mapping[str, np.ndarray],
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw the mean and the largest loss ``(statistic, piece)`` of one training, and shares ``(look,)`` by name."""
    figure, [(left, right)] = style.panels(ax, 1, 2)
    middle = (np.arange(losses.shape[1]) + 0.5) * updates / losses.shape[1]
    for values, name, dash in zip(losses, ("mean", "largest"), ("-", ":"), strict=True):
        left.semilogy(middle, values, dash, color=style.COLOURS["trained"], label=f"{name} loss")
    left.axhline(np.log(8), color=style.COLOURS["muted"], label="ln 8, chance")
    for (name, values), (concept, dash) in zip(
        shares.items(), (("trained", "-"), ("ink", "--"), ("ink", ":")), strict=True
    ):
        right.plot(steps, values, dash, marker="o", color=style.COLOURS[concept], label=name)
    left.set(xlabel="updates", ylabel="loss (nats)")
    right.set(xlabel="updates", ylabel="share, or length", ylim=(0, 1.05))
    for panel in (left, right):
        panel.legend()
    return figure


@style.in_style
def percentages(
    tables: Mapping[str, np.ndarray], columns: Sequence[str], rows: Sequence[str], *, ax: style.Panels | None = None
) -> Figure:
    """Draw tables of shares ``(row, column)`` in per cent, a panel each; accuracy by class and set, confusions."""
    figure, axes = style.panels(ax, 1, len(tables), sharey=True)
    for panel, (title, table) in zip(axes[0], tables.items(), strict=True):
        panel.imshow(100 * table, aspect="auto", cmap=style.WEIGHT_CMAP, vmin=0, vmax=100)
        for (i, j), share in np.ndenumerate(table):
            panel.text(
                j,
                i,
                f"{100 * share:.0f}",
                ha="center",
                va="center",
                color=style.COLOURS["ink"] if share > 0.6 else "white",
            )
        panel.set_xticks(range(len(columns)), columns, rotation="vertical")
        panel.set_yticks(range(len(rows)), rows)
        panel.set(title=title)
    return figure


@style.in_style
def emergence(
    steps: np.ndarray,
    panels: Mapping[str, np.ndarray],
    gates: Mapping[str, np.ndarray],
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw what appears when, a line style a seed: curves ``(seed, look, layer)`` by name.

    Of the layers in ``panels`` four are drawn, first and last among them; of each of the ``gates`` the mean.
    """
    figure, [axes] = style.panels(ax, 1, len(panels) + 1)
    some = np.unique(np.linspace(0, next(iter(panels.values())).shape[-1] - 1, 4).round().astype(int))
    shades = colormaps[style.WEIGHT_CMAP](np.linspace(0, 0.9, len(some)))
    for panel, (title, values) in zip(axes[:-1], panels.items(), strict=True):
        for seed, curves in enumerate(values):
            for layer, shade in zip(some, shades, strict=True):
                panel.plot(
                    steps[seed],
                    curves[:, layer],
                    style.SEEDS[seed % 3],
                    color=shade,
                    label=f"layer {layer}" if seed == 0 else None,
                )
        panel.set(title=title, xlabel="updates")
    for name, shares in gates.items():
        for seed, curve in enumerate(shares.mean(2)):
            axes[-1].plot(
                steps[seed],
                100 * curve,
                style.SEEDS[seed % 3],
                color=style.GATES[name],
                label=name if seed == 0 else None,
            )
    axes[-1].set(title="gates (%)", xlabel="updates")
    handles = axes[0].get_legend_handles_labels()[0] + axes[-1].get_legend_handles_labels()[0]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


@style.in_style
def pretraining(
    panels: Mapping[str, Mapping[str, np.ndarray]], ylabels: Sequence[str], *, ax: style.Panels | None = None
) -> Figure:
    """Draw what a pre-training changes: curves over layers by panel and model, with intervals over sequences.

    Each curve is ``(sequence, layer)``, or ``(layer,)`` where there is only one value; the models are those of
    :data:`PRETRAINING` and ``seed 0``, ``seed 1``, ..., which look the same and have one label.
    """
    return lines(
        {
            title: [_pretraining_line(name, values) for name, values in curves.items()]
            for title, curves in panels.items()
        },
        list(ylabels),
        ax=ax,
    )


def _pretraining_line(name: str, values: np.ndarray) -> Line:
    concept, dashes = PRETRAINING.get(name, ("ink", "--"))
    label = {"seed 0": "three seeds, not"}.get(name, name if name in PRETRAINING else None)
    return Line(over_units(values) if values.ndim == 2 else values, concept, label, dashes)


@style.in_style
def beside_control(
    rows: Mapping[str, Mapping[str, Mapping[str, np.ndarray]]],
    xlabel: str,
    *,
    level: tuple[float, str] | None = None,
    bell: bool = False,
    logarithmic: bool = False,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw how numbers are spread, by model and by what they are of; a control stands in grey in the same panel.

    Parameters
    ----------
    rows
        By model, then by the title of a panel, then by concept (``"control"``, ``"trained"``), the numbers. All panels
        share one scale, so that they can be compared; what lies beyond it is drawn at its end.
    level
        A number that is marked in all panels, and what it is.
    bell
        Whether to draw the density of a standard Gaussian, and densities in place of shares.
    """
    figure, axes = style.panels(
        ax,
        len(rows),
        len(next(iter(rows.values()))),
        size="tall" if len(rows) > 1 else "wide",
        sharex=True,
        sharey=True,
    )
    every = np.concatenate([v.ravel() for row in rows.values() for panel in row.values() for v in panel.values()])
    ends = (-4, 4) if bell else (every.min(), np.quantile(every, 0.995))
    edges = (
        np.geomspace(max(every.min(), every.max() / 1e4), every.max(), 36) if logarithmic else np.linspace(*ends, 46)
    )
    for line, (model, row) in zip(axes, rows.items(), strict=True):
        for panel, (title, by_concept) in zip(line, row.items(), strict=True):
            _spread(panel, by_concept, edges, bell)
            panel.set_title(title)
            if level is not None:
                panel.axvline(level[0], color=style.COLOURS["highlight"], linestyle="--", label=level[1])
            if logarithmic:
                panel.set_xscale("log")
        line[0].set_ylabel(f"{model}\n{'density' if bell else 'share (%)'}")
    for panel in axes[-1]:
        panel.set_xlabel(xlabel)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _spread(panel: Axes, by_concept: Mapping[str, np.ndarray], edges: np.ndarray, bell: bool) -> None:
    for concept, values in by_concept.items():
        panel.hist(
            np.clip(values, edges[0], edges[-1]).ravel(),
            edges,
            weights=None if bell else np.full(values.size, 100 / values.size),
            density=bell,
            color=style.COLOURS[concept],
            alpha=0.75,
            label={"control": "random weights"}.get(concept, concept),
        )
    if bell:
        grid = np.linspace(edges[0], edges[-1], 181)
        panel.plot(grid, norm.pdf(grid), color=style.COLOURS["ink"], linewidth=1, label="bell curve")


LOOKS = {
    "fine-tuned": ("trained", "-", "o"),
    "trained": ("trained", "-", "o"),
    "before the genes": ("highlight", "-.", None),
    "random": ("control", "-", None),
    "random, as large": ("control", "--", None),
    "shuffled": ("control", ":", None),
    "the paper": ("ink", "-", "s"),
}
"""Concept, dashes and mark of each curve of :func:`by_layer`."""
"""How far apart names at the ends of curves are written, as a share of the axis."""


@style.in_style
def by_layer(
    panels: Mapping[str, Mapping[str, np.ndarray]],
    ylabel: str,
    *,
    level: tuple[float, str] | None = None,
    title: str = "",
    ax: style.Panels | None = None,
) -> Figure:
    """Draw a measure by layer, one panel per model on one scale; the name of a curve stands at its end.

    Parameters
    ----------
    panels
        By title, then by a name of :data:`LOOKS`: ``(layer, 3)``, a middle and the ends of its band.
    level
        A number that is marked in all panels, and what it is.
    title
        What they show, in a sentence.
    """
    figure, axes = style.panels(ax, 1, len(panels), sharey=True)
    figure.suptitle(title)
    for panel, (model, curves) in zip(axes[0], panels.items(), strict=True):
        for name, values in curves.items():
            concept, dashes, mark = LOOKS[name]
            middle, low, high = values.T
            layers, colour = np.arange(len(middle)), style.COLOURS[concept]
            panel.fill_between(layers, low, high, color=colour, alpha=0.2, linewidth=0)
            panel.plot(layers, middle, dashes, marker=mark, color=colour, label=name)
        if level is not None:
            panel.axhline(level[0], color=style.COLOURS["record"], linewidth=0.8)
        panel.set(title=model, xlabel="layer", xticks=layers[:: 1 if len(layers) < 8 else 2])
    axes[0, 0].set(ylabel=ylabel, ylim=(0, 1.04 * axes[0, 0].get_ylim()[1]))
    if level is not None:
        at = (1, level[0])
        axes[0, -1].annotate(level[1], at, (0, 2), ("axes fraction", "data"), "offset points", ha="right")
    for panel, curves in zip(axes[0], panels.values(), strict=True):
        last = len(next(iter(curves.values()))) - 1
        ends = {name: (values[-1, 0], style.COLOURS[LOOKS[name][0]]) for name, values in curves.items()}
        name_ends(panel, ends, last)
    return figure


@style.in_style
def maps(rows: Mapping[str, Mapping[str, np.ndarray]], *, bar: bool = True, ax: style.Panels | None = None) -> Figure:
    """Draw rows of maps by title, in multiples of an even share; queries down, keys across.

    A row has one scale: its top is what one cell in a hundred of its strongest map exceeds. ``bar`` shows it.
    """
    columns = len(next(iter(rows.values())))
    size = "strip" if len(rows) == 1 else "square"
    figure, axes = style.panels(ax, len(rows), columns, size=size)
    for line, (name, pictures) in zip(axes, rows.items(), strict=True):
        scale = PowerNorm(0.5, 0, max(np.quantile(picture, 0.99) for picture in pictures.values()))
        for panel, (title, picture) in zip(line, pictures.items(), strict=True):
            image = panel.imshow(picture, cmap=style.WEIGHT_CMAP, norm=scale, interpolation="nearest")
            panel.set(title=title, xticks=[], yticks=[])
        line[0].set_ylabel(name)
        if bar:
            figure.colorbar(image, ax=list(line), label="times an even share", shrink=0.8)
    return style.many_marks(figure)
