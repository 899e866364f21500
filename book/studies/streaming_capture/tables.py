"""The table of the chapter on streaming capture."""

from collections.abc import Mapping

import pandas as pd

from book.publish.phrases import percent
from book.studies.streaming_capture.measure import Cost, Gpu


def costs(of: Mapping[str, Cost]) -> pd.DataFrame:
    """Return each measured cost beside its limit."""
    rows = {cost.subject: (cost.value, f"{cost.kind} {cost.limit:g}") for cost in of.values()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["measured", "limit"]).rename_axis("cost")


def on_a_gpu(gpu: Gpu) -> pd.DataFrame:
    """Return seconds, sequences per second and the share of the GPU's rate for matrix products, way by way."""
    return pd.DataFrame.from_dict(
        {
            way: {
                "seconds": cost["seconds"],
                "sequences per second": round(cost["rate"]),
                "share of the peak": percent(cost["share"]),
            }
            for way, cost in gpu.ways.items()
        },
        orient="index",
    ).rename_axis("forward pass")
