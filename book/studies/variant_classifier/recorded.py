"""The records behind the chapter: the classifier in three seeds, and each seed before its training."""

from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Float
from numpy import ndarray

from book.publish import Inputs, live_or_record
from book.publish.records import Record

SEEDS = (0, 1, 2)
RECORDS = ("variant-measures", "variant-seeds", "variant-classifier-controls", "variant-data-real")


class Pair(NamedTuple):
    """The same measure of the trained classifiers and of their controls, a seed each."""

    trained: Float[ndarray, "seed sequence layer"]
    control: Float[ndarray, "seed sequence layer"]


@dataclass(frozen=True)
class Recorded:
    """What was recorded; ``sources`` says where each record comes from.

    ``measures`` is of seed 0 and its control on 16 sequences, ``seeds`` of three seeds on 8, ``controls`` of these
    seeds before training, ``real`` of the classifier that was trained around real lineages.
    """

    measures: Record
    seeds: Record
    controls: Record
    real: Record
    sources: tuple[str, ...]

    def pair(self, name: str) -> Pair:
        """Return an array of the three seeds beside that of their controls."""
        return Pair(self.seeds.array(name), self.controls.array(name))


def read_records(inputs: Inputs) -> Recorded:
    """Read the four records."""
    records, sources = zip(*(live_or_record(name, inputs, recompute=False) for name in RECORDS))
    return Recorded(*records, sources)
