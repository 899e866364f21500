"""Counterfeits for the findings of the chapter on the whole score."""

FINDINGS = {
    "identity_is_exact": {"exactness.errors.minilm": 1e-11},
    "parts_sum_to_divergence": {"exactness.gaps.gpt2-mini": 1e-5},
}

LIMITS = {
    "identity_is_exact": [(f"exactness.errors.{name}", None, 1e-12) for name in ("minilm", "gpt2-mini")],
    "parts_sum_to_divergence": [(f"exactness.gaps.{name}", None, 1e-6) for name in ("minilm", "gpt2-mini")],
}
