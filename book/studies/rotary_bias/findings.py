"""What the chapter on rotary positions holds its formulas and its models to; each condition can fail."""

import numpy as np

from book.studies.rotary_bias.measure import Measured
from book.studies.rotary_bias.parts import EXACT, SINGLE, WAYS, cancels

CANCELS = ("gpt2", "bloom", "gpt_neox, rest", "qwen2, no rotation")


def four_parts_are_exact(m: Measured) -> bool:
    """Parts, kernel, border and gauge agree with the modules of transformers to rounding."""
    e = m.exactness
    return max(*e.parts.values(), e.kernel, e.border, e.gauge) < EXACT


def only_rest_cancels(m: Measured) -> bool:
    """The key bias has no effect where nothing turns it; turned, normalised or beside a sink it has."""
    effects = m.exactness.key_bias
    none = all(cancels(effects[case]) for case in CANCELS)
    return none and all(effect.change > 100 * SINGLE for case, effect in effects.items() if case not in CANCELS)


def rest_has_no_share(m: Measured) -> bool:
    """What is not turned of the key bias has share 0 in every row, and what is turned has not."""
    return m.exactness.rest_share < EXACT < m.exactness.turned_share


def rest_is_free_when_trained(m: Measured) -> bool:
    """In trained models too what nothing turns of the mean key changes no loss and has no share, and there is some."""
    part = [k for k, (name, _) in enumerate(m.seeds.runs) if name == "neox-mini-partial"]
    free = abs(m.seeds.rise_piece[part, :, 1]).max() < 10 * SINGLE
    return bool(free and abs(m.seeds.shares[..., -1]).max() < SINGLE and m.seed_kernels.rest_mean > 1e-3)


def training_makes_the_kernel(m: Measured) -> bool:
    """No control has as large a kernel of the mean input in the last layer, as near, as costly, or as large a share."""
    r = m.rungs
    size = r.range_mean > max(r.range_mean_large_high, r.range_mean_permuted_high)
    near = r.near > max(r.near_large_high, r.near_permuted_high)
    share = r.kernel_share > max(r.kernel_share_large_high, r.kernel_share_permuted_high)
    return size and near and share and r.rise_mean_kernel > r.rise_control_high


def wrong_phases_cost_more_than_none(m: Measured) -> bool:
    """The loss rises more with the kernel's phases drawn at random than without the kernel."""
    return m.rungs.phases_mean_low > m.rungs.rise_mean_kernel


def mean_kernel_makes_previous_token_heads(m: Measured) -> bool:
    """Without the kernel of the mean input no head is a previous-token head, without that of the biases all still are.

    So it is where the MLP follows attention. In gpt2-mini no head's kernel changes anything.
    """
    h, o = m.heads, m.order
    parallel = 0 == h.strong_left_mean < h.strong_left_bias == h.strong_heads
    ordered = 0 == o.strong_left_mean < o.strong_left_bias == o.strong_heads
    return parallel and ordered and h.gpt2_rise_head < 10 * SINGLE


def mean_input_makes_kernel(m: Measured) -> bool:
    """The kernel of the mean input is larger than that of the biases in every head of every model."""
    return all(bool((of.size["mean"] > of.size["bias"]).all()) for of in (m.seed_kernels, m.order))


def near_keys_are_preferred(m: Measured) -> bool:
    """In every model more kernels are largest at near distances than in any draw of random phases."""
    return bool((m.seed_kernels.near > m.seed_kernels.near_high).all())


def biases_matter_little(m: Measured) -> bool:
    """In every seed the loss rises more without the kernel of the mean input than without both biases' own parts."""
    ways = list(WAYS)
    full = [k for k, (name, _) in enumerate(m.seeds.runs) if name == "neox-mini"]
    rises = np.concatenate([m.seeds.rise[full], m.order.rise])
    own = rises[:, 0, ways.index("content only")]
    return bool((rises[:, 1, ways.index("no kernel")] > own).all())


def order_decides_what_biases_do(m: Measured) -> bool:
    """Where the MLP follows attention, the biases' kernels are larger and both biases worth more than in parallel."""
    o = m.order
    return o.bias_range_low > o.parallel_range_high and o.rise_both_low > m.seeds.rise_both_high


def lengths_decide_nothing(m: Measured) -> bool:
    """At length the losses of models with and without biases rise by ranges that overlap."""
    s = m.seeds
    return s.longer_biased_low < s.longer_unbiased_high and s.longer_unbiased_low < s.longer_biased_high


def key_bias_is_free_in_gpt2(m: Measured) -> bool:
    """With learned positions the loss is the same without the key bias, in float32."""
    return bool(abs(m.seeds.gpt2_rise[0, list(WAYS).index("no key bias")]) < 10 * SINGLE)
