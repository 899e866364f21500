"""Counterfeits for the findings of the page on streaming capture."""

FINDINGS = {"costs_are_within_limits": {"costs.time.value": 1.2}, "a_gpu_gives_the_same_numbers": {"gpu.error": 1.1e-6}}
