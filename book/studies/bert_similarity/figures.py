"""Figures of the chapter on what Q and K measure. Arrays in, a figure out."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from analysis.plotting import style
from book.studies.shared.layer_lines import name_ends

MAPS = ("Q", "K", "V")


@style.in_style
def row_norms(norms: Mapping[str, np.ndarray], *, ax: style.Panels | None = None) -> Figure:
    """Draw figure 2 of the paper: norms of the rows of Q, K and V in one head, beside those of the rows they came from.

    ``norms`` maps ``"trained"`` and ``"control"`` to ``(kind, row)`` with the kinds X, Q, K, V.
    """
    figure, [axes] = style.panels(ax, 1, 3, sharey=True)
    edges = np.linspace(0, 1.05 * max(v.max() for v in norms.values()), 50)
    for panel, name, k in zip(axes, MAPS, (1, 2, 3), strict=True):
        for which in ("control", "trained"):
            colour, found = style.COLOURS[which], norms[which]
            weights = np.full(found.shape[1], 100 / found.shape[1])
            panel.hist(found[k], edges, weights=weights, color=colour, alpha=0.8, label=f"{name}, {which}")
            panel.hist(
                found[0], edges, weights=weights, color=colour, histtype="step", linestyle="--", label=f"X, {which}"
            )
        panel.set(xlabel="norm of a row", title=f"rows of {name} beside rows of X")
    axes[0].set(ylabel="share of rows (%)")
    axes[0].legend()
    return figure


@style.in_style
def stretch(
    top: Mapping[str, np.ndarray],
    median: Mapping[str, np.ndarray],
    mean: Mapping[str, np.ndarray],
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw for every head what its largest singular value promises (x) and what its rows do (y).

    Each argument maps ``"trained"`` and ``"control"`` to ``(map, heads of all layers)``.
    """
    figure, [axes] = style.panels(ax, 1, 3, sharex=True, sharey=True)
    limit = 1.1 * max(v.max() for v in top.values())
    for panel, name, k in zip(axes, MAPS, range(3), strict=True):
        panel.plot([0.1, limit], [0.1, limit], color=style.COLOURS["muted"], linestyle=":", label="as promised")
        panel.axhline(1, color=style.COLOURS["ink"], label="no change")
        for which in ("control", "trained"):
            panel.plot(
                top[which][k],
                median[which][k],
                "o",
                color=style.COLOURS[which],
                alpha=0.7,
                label=f"median row, {which}",
            )
        panel.plot(
            top["trained"][k], mean["trained"][k], "_", color=style.COLOURS["highlight"], label="mean over directions"
        )
        panel.set(
            xlabel=r"largest singular value $\sigma_1$",
            title=name,
            xscale="log",
            yscale="log",
            xlim=(0.4, limit),
            ylim=(0.08, limit),
        )
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_formatter(lambda v, _: f"{v:g}")
            axis.set_minor_formatter(lambda v, _: f"{v:g}" if v in (0.5, 2.0, 5.0) else "")
    axes[0].set(ylabel="norm after / norm before")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


@style.in_style
def cone(epsilon: np.ndarray, shares: Mapping[str, np.ndarray], *, ax: style.Panels | None = None) -> Figure:
    """Draw the share of rows inside the direction cone against its aperture, one panel a map.

    ``shares`` maps ``"trained"``, ``"isotropic"`` and ``"control"`` to ``(map, aperture)``.
    """
    figure, [axes] = style.panels(ax, 1, 3, sharey=True)
    look = {
        "trained": ("trained", "-", "rows of texts"),
        "isotropic": ("uniform", "--", "random directions"),
        "control": ("control", ":", "control: its rows, its weights"),
    }
    for panel, name, k in zip(axes, MAPS, range(3), strict=True):
        for which, (colour, line, label) in look.items():
            panel.plot(epsilon, 100 * shares[which][k], line, color=style.COLOURS[colour], label=label)
        panel.set(xlabel=r"aperture $\epsilon$ of the cone", title=name, xlim=(0, 1), ylim=(-2, 102))
    axes[0].set(ylabel="rows inside (%)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


@style.in_style
def form(eigenvalues: Mapping[str, np.ndarray], *, ax: style.Panels | None = None) -> Figure:
    """Draw the eigenvalues of the symmetric half of one head's form, trained and random."""
    figure, [[panel]] = style.panels(ax, 1, 1)
    for which, name in (("control", "random weights"), ("trained", "a head of MiniLM")):
        values = np.sort(eigenvalues[which])[::-1]
        panel.plot(np.arange(1, len(values) + 1), values, "o", color=style.COLOURS[which], label=name)
    panel.axhline(0, color=style.COLOURS["ink"])
    panel.set(
        title="In half of the directions a word scores itself below zero",
        xlabel="directions, sorted",
        ylabel="score of a word with itself",
    )
    panel.legend()
    return figure


@style.in_style
def lopsided_forms(shares: Mapping[str, np.ndarray], *, ax: style.Panels | None = None) -> Figure:
    """Draw how much of each head's form is antisymmetric, trained and random."""
    figure, [[panel]] = style.panels(ax, 1, 1)
    edges = np.linspace(0, 1, 41)
    for which, name in (("control", "random weights"), ("trained", "MiniLM")):
        panel.hist(shares[which].ravel(), edges, color=style.COLOURS[which], alpha=0.8, label=name)
    panel.set(
        title="Training makes most heads more symmetric",
        xlabel="antisymmetric share of $M$, by squares",
        ylabel="heads",
        xlim=(0, 1),
    )
    panel.legend()
    return figure


@style.in_style
def asymmetry(shares: Mapping[str, np.ndarray], title: str, *, ax: style.Panels | None = None) -> Figure:
    """Draw the antisymmetric share of scores or of attention by layer, for several forms ``M``."""
    figure, [[panel]] = style.panels(ax, 1, 1, size="wide")
    colours = [style.COLOURS[c] for c in ("trained", "semi_bias", "positional", "control")]
    layers = np.arange(len(next(iter(shares.values()))))
    for (name, values), colour in zip(shares.items(), colours, strict=True):
        panel.plot(layers, values, marker="o", color=colour, label=name)
    panel.set(title=title, xlabel="layer", ylabel="lopsided (antisymmetric) share", ylim=(-0.02, 0.52))
    ends = {name: (values[-1], colour) for (name, values), colour in zip(shares.items(), colours, strict=True)}
    name_ends(panel, ends, layers[-1])
    panel.set_xticks(layers)
    return figure


@style.in_style
def grams(tables: Mapping[str, np.ndarray], *, ax: style.Panels | None = None) -> Figure:
    """Draw the products of every two position rows, one panel a table, each scaled to its own largest entries."""
    figure, [axes] = style.panels(ax, 1, len(tables), sharey=True)
    for panel, (name, gram) in zip(axes, tables.items(), strict=True):
        limit = np.quantile(np.abs(gram), 0.995)
        image = panel.imshow(gram / limit, cmap=style.SCORE_CMAP, norm=style.centred(gram, 1.0))
        panel.set(title=name, xlabel="position")
    axes[0].set(ylabel="position")
    figure.colorbar(image, ax=axes, label="product, relative to the largest", shrink=0.8)
    return style.many_marks(figure)
