"""Figures that the page on the data of the variant classifier draws. Arrays in, a figure out."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from analysis.plotting import style
from book.studies.shared.layer_lines import Line, lines, over_units

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
    right.set(xlabel="letters", title="sequences of each length (%)")
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
    figure.legend(loc="outside lower center", ncols=len(groups), title="training and test have no common")
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
