"""What the chapter on rotary positions holds its formulas and its models to; each condition can fail."""

from book.studies.rotary_bias.measure import Measured
from book.studies.rotary_bias.parts import WAYS

EXACT, SINGLE = 1e-12, 1e-6
"""Bounds of errors in float64, and where the module computes its softmax in float32."""
CANCELS = ("gpt2", "bloom", "gpt_neox, rest", "qwen2, no rotation")


def four_parts_are_exact(m: Measured) -> bool:
    """Parts, kernel, border and gauge agree with the modules of transformers to rounding."""
    e = m.exactness
    return max(*e.parts.values(), e.kernel, e.border, e.gauge) < EXACT


def only_rest_cancels(m: Measured) -> bool:
    """The key bias has no effect where nothing turns it; turned, normalised or beside a sink it has."""
    effects = m.exactness.key_bias
    none = all(effects[case].change < (SINGLE if effects[case].single else EXACT) for case in CANCELS)
    return none and all(effect.change > 100 * SINGLE for case, effect in effects.items() if case not in CANCELS)


def rest_has_no_share(m: Measured) -> bool:
    """What is not turned of the key bias has share 0 in every row, and what is turned has not."""
    return m.exactness.rest_share < EXACT < m.exactness.turned_share


def rest_is_free_when_trained(m: Measured) -> bool:
    """In trained models too the coordinates of the key vector that nothing turns change no loss and have no share."""
    part = [k for k, (name, _) in enumerate(m.seeds.runs) if name == "neox-mini-partial"]
    free = abs(m.seeds.rise_piece[part, :, 1]).max() < 10 * SINGLE
    return bool(free and abs(m.seeds.shares[..., -1]).max() < SINGLE and m.seed_kernels.rest_length > 0.5)


def mean_input_makes_kernel(m: Measured) -> bool:
    """The kernel of the mean input is larger than that of the biases in every head of every model."""
    return bool((m.seed_kernels.size["mean"] > m.seed_kernels.size["bias"]).all())


def near_keys_are_preferred(m: Measured) -> bool:
    """In every model more kernels are largest at near distances than in any draw of random phases."""
    return bool((m.seed_kernels.near > m.seed_kernels.near_high).all())


def biases_matter_little(m: Measured) -> bool:
    """In every seed the loss rises more without the kernel of the mean input than without both biases' own parts."""
    ways = list(WAYS)
    full = [k for k, (name, _) in enumerate(m.seeds.runs) if name == "neox-mini"]
    own = m.seeds.rise[full, 0][:, ways.index("content only")]
    return bool((m.seeds.rise[full, 1][:, ways.index("no kernel")] > own).all())


def key_bias_is_free_in_gpt2(m: Measured) -> bool:
    """With learned positions the loss is the same without the key bias, in float32."""
    return bool(abs(m.seeds.gpt2_rise[0, list(WAYS).index("no key bias")]) < 10 * SINGLE)
