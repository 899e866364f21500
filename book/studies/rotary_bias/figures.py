"""Figures of the chapter on rotary positions. Arrays in, a Figure out."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.plotting import ladder, style
from analysis.plotting.ladder import share_legend
from book.studies.rotary_bias.kernels import DISTANCES

TITLES = {"bias": "biases alone", "bias_folded": "with the LayerNorm's bias", "mean": "with the mean input"}
PARTS = {"content": "content", "semi_bias": "semi-bias", "query_side": "query side", "kernel": "kernel"}
COLOURS = ("content", "semi_bias", "token", "positional")
VARIANTS = {
    "neox-mini": "content",
    "neox-mini-partial": "positional",
    "neox-mini-unbiased": "semi_bias",
    "neox-mini-sequential": "token",
}
COUNTED = ("constants: query and key bias", "constants: mean query and mean key")
DOTS = (("content", "o"), ("semi_bias", "^"), ("ink", "x"))
"""Colour and marker of what is left out: the kernel of the biases, that of the mean input, gpt2-mini's."""
LAYERS = (("uniform", "--"), ("semi_bias", "-"))
"""Colour and dashes of layer 0 and layer 1."""


@style.in_style
def kernels(
    curves: Mapping[str, Float[np.ndarray, "layer head distance"]], *, ax: style.Panels | None = None
) -> Figure:
    """Draw the kernel of every head over distance on one scale: a column for what it is made of, a row per layer."""
    layers = len(next(iter(curves.values())))
    figure, axes = style.panels(ax, layers, len(curves), size="tall", sharex=True, sharey=True)
    for column, (source, values) in enumerate(curves.items()):
        for layer, of_layer in enumerate(values):
            panel = axes[layer, column]
            panel.axhline(0, color=style.COLOURS["muted"], linewidth=0.8)
            panel.plot(of_layer.T, linewidth=1.1)
            panel.set_title(TITLES[source] if not layer else "")
            panel.set_ylabel(f"layer {layer}, nats" if not column else "")
    for panel in axes[-1]:
        panel.set_xlabel("distance to the key")
    figure.suptitle("The biases make a ripple, the mean input a slope")
    return figure


@style.in_style
def arrows(
    length: Float[np.ndarray, " frequency"],
    angle: Float[np.ndarray, " frequency"],
    turn: Float[np.ndarray, " frequency"],
    distance: int,
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw a kernel as arrows laid end to end at one distance, and over all distances.

    ``length`` is in nats, ``angle`` at distance 0 in radians, ``turn`` in radians per position.
    """
    over = np.arange(DISTANCES)
    steps = length * np.exp(1j * (angle + turn * distance))
    ends = np.concatenate([[0], np.cumsum(steps)])
    reach = (length * np.cos(angle + np.outer(over, turn))).sum(1)
    figure, [(plane, panel)] = style.panels(ax, 1, 2, size="wide", width_ratios=(1, 1.4))
    plane.plot((0, 0), (0, ends[-1].imag), ":", color=style.COLOURS["muted"])
    plane.plot((0, ends[-1].real), (ends[-1].imag,) * 2, color=style.COLOURS["semi_bias"], linewidth=4, alpha=0.35)
    look = {"arrowstyle": "->", "color": style.COLOURS["content"], "shrinkA": 0, "shrinkB": 0}
    for tail, tip in pairwise(ends):
        plane.annotate("", (tip.real, tip.imag), (tail.real, tail.imag), arrowprops=look)
    plane.plot(ends.real, ends.imag, alpha=0)  # the limits of the axes follow lines, not arrows
    plane.set(title=f"A key {distance} back: how far to the right?", xlabel="nats", aspect="equal")
    plane.set_yticks([])
    panel.plot(over, reach, color=style.COLOURS["content"])
    panel.plot(distance, reach[distance], "o", color=style.COLOURS["semi_bias"])
    panel.set(title="The same at every distance", xlabel="how far back the key is, in tokens", ylabel="nats")
    return figure


@style.in_style
def seed_kernels(
    of_runs: Mapping[str, Sequence[Float[np.ndarray, "layer head distance"]]],
    runs: Sequence[tuple[str, int]],
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw every head's kernel of every run: a row for what it is made of, a column for each variant."""
    figure, axes = style.panels(ax, len(of_runs), len(VARIANTS), size="tall", sharex=True, sharey="row")
    for row, (source, by_run) in zip(axes, of_runs.items(), strict=True):
        for panel, variant in zip(row, VARIANTS, strict=True):
            panel.axhline(0, color=style.COLOURS["muted"], linewidth=0.8)
            for (name, seed), layers in zip(runs, by_run, strict=True):
                for layer, heads in enumerate(layers if name == variant else ()):
                    colour, dashes = LAYERS[layer]
                    lines = panel.plot(heads.T, dashes, color=style.COLOURS[colour], linewidth=0.7, alpha=0.75)
                    lines[0].set_label(f"layer {layer}" if not seed else None)
        row[0].set_ylabel(f"{TITLES[source]}, nats")
    for panel, variant in zip(axes[0], VARIANTS, strict=True):
        panel.set_title(variant)
    for panel in axes[-1]:
        panel.set_xlabel("distance to the key")
    share_legend(figure, [axes[0, 0]])
    return figure


@style.in_style
def spectra(
    of: Mapping[str, tuple[np.ndarray, np.ndarray]],
    frequencies: Float[np.ndarray, " frequency"],
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw amplitude and phase, ``(layer, head, frequency)``, of each head's kernel as an arrow at distance 0.

    A panel for what the kernel is made of; its longest arrow has one length in all, and the title says its nats.
    """
    figure, [axes] = style.panels(ax, 1, len(of), size="tall", sharex=True, sharey=True)
    for panel, (source, (amplitude, phase)) in zip(axes, of.items(), strict=True):
        names = [f"{layer}.{head}" for layer in range(amplitude.shape[0]) for head in range(amplitude.shape[1])]
        step = (amplitude * np.exp(1j * phase)).reshape(len(names), -1)
        column, row = np.meshgrid(np.arange(step.shape[1]), np.arange(len(names)))
        look = {"angles": "uv", "scale_units": "x", "scale": amplitude.max(), "width": 0.006}
        panel.quiver(column, row, step.real, step.imag, color=style.COLOURS["content"], **look)
        panel.set_title(f"{TITLES[source]}: longest {amplitude.max():.1f} nats")
        panel.set_xticks(range(len(frequencies)), [f"{2 * np.pi / f:,.0f}" for f in frequencies], rotation=60)
        panel.set(xlabel="period, positions", xlim=(-1, len(frequencies)))
    axes[0].set_yticks(range(len(names)), names)
    axes[0].set(ylabel="head", ylim=(len(names), -1))
    return figure


@style.in_style
def emergence(
    step: Int[np.ndarray, " time"],
    held_out: Float[np.ndarray, " time"],
    sizes: Mapping[str, Float[np.ndarray, "time layer"]],
    rises: Mapping[str, np.ndarray],
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw the loss, the kernels' ranges, and the rise of the loss without the biases, over the steps of training."""
    figure, [axes] = style.panels(ax, 1, 3, size="wide")
    axes[0].plot(step, held_out, color=style.COLOURS["ink"])
    axes[0].set(ylabel="held-out loss, nats per token")
    for source, colour in (("bias", style.COLOURS["content"]), ("mean", style.COLOURS["semi_bias"])):
        for layer, dashes in enumerate(style.SEEDS[: sizes[source].shape[1]]):
            axes[1].plot(step, sizes[source][:, layer], dashes, color=colour, label=f"{TITLES[source]}, layer {layer}")
    axes[1].set(ylabel="range of the median kernel, nats", yscale="symlog")
    axes[1].set_yscale("symlog", linthresh=0.1)
    for (name, rise), colour in zip(rises.items(), COLOURS, strict=False):
        axes[2].plot(step, rise, color=style.COLOURS[colour], label=name)
    axes[2].set(ylabel="rise of the loss, nats per token")
    axes[2].legend()
    for panel in axes:
        panel.set(xlabel="step")
        panel.set_xscale("symlog", linthresh=10)
    share_legend(figure, axes[:2])
    return figure


@style.in_style
def by_head(
    previous: Mapping[str, tuple[np.ndarray, np.ndarray]],
    rise: Mapping[str, tuple[np.ndarray, np.ndarray]],
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw what leaving out one head's kernel does, a dot for each head, by the head's attention to the previous key.

    Each mapping holds, by what is left out, the attention of all heads and what is drawn over it: that attention
    without the kernel, and the rise of the loss.
    """
    figure, [axes] = style.panels(ax, 1, 2, size="wide")
    for panel, of in zip(axes, (previous, rise), strict=True):
        for (name, (before, after)), (colour, marker) in zip(of.items(), DOTS, strict=True):
            panel.plot(
                before.ravel(), after.ravel(), marker, color=style.COLOURS[colour], markersize=4, alpha=0.8, label=name
            )
        panel.set(xlabel="attention to the previous position")
    axes[0].plot((0, 1), (0, 1), color=style.COLOURS["muted"], linewidth=0.8, zorder=0)
    limit = 1.1 * max(before.max() for before, _ in previous.values())
    axes[0].set(ylabel="without the head's kernel", xlim=(0, limit), ylim=(0, limit))
    axes[1].axhline(0, color=style.COLOURS["muted"], linewidth=0.8, zorder=0)
    axes[1].set(ylabel="rise of the loss, nats per token", xlim=(0, limit))
    axes[1].set_yscale("symlog", linthresh=0.001)
    _widen(axes[1], "y", 2)
    share_legend(figure, axes)
    return figure


@style.in_style
def controls_sizes(
    ladders: Mapping[str, ladder.Ladder], names: Sequence[str], *, ax: style.Panels | None = None
) -> Figure:
    """Draw how large kernels are, and how many are largest at a near key, on the ladder of controls."""
    figure = ladder.points(ladders, names, xlabels=("range of the median kernel, nats", "heads of 8"), ax=ax)
    size, near = style.drawn_panels(figure, ax)
    size.set(title="how large")
    size.set_xscale("symlog", linthresh=0.1)
    _widen(size, "x", 2)
    near.set(title="largest at distance 0 to 4")
    return figure


@style.in_style
def controls_parts(
    ladders: Mapping[str, ladder.Ladder], names: Sequence[str], *, ax: style.Panels | None = None
) -> Figure:
    """Draw what the parts are worth to the loss, and what they explain of the attention, on the ladder of controls."""
    figure = ladder.points(
        ladders, names, xlabels=("rise of the loss, nats per token", "share of the divergence"), ax=ax
    )
    first = style.drawn_panels(figure, ax)[0]
    first.set_xscale("symlog", linthresh=0.01)
    _widen(first, "x", 2)
    return figure


def _widen(panel: Axes, axis: str, factor: float) -> None:
    """Move the upper end of a logarithmic axis outwards, so that the last mark is whole."""
    low, high = getattr(panel, f"get_{axis}lim")()
    getattr(panel, f"set_{axis}lim")(low, high * factor)


@style.in_style
def redrawn(
    longer: Mapping[str, Float[np.ndarray, "layer head distance"]],
    layer: int,
    head: int,
    trained: int,
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw one head's kernel beyond the trained length, with the frequencies of several schemes."""
    figure, [[panel]] = style.panels(ax, 1, 1, size="wide")
    for (name, values), colour in zip(longer.items(), ("ink", *COLOURS), strict=False):
        panel.plot(values[layer, head], color=style.COLOURS[colour], label=name)
    panel.axvline(trained, color=style.COLOURS["muted"], linestyle=":")
    panel.set(xlabel="distance to the key", ylabel="kernel, nats")
    panel.legend()
    return figure


@style.in_style
def share_bars(shares: Mapping[str, Float[np.ndarray, "layer head part"]], *, ax: style.Panels | None = None) -> Figure:
    """Draw each head's shares as bars, positive ones stacked upwards and negative ones downwards.

    The title says what the last layer's kernels explain, with each choice of the constants.
    """
    figure, [axes] = style.panels(ax, 1, len(shares), size="wide", sharey=True)
    for panel, values, title in zip(axes, shares.values(), COUNTED, strict=True):
        rows = values.reshape(-1, values.shape[-1])
        names = [f"{layer}.{head}" for layer in range(values.shape[0]) for head in range(values.shape[1])]
        up, down = np.zeros(len(rows)), np.zeros(len(rows))
        for part, colour, label in zip(rows.T, COLOURS, PARTS.values(), strict=True):
            panel.bar(names, part, bottom=np.where(part >= 0, up, down), color=style.COLOURS[colour], label=label)
            up, down = up + np.maximum(part, 0), down + np.minimum(part, 0)
        panel.tick_params(axis="x", rotation=90)
        panel.set(title=title, xlabel="head")
    kernel = [round(100 * of[-1, :, -1].sum() / of[-1].sum()) for of in shares.values()]
    last = f"Distance explains {kernel[0]} % of layer {len(values) - 1} with the biases as constants"
    figure.suptitle(f"{last}, {kernel[-1]} % with the means.")
    axes[0].set_ylabel("explained divergence, nats per row")
    share_legend(figure, axes)
    return figure
