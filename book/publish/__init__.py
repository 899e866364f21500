"""What makes pages, records and verdicts of the studies' measurements."""

from book.publish.claims import (
    Outcome,
    claim,
    conditional,
    corrected,
    holds_on_a_stand_in,
    not_reproduced,
    not_testable,
    reproduced,
    verdicts,
)
from book.publish.experiments import live_or_record
from book.publish.inputs import Inputs, choose_inputs
from book.publish.judge import finding, glue, judge
from book.publish.numbers import Numbers, glue_numbers
from book.publish.stamp import stamp
from book.publish.tables import table

__all__ = [
    "Inputs",
    "Numbers",
    "Outcome",
    "choose_inputs",
    "claim",
    "conditional",
    "corrected",
    "finding",
    "glue",
    "glue_numbers",
    "holds_on_a_stand_in",
    "judge",
    "live_or_record",
    "not_reproduced",
    "not_testable",
    "reproduced",
    "stamp",
    "table",
    "verdicts",
]
