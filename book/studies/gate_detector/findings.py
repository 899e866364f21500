"""What the page on the gate detector states; each condition can fail."""

from book.studies.gate_detector.measure import LINES, RANDOM_ROWS, Measured

PROMISED = 0.05  # of the maps, the level of ``read_gates``


def lines_are_as_rare_as_promised(m: Measured) -> bool:
    """At every size, in every kind of independent rows, each line has alarms in at most the promised share of maps."""
    rates = m.calibration.of(RANDOM_ROWS, LINES)
    return bool(rates.max() <= PROMISED and rates.shape[1] == len(RANDOM_ROWS))
