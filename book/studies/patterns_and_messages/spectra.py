"""How many directions the patterns and messages of GPT-2's heads use, and how large a pattern's constant part is."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import spearmanr

from analysis.matrices.rank import effective_rank
from analysis.models.controls import RUNGS
from analysis.plotting.ladder import Ladder
from book import publish
from book.publish import Inputs, Numbers


@dataclass(frozen=True)
class Spectra(Numbers):
    """GPT-2's heads: singular values ``(head of all layers, channel)`` and effective ranks, by matrix.

    ``varying`` and ``constant`` are the sizes of the two parts of each pattern, ``(layer, head)``, in nats, the
    constant part with the LayerNorm's bias (effective semi-bias); ``query_bias`` is what b_Q alone gives (raw).
    ``ladder`` holds effective ranks of the patterns and messages, median head of each layer, with the controls.
    """

    smallest: str
    rank_control: str
    rank_pattern: str
    rank_lowest: str
    message_lowest: str
    message_head: str
    ratio_largest: str
    ratio_median: str
    ratio_above: str
    ratio_first: str
    raw_largest: str
    raw_above: str
    raw_first: str
    ladder_lowest: str
    pattern_below: str  # layers whose median head uses fewer directions than that of every control
    message_below: str
    linked: str
    grown: str
    narrow_rank: str
    narrow: str
    values: Mapping[str, np.ndarray]
    ranks: Mapping[str, np.ndarray]
    varying: np.ndarray
    constant: np.ndarray
    query_bias: np.ndarray
    ladder: Mapping[str, Ladder]
    control_varying: np.ndarray


def measure_spectra(inputs: Inputs) -> tuple[Spectra, str]:
    """Read the recorded singular values of GPT-2's heads and the sizes of the two parts of their patterns."""
    record, source = publish.live_or_record("patterns-and-messages-spectra-gpt2", inputs)
    values = {
        f"{prefix}{name}": record.array(f"{prefix}{name}").reshape(-1, 64)
        for name in ("pattern", "message", "augmented")
        for prefix in ("", "control_")
    }
    ranks = {name: effective_rank(torch.from_numpy(array)).numpy() for name, array in values.items()}
    varying, constant, query_bias = (record.array(name) for name in ("varying", "constant", "query_bias"))
    raw, controls = query_bias / varying, {name: record.array(f"ladder_{name}_rank") for name in ("pattern", "message")}
    ladder = {
        f"{name} W_{name[0].upper()}": Ladder(
            np.median(ranks[name].reshape(varying.shape), 1),
            dict(zip(RUNGS, np.median(controls[name], -1), strict=True)),
        )
        for name in controls
    }
    return Spectra(
        **phrase_ranks(values, ranks),
        **phrase_ratios(constant / varying, ranks["pattern"]),
        raw_largest=f"{raw.max():.1f}",
        raw_above=str(int((raw > 1).sum())),
        raw_first=str(int((raw[1] > 1).sum())),
        query_bias=query_bias,
        ladder=ladder,
        pattern_below=count_below(ladder["pattern W_P"]),
        message_below=count_below(ladder["message W_M"]),
        ladder_lowest=f"{min(table.min() for table in controls.values()):.1f}",
        values=values,
        ranks=ranks,
        varying=varying,
        constant=constant,
        control_varying=record.array("control_varying"),
    ), source


def count_below(ladder: Ladder) -> str:
    """Count the layers in which the trained value is below that of every control."""
    lowest = np.min([values.min(0) for values in ladder.controls.values()], 0)
    return str(int((ladder.trained < lowest).sum()))


def phrase_ranks(values: Mapping[str, np.ndarray], ranks: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Write down how many directions the patterns and messages of GPT-2's heads use."""
    smallest = min((values[name][:, -1] / values[name][:, 0]).min() for name in ("pattern", "message"))
    layer, head = divmod(int(ranks["message"].argmin()), 12)
    grown = values["augmented"][:, 0] / values["pattern"][:, 0] - 1
    return {
        "smallest": f"{smallest:.4f}",
        "rank_control": f"{np.median(ranks['control_pattern']):.1f}",
        "rank_pattern": f"{np.median(ranks['pattern']):.1f}",
        "rank_lowest": f"{ranks['pattern'].min():.1f}",
        "message_lowest": f"{ranks['message'].min():.1f}",
        "message_head": f"{head} of layer {layer}",
        "grown": f"{grown.max():.0%}",
    }


def phrase_ratios(ratio: Float[np.ndarray, "layer head"], ranks: Float[np.ndarray, " heads"]) -> dict[str, str]:
    """Write down how large the constant part is over the varying one, and whether such patterns are narrow."""
    narrow = np.argsort(ranks)[:7]
    return {
        "ratio_largest": f"{ratio.max():.1f}",
        "ratio_median": f"{np.median(ratio):.2f}",
        "ratio_above": str(int((ratio > 1).sum())),
        "ratio_first": str(int((ratio[1] > 1).sum())),
        "linked": f"{spearmanr(ratio.ravel(), ranks).statistic:+.2f}",
        "narrow_rank": f"{ranks[narrow].max():.1f}",
        "narrow": _all_or(int((ratio.ravel()[narrow] > 1).sum()), len(narrow)),
    }


def _all_or(number: int, of: int) -> str:
    """Write how many of some, or that it is all of them.

    >>> _all_or(7, 7), _all_or(3, 7)
    ('all of them', '3')
    """
    return "all of them" if number == of else str(number)
