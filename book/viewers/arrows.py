"""The turning arrows: one head's kernel as arrows laid end to end, from the record of SmolLM2's kernels."""

from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

from analysis.plotting import style
from book.experiments.rotary_smollm2 import FAST, LENGTH
from book.publish.records import Record

KEPT = 18  # pairs; the others turn by less than a tenth of a radian over these distances
PAIRS = {"fast": slice(FAST), "slow": slice(FAST, None), "all": slice(None)}
START = {"distance": 1, "pairs": 2, "random": 0, "head": 0}
"""What the viewer shows at first: all arrows of the strongest head, for the word before."""


@style.in_style
def draw(record: Record, distance: int = START["distance"]) -> Figure:
    """Draw a kernel as arrows laid end to end at one distance, and over all distances."""
    length, angle = (record.array(name)[START["head"], :KEPT].astype(float) for name in ("length", "angle"))  # radians
    turn = record.array("turn")[:KEPT].astype(float)  # radians per position
    over = np.arange(LENGTH)
    steps = length * np.exp(1j * (angle + turn * distance))
    ends = np.concatenate([[0], np.cumsum(steps)])
    reach = length[:, None] * np.cos(angle[:, None] + np.outer(turn, over))
    colours = {name: style.COLOURS[of] for name, of in zip(PAIRS, ("semi_bias", "content", "ink"), strict=True)}
    figure, [(plane, panel)] = style.panels(None, 1, 2, size="wide", width_ratios=(1, 1.4))
    plane.plot((0, 0), (0, ends[-1].imag), ":", color=style.COLOURS["muted"])
    plane.plot((0, ends[-1].real), (ends[-1].imag,) * 2, color=colours["all"], linewidth=4, alpha=0.35)
    for pair, (tail, tip) in enumerate(pairwise(ends)):
        colour = colours["fast" if pair < FAST else "slow"]
        look = {"arrowstyle": "->", "color": colour, "shrinkA": 0, "shrinkB": 0}
        plane.annotate("", (tip.real, tip.imag), (tail.real, tail.imag), arrowprops=look)
    plane.plot(ends.real, ends.imag, alpha=0)  # the limits of the axes follow lines, not arrows
    plane.set(title=f"A key {distance} back: how far to the right?", xlabel="nats", aspect="equal")
    plane.set_yticks([])
    names = {"fast": f"the {FAST} fastest", "slow": f"the {KEPT - FAST} next", "all": "together: the kernel"}
    for name, kept in PAIRS.items():
        panel.plot(over, reach[kept].sum(0), color=colours[name], label=names[name])
    panel.plot(distance, reach[:, distance].sum(), "o", color=colours["all"])
    panel.set(title="The same at every distance", xlabel="how far back the key is, in tokens", ylabel="nats")
    panel.margins(y=0.3)  # room for the legend
    panel.legend(loc="upper right")
    return figure
