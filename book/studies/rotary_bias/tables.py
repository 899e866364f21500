"""Tables of the chapter on rotary positions."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from analysis.models.key_bias import Effect
from book.studies.rotary_bias.parts import EXACT, PARTS, WAYS, Exactness, cancels
from book.studies.rotary_bias.runs import seeds_of
from book.studies.rotary_bias.seeds import mean_shares

KEY_BIAS = {
    "gpt2": ("GPT-2, learned positions", "b_K"),
    "bloom": ("BLOOM, ALiBi", "b_K"),
    "gpt_neox, rest": ("GPT-NeoX, a quarter turned", "b_K where it is not turned"),
    "gpt_neox, turned": ("GPT-NeoX, a quarter turned", "b_K where it is turned"),
    "qwen2": ("Qwen2, all turned", "b_K"),
    "qwen2, no rotation": ("Qwen2, turned by 0", "b_K"),
    "qwen3, no rotation": ("Qwen3, normalised, turned by 0", "b_K"),
    "gpt_oss, no rotation": ("gpt-oss, with sinks, turned by 0", "b_K"),
}
"""A module and what is set to 0 in it, by the names of `analysis.models.key_bias`."""

LEFT_OUT = {
    "no key bias": ("key bias", "mean key"),
    "no query bias": ("query bias", "mean query"),
    "content only": ("both biases", "both means"),
    "no semi-bias": ("semi-bias of the biases", "semi-bias of the means"),
    "no query side": ("query side of the biases", "query side of the means"),
    "no kernel": ("kernel of the biases", "kernel of the means"),
}
"""What is left out in each of `WAYS` but the first, where the constants are the biases and where they are the means."""


def key_bias(effects: Mapping[str, Effect]) -> pd.DataFrame:
    """Return the largest change of an attention weight in each module when its key bias is set to 0.

    >>> key_bias({"gpt2": Effect(1e-16, False)})["cancels"].tolist()
    [True]
    """
    rows = [(KEY_BIAS[case][1], effect.change, cancels(effect)) for case, effect in effects.items()]
    names = pd.Index([KEY_BIAS[case][0] for case in effects], name="module")
    return pd.DataFrame(rows, names, ["set to 0", "largest change", "cancels"])


def errors(of: Exactness) -> pd.DataFrame:
    """Say of each identity, on each kind of module, whether it holds to rounding."""
    held = {f"four parts, {name}": error < EXACT for name, error in of.parts.items()}
    held |= {"kernel": of.kernel < EXACT, "border": of.border < EXACT, "gauge": of.gauge < EXACT}
    return pd.DataFrame({"exact": held.values()}, pd.Index(held, name="identity"))


def rises(of: Mapping[str, Float[np.ndarray, "run counted way"]], learned: np.ndarray) -> pd.DataFrame:
    """Return by how much the loss rises without a part, mean over a variant's seeds.

    ``learned`` is the same, ``(counted, way)``, of gpt2-mini.

    >>> frame = rises({"a": np.full((2, 2, len(WAYS)), 0.5)}, np.zeros((2, len(WAYS))))
    >>> frame.loc["kernel of the means"].tolist()
    [0.5, 0.0]
    """
    ways = [list(WAYS).index(way) for way in LEFT_OUT]
    names = [name for counted in range(2) for name in (names[counted] for names in LEFT_OUT.values())]
    columns = {name: values.mean(0) for name, values in of.items()} | {"gpt2-mini": learned}
    return pd.DataFrame(
        {name: values[:, ways].ravel() for name, values in columns.items()}, pd.Index(names, name="left out")
    )


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
