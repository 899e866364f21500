"""Figures of the chapter on patterns and messages. Each takes arrays and returns a Figure."""

from collections.abc import Mapping

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

from analysis.plotting import style


@style.in_style
def parts(varying: np.ndarray, constant: np.ndarray, head: str, *, ax: style.Panels | None = None) -> Figure:
    """Draw ``(query, key)`` scores of one head: from the varying part of the pattern, the shared part, their sum."""
    fig, [axes] = style.panels(ax, 1, 3, size="wide", sharey=True)
    limit = float(np.abs(np.stack([varying, constant])).max())
    for panel, (title, scores) in zip(
        axes,
        {f"varying part, {head}": varying, "shared part": constant, "sum": varying + constant}.items(),
        strict=True,
    ):
        shown = panel.imshow(
            np.where(np.tri(len(scores)), scores, np.nan), cmap=style.SCORE_CMAP, norm=style.centred(scores, limit)
        )
        panel.set(title=title, xlabel="key")
    axes[0].set_ylabel("query")
    fig.colorbar(shown, ax=axes, label="score (nats), row mean 0", shrink=0.8)
    return style.many_marks(fig)


@style.in_style
def spectra(
    values: Mapping[str, np.ndarray], control: Mapping[str, np.ndarray], *, ax: style.Panels | None = None
) -> Figure:
    """Draw all heads' singular values over the largest, one panel per matrix; ``(head, channel)``, control in grey."""
    fig, axes = style.panels(ax, 1, len(values), size="wide", sharey=True)
    for panel, (title, heads) in zip(axes[0], values.items(), strict=True):
        across = np.arange(1, heads.shape[-1] + 1)
        panel.plot(across, (heads / heads[:, :1]).T, color=style.COLOURS["trained"], linewidth=0.5, alpha=0.5)
        grey = control[title]
        panel.plot(across, (grey / grey[:, :1]).T, color=style.COLOURS["control"], linewidth=0.5)
        panel.set(title=title, yscale="log", xlabel="rank of the singular value")
    axes[0, 0].set_ylabel("singular value / largest")
    for name, colour in (("trained head", "trained"), ("control head", "control")):
        axes[0, 0].plot([], [], color=style.COLOURS[colour], label=name)
    axes[0, 0].legend(loc="lower left")
    return style.many_marks(fig)


@style.in_style
def tables(
    values: Mapping[str, np.ndarray], label: str, *, logarithmic: bool = False, ax: style.Panels | None = None
) -> Figure:
    """Draw ``(layer, head)`` tables side by side on one scale."""
    fig, axes = style.panels(ax, 1, len(values), size="wide", sharey=True)
    every = np.stack(list(values.values()))
    scale = {"norm": LogNorm(every.min(), every.max())} if logarithmic else {"vmin": 0, "vmax": every.max()}
    for panel, (title, table) in zip(axes[0], values.items(), strict=True):
        shown = panel.imshow(table, cmap=style.WEIGHT_CMAP, aspect="auto", **scale)
        panel.set(title=title, xlabel="head", xticks=range(0, table.shape[1], 2), yticks=range(0, table.shape[0], 2))
    axes[0, 0].set_ylabel("layer")
    fig.colorbar(shown, ax=axes, label=label)
    return fig


@style.in_style
def sizes(varying: np.ndarray, constant: np.ndarray, control: np.ndarray, *, ax: style.Panels | None = None) -> Figure:
    """Draw each head's constant against its varying part in nats, the line where they are equal, the control."""
    fig, [[panel]] = style.panels(ax, 1, 1, size="wide")
    first = np.zeros_like(varying, dtype=bool)
    first[:2] = True
    equal = [constant.min(), constant.max()]
    panel.plot(equal, equal, color=style.COLOURS["muted"])
    panel.axvspan(
        control.min(), control.max(), color=style.COLOURS["control"], alpha=0.5, label="control (constant pattern 0)"
    )
    for mask, name, colour in ((first, "layers 0 and 1", "semi_bias"), (~first, "layers 2 to 11", "content")):
        panel.plot(varying[mask], constant[mask], "o", color=style.COLOURS[colour], alpha=0.7, label=name)
    panel.set(
        xlabel="varying part: spread of scores (nats)",
        xscale="log",
        yscale="log",
        ylabel="effective constant pattern:\nspread of scores (nats)",
    )
    for axis in (panel.xaxis, panel.yaxis):  # both span little more than a decade: plain numbers, which do not collide
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FormatStrFormatter("%g"))
        axis.set_minor_formatter(NullFormatter())
    fig.legend(loc="outside lower center", ncols=3)
    return fig


@style.in_style
def rotary(
    offsets: np.ndarray, distance: np.ndarray, remainder: np.ndarray, *, ax: style.Panels | None = None
) -> Figure:
    """Draw how far the matrix of an offset is from that of offset 0, heads as lines; what k fixed matrices leave."""
    fig, [(left, right)] = style.panels(ax, 1, 2, size="wide")
    left.plot(offsets, distance, color=style.COLOURS["positional"], linewidth=0.9)
    left.set(xlabel="offset query - key", ylabel="distance to the matrix of offset 0", ylim=(0, None))
    right.plot(np.arange(1, len(remainder) + 1), remainder, "o-", color=style.COLOURS["positional"])
    right.set(xlabel="fixed matrices k", ylabel="share left by the best k", yscale="log")
    return fig


@style.in_style
def costs(
    lengths: np.ndarray,
    counts: Mapping[str, Mapping[str, np.ndarray]],
    measured: np.ndarray,
    seconds: Mapping[str, np.ndarray],
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw counted costs over the length, one panel per quantity, and measured seconds in the last."""
    fig, [axes] = style.panels(ax, 1, len(counts) + 1, size="wide")
    colours = dict(zip(seconds, ("content", "semi_bias", "positional"), strict=True))
    dashes = dict(zip(seconds, ("-", "-", (0, (3, 3))), strict=True))  # the last is seen on a line below it
    for panel, (title, forms) in zip(axes[:-1], counts.items(), strict=True):
        for form, values in forms.items():
            panel.plot(lengths, values, color=style.COLOURS[colours[form]], linestyle=dashes[form], label=form)
        panel.set(title=title, xscale="log", yscale="log", xlabel="length n")
    for form, values in seconds.items():
        axes[-1].plot(measured, values, "o-", color=style.COLOURS[colours[form]], label=form)
    axes[-1].set(title="seconds, measured", xscale="log", yscale="log", xlabel="length n")
    axes[0].legend()
    return fig
