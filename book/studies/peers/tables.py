"""The table of the page on the peers."""

from collections.abc import Sequence

import pandas as pd

from book.studies.peers.measure import Row


def costs(rows: Sequence[Row]) -> pd.DataFrame:
    """Return the seconds and the memory of every way; a number that was not measured is missing."""
    return pd.DataFrame(
        [(row.way, row.seconds, row.megabytes) for row in rows],
        index=pd.Index([row.task for row in rows], name="task"),
        columns=["way", "seconds", "MB more"],
    )
