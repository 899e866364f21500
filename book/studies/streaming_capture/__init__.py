"""The study of the chapter on streaming capture: what it costs, and whether the numbers are the same."""

from book.studies.streaming_capture import findings, tables
from book.studies.streaming_capture.measure import Measured, measure

__all__ = ["Measured", "findings", "measure", "tables"]
