"""Counterfeits for the findings of the chapter on the whole score."""

FINDINGS = {
    "identity_is_exact": {"exactness.errors.minilm": 1e-11},
    "parts_sum_to_divergence": {"exactness.gaps.gpt2-mini": 1e-5},
}
