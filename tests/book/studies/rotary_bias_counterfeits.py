"""Counterfeits for the findings of the chapter on rotary positions: the smallest change that should turn each."""

from analysis.models.key_bias import Effect
from book.studies.rotary_bias.parts import WAYS


def as_large_as_the_mean_input(curves):
    """Let the kernel of the biases be that of the mean input in one head."""
    changed = {name: values.copy() for name, values in curves.items()}
    changed["bias"][0, 0] = changed["mean"][0, 0]
    return changed


def with_the_kernel_as_cheap_as_the_biases(rise):
    """Let the first run lose no more without the kernel of the mean input than without all parts of its biases."""
    changed, ways = rise.copy(), list(WAYS)
    changed[0, 1, ways.index("no kernel")] = changed[0, 0, ways.index("content only")]
    return changed


def with_a_key_bias_that_counts(rise):
    """Let gpt2-mini lose a little without its key bias."""
    changed = rise.copy()
    changed[list(WAYS).index("no key bias")] = 1e-3
    return changed


FINDINGS = {
    "four_parts_are_exact": {"exactness.gauge": 1e-11},
    "only_rest_cancels": {"exactness.key_bias.gpt_neox, rest": Effect(1e-3, True)},
    "rest_has_no_share": {"exactness.rest_share": 1e-9},
    "mean_input_makes_kernel": {"kernels.curves": as_large_as_the_mean_input},
    "near_keys_are_preferred": {"kernels.near_mean": 8, "kernels.near_chance_high": 8},
    "biases_matter_little": {"seeds.rise": with_the_kernel_as_cheap_as_the_biases},
    "key_bias_is_free_in_gpt2": {"seeds.gpt2_rise": with_a_key_bias_that_counts},
}
