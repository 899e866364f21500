"""Counterfeits for the findings of the page on streaming capture."""

FINDINGS = {"costs_are_within_limits": {"costs.time.value": 1.2}}
