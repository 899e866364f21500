"""How many printed cells each reading of the slides contradicts."""

from collections.abc import Mapping
from dataclasses import dataclass

from book.publish import Numbers
from book.studies.induction_head import readings, walkthrough
from book.studies.induction_head.by_hand import TOKENS, VOCAB
from book.studies.induction_head.readings import Reading


@dataclass(frozen=True)
class ReadingSearch(Numbers):
    """The search over all readings.

    Attributes
    ----------
    all_readings
        How many there are, with a comma between thousands.
    near_cells
        The fewest printed cells that differ with two departures from the equations.
    near_softmax
        The same if the attention is to stay a softmax.
    survivors_count, without_softmax
        How many readings print every table, and how many of them with hard attention or a null key.
    counted
        For every reading, how many printed cells differ.
    """

    all_readings: str
    near_cells: int
    near_softmax: int
    survivors_count: int
    without_softmax: int
    counted: Mapping[Reading, int]

    @property
    def survivors(self) -> list[Reading]:
        """The readings under which every printed cell comes out, those that depart least first."""
        return [reading for reading, cells in self.counted.items() if cells == 0]

    @property
    def simplest(self) -> list[Reading]:
        """The survivors with the fewest departures from the equations."""
        fewest = len(self.survivors[0].departures())
        return [reading for reading in self.survivors if len(reading.departures()) == fewest]

    @property
    def nearest(self) -> dict[int, Reading]:
        """For each number of departures, up to that of the simplest survivors, the reading nearest to the tables."""
        fewest = len(self.simplest[0].departures())
        return {number: nearest_with(self.counted, number) for number in range(fewest + 1)}

    def fewest_cells(self, **choices: object) -> int:
        """Return how many cells differ at least, over all readings that make these choices."""
        return min(
            cells
            for reading, cells in self.counted.items()
            if all(getattr(reading, name) == choice for name, choice in choices.items())
        )


def nearest_with(counted: Mapping[Reading, int], departures: int) -> Reading:
    """Return the reading with so many departures that contradicts the fewest cells."""
    return min((reading for reading in counted if len(reading.departures()) == departures), key=counted.__getitem__)


def search_readings() -> ReadingSearch:
    """Compute the six tables under every reading, and count the cells that the printed ones contradict."""
    printed = walkthrough.printed()
    counted = {
        reading: sum(
            int(cells.sum()) for cells in readings.differing(readings.tables(TOKENS, VOCAB, reading), printed).values()
        )
        for reading in readings.every()
    }
    of_softmax = {reading: cells for reading, cells in counted.items() if reading.attention == "softmax"}
    survivors = [reading for reading, cells in counted.items() if cells == 0]
    return ReadingSearch(
        f"{len(counted):,}",
        counted[nearest_with(counted, departures=2)],
        counted[nearest_with(of_softmax, departures=2)],
        len(survivors),
        sum(reading.attention != "softmax" for reading in survivors),
        counted,
    )
