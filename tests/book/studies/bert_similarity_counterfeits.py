"""Counterfeits for the claims on what Q and K measure."""


def with_one_head_apart(signs):
    """Let one trained head have one negative eigenvalue less."""
    ((positive, negative),) = signs["trained"]
    return {**signs, "trained": [(positive, negative - 1), (positive, negative)]}


def with_as_much(shares):
    """Leave the symmetric part of M, at the spread of the content, with the attention's share of the content."""
    return {**shares, "symmetric part of M, equal spread": shares["content alone"]}


def with_one_layer_unmoved(intervals):
    """Let the interval of the last layer reach 0."""
    return [*intervals[:-1], intervals[-1]._replace(low=0.0)]


def seldom_by_the_named_head(grown):
    """Let the head of figure 2 amplify less than half of the rows on the way to K."""
    changed = grown.copy()
    changed[1, 0, 3] = 0.45
    return changed


def moved_in_one_layer(intervals):
    """Let dropping the bias move a ten-thousandth of the attention of the last layer."""
    return [*intervals[:-1], intervals[-1]._replace(value=1e-4)]


COUNTERFEITS = {
    "B-01": {"architecture.base": 116_000_000},
    "B-02": {"architecture.accepts_more": True},
    "B-03": {"positions.learned_defect": 0.01},
    "B-04": {"architecture.order_gap": 1e-3},
    "B-05": {"order.without_positions": 1e-3},
    "B-11": {"architecture.added_unevenly": 1e-2},
    "B-13": {"nearest.largest_weights": lambda sigma: 0.3 * sigma},
    "B-14": {"nearest.grown": seldom_by_the_named_head},
    "B-15": {"cone.narrow": 1e-5},
    "B-16": {"architecture.attention_gap": 1e-4},
    "B-17": {"architecture.shift_error": 1e-4},
    "B-18": {"terms.random_error": 1e-9},
    "B-19": {"terms.without_b_K": moved_in_one_layer},
    "B-20": {"terms.without_b_Q": with_one_layer_unmoved},
    "B-21": {"form.signs": with_one_head_apart},
    "B-22": {"form.next_singular_value": 1e-6},
    "B-23": {"lengths.scaling_error": 1e-2},
    "B-24": {"asymmetry.attention": with_as_much},
}
