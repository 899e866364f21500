"""What the hand-built head predicts on other sequences, and how many printed cells each reading contradicts."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from analysis.decomposition.uniform import uniform_causal
from analysis.transformer import induction
from analysis.transformer.induction import predict_next
from analysis.transformer.induction_scores import earlier_matches, mean_of_successors
from book.publish import Numbers
from book.studies.induction_head import readings, walkthrough
from book.studies.induction_head.readings import Reading
from book.studies.induction_head.walkthrough import MATCHES, TOKENS, VOCAB, largest

# ---- What the hand-built head predicts, on sequences that the slides do not show

CASES = {"one match": "! a b c a", "two matches": "! a b a c a", "unseen": "! a b a c", "first token again": "! a b !"}
SEQUENCES, LENGTH = 200, 12
SHARPNESS = (0.5, 3.0, 100.0)  # nats: of layer 2, for tokens that it has not seen
UNEVEN = torch.tensor([0, 1, 2, 1, 2, 2, 1, 1])  # more positions than tokens; the first token does not come again

Row = Float[Tensor, " vocab"]


@dataclass(frozen=True)
class Prediction:
    """Predictions beside their closed forms.

    Attributes
    ----------
    cases
        For each case that the figure shows: its symbols, the last row's attention in layer 2, and which keys match.
    sequences
        Random sequences whose first token does not come again.
    rows, unseen
        Rows of these sequences but for the first, and those of them whose token has not come before.
    errors
        Largest absolute differences: of the predictions from the mean of the successors (``seen``) and from the mean
        of all tokens (``unseen``) in the random sequences, of layer 2 from uniform causal attention on six different
        tokens (``uniform``), and of 3 tokens at 8 positions from the mean of successors (``uneven``).
    copied
        The symbols that are predicted in rows 3 and 5 of the slides' sequence.
    two_matches, skipping, similar, context
        The last row's distribution after two matches; with two tokens skipped; where only a similar word came
        before; and where only a context of two tokens would tell.
    uneven_width
        Width of the stream for 3 tokens at 8 positions.
    crowded_weight
        The least attention of layer 1 to the previous position, if the 8 positions share a half of 3 coordinates.
    """

    cases: Mapping[str, tuple[tuple[str, ...], np.ndarray, np.ndarray]]
    sequences: Int[Tensor, "sequence position"]
    rows: int
    unseen: int
    errors: Mapping[str, float]
    copied: tuple[str, str]
    two_matches: Row
    skipping: Row
    similar: Row
    context: Row
    uneven_width: int
    crowded_weight: float


def measure_prediction() -> Prediction:
    """Predict on the figure's cases, on random sequences, and where the last slide generalises."""
    sequences = draw_sequences()
    unseen = earlier_matches(sequences)[:, 1:].sum(-1) == 0
    gaps = torch.stack([predict_next(sequence, VOCAB) for sequence in sequences]) - mean_of_successors(sequences, VOCAB)
    slides = predict_next(walkthrough.encode(walkthrough.SEQUENCE), VOCAB)
    alike = torch.eye(VOCAB)
    alike[1, 2] = alike[2, 1] = 0.9
    return Prediction(
        cases={name: last_row(text) for name, text in CASES.items()},
        sequences=sequences,
        rows=unseen.numel(),
        unseen=int(unseen.sum()),
        errors={
            "seen": largest(gaps[:, 1:][~unseen]),
            "unseen": largest(gaps[:, 1:][unseen]),
            "uniform": gap_to_uniform(),
            "uneven": largest(predict_next(UNEVEN, 3) - mean_of_successors(UNEVEN, 3)),
        },
        copied=tuple(walkthrough.VOCABULARY[slides[row].argmax()] for row in (3, 5)),
        two_matches=predict_last(CASES["two matches"]),
        skipping=predict_last("! a c d b a", offset=2),
        similar=predict_last("! a c d b", similarity=alike),
        context=predict_last("! a b c d b e a b"),
        uneven_width=induction.build(3, len(UNEVEN)).first.A.shape[0],
        crowded_weight=least_crowded_weight(),
    )


def predict_last(text: str, **options: object) -> Row:
    """Return what the last symbol of a text predicts."""
    return predict_next(walkthrough.encode(text), VOCAB, **options)[-1]


def draw_sequences() -> Int[Tensor, "sequence position"]:
    """Draw random sequences with a first symbol that does not come again."""
    generator = torch.Generator().manual_seed(0)
    sequences = torch.stack([torch.randint(1, VOCAB, (LENGTH,), generator=generator) for _ in range(SEQUENCES)])
    sequences[:, 0] = 0
    return sequences


def last_row(text: str) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Return the symbols, the attention of the last one in layer 2, and which keys match it."""
    tokens = walkthrough.encode(text)
    second = induction.run(tokens, induction.build(VOCAB, len(tokens), gain=1.0))[1]
    return tuple(text.split()), second.attention[-1].numpy(), (second.scores[-1] > MATCHES).numpy()


def gap_to_uniform() -> float:
    """Return how far layer 2 is from uniform causal attention on six different tokens, at any sharpness.

    The first row is left out: it matches itself, and has nothing else to attend to.
    """
    stored = induction.run(torch.arange(VOCAB), induction.build(VOCAB, VOCAB))[0].output
    maps = [induction.step(stored, induction.build(VOCAB, VOCAB, beta=beta).second).attention for beta in SHARPNESS]
    return max(largest((attention - uniform_causal(VOCAB))[1:]) for attention in maps)


def least_crowded_weight() -> float:
    """Return the least weight on the previous position if 8 positions share the half of a head built for 3."""
    positions = torch.eye(3, dtype=torch.float64)[torch.arange(len(UNEVEN)) % 3]
    x = torch.cat([torch.eye(3, dtype=torch.float64)[UNEVEN], positions], 1)
    return induction.step(x, induction.build(3, 3).first).attention.diagonal(-1).min().item()


# ---- How many printed cells each reading of the slides contradicts


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
    printed = walkthrough.printed_tables()
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
