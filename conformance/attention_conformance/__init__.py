"""Does a library compute a model's own attention? Tiny models, golden values, the comparison; numpy and torch alone."""

from attention_conformance.cases import Case, NotOffered, cases, read_safetensors
from attention_conformance.comparison import QUANTITIES, Result, compare, results_by_quantity, run

__all__ = [
    "QUANTITIES",
    "Case",
    "NotOffered",
    "Result",
    "cases",
    "compare",
    "read_safetensors",
    "results_by_quantity",
    "run",
]
