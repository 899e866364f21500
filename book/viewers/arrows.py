"""The turning arrows: one head's kernel as arrows laid end to end, from the record of neox-mini's kernels."""

from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

from analysis.plotting import style
from book.publish.records import Record

DISTANCES = 128
DISTANCE = 1  # of the static picture
START = {"distance": 0, "source": 1, "random": 0, "layer": 1, "head": 7}
"""What the viewer shows at first; source 1 is the mean query and the mean key."""


@style.in_style
def draw(record: Record, distance: int = DISTANCE) -> Figure:
    """Draw a kernel as arrows laid end to end at one distance, and over all distances."""
    place = START["source"], START["layer"], START["head"]
    length, angle = (record.array(name)[place].astype(float) for name in ("length", "angle"))  # nats, radians
    turn = record.array("turn").astype(float)  # radians per position
    over = np.arange(DISTANCES)
    steps = length * np.exp(1j * (angle + turn * distance))
    ends = np.concatenate([[0], np.cumsum(steps)])
    reach = (length * np.cos(angle + np.outer(over, turn))).sum(1)
    figure, [(plane, panel)] = style.panels(None, 1, 2, size="wide", width_ratios=(1, 1.4))
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
