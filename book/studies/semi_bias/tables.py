"""Tables of the chapter on the semi-bias: frames whose index names the rows."""

from collections.abc import Mapping

import pandas as pd

LABELS = {
    "attention": "attention of the four parts",
    "output": "output of the four parts",
    "four_terms": "scores as four parts",
    "two_terms": "attention of content and semi-bias alone",
    "six_terms": "scores as six terms",
    "value_folded": "output with the value bias folded",
    "no_key_bias": "module without b_K",
    "bias_outside": "output with the value bias outside all sums",
}


def errors(of: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    """Return the largest errors of what should be exact, a row per rewriting and a column per model."""
    return pd.DataFrame(of).rename(index=LABELS).rename_axis("what is compared")
