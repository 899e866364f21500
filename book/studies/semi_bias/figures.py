"""Figures of the chapter on the semi-bias. Each takes arrays and returns a Figure."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from analysis.plotting import style
from analysis.plotting.ladder import Ladder, draw_lines, share_legend

PARTS = "The ramp alone, $T^p$", "The circle alone, $T^{pp}$", "Both"


@style.in_style
def position_table(
    table: np.ndarray, every: int, axes_scores: np.ndarray, share: np.ndarray, *, ax: style.Panels | None = None
) -> Figure:
    """Draw the table of positions beside its first principal axes.

    Parameters
    ----------
    table
        ``(row, model)``: every ``every``-th row; the colour scale ends at its largest entry.
    axes_scores
        ``(position, axis)``, of which the first three are drawn; ``share`` is their part of the variance.
    """
    fig, [(left, right)] = style.panels(ax, 1, 2, size="wide", width_ratios=[1.25, 1])
    shown = left.imshow(
        table,
        aspect="auto",
        cmap=style.SCORE_CMAP,
        norm=style.centred(table),
        extent=(0, table.shape[1], len(table) * every, 0),
    )
    left.set(xlabel="channel of the stream", ylabel="position")
    left.set_title("The table is nearly blank", loc="left")
    fig.colorbar(shown, ax=left, label="entry of P", extend="both")
    names = ("content", "record", "positional")
    for axis, name in enumerate(names):
        right.plot(axes_scores[:, axis], color=style.COLOURS[name], label=f"axis {axis}: {100 * share[axis]:.0f} %")
    right.set(xlabel="position", ylabel="component of P")
    right.set_title("Three axes: two waves and a ramp", loc="left")
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3, columnspacing=0.8, handlelength=1)
    return style.many_marks(fig)


@style.in_style
def maps(
    scores: dict[str, np.ndarray],
    size: str = "tall",
    xlabel: str = "position of the key",
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw heads x positions maps under each other, each with its own scale centred at 0.

    A scale ends where 9 of 10 entries are within it, so that the faint heads are seen beside the strong ones.
    """
    fig, rows = style.panels(ax, len(scores), 1, size=size, sharex=True)
    for panel, (title, values) in zip(rows[:, 0], scores.items(), strict=True):
        norm = style.centred(values, float(np.quantile(np.abs(values), 0.9)))
        shown = panel.imshow(
            values,
            aspect="auto",
            cmap=style.SCORE_CMAP,
            norm=norm,
            extent=(-0.5, values.shape[1] - 0.5, len(values) - 0.5, -0.5),
        )
        panel.set_title(title, loc="left")
        panel.set(ylabel="head", yticks=range(0, len(values), 1 if len(values) < 10 else 2))
        fig.colorbar(shown, ax=panel, label="nats", pad=0.01, aspect=12, extend="both")
    rows[-1, 0].set_xlabel(xlabel)
    return style.many_marks(fig)


@style.in_style
def curves(lead: np.ndarray, heads: tuple[int, ...], *, ax: style.Panels | None = None) -> Figure:
    """Draw by how much each key's semi-bias exceeds that of key 0, with a dot on the first key that beats key 0.

    ``lead`` is ``(width, head, position)`` for tokens as wide as a position and for tokens twice as wide.
    """
    fig, [panels] = style.panels(ax, 1, 2, size="wide", sharey=True)
    titles = "As wide as positions: key 0 leads for hundreds", "Twice as wide: for fewer, in one head for none"
    for panel, title, scores in zip(panels, titles, lead, strict=True):
        panel.axhline(0, color=style.COLOURS["muted"], linewidth=0.8)
        for head in heads:
            panel.plot(scores[head], color=style.COLOURS["semi_bias"], alpha=0.45, linewidth=1)
            if (beats := scores[head] > 0).any():
                panel.plot(beats.argmax(), 0, "o", markersize=4, color=style.COLOURS["ink"], zorder=3)
        panel.set(xlabel="position of the key")
        panel.set_title(title, loc="left")
    panels[0].set(ylabel="semi-bias above that of key 0, nats", ylim=(-8, 8))
    return fig


@style.in_style
def endings(
    tilt: np.ndarray, ladder: Mapping[str, np.ndarray], uniform: float, *, ax: style.Panels | None = None
) -> Figure:
    """Draw every head of every seed, and of the controls in grey: how near position-only attention lies, the spread.

    Parameters
    ----------
    tilt
        ``(seed, measure, head)``: rank correlation, spread in nats, mass on the nearest keys of T^p and of both.
    ladder
        By rung, the same of the controls.
    uniform
        The mass under equal weights.
    """
    fig, [panels] = style.panels(ax, 1, 2, size="wide", sharey=True)
    rows = {f"seed {seed}": (values.T, "trained") for seed, values in enumerate(tilt)}
    rows |= {rung: (values.swapaxes(1, 2).reshape(-1, values.shape[1]), "control") for rung, values in ladder.items()}
    for y, (values, kind) in enumerate(rows.values()):
        for panel, measure in zip(panels, (3, 1), strict=True):
            panel.plot(values[:, measure], np.full(len(values), y), "o", color=style.COLOURS[kind], markersize=4)
    left, right = panels
    left.axvline(uniform, color=style.COLOURS["uniform"], linestyle="--")
    left.annotate("even", (uniform, -0.6), ha="center", va="bottom", annotation_clip=False)
    left.set(xlabel="weight on the nearest 16 keys, ramp and circle", yticks=range(len(rows)), yticklabels=list(rows))
    left.invert_yaxis()
    right.set(xlabel="spread of the semi-bias over positions, nats", xscale="log")
    right.set_title("No control has the size", loc="left")
    return style.many_marks(fig)


@style.in_style
def peaks(distance: np.ndarray, *, ax: style.Panels | None = None) -> Figure:
    """Draw, for every head and query, how far back the largest weight of each position-only attention lies."""
    fig, grid = style.panels(ax, 3, 1, size="tall", sharex=True)
    rows = grid[:, 0]
    heads, queries = distance.shape[1:]
    for panel, part, values in zip(rows, PARTS, distance, strict=True):
        shown = panel.imshow(
            values,
            aspect="auto",
            cmap=style.WEIGHT_CMAP,
            vmin=0,
            vmax=queries,
            extent=(-0.5, queries - 0.5, heads - 0.5, -0.5),
        )
        panel.set_title(part, loc="left")
        panel.set(ylabel="head", yticks=range(0, heads, 1 if heads < 10 else 2))
    rows[-1].set_xlabel("position of the query")
    fig.colorbar(shown, ax=rows, label="how far back it looks, in positions (0: itself)", pad=0.01, aspect=30)
    return style.many_marks(fig)


@style.in_style
def null(observed: np.ndarray, quantiles: np.ndarray, *, ax: style.Panels | None = None) -> Figure:
    """Draw each head's rank correlation with position over what a random ``b_Q`` gives: 5, 50, 95 % of its size."""
    fig, [[panel]] = style.panels(ax, 1, 1, size="wide")
    heads = np.arange(len(observed))
    low, middle, high = quantiles
    panel.vlines(
        heads, low, high, color=style.COLOURS["control"], linewidth=5, alpha=0.5, label="random $b_Q$, 90 % of draws"
    )
    panel.plot(heads, middle, "_", color=style.COLOURS["ink"], markersize=9, label="their median")
    for sign, marker, name in ((1, "^", "later keys score higher"), (-1, "v", "earlier keys score higher")):
        here = np.sign(observed) == sign
        panel.plot(
            heads[here], np.abs(observed[here]), marker, color=style.COLOURS["semi_bias"], markersize=7, label=name
        )
    panel.set(xlabel="head", ylabel="size of rank correlation", xticks=heads, ylim=(0, 1.04))
    fig.legend(loc="outside upper center", ncols=4, columnspacing=0.9)
    return fig


@style.in_style
def layers(first_lead: np.ndarray, ladder: Ladder, *, ax: style.Panels | None = None) -> Figure:
    """Draw layers x heads: by how much key 0 is ahead; and by layer, in how many heads it is, over the controls."""
    fig, [(left, right)] = style.panels(ax, 1, 2, size="wide", width_ratios=[1.2, 1])
    norm = style.centred(first_lead, float(np.quantile(np.abs(first_lead), 0.9)))
    shown = left.imshow(first_lead, aspect="auto", cmap=style.SCORE_CMAP, norm=norm)
    left.set(xlabel="head", ylabel="layer", xticks=range(0, first_lead.shape[1], 2), yticks=range(len(first_lead)))
    fig.colorbar(shown, ax=left, label="lead of key 0, nats", extend="both")
    draw_lines(right, ladder)
    right.set(xlabel="layer", ylabel="heads in which key 0 is ahead", xticks=range(0, len(first_lead), 2))
    share_legend(fig, [right])
    return style.many_marks(fig)


@style.in_style
def rise(query_bias: np.ndarray, ln_bias: np.ndarray, *, ax: style.Panels | None = None) -> Figure:
    """Draw for every head what the rise of ``T^p`` is made of: the query bias, and the LayerNorm's bias on top."""
    fig, [[panel]] = style.panels(ax, 1, 1, size="wide")
    heads = np.arange(len(query_bias))
    panel.axhline(0, color=style.COLOURS["muted"], linewidth=0.8)
    for shift, values, concept, name in (
        (-0.2, query_bias, "semi_bias", "from the query bias"),
        (0.2, ln_bias, "token", "from the LayerNorm's bias"),
    ):
        panel.bar(heads + shift, values, 0.4, color=style.COLOURS[concept], label=name)
    panel.set(xlabel="head", ylabel="rise of the semi-bias, nats", xticks=heads)
    panel.set_title("Where the semi-bias is steepest, more than half of it is the LayerNorm's", loc="left")
    panel.legend()
    return fig


@style.in_style
def terms(parts: dict[str, np.ndarray], tokens: list[str], *, ax: style.Panels | None = None) -> Figure:
    """Draw score terms of one head as query x key maps on one scale, each less its mean, the future left blank."""
    columns = 3
    fig, axes = style.panels(ax, -(-len(parts) // columns), columns, size="tall", sharex=True, sharey=True)
    future = np.triu(np.ones((len(tokens),) * 2, dtype=bool), 1)
    hidden = {name: np.where(future, np.nan, np.broadcast_to(v, future.shape)) for name, v in parts.items()}
    hidden = {name: values - np.nanmean(values) for name, values in hidden.items()}
    norm = style.centred(np.stack(list(hidden.values())))
    for panel, (name, values) in zip(axes.flat, hidden.items(), strict=False):  # the last row may be short
        shown = panel.imshow(values, cmap=style.SCORE_CMAP, norm=norm, aspect="auto")
        panel.set_title(name, loc="left")
        panel.set_xticks(range(0, len(tokens), 4))
        panel.set_yticks(range(len(tokens)), tokens)
    fig.supxlabel("key: the same tokens, counted from 0")
    fig.supylabel("query")
    fig.colorbar(shown, ax=axes, label="nats", aspect=30)
    return fig


@style.in_style
def norm_against_semi_bias(
    norm: np.ndarray, scores: np.ndarray, frequency: np.ndarray, titles: list[str], *, ax: style.Panels | None = None
) -> Figure:
    """Draw token norm against token semi-bias, one panel per head, coloured by how often the token occurs.

    Tokens that never occur are left out: their vectors were hardly trained, and are the longest.
    """
    occurs = frequency > 0
    fig, axes = style.panels(ax, 2, -(-len(scores) // 2), size="tall", sharex=True, sharey=True)
    for panel, (values, title) in zip(axes.flat, zip(scores, titles, strict=True), strict=False):
        colour = np.log10(1 + frequency[occurs])
        shown = panel.scatter(norm[occurs], values[occurs], c=colour, s=4, linewidths=0, cmap=style.WEIGHT_CMAP)
        panel.axhline(0, color=style.COLOURS["muted"], linewidth=0.8)
        panel.set_title(title.replace("-", "\N{MINUS SIGN}"), loc="left")
    fig.supxlabel("norm of the token's embedding")
    fig.supylabel("semi-bias of the token, nats")
    fig.colorbar(shown, ax=axes, label="log10 (1 + count in the training text)", aspect=30)
    return style.many_marks(fig)


@style.in_style
def emergence(
    step: np.ndarray, loss: np.ndarray, rho: np.ndarray, size: np.ndarray, *, ax: style.Panels | None = None
) -> Figure:
    """Draw loss, rank correlation and size of the first layer's positional semi-bias along training, seed by seed.

    Parameters
    ----------
    step
        ``(time,)``.
    loss
        ``(seed, time)``; ``rho`` and ``size`` are ``(seed, time, head)``. A line is the median head of a seed, the
        band reaches from the lowest to the highest head of all seeds; step 0, where there is no semi-bias, has none.
    """
    fig, grid = style.panels(ax, 3, 1, size="tall", sharex=True)
    panels = grid[:, 0]
    at = np.maximum(step, 0.5)
    panels[0].plot(at, loss.T, color=style.COLOURS["ink"], linewidth=1)
    for panel, values in zip(panels[1:], (rho, size), strict=True):
        heads = values.transpose(1, 0, 2).reshape(len(step), -1)
        panel.fill_between(
            at[1:], heads[1:].min(1), heads[1:].max(1), color=style.COLOURS["semi_bias"], alpha=0.2, linewidth=0
        )
        panel.plot(at[1:], np.median(values, 2).T[1:], color=style.COLOURS["semi_bias"], linewidth=1)
    panels[0].set_ylabel("held-out loss,\nnats per token")
    panels[1].set_title("The direction comes first", loc="left")
    panels[2].set_title("The size comes later", loc="left")
    panels[1].axhline(0, color=style.COLOURS["muted"], linewidth=0.8)
    panels[1].set(ylabel="rank correlation\nwith position", ylim=(-1.05, 1.05))
    panels[2].set(ylabel="spread over\npositions, nats", xlabel="training step", xscale="log", ylim=(0, None))
    return fig


@style.in_style
def token_correlations(
    plain: np.ndarray, given: np.ndarray, null: np.ndarray, *, ax: style.Panels | None = None
) -> Figure:
    """Draw for every head the rank correlation of token norm and semi-bias.

    Parameters
    ----------
    plain
        ``(3, head)``: value, low, high.
    given
        ``(head,)``: the same once the ranks of token frequency are taken out.
    null
        ``(2, head)``: the range of 90 % of random ``b_Q``.
    """
    fig, [[panel]] = style.panels(ax, 1, 1, size="wide")
    heads = np.arange(plain.shape[1])
    panel.axhline(0, color=style.COLOURS["muted"], linewidth=0.8)
    panel.vlines(
        heads, *null, color=style.COLOURS["control"], linewidth=7, alpha=0.3, label="nine of ten random biases"
    )
    panel.errorbar(
        heads - 0.1,
        plain[0],
        yerr=np.abs(plain[1:] - plain[0]),
        fmt="o",
        color=style.COLOURS["semi_bias"],
        label="all words, 95 % interval",
    )
    panel.plot(heads + 0.1, given, "D", color=style.COLOURS["token"], label="equally common words")
    panel.set(xlabel="head", ylabel="rank correlation", xticks=heads, ylim=(-1.02, 1.02))
    panel.set_title("Among equally common words most heads lose the preference for long vectors", loc="left")
    fig.legend(loc="outside upper center", ncols=3)
    return fig


@style.in_style
def mixtures(
    weights: dict[str, np.ndarray], curve: np.ndarray, query: int, far: int, *, ax: style.Panels | None = None
) -> Figure:
    """Draw one query's weights under each mixture of scores, and query and far peak on the curve of the positions."""
    fig, [(keys, space)] = style.panels(ax, 1, 2, size="wide", width_ratios=(3, 2))
    for (name, values), colour in zip(weights.items(), ("content", "semi_bias"), strict=True):
        keys.plot(values, color=style.COLOURS[colour], label=name)
    keys.axvline(query, color=style.COLOURS["muted"], linewidth=0.8)
    keys.set(xlabel="position of the key", ylabel="attention weight", yscale="log", ylim=(1e-5, 1))
    keys.legend(loc="upper left")
    space.plot(curve[:, 0], curve[:, 2], color=style.COLOURS["muted"], linewidth=1)
    for at, name, colour in ((query, "the query", "semi_bias"), (far, "where the circle alone looks", "content")):
        space.plot(*curve[at, [0, 2]], "o", color=style.COLOURS[colour], label=f"{name}, {at}")
    space.set(xlabel="around the circle", ylabel="up the ramp")
    space.legend(loc="upper left")
    return fig
