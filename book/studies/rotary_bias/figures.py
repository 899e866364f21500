"""Figures of the chapter on rotary positions. Arrays in, a Figure out."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.plotting import ladder, style
from analysis.plotting.ladder import share_legend

TITLES = {"bias": "biases alone", "bias_folded": "with the LayerNorm's bias", "mean": "with the mean input"}
PARTS = {"content": "content", "semi_bias": "semi-bias", "query_side": "query side", "kernel": "kernel"}
COLOURS = (style.COLOURS["content"], style.COLOURS["semi_bias"], style.COLOURS["token"], style.COLOURS["positional"])
VARIANTS = {
    "neox-mini": style.COLOURS["content"],
    "neox-mini-partial": style.COLOURS["positional"],
    "neox-mini-unbiased": style.COLOURS["semi_bias"],
}
COUNTED = ("counted from 0", "counted from the mean input")
MARKERS = {"neox-mini": "o", "neox-mini-partial": "s", "neox-mini-unbiased": "^"}
DOTS = ((style.COLOURS["content"], "o"), (style.COLOURS["semi_bias"], "^"), (style.COLOURS["ink"], "x"))
"""Colour and marker of what is left out: the kernel of the biases, that of the mean input, gpt2-mini's."""
LAYERS = ((style.COLOURS["uniform"], "--"), (style.COLOURS["semi_bias"], "-"))
"""Colour and dashes of layer 0 and layer 1."""


def kernels(curves: Mapping[str, Float[np.ndarray, "layer head distance"]]) -> Figure:
    """Draw the kernel of every head over distance: a column for what it is made of, a row for each layer."""
    layers = len(next(iter(curves.values())))
    figure, axes = style.new(layers, len(curves), size="tall", sharex=True, squeeze=False)
    for column, (source, values) in enumerate(curves.items()):
        for layer, of_layer in enumerate(values):
            panel = axes[layer, column]
            panel.axhline(0, color=style.COLOURS["muted"], linewidth=0.8)
            panel.plot(of_layer.T, linewidth=1.1)
            panel.set_title(TITLES[source] if not layer else "")
            panel.set_ylabel(f"layer {layer}, nats" if not column else "")
    for panel in axes[-1]:
        panel.set_xlabel("distance to the key")
    return figure


def seed_kernels(
    of_runs: Mapping[str, Sequence[Float[np.ndarray, "layer head distance"]]], runs: Sequence[tuple[str, int]]
) -> Figure:
    """Draw every head's kernel of every run: a row for what it is made of, a column for each variant."""
    figure, axes = style.new(len(of_runs), len(VARIANTS), size="tall", sharex=True, sharey="row")
    for row, (source, by_run) in zip(axes, of_runs.items(), strict=True):
        for panel, variant in zip(row, VARIANTS, strict=True):
            panel.axhline(0, color=style.COLOURS["muted"], linewidth=0.8)
            for (name, seed), layers in zip(runs, by_run, strict=True):
                for layer, heads in enumerate(layers if name == variant else ()):
                    lines = panel.plot(heads.T, LAYERS[layer][1], color=LAYERS[layer][0], linewidth=0.7, alpha=0.75)
                    lines[0].set_label(f"layer {layer}" if not seed else None)
        row[0].set_ylabel(f"{TITLES[source]}, nats")
    for panel, variant in zip(axes[0], VARIANTS, strict=True):
        panel.set_title(variant)
    for panel in axes[-1]:
        panel.set_xlabel("distance to the key")
    share_legend(figure, [axes[0, 0]])
    return figure


def spectra(of: Mapping[str, tuple[np.ndarray, np.ndarray]], frequencies: Float[np.ndarray, " frequency"]) -> Figure:
    """Draw amplitude and phase, ``(layer, head, frequency)``, of each head's kernel: a row for what it is made of."""
    figure, axes = style.new(len(of), 2, size="tall", sharex=True, sharey=True, squeeze=False)
    for row, (source, (amplitude, phase)) in zip(axes, of.items(), strict=True):
        names = [f"{layer}.{head}" for layer in range(amplitude.shape[0]) for head in range(amplitude.shape[1])]
        for panel, values, cmap, limits, label in (
            (row[0], amplitude, style.WEIGHT_CMAP, (0, amplitude.max()), "amplitude, nats"),
            (row[1], phase, "twilight", (-np.pi, np.pi), "phase, radians"),
        ):
            image = panel.imshow(
                values.reshape(len(names), -1), cmap=cmap, vmin=limits[0], vmax=limits[1], aspect="auto"
            )
            figure.colorbar(image, ax=panel)
            panel.set_title(f"{label}, {TITLES[source]}")
        row[0].set_yticks(range(len(names)), names)
        row[0].set_ylabel("head")
    for panel in axes[-1]:
        panel.set_xticks(range(len(frequencies)), [f"{2 * np.pi / f:,.0f}" for f in frequencies], rotation=60)
        panel.set_xlabel("period, positions")
    return figure


def maps(parts: Float[np.ndarray, "part query key"]) -> Figure:
    """Draw the four parts of one head's scores on one text, each less the mean of what a row sees, on one scale."""
    figure, axes = style.new(1, len(parts), size="wide", sharey=True)
    visible = np.tri(parts.shape[-1], dtype=bool)
    centred = [
        np.where(visible, part - (part * visible).sum(1, keepdims=True) / visible.sum(1, keepdims=True), np.nan)
        for part in parts
    ]
    limit = float(np.nanmax(np.abs(centred)))
    for panel, part, title in zip(axes, centred, PARTS.values(), strict=True):
        image = panel.imshow(part, cmap=style.SCORE_CMAP, norm=style.centred(part, limit))
        panel.set(title=title, xlabel="key")
    axes[0].set_ylabel("query")
    figure.colorbar(image, ax=list(axes), label="nats", shrink=0.7)
    return figure


def emergence(
    step: Int[np.ndarray, " time"],
    held_out: Float[np.ndarray, " time"],
    sizes: Mapping[str, Float[np.ndarray, "time layer"]],
    rises: Mapping[str, np.ndarray],
) -> Figure:
    """Draw the loss, the kernels' ranges, and the rise of the loss without the biases, over the steps of training."""
    figure, axes = style.new(1, 3, size="wide")
    axes[0].plot(step, held_out, color=style.COLOURS["ink"])
    axes[0].set(ylabel="held-out loss, nats per token")
    for source, colour in (("bias", style.COLOURS["content"]), ("mean", style.COLOURS["semi_bias"])):
        for layer, dashes in enumerate(style.SEEDS[: sizes[source].shape[1]]):
            axes[1].plot(step, sizes[source][:, layer], dashes, color=colour, label=f"{TITLES[source]}, layer {layer}")
    axes[1].set(ylabel="range of the median kernel, nats", yscale="symlog")
    axes[1].set_yscale("symlog", linthresh=0.1)
    for (name, rise), colour in zip(rises.items(), COLOURS, strict=False):
        axes[2].plot(step, rise, color=colour, label=name)
    axes[2].set(ylabel="rise of the loss, nats per token")
    axes[2].legend()
    for panel in axes:
        panel.set(xlabel="step")
        panel.set_xscale("symlog", linthresh=10)
    share_legend(figure, axes[:2])
    return figure


def rises(
    of: Float[np.ndarray, "run counted way"],
    runs: Sequence[tuple[str, int]],
    ways: Sequence[str],
    learned: Float[np.ndarray, "counted way"],
) -> Figure:
    """Draw by how much the loss of every run rises without a part: counted from 0, and from the mean input.

    ``learned`` is the same of a model with learned positions.
    """
    figure, axes = style.new(1, of.shape[1], size="wide", sharey=True)
    rows = np.arange(len(ways))
    for panel, values, control, title in zip(axes, of.transpose(1, 0, 2), learned, COUNTED, strict=True):
        panel.plot(control, rows, "x", color=style.COLOURS["ink"], markersize=5, label="gpt2-mini, learned positions")
        for (name, seed), rise in zip(runs, values, strict=True):
            place = rows + 0.24 * (list(VARIANTS).index(name) - 1) + 0.05 * seed
            panel.plot(rise, place, MARKERS[name], color=VARIANTS[name], markersize=4, label=None if seed else name)
        panel.set(title=title, xlabel="rise of the loss, nats per token")
        panel.set_xscale("symlog", linthresh=0.01)
    axes[0].set_yticks(rows, ways)
    axes[0].invert_yaxis()
    share_legend(figure, axes)
    return figure


def by_head(
    previous: Mapping[str, tuple[np.ndarray, np.ndarray]], rise: Mapping[str, tuple[np.ndarray, np.ndarray]]
) -> Figure:
    """Draw what leaving out one head's kernel does, a dot for each head, by the head's attention to the previous key.

    Each mapping holds, by what is left out, the attention of all heads and what is drawn over it: that attention
    without the kernel, and the rise of the loss.
    """
    figure, axes = style.new(1, 2, size="wide")
    for panel, of in zip(axes, (previous, rise), strict=True):
        for (name, (before, after)), (colour, marker) in zip(of.items(), DOTS, strict=True):
            panel.plot(before.ravel(), after.ravel(), marker, color=colour, markersize=4, alpha=0.8, label=name)
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


def controls_sizes(ladders: Mapping[str, ladder.Ladder], names: Sequence[str]) -> Figure:
    """Draw how large kernels are, and how many are largest at a near key, on the ladder of controls."""
    figure = ladder.points(ladders, names, xlabels=("range of the median kernel, nats", "heads of 8"))
    size, near = figure.axes
    size.set(title="how large")
    size.set_xscale("symlog", linthresh=0.1)
    _widen(size, "x", 2)
    near.set(title="largest at distance 0 to 4")
    return figure


def controls_parts(ladders: Mapping[str, ladder.Ladder], names: Sequence[str]) -> Figure:
    """Draw what the parts are worth to the loss, and what they explain of the attention, on the ladder of controls."""
    figure = ladder.points(ladders, names, xlabels=("rise of the loss, nats per token", "share of the divergence"))
    figure.axes[0].set_xscale("symlog", linthresh=0.01)
    _widen(figure.axes[0], "x", 2)
    return figure


def _widen(panel: Axes, axis: str, factor: float) -> None:
    """Move the upper end of a logarithmic axis outwards, so that the last mark is whole."""
    low, high = getattr(panel, f"get_{axis}lim")()
    getattr(panel, f"set_{axis}lim")(low, high * factor)


def lengths(
    longer: Float[np.ndarray, "run length measure"],
    stretched: Float[np.ndarray, "run scaling measure"],
    runs: Sequence[tuple[str, int]],
    at: Sequence[int],
    scalings: Sequence[str],
) -> Figure:
    """Draw the loss by the length of the window, and at one length with other frequencies."""
    figure, axes = style.new(1, 2, size="wide", sharey=True)
    for (name, seed), by_length, by_scaling in zip(runs, longer[..., 0], stretched[..., 0], strict=True):
        look = {"color": VARIANTS[name], "marker": "o", "markersize": 3, "linestyle": style.SEEDS[seed]}
        axes[0].plot(at, by_length, **look, label=name if seed == 0 else None)
        axes[1].plot(range(len(scalings)), by_scaling, **{**look, "linestyle": ""})
    axes[0].set_xscale("log", base=2)
    axes[0].set_xticks(at, [f"{length:,}" for length in at])
    axes[0].set(xlabel="tokens in the window", ylabel="held-out loss, nats per token")
    axes[1].set_xticks(range(len(scalings)), scalings)
    axes[1].set(xlabel="frequencies, at 512 tokens")
    share_legend(figure, axes)
    return figure


def redrawn(
    longer: Mapping[str, Float[np.ndarray, "layer head distance"]], layer: int, head: int, trained: int
) -> Figure:
    """Draw one head's kernel beyond the trained length, with the frequencies of several schemes."""
    figure, panel = style.new(size="wide")
    for (name, values), colour in zip(longer.items(), (style.COLOURS["ink"], *COLOURS), strict=False):
        panel.plot(values[layer, head], color=colour, label=name)
    panel.axvline(trained, color=style.COLOURS["muted"], linestyle=":")
    panel.set(xlabel="distance to the key", ylabel="kernel, nats")
    panel.legend()
    return figure


def share_bars(shares: Mapping[str, Float[np.ndarray, "layer head part"]]) -> Figure:
    """Draw each head's shares as bars, positive ones stacked upwards and negative ones downwards."""
    figure, axes = style.new(1, len(shares), size="wide", sharey=True)
    for panel, values, title in zip(axes, shares.values(), COUNTED, strict=True):
        rows = values.reshape(-1, values.shape[-1])
        names = [f"{layer}.{head}" for layer in range(values.shape[0]) for head in range(values.shape[1])]
        up, down = np.zeros(len(rows)), np.zeros(len(rows))
        for part, colour, label in zip(rows.T, COLOURS, PARTS.values(), strict=True):
            panel.bar(names, part, bottom=np.where(part >= 0, up, down), color=colour, label=label)
            up, down = up + np.maximum(part, 0), down + np.minimum(part, 0)
        panel.tick_params(axis="x", rotation=90)
        panel.set(title=title, xlabel="head")
    axes[0].set_ylabel("explained divergence, nats per row")
    share_legend(figure, axes)
    return figure
