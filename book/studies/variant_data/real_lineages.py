"""The classifier trained around real lineages, and what it says of sequences that were openly deposited."""

from collections.abc import Mapping
from dataclasses import dataclass

from book.publish import Numbers
from book.publish.phrases import percent
from book.publish.records import Record, Value
from book.studies.variant_data.partings import Named, Parting, Shares, exchanged_by_parting, tabulate


@dataclass(frozen=True)
class RealLineages(Numbers):
    """The classifier trained around real lineages; ``deposited`` are sequences that were openly deposited."""

    open_right: int
    real_units: int
    real_lineage: str
    real_least: str
    real_follow: str
    real_rest: str
    test: Value
    deposited: Value
    simple: Shares
    table: tuple[Parting, ...]
    exchanged: Mapping[str, Named]


def measure_real(records: Mapping[str, Record]) -> RealLineages:
    """Return what the classifier that was trained around real lineages names, and what simple ones do."""
    real, splits, baselines = records["real"], records["real-splits"], records["baselines-real"]
    by_lineage, deposited, exchanged = splits.values["bert/lineage"], real.values["open"], exchanged_by_parting(splits)
    return RealLineages(
        open_right=round(deposited.value * deposited.n),
        real_units=splits["units/lineage"],
        real_lineage=percent(by_lineage.value, 1),
        real_least=percent(by_lineage.low, 1),
        real_follow=" and ".join(percent(share["deletions"].value) for share in exchanged.values()),
        real_rest=" and ".join(
            percent(1 - sum(named.value for named in share.values())) for share in exchanged.values()
        ),
        test=real.values["whole_test"],
        deposited=deposited,
        simple={name: baselines[f"{name}/open"] for name in ("kmers", "nearest", "length")},
        table=tabulate(splits),
        exchanged=exchanged,
    )
