"""Counterfeits for the findings of the chapter on rotary positions: the smallest change that should turn each."""

from analysis.models.key_bias import Effect
from book.studies.rotary_bias.parts import SINGLE, WAYS


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


def rounding(name):
    return f"exactness.{name}", None, 1e-12


def beyond(high):
    """Return the highest value of a control, which the trained model exceeds."""
    return lambda m: getattr(m.rungs, high)


def content_of(where):
    """Return what a run loses without all parts of its biases."""
    return lambda m: getattr(m, where).rise[1, 0, list(WAYS).index("content only")]


def no_tie(path, index, equal, better):
    """Return a limit at which a tie is not enough: the value that is better, and the one that is equal."""
    return path, index, lambda m: [better * equal(m), equal(m)]


PARTIAL, NO_KEY_BIAS = 4, (0, list(WAYS).index("no key bias"))
CONTROLS = ("large", "permuted")
LIMITS = {
    "four_parts_are_exact": [
        *map(rounding, ("kernel", "border", "gauge")),
        *[rounding(f"parts.{kind}") for kind in ("GPT-NeoX, a quarter turned", "Qwen2, all turned")],
    ],
    "only_rest_cancels": [
        *[(f"exactness.key_bias.{case}", "change", 1e-12) for case in ("gpt2",)],
        *[(f"exactness.key_bias.{case}", "change", 1e-6) for case in ("bloom", "gpt_neox, rest", "qwen2, no rotation")],
        ("exactness.key_bias.qwen2", "change", [2e-4, 100 * SINGLE]),
        *[
            (f"exactness.key_bias.{case}", "change", 1e-4, 0.001)
            for case in ("gpt_neox, turned", "qwen2", "qwen3, no rotation", "gpt_oss, no rotation")
        ],
    ],
    "rest_has_no_share": [("exactness.rest_share", None, 1e-12), ("exactness.turned_share", None, 1e-12)],
    "rest_is_free_when_trained": [
        ("seeds.rise_piece", (PARTIAL, 0, 1), 1e-5),
        ("seeds.rise_piece", (PARTIAL, 1, 1), -1e-5),
        ("seeds.rise_piece", (PARTIAL, 1, 1), [0, 10 * SINGLE]),
        ("seeds.shares", (3, 1, 0, 5, -1), 1e-6),
        ("seeds.shares", (2, 1, 0, 5, -1), -1e-6),
        ("seed_kernels.rest_mean", None, 1e-3),
    ],
    "training_makes_the_kernel": [
        *[(f"rungs.range_mean_{rung}_high", None, lambda m: m.rungs.range_mean) for rung in CONTROLS],
        *[(f"rungs.near_{rung}_high", None, lambda m: m.rungs.near) for rung in CONTROLS],
        *[(f"rungs.kernel_share_{rung}_high", None, lambda m: m.rungs.kernel_share) for rung in CONTROLS],
        ("rungs.rise_mean_kernel", None, beyond("rise_control_high")),
        no_tie("rungs.range_mean", None, lambda m: m.rungs.range_mean_permuted_high, 2),
        no_tie("rungs.near", None, lambda m: max(m.rungs.near_large_high, m.rungs.near_permuted_high), 2),
        no_tie("rungs.kernel_share_large_high", None, lambda m: m.rungs.kernel_share, 0.5),
        no_tie("rungs.rise_mean_kernel", None, beyond("rise_control_high"), 2),
    ],
    "wrong_phases_cost_more_than_none": [
        ("rungs.phases_mean_low", None, lambda m: m.rungs.rise_mean_kernel),
        no_tie("rungs.phases_mean_low", None, lambda m: m.rungs.rise_mean_kernel, 2),
    ],
    "mean_kernel_makes_previous_token_heads": [
        *[(f"{where}.strong_left_mean", None, [0, 1]) for where in ("heads", "order")],
        ("heads.strong_heads", None, lambda m: [m.heads.strong_heads, m.heads.strong_heads + 1]),
        ("order.strong_heads", None, lambda m: [m.order.strong_heads, m.order.strong_heads + 1]),
        ("heads.gpt2_rise_head", None, 1e-5),
        ("heads.gpt2_rise_head", None, [0, 10 * SINGLE]),
    ],
    "mean_input_makes_kernel": [
        limit
        for where in ("seed_kernels", "order")
        for limit in (
            (f"{where}.size.bias", (2, 1, 3), lambda m, where=where: getattr(m, where).size["mean"][2, 1, 3]),
            no_tie(
                f"{where}.size.bias", (2, 1, 3), lambda m, where=where: getattr(m, where).size["mean"][2, 1, 3], 0.5
            ),
        )
    ],
    "near_keys_are_preferred": [
        ("seed_kernels.near", 4, lambda m: m.seed_kernels.near_high[4]),
        no_tie("seed_kernels.near", 4, lambda m: m.seed_kernels.near_high[4], 2),
    ],
    "biases_matter_little": [
        limit
        for where in ("seeds", "order")
        for limit in (
            (f"{where}.rise", (1, 1, list(WAYS).index("no kernel")), content_of(where)),
            no_tie(f"{where}.rise", (1, 1, list(WAYS).index("no kernel")), content_of(where), 2),
        )
    ],
    "order_decides_what_biases_do": [
        ("order.bias_range_low", None, lambda m: m.order.parallel_range_high),
        ("order.rise_both_low", None, lambda m: m.seeds.rise_both_high),
        no_tie("order.bias_range_low", None, lambda m: m.order.parallel_range_high, 2),
        no_tie("order.rise_both_low", None, lambda m: m.seeds.rise_both_high, 2),
    ],
    "lengths_decide_nothing": [
        ("seeds.longer_biased_low", None, lambda m: m.seeds.longer_unbiased_high),
        ("seeds.longer_unbiased_low", None, lambda m: m.seeds.longer_biased_high),
        no_tie("seeds.longer_biased_low", None, lambda m: m.seeds.longer_unbiased_high, 0.5),
        no_tie("seeds.longer_unbiased_low", None, lambda m: m.seeds.longer_biased_high, 0.5),
    ],
    "key_bias_is_free_in_gpt2": [("seeds.gpt2_rise", NO_KEY_BIAS, limit) for limit in (1e-5, -1e-5, [0, 10 * SINGLE])],
}
