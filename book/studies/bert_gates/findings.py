"""What the page on gates states without judging a claim; each condition can fail."""

from book.studies.bert_gates.calibration import INDEPENDENT
from book.studies.bert_gates.measure import Measured
from book.studies.bert_gates.sink import DELETED

PROMISED = 0.05  # of the maps, the level of ``read_gates``


def sink_is_a_volume_control(m: Measured) -> bool:
    """Deleting the sink and leaving rows short turns the sentence less than as much at random, or than scaling up."""
    effects = dict(m.removal.sink)
    deleted = effects.pop(DELETED)
    return bool(deleted.high < min(effect.low for effect in effects.values()))


def false_alarms_are_as_rare_as_promised(m: Measured) -> bool:
    """At every size, in every kind of independent rows, each gate has alarms in at most the promised share of maps."""
    rates = [span for spans in m.calibration.rates().values() for span in spans]
    return bool(
        m.calibration.independent.max() <= PROMISED
        and max(span.high for span in rates) <= PROMISED
        and len(rates) == len(INDEPENDENT) * m.calibration.alarms.shape[2]
    )
