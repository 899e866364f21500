"""Tables of the chapter on rotary positions."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from book.studies.rotary_bias.runs import seeds_of
from book.studies.rotary_bias.seeds import mean_shares
from book.studies.rotary_bias.shares import PARTS


def shares(of: Float[np.ndarray, "run counted layer head part"], runs: Sequence[tuple[str, int]]) -> pd.DataFrame:
    """Return what each part explains of a layer's attention, counted from the mean input, mean over a variant's seeds.

    >>> shares(np.ones((1, 2, 2, 8, 5)), [("a", 0)]).loc["a, layer 1", "kernel"]
    np.float64(0.25)
    """
    rows, names = [], []
    for name in dict.fromkeys(name for name, _ in runs):
        own = seeds_of(name, runs)
        by_layer = mean_shares(of[own])[:, 1].mean(0)
        rest = abs(of[own, 1, :, :, len(PARTS)]).max((0, 2))
        for layer, parts in enumerate(by_layer):
            names.append(f"{name}, layer {layer}")
            rows.append([*parts, rest[layer]])
    columns = [*(part.replace("semi_bias", "semi-bias").replace("_", " ") for part in PARTS), "not turned"]
    return pd.DataFrame(rows, pd.Index(names, name="model"), columns)
