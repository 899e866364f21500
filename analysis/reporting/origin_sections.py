"""The sections of a report that depend on the origin: preferred distances or positions, and the parts of the scores.

Both are shown counted from 0, where the parts are those of the biases, and, where the model was run, counted from the
mean input of the texts.
"""

import numpy as np
from jaxtyping import Float
from scipy.stats import norm

from analysis.reporting import figures
from analysis.reporting.measurement import FEW, Measurement
from analysis.reporting.observations import OF_HEADS, PARTS
from analysis.reporting.page import Section
from analysis.reporting.parameters import LINE, late_over_early

ROTARY = {"evidence/rotary-bias": "The bias that comes back"}
COUNTED = {"parts": "counted from 0", "mean_parts": "counted from the mean input"}
SMALL = 0.1
"""Nats that are too few to speak of: they change a weight by a tenth."""
UNIFORM = 0.01
"""A share of the largest entropy: attention whose rows lack less is taken for uniform."""
FAINT = 0.005
"""A share below this is not mentioned."""


def make_positions(measured: Measurement) -> Section | None:
    """Return what heads prefer of distance, or of positions where these are learned; none where there is neither."""
    if any(layer.kernel is not None for layer in measured.parameters) or measured.mean_kernels:
        return _distances(measured)
    if measured.position_curves is None:
        return None
    curves = measured.position_curves
    chapters = {"evidence/semi-bias": "The bias that does not cancel"}
    if np.ptp(curves, axis=-1).max() < SMALL:
        return Section(
            "Preferred positions",
            f"In the first layer no head's semi-bias tells two positions apart by {SMALL} nats or more.",
            chapters=chapters,
        )
    rise, widest = late_over_early(curves), int(np.ptp(curves, axis=-1).argmax())
    return Section(
        "Preferred positions",
        f"In the first layer {(rise > LINE).sum()} of {len(curves)} heads prefer the second half of the positions and "
        f"{(rise < -LINE).sum()} the first, whatever the text is, further than {LINE} standard deviations of the same "
        f"positions out of order (chance: {2 * len(curves) * norm.sf(LINE):.1g} heads). Head {widest} tells positions "
        f"apart by up to {np.ptp(curves[widest]):.2f} nats.",
        figures.heat_map(curves, xlabel="position of the key", ylabel="head", label="nats", centred=True),
        f"Heat map of {len(curves)} heads over positions.",
        "The semi-bias of each position in the first layer, each head around its mean, from the weights alone, counted "
        "from 0: query bias and the bias of the norm before the layer.",
        chapters=chapters,
    )


def _distances(measured: Measurement) -> Section:
    layers = measured.parameters
    kernels = {
        "query and key bias": [layer.own_kernel for layer in layers],
        "with the bias of the norm": [layer.kernel for layer in layers],
        "mean input": measured.mean_kernels or [None] * len(layers),
    }
    if all(kernel is None for kernel in kernels["query and key bias"]):  # ALiBi's lines are nobody's biases
        kernels = {"positions": kernels["with the bias of the norm"], "mean input": kernels["mean input"]}
    sizes = {
        name: np.array([0.0 if kernel is None else np.ptp(kernel, axis=-1).max() for kernel in of])
        for name, of in kernels.items()
    }
    drawn = {
        f"{name}, layer {size.argmax()}": kernels[name][int(size.argmax())]
        for name, size in sizes.items()
        if size.max() >= SMALL and name != "query and key bias"
    }
    rows = [
        {"layer": str(i)} | {f"{name} (nats)": f"{size[i]:.3f}" for name, size in sizes.items() if size.any()}
        for i in range(len(layers))
    ]
    return Section(
        "Preferred distances",
        " ".join(_say_distances(measured, kernels, sizes)),
        figures.kernels(drawn) if drawn else None,
        "Heat maps of the heads of a layer over distance.",
        "What the heads of a layer prefer by distance alone, each head around its mean; of each kind the layer with "
        "the largest. Counted from 0 this is what the biases say, and counted from the mean input what all queries and "
        "all keys of the texts have in common. The table has the largest range over heads.",
        rows if drawn else (),
        ROTARY,
    )


def _say_distances(measured: Measurement, kernels: dict, sizes: dict) -> list[str]:
    """Describe what is preferred counted from 0, and counted from the mean input."""
    said = []
    fixed = {name: of.max() for name, of in sizes.items() if name != "mean input"}
    if not any(fixed.values()):
        said.append("Counted from 0 no head prefers a distance, since queries and keys have no bias.")
    elif max(fixed.values()) < SMALL:
        said.append(f"Counted from 0, from the weights alone, distance moves no score by {SMALL} nats or more.")
    else:
        ranges = ", ".join(f"{name} by up to {most:.2f} nats" for name, most in fixed.items())
        said.append(f"Counted from 0, from the weights alone, distance moves the score: {ranges}.")
    mean = sizes["mean input"]
    if not measured.mean_kernels:
        return [*said, "The kernel of the mean input takes texts, and was not measured."]
    counted = f"Counted from the mean input of {min(FEW, measured.trained.texts)} texts,"
    if mean.max() < SMALL:
        return [*said, f"{counted} distance moves no score by {SMALL} nats or more."]
    layer = int(mean.argmax())
    kernel = measured.mean_kernels[layer]
    head = int(np.ptp(kernel, axis=-1).argmax())
    return [
        *said,
        f"{counted} distance moves the score by up to {mean[layer]:.2f} nats, in layer {layer}, head {head}, most "
        f"between distances {int(kernel[head].argmin())} and {int(kernel[head].argmax())}.",
    ]


def make_parts(measured: Measurement) -> Section:
    """Return the shares of the parts of the score, counted from 0 and from the mean input."""
    chapters = {
        "evidence/one-score-four-parts": "How much each part of a score explains",
        "notation": "What is in one score",
    }
    if measured.not_split:
        return Section("Parts of the score", f"The scores are not split: {measured.not_split}.", chapters=chapters)
    lacks = 1 - measured.trained.mean("heads")[..., OF_HEADS.index("entropy")].mean(-1).min()
    if lacks < UNIFORM:
        return Section(
            "Parts of the score",
            f"Attention is uniform to within {UNIFORM:.0%} of the largest entropy in every layer: there is nothing of "
            "which the parts of the score could have a share.",
            chapters=chapters,
        )
    shares = {title: measured.trained.shares(name) for name, title in COUNTED.items()}
    said = [f"{title.capitalize()}, {_say_parts(of)}." for title, of in shares.items()]
    return Section(
        "Parts of the score",
        " ".join(said),
        figures.shares(shares, list(PARTS.values())),
        "Two panels of bars by layer, one colour for each part.",
        f"Share of each part in the divergence of the attention from uniform attention, over all heads and "
        f"{min(FEW, measured.trained.texts)} texts. Counted from 0, the parts are those of the biases, and what all "
        "rows have in common belongs to the content. Counted from the mean input, what all queries of the texts have "
        "in common stands in the place of the query bias, and what all keys have in common in that of the key bias. "
        "Parts that are constant along a row have exactly 0. The shares describe the model: an untrained one has such "
        "shares as well.",
        chapters=chapters | (ROTARY if measured.mean_kernels else {}),
    )


def _say_parts(shares: Float[np.ndarray, "layer part"]) -> str:
    """Say by layer how large the parts are; faint ones are left out.

    >>> _say_parts(np.array([[0.5, 0.5, 0.0, 0.0], [0.75, 0.25, 0.0, 0.0]]))
    'content makes 50% to 75% of how far the attention of a layer is from uniform, key semi-bias 25% to 50%'
    >>> _say_parts(np.array([[-0.001, 1.001, 0.0, 0.0]]))
    'content makes 0% to 0% of how far the attention of a layer is from uniform, key semi-bias 100% to 100%'
    """
    said = [
        f"{name} {of.min():z.0%} to {of.max():z.0%}"
        for name, of in zip(list(PARTS.values())[1:], shares.T[1:], strict=True)
        if np.abs(of).max() >= FAINT
    ]
    least, most = shares[:, 0].min(), shares[:, 0].max()
    first = f"content makes {least:z.0%} to {most:z.0%} of how far the attention of a layer is from uniform"
    return ", ".join([first, *said]) if said else "content makes all of the distance from uniform attention"
