"""The line at the end of a chapter that says what ran."""

from analysis.stamp import stamp

__all__ = ["stamp"]
