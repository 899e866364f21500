"""What makes pages of measurements: numbers, tables, verdicts, records, the run of a chapter."""

from book.publish.experiments import live_or_record
from book.publish.inputs import Inputs, choose_inputs, stamp
from book.publish.judge import finding, glue, judge
from book.publish.tables import table

__all__ = ["Inputs", "choose_inputs", "finding", "glue", "judge", "live_or_record", "stamp", "table"]
