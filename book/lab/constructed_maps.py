"""Maps of heads that a formula defines, and how far other maps on the same tokens are from them."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from analysis.maps import distance
from analysis.transformer import constructed_heads
from book.lab.score_shares import choose_rows

FAMILIES = {
    "uniform": "uniform",
    "constant": "constant pattern",
    "previous": "previous token",
    "matched": "matched token",
    "T^p": "T^p",
    "T^pp": "T^pp",
    "both": "T^p and T^pp",
}
SLOPES, PERIODS = (1.0, 0.1), (8, 16, 64)


def members(tokens: Int[Tensor, " position"], *, causal: bool) -> dict[str, Float[Tensor, "member query key"]]:
    """Return the maps of all formulas on these tokens, by family.

    A constant pattern prefers the text's first token, or without a mask its last or commonest one (under a mask, what
    stands late is seen by few, and the map is uniform). Ramps have two slopes, circles three periods.
    """
    _, tokens = torch.unique(tokens, return_inverse=True)
    size = int(tokens.max()) + 1, len(tokens)
    favourites = dict.fromkeys((int(tokens[0]), int(tokens[-1]), int(tokens.bincount().argmax()))[: 1 if causal else 3])
    periods = [period for period in PERIODS if period <= len(tokens)] or [PERIODS[0]]
    built = {
        "uniform": [constructed_heads.uniform(*size)],
        "constant": [constructed_heads.constant_pattern(*size, token) for token in favourites],
        "previous": [constructed_heads.previous_token(*size)],
        "matched": [constructed_heads.matched_token(*size)],
        "T^p": [constructed_heads.position_bias(*size, slope) for slope in SLOPES],
        "T^pp": [constructed_heads.position_match(*size, period) for period in periods],
        "both": [constructed_heads.position_both(*size, SLOPES[1], period) for period in periods],
    }

    def attend(layer):
        return constructed_heads.attention_map(layer.to(tokens.device), tokens, causal=causal)

    return {name: torch.stack([attend(layer) for layer in its]) for name, its in built.items()}


def distances(
    maps: Float[Tensor, "*batch head query key"], tokens: Int[Tensor, " position"], *, causal: bool
) -> Float[Tensor, "*batch head family"]:
    """Return the distance of each map to the nearest member of each family, on the rows that are split."""
    found, rows = members(tokens, causal=causal), choose_rows(tokens)
    return torch.stack(
        [distance.mean_total_variation(maps[..., rows, :], found[name][:, rows]).amin(-1) for name in FAMILIES], -1
    )
