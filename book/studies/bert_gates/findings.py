"""What the page on gates states without judging a claim; each condition can fail."""

from book.studies.bert_gates.measure import Measured
from book.studies.bert_gates.sink import DELETED


def sink_is_a_volume_control(m: Measured) -> bool:
    """Deleting the sink and leaving rows short turns the sentence less than as much at random, or than scaling up."""
    effects = dict(m.removal.sink)
    deleted = effects.pop(DELETED)
    return bool(deleted.high < min(effect.low for effect in effects.values()))
