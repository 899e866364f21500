"""Counterfeits for the findings of the chapter on rotary positions: the smallest change that should turn each."""

from analysis.models.key_bias import Effect
from book.studies.rotary_bias.parts import WAYS


def as_large_as_the_mean_input(size):
    """Let the kernel of the biases be as large as that of the mean input in one head of one run."""
    changed = {name: values.copy() for name, values in size.items()}
    changed["bias"][1, 0, 0] = changed["mean"][1, 0, 0]
    return changed


def as_many_as_by_chance(near):
    """Let one run have no more heads that prefer near keys than a draw of random phases may."""
    changed = near.copy()
    changed[-1] = 0
    return changed


def with_a_share_of_what_nothing_turns(shares):
    """Give the coordinates that nothing turns a small share in one head."""
    changed = shares.copy()
    changed[0, 0, 0, 0, -1] = 1e-4
    return changed


def with_the_kernel_as_cheap_as_the_biases(rise):
    """Let the first run lose no more without the kernel of the mean input than without all parts of its biases."""
    changed, ways = rise.copy(), list(WAYS)
    changed[0, 1, ways.index("no kernel")] = changed[0, 0, ways.index("content only")]
    return changed


def with_a_key_bias_that_counts(rise):
    """Let gpt2-mini lose a little without its key bias."""
    changed = rise.copy()
    changed[0, list(WAYS).index("no key bias")] = 1e-3
    return changed


FINDINGS = {
    "four_parts_are_exact": {"exactness.gauge": 1e-11},
    "only_rest_cancels": {"exactness.key_bias.gpt_neox, rest": Effect(1e-3, True)},
    "rest_has_no_share": {"exactness.rest_share": 1e-9},
    "mean_input_makes_kernel": {"seed_kernels.size": as_large_as_the_mean_input},
    "near_keys_are_preferred": {"seed_kernels.near": as_many_as_by_chance},
    "lengths_decide_nothing": {"seeds.longer_biased_high": 0.7, "seeds.longer_biased_low": 0.69},
    "training_makes_the_kernel": {"rungs.kernel_share_large_high": 0.9},
    "wrong_phases_cost_more_than_none": {"rungs.phases_mean_low": 0.1},
    "mean_kernel_makes_previous_token_heads": {"heads.strong_left_bias": 1},
    "rest_is_free_when_trained": {"seeds.shares": with_a_share_of_what_nothing_turns},
    "biases_matter_little": {"seeds.rise": with_the_kernel_as_cheap_as_the_biases},
    "order_decides_what_biases_do": {"order.rise_both_low": 0.02},
    "key_bias_is_free_in_gpt2": {"seeds.gpt2_rise": with_a_key_bias_that_counts},
}
