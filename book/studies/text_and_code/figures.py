"""Figures of the page on the text and its code; they take arrays and return a figure."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from analysis.plotting import style
from book.studies.shared.layer_lines import Line, lines, over_units
from book.studies.shared.released_code import MapEntropies, Slices
from book.studies.text_and_code.layers import FORMS, MAPS, Picture
from book.studies.text_and_code.outputs import UNIFORM

FAULT_COLOURS = {
    "no bias": "content",
    "no mask": "positional",
    "next layer's input": "token",
    "stored columns": "record",
    "all four": "highlight",
}
KIND_COLOURS = dict(zip(MAPS, ("content", "highlight", "positional"), strict=True))
FORM_LOOKS = dict(zip(FORMS, (("content", "-"), ("content", ":"), ("highlight", "-"), ("highlight", ":")), strict=True))
RUNG_LOOKS = {
    "trained": ("trained", "-"),
    "random": ("control", "-"),
    "random, as large": ("control", "--"),
    "permuted": ("control", ":"),
}
NETWORK_LOOKS = {"BERT's": ("trained", "-"), "the code's": ("highlight", "-")}


NO_BAR = 0.03  # so short a bar is hardly seen, and its value is written


@style.in_style
def one_head_twice(
    picture: Picture, distances: Mapping[str, Float[np.ndarray, "passage layer"]], *, ax: style.Panels | None = None
) -> Figure:
    """Draw one head's map in the model and in the code, and how far maps move by each difference."""
    figure, [axes] = style.panels(ax, 1, 3, width_ratios=(1, 1, 1.5))
    limit = max(picture.own.max(), picture.coded.max())
    for panel, title, image in (
        (axes[0], "the model's map", picture.own),
        (axes[1], "rebuilt by the code", picture.coded),
    ):
        panel.imshow(image, cmap=style.WEIGHT_CMAP, vmin=0, vmax=limit, interpolation="nearest")
        panel.set(title=title, xlabel="key", ylabel="query", xticks=[], yticks=[])
    for fault, values in distances.items():
        mean = values.mean(0)
        axes[2].plot(mean, marker="o", color=style.COLOURS[FAULT_COLOURS[fault]], label=fault)
    axes[2].set(title="attention that lies elsewhere", xlabel="layer", ylim=(0, 1), xticks=range(len(mean)))
    figure.legend(loc="outside lower center", ncols=len(distances))
    return figure


@style.in_style
def slices(by_model: Mapping[str, Slices], *, ax: style.Panels | None = None) -> Figure:
    """Draw the largest singular value of the code's columns against that of the head, one dot per head."""
    figure, axes = style.panels(ax, 1, len(by_model))
    for panel, (title, values) in zip(axes[0], by_model.items(), strict=True):
        for kind, heads, columns in zip(MAPS, values.heads, values.columns, strict=True):
            panel.plot(
                heads.ravel(),
                columns.ravel(),
                "o",
                markersize=3,
                alpha=0.6,
                color=style.COLOURS[KIND_COLOURS[kind]],
                label=f"$W_{kind}$",
            )
        both = np.concatenate([values.heads.ravel(), values.columns.ravel()])
        ends = both.min(), both.max()
        panel.plot(ends, ends, ":", color=style.COLOURS["ink"])
        panel.set(title=title, xlabel=r"$\sigma_1$ of the head's matrix", ylabel=r"$\sigma_1$ of the code's columns")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


@style.in_style
def cone(
    forms: Mapping[str, Mapping[str, Float[np.ndarray, "passage state"]]], *, ax: style.Panels | None = None
) -> Figure:
    """Draw the forms of the index by state, over their value at the embeddings; a panel has a model and its control."""
    panels = {}
    for name, of in forms.items():
        model, _, control = name.partition(", ")
        for form, values in of.items():
            concept, dashes = FORM_LOOKS[form]
            mean = (values / values[:, :1]).mean(0)
            look = ("control", f"{control}, all forms", "-") if control else (concept, form, dashes)
            panels.setdefault(model, []).append(Line(mean, *look))
    return lines(panels, ["over that of the embeddings", *[""] * (len(panels) - 1)], ax=ax)


@style.in_style
def entropies(
    ideal: Mapping[str, MapEntropies], noise: Mapping[float, MapEntropies], *, ax: style.Panels | None = None
) -> Figure:
    """Draw the entropies of ideal gates and of noise: the code's, without and with blanked rows, and that of rows."""
    cases = {**ideal, **{f"noise, {deviation:g}": values for deviation, values in noise.items()}}
    figure, [axes] = style.panels(ax, 1, 2, sharey=True)
    at = np.arange(len(cases))
    for offset, field, concept, label in (
        (-0.2, "whole", "highlight", "whole map"),
        (0.2, "blanked", "record", "with blanked rows and columns"),
    ):
        axes[0].barh(
            at + offset,
            [getattr(values, field) for values in cases.values()],
            0.4,
            color=style.COLOURS[concept],
            label=label,
        )
    axes[1].barh(at, [values.rows for values in cases.values()], 0.6, color=style.COLOURS["content"], label="rows")
    for panel, fields in ((axes[0], ("whole", "blanked")), (axes[1], ("rows",))):
        for place, values in zip(at, cases.values(), strict=True):
            if (most := max(getattr(values, field) for field in fields)) < NO_BAR:
                panel.annotate(f"{most:.2f}", (most, place), (4, 0), textcoords="offset points", va="center")
    axes[0].set(yticks=at, yticklabels=list(cases), title="the code's, nats", xlim=(0, np.log(20)))
    axes[1].set(title=r"of rows, over $\ln n$", xlim=(0, 1))
    axes[0].invert_yaxis()
    figure.legend(loc="outside lower center", ncols=3)
    return figure


@style.in_style
def entropy_by_layer(
    value: Mapping[str, np.ndarray], row: Mapping[str, np.ndarray], *, ax: style.Panels | None = None
) -> Figure:
    """Draw both entropies of the classifier's class means by layer, with intervals over classes."""
    looks = {"trained": ("trained", "-"), "random": ("control", "-")}
    panels = {
        title: [Line(over_units(values), *_look(looks, name)) for name, values in of.items()]
        for title, of in (("the code's entropy, nats", value), (r"row entropy over $\ln n$", row))
    }
    figure = lines(panels, ["", ""], ax=ax)
    least = min(over_units(values).min() for values in row.values())
    style.drawn_panels(figure, ax)[1].set_ylim(least - 0.01, 1.005)  # all rows of the classifier are nearly uniform
    return figure


@style.in_style
def failing(
    by_network: Mapping[str, Mapping[str, Float[np.ndarray, "passage layer"]]], *, ax: style.Panels | None = None
) -> Figure:
    """Draw the shares of rows that fail after BERT's first LayerNorm and after the code's, in per cent."""
    panels = {
        name: [Line(100 * values.mean(0), *_look(NETWORK_LOOKS, kind)) for kind, values in kinds.items()]
        for name, kinds in by_network.items()
    }
    return lines(panels, ["% of rows that fail", *[""] * (len(panels) - 1)], level=(5.0, "chance"), ax=ax)


@style.in_style
def minimal_keys(
    recorded: Float[np.ndarray, "layer head"],
    keys: Mapping[str, Float[np.ndarray, "seed layer"]],
    *,
    ax: style.Panels | None = None,
) -> Figure:
    """Draw the recorded minimal keys beside ours: medians, with the range over heads or seeds; the scales differ."""

    def ranged(values: np.ndarray) -> np.ndarray:
        return np.stack([np.median(values, 1), values.min(1), values.max(1)], 1)

    here = [Line(ranged(values.T), *_look(RUNG_LOOKS, name)) for name, values in keys.items()]
    theirs = [Line(ranged(recorded), "record", "the authors' classifier")]
    figure = lines(
        {"recorded": theirs, "here": here},
        ["keys that hold 0.90 of a row", ""],
        level=(float(UNIFORM), "uniform"),
        ax=ax,
    )
    for panel, ends in zip(style.drawn_panels(figure, ax), ((300, 470), (440, 465)), strict=True):
        panel.set_ylim(*ends)
    return figure


@style.in_style
def frames(shares: Mapping[str, Float[np.ndarray, " frame"]], *, ax: style.Panels | None = None) -> Figure:
    """Draw the shares of a vocabulary's words in each frame; those that lost codons can reach stand out."""
    figure, axes = style.panels(ax, 1, len(shares), sharey=True)
    for panel, (title, values) in zip(axes[0], shares.items(), strict=True):
        colours = [style.COLOURS["content" if frame % 3 == 0 else "highlight"] for frame in range(len(values))]
        panel.bar(range(len(values)), 100 * values, color=colours)
        panel.set(title=title, xlabel="shift of the word, modulo 9", xticks=range(len(values)))
    axes[0, 0].set_ylabel("% of the words")
    return figure


def _look(looks: Mapping[str, tuple[str, str]], name: str) -> tuple[str, str, str]:
    """Return concept, label and dashes of a curve."""
    concept, dashes = looks[name]
    return concept, name, dashes
