"""Where a newcomer who has read README alone looks first for a term of the field: it is there, and bears the term.

A place is a name of the face, a module, or a name in a module. It bears the term if every word of the term begins a
word of the place; a place that does not is the one where the term's subject stands.
"""

import re
from importlib import import_module

import pytest

PLACES = {
    "stable rank": "analysis.stable_rank",
    "effective rank": "analysis.effective_rank",
    "Lilliefors": "analysis.lilliefors",
    "sink": "analysis.maps.sinks",
    "tokenizer": "analysis.models.pretrained.tokenizer",
    "control": "analysis.models.controls",
    "induction score": "analysis.prefix_matching",
    "previous token": "analysis.previous_token_share",
    "OV": "analysis.ov_matrix",
    "QK": "analysis.qk_matrix",
    "ALiBi": "analysis.Alibi",
    "rotary": "analysis.transformer.rotary",
    "YaRN": "analysis.yarn",
    "norm fold": "analysis.fold_norm",
    "value bias fold": "analysis.fold_value_bias",
    "semi-bias": "analysis.semi_bias",
    "cone index": "analysis.cone_index",
    "anisotropy": "analysis.representations.anisotropy",
    "KL divergence": "analysis.kullback_leibler",
    "entropy": "analysis.maps.entropy",
    "rank collapse": "analysis.representations.rank_collapse",
    "gate": "analysis.gates",
    "causal mask": "analysis.mask_future",
    "sliding window": "analysis.Mask",
    "grouped queries": "analysis.AttentionLayer",
    "QK norm": "analysis.QueryKeyNorm",
    "heat map": "analysis.reporting.figures.heat_map",
    "confidence interval": "analysis.statistics.intervals",
    "soft cap": "analysis.AttentionLayer.soft_cap",
    "Shapley value": "analysis.maps.shapley_values",
    "rank correlation": "analysis.rank_correlation",
    "K-composition": "analysis.k_composition",
}


def bears(term: str, place: str) -> bool:
    """Say whether every word of a term begins a word of a place.

    >>> bears("norm fold", "analysis.fold_norm"), bears("norm", "analysis.enormous")
    (True, False)
    """
    words = re.split(r"[._]", place.lower())
    return all(any(word.startswith(part) for word in words) for part in re.split(r"[ -]", term.lower()))


@pytest.mark.parametrize("place", PLACES.values())
def test_the_place_is_there(place):
    package, *names = place.split(".")
    found = import_module(package)
    for depth, name in enumerate(names, 1):
        if name in getattr(found, "__dataclass_fields__", {}):
            return
        try:
            found = getattr(found, name)
        except AttributeError:
            found = import_module(".".join([package, *names[:depth]]))


def test_of_32_terms_at_least_24_are_where_the_term_itself_stands():
    assert len(PLACES) == 32
    assert sum(bears(term, place) for term, place in PLACES.items()) >= 24
