"""The viewer of one score: the four parts of the scores between two words, in one coordinate."""

import numpy as np
from matplotlib.figure import Figure

from analysis import draw_equation

START = {"wq": 2, "bq": 1, "wk": 1, "bk": 3}


def draw() -> Figure:
    """Draw the four parts of the scores between two words, which are 0 and 1 in the coordinate that the head reads."""
    word, one = np.array([[0.0], [1.0]]), np.ones((2, 1))
    queries, keys = (START["wq"] * word, START["bq"] * one), (START["wk"] * word, START["bk"] * one)
    parts = [queries[q] @ keys[k].T for q, k in ((0, 0), (1, 0), (0, 1), (1, 1))]
    titles = ["score", "content", "semi-bias", "query side", "constant"]
    names = {"rows": ["A looks", "B looks"], "columns": [["at A", "at B"]] * 5}
    return draw_equation([sum(parts), *parts], "=+++", titles, kind="scores", **names)
