"""Figures of the chapter on the variant classifier. Arrays in, a figure out."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from analysis.plotting import style
from analysis.plotting.ladder import Ladder, draw_lines, spread
from analysis.plotting.layers import Line, lines, over_seeds, over_units

PRETRAINING = {"pre-trained": ("trained", "-"), "control": ("control", "-"), "before the classes": ("muted", ":")}
"""Concept and dashes of the curves beside the three seeds without pre-training."""
FAILING = {
    "control, seed 0": ("control", "-"),
    "trained, seed 0": ("trained", "-"),
    "plain rows": ("trained", ":"),
    "padding in": ("trained", "--"),
}
"""Concept and dashes of the curves of one seed: rows as they are, without gain and bias, and with padding."""


def leak(classes: Sequence[str], phases: np.ndarray, lengths: Sequence[int], counts: np.ndarray) -> Figure:
    """Draw the phase of the words along the gene in each class, ``(class, place)``, and how long its sequences are."""
    figure, (left, right) = style.new(1, 2, width_ratios=[3, 2], sharey=True)
    image = left.imshow(phases, aspect="auto", cmap=style.WEIGHT_CMAP, vmin=0, vmax=8, interpolation="nearest")
    left.set_yticks(range(len(classes)), classes)
    left.set(xlabel="word along the gene", title="phase of the words")
    figure.colorbar(image, ax=left, label="bases", location="left", shrink=0.8)
    shares = 100 * counts / counts.sum(1, keepdims=True)
    right.imshow(shares, aspect="auto", cmap=style.WEIGHT_CMAP, vmin=0, vmax=100)
    right.set_xticks(range(len(lengths)), [str(n) for n in lengths], rotation="vertical")
    right.set(xlabel="bases", title="length of the sequence")
    for (i, j), share in np.ndenumerate(shares):
        if share >= 1:
            right.text(
                j, i, f"{share:.0f}", ha="center", va="center", color=style.COLOURS["ink"] if share > 60 else "white"
            )
    return style.many_marks(figure)


def accuracies(
    rows: Mapping[str, Sequence[tuple[float, float, float]]], groups: Sequence[str], highlight: Sequence[str] = ()
) -> Figure:
    """Draw accuracies with intervals: a line a classifier, a mark a group; highlighted ones in the trained colour."""
    figure, axes = style.new(size="wide")
    markers = "osD^vP"
    for i, (name, values) in enumerate(rows.items()):
        concept = "trained" if name in highlight else "ink"
        for j, (value, low, high) in enumerate(values):
            y = i + (j - (len(values) - 1) / 2) * 0.22
            axes.plot([100 * low, 100 * high], [y, y], color=style.COLOURS[concept])
            axes.plot(100 * value, y, markers[j], color=style.COLOURS[concept], label=groups[j] if i == 0 else None)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.set(xlabel="accuracy (%)", xlim=(0, 102))
    figure.legend(loc="outside lower center", ncols=len(groups), title="parted by")
    return figure


def training(losses: np.ndarray, steps: np.ndarray, validation: np.ndarray) -> Figure:
    """Draw the loss (mean of 10 batches) and the validation accuracy over training, one line per seed."""
    figure, (left, right) = style.new(1, 2)
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


def full_size(losses: np.ndarray, updates: int, steps: np.ndarray, shares: Mapping[str, np.ndarray]) -> Figure:
    """Draw the mean and the largest loss ``(statistic, piece)`` of one training, and shares ``(look,)`` by name."""
    figure, (left, right) = style.new(1, 2)
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


def percentages(tables: Mapping[str, np.ndarray], columns: Sequence[str], rows: Sequence[str]) -> Figure:
    """Draw tables of shares ``(row, column)`` in per cent, a panel each; accuracy by class and set, confusions."""
    figure, axes = style.new(1, len(tables), sharey=True, squeeze=False)
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


def norms(rows: Mapping[str, np.ndarray]) -> Figure:
    """Draw figure 2: norms of the rows of Q, K and V of one head, trained and control.

    ``rows`` are ``(kind, position)`` with those of X first, which are not drawn: a LayerNorm gives them one length.
    """
    figure, axes = style.new(1, 3, sharey=True)
    for i, (panel, kind) in enumerate(zip(axes, "QKV", strict=True), start=1):
        every = np.concatenate([values[i] for values in rows.values()])
        edges = np.linspace(every.min(), every.max(), 40)
        for which in ("control", "trained"):
            panel.hist(rows[which][i], edges, color=style.COLOURS[which], alpha=0.8, label=which)
        panel.set(title=f"rows of {kind}", xlabel="norm")
    axes[0].set(ylabel="rows")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def along_gene(profiles: Mapping[str, np.ndarray], marks: np.ndarray, titles: Sequence[str]) -> Figure:
    """Draw what columns give to each k-mer, ``(sequence, key)`` trained and in the control; marks stand out.

    A sequence has a panel and a scale of its own, in which the control is a line.
    """
    figure, axes = style.new(len(titles), 1, size="tall", sharex=True)
    rows = zip(profiles["trained"], profiles["control"], marks, titles, strict=True)
    for panel, (weights, untrained, marked, title) in zip(axes, rows, strict=True):
        _strip(panel, weights, marked[: len(weights)])
        panel.plot(100 * untrained, color=style.COLOURS["ink"], linewidth=0.8, label="control, all k-mers")
        panel.set_title(title, loc="left")
    axes[-1].set(xlabel="k-mer along the gene")
    figure.supylabel("share of a row's attention in columns (%)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return style.many_marks(figure)


def _strip(panel, weights: np.ndarray, marked: np.ndarray) -> None:
    keys = np.arange(len(weights))
    panel.vlines(
        keys[~marked], 0, 100 * weights[~marked], color=style.COLOURS["muted"], linewidth=0.8, label="other k-mers"
    )
    panel.vlines(
        keys[marked],
        0,
        100 * weights[marked],
        color=style.COLOURS["highlight"],
        linewidth=1.2,
        label="covers a site of its class",
    )
    panel.plot(keys[marked], np.zeros(marked.sum()), "|", color=style.COLOURS["highlight"], clip_on=False)
    panel.set(ylim=(0, None), xlim=(0, len(weights)))


def enrichment(
    panels: Mapping[str, Mapping[str, Sequence[tuple[float, float, float, float, float]]]], kinds: Sequence[str]
) -> Figure:
    """Draw by how much marked k-mers get more attention than all, with what turned marks get by chance.

    ``panels`` maps a title to concept to, for each kind of mark, ratio, its interval, and the bounds of chance.
    """
    figure, axes = style.new(1, len(panels), sharey=True, squeeze=False)
    for panel, (title, by_concept) in zip(axes[0], panels.items(), strict=True):
        panel.axvline(1, color=style.COLOURS["ink"], linewidth=0.8)
        for j, (concept, rows) in enumerate(by_concept.items()):
            for i, (ratio, low, high, least, most) in enumerate(rows):
                y = i + (j - (len(by_concept) - 1) / 2) * 0.36
                panel.plot(
                    [least, most],
                    [y, y],
                    color=style.COLOURS["uniform"],
                    linewidth=7,
                    alpha=0.5,
                    solid_capstyle="butt",
                    label="95 % of turned marks" if i == j == 0 else None,
                )
                panel.plot([low, high], [y, y], color=style.COLOURS[concept])
                panel.plot(ratio, y, "o", color=style.COLOURS[concept], label=concept if i == 0 else None)
        panel.set(title=title, xlabel="times the mean k-mer")
        panel.set_yticks(range(len(kinds)), list(kinds))
    axes[0, 0].invert_yaxis()
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def singular_values(values: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """Draw the values of figure 11, the singular values of some heads' outputs, from the largest down."""
    figure, axes = style.new(1, len(values), sharey=True)
    for panel, (title, by_model) in zip(axes, values.items(), strict=True):
        for which, marker in (("control", "s"), ("trained", "o")):
            falling = np.sort(by_model[which])[::-1]
            panel.plot(
                np.arange(1, len(falling) + 1), falling, marker, markersize=4, color=style.COLOURS[which], label=which
            )
        panel.set(title=title, xlabel="largest first", yscale="log")
    axes[0].set(ylabel=r"singular value / $\sqrt{n}$")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def emergence(steps: np.ndarray, panels: Mapping[str, np.ndarray], gates: Mapping[str, np.ndarray]) -> Figure:
    """Draw what appears when, a line style a seed: curves ``(seed, look, layer)`` by name.

    Of the layers in ``panels`` four are drawn, first and last among them; of each of the ``gates`` the mean.
    """
    figure, axes = style.new(1, len(panels) + 1)
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


def pretraining(panels: Mapping[str, Mapping[str, np.ndarray]], ylabels: Sequence[str]) -> Figure:
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
    )


def _pretraining_line(name: str, values: np.ndarray) -> Line:
    concept, dashes = PRETRAINING.get(name, ("ink", "--"))
    label = {"seed 0": "three seeds, not"}.get(name, name if name in PRETRAINING else None)
    return Line(over_units(values) if values.ndim == 2 else values, concept, label, dashes)


def failing_rows(trained: np.ndarray, control: np.ndarray, one_seed: Mapping[str, np.ndarray]) -> Figure:
    """Draw how many rows fail the test of normality, in per cent: by seed, and in one seed by the names in FAILING.

    ``trained`` and ``control`` are ``(seed, sequence, layer)``, the arrays of ``one_seed`` are ``(sequence, layer)``.
    """
    variants = [Line(over_units(values), FAILING[name][0], name, FAILING[name][1]) for name, values in one_seed.items()]
    return lines(
        {"three seeds": over_seeds(trained, control), "seed 0": variants},
        ["rows that fail (%)", ""],
        level=(5.0, "level of the test"),
    )


def nearest(panels: Mapping[str, tuple[Ladder, np.ndarray]], levels: Mapping[str, float], fine_tuned: str) -> Figure:
    """Draw measures of the fine-tuned classifier by layer, over its controls, with the start as a band of its own.

    Parameters
    ----------
    panels
        By title, the ladder and the start, ``(seed, layer)``.
    levels
        Where a panel has a horizontal line, by title.
    fine_tuned
        What the legend calls the classifier.
    """
    figure, axes = style.new(2, -(-len(panels) // 2), size="page", squeeze=False)
    for panel, (title, (ladder, start)) in zip(axes.flat, panels.items(), strict=True):
        draw_lines(panel, ladder)
        mean, low, high = spread(start).T
        panel.fill_between(np.arange(len(mean)), low, high, color=style.COLOURS["highlight"], alpha=0.25, linewidth=0)
        panel.plot(mean, color=style.COLOURS["highlight"], linestyle="-.", label="start")
        if title in levels:
            panel.axhline(levels[title], color=style.COLOURS["muted"], linewidth=0.8)
        panel.set(title=title, xlabel="layer", xticks=range(len(mean)))
    for line in axes.flat[0].get_lines():
        if line.get_label() == "trained":
            line.set_label(fine_tuned)
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure
