"""Figures of the chapter on the whole score. Each takes arrays and returns a Figure."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from analysis.plotting import style
from book.studies.shared.layer_lines import name_ends

COLOURS = {
    "content": "content",
    "common": "uniform",
    "semi-bias": "semi_bias",
    "token on token": "content",
    "token on position": "token",
    "position on token": "muted",
    "position on position": "positional",
    "semi-bias of tokens": "semi_bias",
    "semi-bias of positions": "record",
    "row constants": "row_constant",
}
IN_WORDS = {"common": "common part"}
MANY = 50  # bars that an SVG draws one by one


@style.in_style
def path(t: np.ndarray, slopes: Mapping[str, np.ndarray], title: str = "", *, ax: style.Panels | None = None) -> Figure:
    """Draw what each part adds to the divergence at each point of the path; the areas are what they get."""
    fig, [[panel]] = style.panels(ax, 1, 1, size="wide")
    ends = {}
    for name, slope in slopes.items():
        colour = style.COLOURS[COLOURS[name]]
        panel.plot(t, slope, color=colour)
        panel.fill_between(t, 0, slope, color=colour, alpha=0.15, linewidth=0)
        ends[f"{IN_WORDS.get(name, name)}:\n{np.trapezoid(slope, t):.1f} nats"] = (slope[-1], colour)
    panel.axhline(0, color=style.COLOURS["muted"], linewidth=0.8)
    panel.set(
        xlabel="how far the scores are turned up: 0, even attention; 1, the head's own",
        ylabel="added by each part",
        title=title,
    )
    name_ends(panel, ends, 1, apart=0.15)
    panel.set_xlim(0, 1.5)
    panel.set_xticks(np.linspace(0, 1, 6))
    return fig


@style.in_style
def atlas(
    columns: Mapping[str, Sequence[np.ndarray]],
    rows: Sequence[str],
    labels: Mapping[str, Sequence[str]],
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw maps, one row per prototype and one column per model, each on its own scale and with its label."""
    fig, axes = style.panels(ax, len(rows), len(columns), size="page")
    for j, (title, maps) in enumerate(columns.items()):
        for i, found in enumerate(maps):
            panel = axes[i, j]
            panel.imshow(
                found,
                cmap=style.WEIGHT_CMAP,
                vmin=0,
                vmax=max(float(np.quantile(found, 0.99)), 2 / len(found)),
                interpolation="antialiased",
            )
            panel.set(xticks=[], yticks=[])
            panel.spines[:].set_visible(False)  # a column may lie at the edge
            label = labels[title][i] if title in labels else ""
            panel.set_title(f"{title}\n{label}" if i == 0 else label)
            if j == 0:
                panel.set_ylabel(_named(rows[i]))
    return style.many_marks(fig)


@style.in_style
def distances(
    families: Sequence[str], models: Mapping[str, tuple[np.ndarray, np.ndarray]], *, ax: style.Panels | None = None
) -> Figure:
    """Draw, for each prototype, the distance of each model's nearest trained head (dot) and control head (ring)."""
    fig, [[panel]] = style.panels(ax, 1, 1, size="wide")
    colours = ["content", "semi_bias", "positional", "token", "record", "highlight"]
    for j, (name, (trained, control)) in enumerate(models.items()):
        at = np.arange(len(families)) + 0.16 * (j - (len(models) - 1) / 2)
        colour = style.COLOURS[colours[j % len(colours)]]
        panel.plot(at, trained, "o", color=colour, label=name)
        panel.plot(at, control, "o", color=colour, markerfacecolor="none")
    panel.plot([], [], "o", color=style.COLOURS["control"], markerfacecolor="none", label="control")
    panel.set(
        xticks=range(len(families)),
        xticklabels=[_named(f) for f in families],
        ylabel="distance of the nearest head",
        ylim=(0, 1.02),
    )
    fig.legend(loc="outside upper center", ncols=len(models) + 1)
    return fig


@style.in_style
def shares(models: Mapping[str, np.ndarray], names: Sequence[str], *, ax: style.Panels | None = None) -> Figure:
    """Draw what each part contributes in every head, ``(head, part)`` per panel, negative parts below the line."""
    fig, axes = style.panels(ax, len(models), 1, size="page" if len(models) > 3 else "tall")
    for panel, (title, table) in zip(axes[:, 0], models.items(), strict=True):
        _stack(panel, table, names)
        panel.set(title=title, ylabel="nats", xlim=(-0.7, len(table) - 0.3))
        panel.title.set_horizontalalignment("left")
        panel.title.set_x(0)
    axes[-1, 0].set(xlabel="head, layer after layer")
    handles, texts = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, texts, loc="outside lower center", ncols=min(3, len(names)))
    return fig


def _named(family: str) -> str:
    """Break a prototype's name into lines, its formula in math."""
    return re.sub(r"T\^(p+)", r"$T^{\1}$", family).replace(" ", "\n")


def _stack(ax, table: np.ndarray, names: Sequence[str]) -> None:
    """Stack positive contributions upwards and negative ones downwards."""
    at = np.arange(len(table))
    for sign in (1, -1):
        base = np.zeros(len(table))
        for k, name in enumerate(names):
            part = np.clip(sign * table[:, k], 0, None)
            ax.bar(
                at,
                sign * part,
                bottom=sign * base,
                color=style.COLOURS[COLOURS[name]],
                width=0.85,
                label=name if sign == 1 else None,
                linewidth=0,
                rasterized=len(table) > MANY,
            )
            base += part
    ax.axhline(0, color=style.COLOURS["ink"], linewidth=0.6)


@style.in_style
def causes(
    nats: Mapping[str, np.ndarray],
    effects: Mapping[str, np.ndarray],
    layers: np.ndarray,
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw what a change does to each head against the part that it takes away, one panel per change."""
    fig, [panels] = style.panels(ax, 1, len(nats), size="wide", sharey=True)
    for panel, (title, values) in zip(panels, nats.items(), strict=True):
        dots = panel.scatter(values, np.abs(effects[title]), c=layers, cmap=style.POSITION_CMAP, s=14)
        panel.set(xlabel=title, yscale="log", xscale="log" if values.min() > 0 else "linear")
    panels[0].set_ylabel("change of the embedding, 1 − cos")
    fig.colorbar(dots, ax=panels, label="layer")
    return fig
