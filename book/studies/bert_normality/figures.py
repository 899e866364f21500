"""Figures of the chapter on normality, cone index and entropy. Arrays in, a figure out."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter
from scipy.stats import norm, spearmanr

from analysis.plotting import style
from book.studies.shared.layer_lines import Line, lines

NAMES = {"control": "random weights", "trained": "trained"}


@style.in_style
def statistics(
    by_layer: Mapping[int, Mapping[str, np.ndarray]], critical: float, *, ax: style.Panels | None = None
) -> Figure:
    """Draw figure 8: how the rows' Lilliefors statistics are spread, one panel per layer, with control."""
    figure, axes = style.panels(ax, 1, len(by_layer), sharey=True)
    axes = axes[0]
    edges = np.linspace(0, max(v.max() for panel in by_layer.values() for v in panel.values()), 50)
    for panel, (layer, values) in zip(axes, by_layer.items(), strict=True):
        for which in ("control", "trained"):
            weights = np.full(len(values[which]), 100 / len(values[which]))
            panel.hist(values[which], edges, weights=weights, color=style.COLOURS[which], alpha=0.8, label=NAMES[which])
        panel.axvline(critical, color=style.COLOURS["highlight"], linestyle="--", label="limit, 1 in 20 by chance")
        panel.set(xlabel="distance $D$ from a bell curve", title=f"layer {layer}")
        panel.xaxis.set_major_locator(MaxNLocator(3))
    axes[0].set(ylabel="share of the vectors (%)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


@style.in_style
def sizes(rms: Mapping[str, np.ndarray], threshold: float, *, ax: style.Panels | None = None) -> Figure:
    """Draw the root mean square of every coordinate in one layer, trained and control, naming those that stand out."""
    figure, [axes] = style.panels(ax, 1, 2, sharey=True)
    for panel, which in zip(axes, ("trained", "control"), strict=True):
        values = rms[which]
        panel.vlines(np.arange(len(values)), 0, values, color=style.COLOURS[which], linewidth=0.8)
        panel.axhline(threshold, color=style.COLOURS["highlight"], linestyle="--", label="stands out")
        for k in np.flatnonzero(values > threshold):
            panel.annotate(str(k), (k, values[k]), ha="center", va="bottom")
        panel.set(xlabel="coordinate", title=NAMES[which])
    axes[0].set(ylabel="size (root mean square)")
    axes[0].set_ylim(0, 1.12 * max(v.max() for v in rms.values()))
    axes[1].legend(loc="upper right")
    return style.many_marks(figure)


@style.in_style
def histograms(
    vectors: Mapping[str, tuple[str, np.ndarray]],
    statistic: Mapping[str, float],
    *,
    rows: int = 1,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw standardised coordinates of vectors and the Gaussian: ``vectors`` maps a title to concept and values."""
    figure, axes = style.panels(
        ax, rows, len(vectors) // rows, size="tall" if rows > 1 else "wide", sharex=True, sharey=True
    )
    grid = np.linspace(-4.5, 4.5, 181)
    for panel, (title, (concept, values)) in zip(axes.flat, vectors.items(), strict=True):
        z = (values - values.mean()) / values.std(ddof=1)
        panel.hist(
            np.clip(z, -4.5, 4.5), np.linspace(-4.5, 4.5, 46), density=True, color=style.COLOURS[concept], alpha=0.8
        )
        panel.plot(grid, norm.pdf(grid), color=style.COLOURS["ink"], linewidth=1)
        panel.set(title=f"{title}\nD = {statistic[title]:.3f}")
    for panel in axes[-1]:
        panel.set(xlabel="standardised")
    for panel in axes[:, 0]:
        panel.set(ylabel="density")
    return figure


@style.in_style
def spectra(by_layer: Mapping[int, Mapping[str, np.ndarray]], *, ax: style.Panels | None = None) -> Figure:
    """Draw figure 11: how the singular values of the head outputs are spread, one panel per layer, with control."""
    figure, axes = style.panels(ax, 1, len(by_layer), sharey=True)
    edges = np.linspace(0, max(v.max() for panel in by_layer.values() for v in panel.values()), 41)
    for panel, (layer, values) in zip(axes[0], by_layer.items(), strict=True):
        for which in ("control", "trained"):
            weights = np.full(values[which].size, 100 / values[which].size)
            panel.hist(
                values[which].ravel(), edges, weights=weights, color=style.COLOURS[which], alpha=0.7, label=which
            )
        panel.set(xlabel=r"singular value$\,/\sqrt{n}$", title=f"layer {layer}", yscale="log")
    axes[0, 0].set(ylabel="share of singular values (%)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


@style.in_style
def total(
    vectors: Mapping[str, np.ndarray], statistic: Mapping[str, float], *, ax: style.Panels | None = None
) -> Figure:
    """Draw figure 13: the histogram of each vector, and all distribution functions beside that of a Gaussian.

    ``vectors`` and ``statistic`` map concepts (``"trained"``, ``"control"``) to coordinates and to D.
    """
    figure, [axes] = style.panels(ax, 1, len(vectors) + 1)
    grid = np.linspace(-4.5, 4.5, 181)
    for panel, (which, values) in zip(axes[:-1], vectors.items(), strict=True):
        z = (values - values.mean()) / values.std(ddof=1)
        panel.hist(
            np.clip(z, -4.5, 4.5), np.linspace(-4.5, 4.5, 46), density=True, color=style.COLOURS[which], alpha=0.8
        )
        panel.plot(grid, norm.pdf(grid), color=style.COLOURS["ink"], linewidth=1)
        panel.set(xlabel="standardised coordinate", title=f"{which}\nD = {statistic[which]:.3f}")
        axes[-1].step(
            [-4.5, *np.sort(z), 4.5],
            [0, *np.arange(1, len(z) + 1) / len(z), 1],
            where="post",
            color=style.COLOURS[which],
            label=which,
        )
    axes[-1].plot(grid, norm.cdf(grid), color=style.COLOURS["ink"], linewidth=1, linestyle="--", label="Gaussian")
    axes[0].set(ylabel="density")
    axes[-1].set(xlabel="standardised coordinate", ylabel="share below", xlim=(-4.5, 4.5), title="distribution")
    axes[-1].legend(loc="upper left")
    return figure


@style.in_style
def effects(
    entropy: Mapping[str, np.ndarray],
    effect: Mapping[str, np.ndarray],
    sink: np.ndarray,
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw for each head what making it uniform does to the sentence against its relative entropy.

    The control, where it does far less, is grey, in a panel of its own below. ``entropy`` and ``effect`` map
    ``"trained"`` and ``"control"`` to ``(layer, head)``; ``sink`` marks the trained heads that give most of their mass
    to the first and last token.
    """
    figure, [[axes], [below]] = style.panels(ax, 2, 1, sharex=True, height_ratios=(5, 1))
    marks, shades = "osD^vPX*<>hd", colormaps[style.WEIGHT_CMAP]
    x, y = entropy["trained"], effect["trained"]
    for level in range(len(x)):
        shade = shades(level / max(1, len(x) - 1))
        axes.scatter(x[level], y[level], s=26, marker=marks[level % len(marks)], color=shade, label=f"layer {level}")
    axes.scatter(x[sink], y[sink], s=90, facecolor="none", edgecolor=style.COLOURS["highlight"])
    grey = style.COLOURS["control"]
    below.scatter(entropy["control"], effect["control"], s=18, color=grey, edgecolor="none")
    middle = entropy["control"].min(), np.median(effect["control"])
    below.annotate("random weights", middle, (-8, 0), textcoords="offset points", ha="right", va="center", color=grey)
    below.set(xlabel="relative entropy of the head: 0 is sharp, 1 is even", yscale="log")
    below.yaxis.set_minor_formatter(NullFormatter())  # in so low a panel their labels would lie on each other
    layers = np.broadcast_to(np.arange(len(x))[:, None], x.shape)
    by_layer, by_entropy = (abs(spearmanr(y, other, axis=None).statistic) for other in (layers, x))
    more, less = ("layer", "entropy") if by_layer > by_entropy else ("entropy", "layer")
    axes.set(
        title=f"The height follows the {more} of a head more than its {less}.",
        ylabel="turn (1 − cosine)",
        yscale="log",
        xlim=(-0.02, 1.02),
    )
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=6)
    return figure


def _networks(values: Mapping[str, np.ndarray], more: str = "", dashes: str = "-") -> list[Line]:
    """Return one curve a network, ``trained`` and ``control``; ``more`` is added to their labels."""
    return [Line(values[network], network, network + more, dashes) for network in ("trained", "control")]


@style.in_style
def failing(shares: Mapping[str, np.ndarray], *, ax: style.Panels | None = None) -> Figure:
    """Draw the share of rows that fail by layer, with gain and bias and plain, with and without outliers.

    ``shares`` maps ``"trained"``, ``"kept"``, ``"control"``, ``"plain"``, ``"plain kept"`` and ``"control plain"`` to
    ``(layer, 3)`` with the ends of intervals.
    """
    return lines(
        {
            title: [
                Line(shares[names[0]], "trained", "trained"),
                Line(shares[names[1]], "trained", "trained, outliers removed", "--"),
                Line(shares[names[2]], "control", "control"),
            ]
            for title, names in (
                ("with gain and bias", ("trained", "kept", "control")),
                ("plain", ("plain", "plain kept", "control plain")),
            )
        },
        ["share of rows that fail", ""],
        level=(0.05, "5 %"),
        ax=ax,
    )


@style.in_style
def table_one(
    sums: Mapping[str, np.ndarray], paper: np.ndarray, critical: float, *, ax: style.Panels | None = None
) -> Figure:
    """Draw table 1: the statistic of the sum of the rows by layer, here ``(layer, 3)`` by kind, and the paper's."""
    return lines(
        {
            "here": [
                Line(sums["trained"], "trained", "trained"),
                Line(sums["plain"], "token", "trained, plain", "--"),
                Line(sums["kept"], "positional", "trained, extremes removed", ":"),
                Line(sums["control"], "control", "control"),
            ],
            "paper, table 1": [Line(paper, "record", "paper")],
        },
        ["D of the sum", ""],
        level=([critical, 0.032], "critical value"),
        ax=ax,
    )


@style.in_style
def padding(
    rows: Mapping[str, Mapping[str, np.ndarray]],
    sums: Mapping[str, Mapping[str, np.ndarray]],
    critical: float,
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw the share of rows that fail and the statistic of their sum, ``without`` padding and ``with`` it.

    ``rows`` and ``sums`` map a network to ``without`` and ``with``, each ``(layer, 3)`` with the ends of intervals.
    """
    return lines(
        {
            title: [
                Line(values[network][which], network, network + more, dashes)
                for network in ("trained", "control")
                for which, more, dashes in (("without", "", "-"), ("with", ", padding in", ":"))
            ]
            for title, values in (("rows after the first LayerNorm", rows), ("sum of the rows", sums))
        },
        ["share that fails", "D"],
        level=([0.05, critical], "5 %, critical value"),
        ax=ax,
    )


@style.in_style
def directions(rows: np.ndarray, titles: Sequence[str], *, ax: style.Panels | None = None) -> Figure:
    """Draw unit rows as seen from the side, ``(network, position, 3)``, each at its true angle with the mean direction.

    The mean direction points up; a dot is left or right of it after its second coordinate, and the sector is the cone
    whose half angle has the resultant length as its cosine.
    """
    figure, [axes] = style.panels(ax, 1, len(titles), sharey=True)
    for panel, title, points in zip(axes, titles, rows, strict=True):
        up, resultant = points[:, 0], points[:, 0].mean()
        turn = np.arctan2(points[:, 2], points[:, 1])
        across = np.sqrt(1 - up**2) * np.cos(turn)
        edge = np.linspace(-np.arccos(resultant), np.arccos(resultant))
        panel.fill([0, *np.sin(edge)], [0, *np.cos(edge)], color=style.COLOURS["control"], alpha=0.25)
        inside = up >= resultant
        for mask, colour, label in ((inside, "content", "row inside"), (~inside, "semi_bias", "outside")):
            panel.plot(across[mask], up[mask], "o", color=style.COLOURS[colour], markersize=4, label=label)
        panel.plot([0, 0], [0, resultant], color=style.COLOURS["ink"], linewidth=2.5, label="mean of unit rows")
        panel.set(title=title, aspect="equal", xlim=(-1.05, 1.05), ylim=(-0.3, 1.05), xlabel="second axis")
    axes[0].set(ylabel="along the mean")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


@style.in_style
def cone(
    per_token: Mapping[str, np.ndarray],
    resultant: Mapping[str, np.ndarray],
    resultant_padded: Mapping[str, np.ndarray],
    cosine: Mapping[str, np.ndarray],
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw three forms of the cone index by layer; each maps a network to ``(layer, 3)`` with the ends of intervals."""
    return lines(
        {
            "cone index / n": _networks(per_token),
            "resultant length": _networks(resultant) + _networks(resultant_padded, ", padding in", ":"),
            "mean cosine": _networks(cosine),
        },
        ["", "", ""],
        ax=ax,
    )


@style.in_style
def singular(
    largest: Mapping[str, np.ndarray], stable_rank: Mapping[str, np.ndarray], *, ax: style.Panels | None = None
) -> Figure:
    """Draw the largest singular value of head outputs and their stable rank; arguments as for `cone`."""
    return lines(
        {"largest singular value": _networks(largest), "stable rank": _networks(stable_rank)},
        [r"$\sigma_1/\sqrt{n}$", r"$\sum\sigma_k^2/\sigma_1^2$"],
        ax=ax,
    )


@style.in_style
def entropies(
    row: Mapping[str, np.ndarray], histogram: Mapping[str, np.ndarray], *, ax: style.Panels | None = None
) -> Figure:
    """Draw figure 12 twice: the entropy of rows and that of the histogram of a map; arguments as for `cone`."""
    return lines(
        {"row entropy": _networks(row), "histogram entropy": _networks(histogram)}, [r"share of $\ln n$", "nats"], ax=ax
    )
