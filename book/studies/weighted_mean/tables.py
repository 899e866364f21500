"""Tables of the chapter on attention as a weighted mean: frames whose index names the rows."""

from collections.abc import Mapping

import pandas as pd

from book.studies.weighted_mean.identities import ONE_MAP, REWRITINGS, Case, Folding


def folding_errors(folding: Folding) -> pd.DataFrame:
    """Return the largest difference to each module over its largest output, a row per form of the layer."""
    forms = (*REWRITINGS, ONE_MAP)
    columns = {f"random {family} layer": [gap[form] for form in forms] for family, gap in folding.random.items()}
    columns["worst layer of GPT-2"] = [float(folding.gpt2[form].max()) for form in forms]
    return pd.DataFrame(columns, index=pd.Index(forms, name="form"))


def uniform_cases(cases: Mapping[str, Case]) -> pd.DataFrame:
    """Return of each layer its two sizes, in nats, and how far its causal weights are from ``1 / i``."""
    rows = [(case.content, case.constant, case.distance) for case in cases.values()]
    return pd.DataFrame(
        rows,
        index=pd.Index(cases, name="layer"),
        columns=["size of the content", "size of the semi-bias", "distance from 1/i"],
    )


def projections(counts: Mapping[str, int | str]) -> pd.DataFrame:
    """Return how many attention modules have their output projection where."""
    places = {"in the module": "own", "in a class beside it": "beside", "nowhere": "none"}
    return pd.DataFrame(
        {"modules": [counts[key] for key in places.values()]}, index=pd.Index(places, name="the output projection is")
    )
