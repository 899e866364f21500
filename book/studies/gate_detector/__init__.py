"""The study behind the page on the gate detector: what it promises, what it was held to, and where it fails."""

from book.studies.gate_detector import findings
from book.studies.gate_detector.measure import measure

__all__ = ["findings", "measure"]
