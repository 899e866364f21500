"""What the page on the peers shows, read from the record of the comparison."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from book.publish import Numbers, choose_inputs, live_or_record
from book.publish.records import Record, Result
from book.studies.peers.packages import TASKS

TASK_NAMES = {
    "spectra": "144 spectra",
    "semi_bias": "semi-bias of a vocabulary",
    "maps": "entropy of all maps",
    "lilliefors": "6,144 Lilliefors statistics",
    "viewer": "a map to look at",
    "import": "import",
}
WAY_NAMES = {
    "ours": "this package",
    "transformer_lens": "TransformerLens",
    "torch": "products, then torch",
    "keys_first": "all keys first",
    "none": "no statistics at all",
}


@dataclass(frozen=True)
class Row:
    """A line of the table: what was measured, in which way, processor seconds, and megabytes added at most.

    A number that was not measured is ``None``.
    """

    task: str
    way: str
    seconds: float | None
    megabytes: float | None


@dataclass(frozen=True)
class Measured(Numbers):
    """The numbers of the text, as phrases, and the rows of the table.

    ``spectra_lens`` to ``maps_plain`` are times as long as this package takes; ``streamed`` is the time of a pass with
    statistics over that of one without; ``differ`` is the largest difference of two ways, as a share of the largest
    number. ``provenance`` says where the numbers come from and which versions were measured.
    """

    prefix: ClassVar[str] = "peers"

    spectra_lens: str
    spectra_dense: str
    keys: str
    loop: str
    maps_lens: str
    maps_plain: str
    streamed: str
    maps_mb: str
    none_mb: str
    plain_mb: str
    lens_mb: str
    keys_mb: str
    semi_mb: str
    hosts: str
    viewer_kb: str
    bertviz_kb: str
    differ: str
    rows: tuple[Row, ...]
    provenance: tuple[str, str]


def measure() -> Measured:
    """Read the record."""
    record, source = live_or_record("peers-packages", choose_inputs(), recompute=False)
    return Measured(
        spectra_lens=times(record, "spectra", "transformer_lens"),
        spectra_dense=times(record, "spectra", "torch"),
        keys=times(record, "semi_bias", "keys_first"),
        loop=times(record, "lilliefors", "statsmodels"),
        maps_lens=times(record, "maps", "transformer_lens"),
        maps_plain=times(record, "maps", "transformers"),
        streamed=f"{record['maps/ours/seconds'] / record['maps/none/seconds']:.2f}",
        maps_mb=megabytes(record, "maps", "ours"),
        none_mb=megabytes(record, "maps", "none"),
        plain_mb=megabytes(record, "maps", "transformers"),
        lens_mb=megabytes(record, "maps", "transformer_lens"),
        keys_mb=megabytes(record, "semi_bias", "keys_first"),
        semi_mb=megabytes(record, "semi_bias", "ours"),
        hosts=str(record["viewer/bertviz/hosts"]),
        viewer_kb=kilobytes(record, "ours"),
        bertviz_kb=kilobytes(record, "bertviz"),
        differ=f"{max(value for name, value in numbers(record).items() if name.endswith('difference')):.0e}",
        rows=tuple(table_rows(record)),
        provenance=(source, versions(record)),
    )


def numbers(record: Record | Result) -> Mapping[str, float]:
    """Return every recorded number by its name, ``task/way/unit``."""
    return {name: entry.value for name, entry in record.values.items()}


def times(record: Record | Result, task: str, way: str) -> str:
    """Say how many times as long a way takes as this package; one decimal below ten."""
    ratio = record[f"{task}/{way}/seconds"] / record[f"{task}/ours/seconds"]
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"


def megabytes(record: Record | Result, task: str, way: str) -> str:
    """Say how much memory one call adds at most."""
    return f"{record[f'{task}/{way}/megabytes']:.0f} MB"


def kilobytes(record: Record | Result, way: str) -> str:
    """Say how large a viewer's file is."""
    return f"{record[f'viewer/{way}/bytes'] / 1000:,.0f} kB"


def table_rows(record: Record | Result) -> list[Row]:
    """Return the lines of the table; this package's comes first in each task."""
    measured = numbers(record)
    return [
        Row(
            TASK_NAMES[task],
            WAY_NAMES.get(way, way),
            measured.get(f"{task}/{way}/seconds"),
            measured.get(f"{task}/{way}/megabytes"),
        )
        for task, ways in TASKS.items()
        for way in ways
    ]


def versions(record: Record | Result) -> str:
    """Name the versions that were measured."""
    return "; ".join(
        f"{name.removeprefix('version/')} {version}"
        for name, version in numbers(record).items()
        if name.startswith("version/")
    )
