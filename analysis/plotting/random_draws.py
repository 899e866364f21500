"""One number per head and what random draws give: is the trained value more than chance would do?"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from analysis.plotting import style

PerHead = Float[Tensor | np.ndarray, " _head"]
PerDraw = Float[Tensor | np.ndarray, "_draw _head"]


@style.in_style
def draw_beside_random(
    panels: Mapping[str, tuple[PerHead, PerDraw]],
    *,
    ax: style.Panels | None = None,
    colours: tuple[str, str] = (style.COLOURS["semi_bias"], style.COLOURS["control"]),
) -> Figure:
    """Draw each head's trained value as a triangle over the values of random draws in grey, a panel per measure.

    Parameters
    ----------
    panels
        By title, the trained values of the heads, and those of every draw.
    ax
        The panels to draw into, one for each that is drawn; default: a new figure.
    colours
        Colours of the trained values and of the random ones.

    Raises
    ------
    ValueError
        If a panel's draws are of other heads than its trained values.

    Examples
    --------
    >>> figure = draw_beside_random({"size": (np.array([3.0, 4.0]), np.ones((5, 2)))})
    >>> figure.axes[0].lines[-1].get_ydata().tolist()
    [3.0, 4.0]
    """
    figure, axes = style.panels(ax, 1, len(panels))
    for panel, (title, (trained, drawn)) in zip(axes[0], panels.items(), strict=True):
        own, random = np.asarray(trained), np.asarray(drawn)
        if random.ndim != 2 or random.shape[1:] != own.shape:
            raise ValueError(f"{title!r} must be (head,) and (draw, head) of one size, got {own.shape}, {random.shape}")
        panel.plot(random.T, "_", color=colours[1])
        panel.plot([], [], "_", color=colours[1], label="random")
        panel.plot(own, "^", color=colours[0], label="trained")
        panel.set(xlabel="head", xticks=range(len(own)))
        panel.set_title(title, loc="left")
    style.legend(figure, ax, *axes[0, 0].get_legend_handles_labels(), columns=2)
    return figure
