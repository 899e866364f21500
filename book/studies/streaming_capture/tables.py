"""The table of the chapter on streaming capture."""

from collections.abc import Mapping

import pandas as pd

from book.studies.streaming_capture.measure import Cost


def costs(of: Mapping[str, Cost]) -> pd.DataFrame:
    """Return each measured cost beside its limit."""
    rows = {cost.subject: (cost.value, f"{cost.kind} {cost.limit:g}") for cost in of.values()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["measured", "limit"]).rename_axis("cost")
