"""Counterfeits for the findings of the page on families."""

from dataclasses import replace


def one_family_off(rows):
    """Let the last family's attention differ in float64 by what a float32 softmax would leave."""
    return (*rows[:-1], replace(rows[-1], in_double=1e-7))


def key_bias_counts_in_the_first(rows):
    """Let a key bias move the attention of the first layer of the first family, GPT-2."""
    first, *others = rows
    moved = (replace(first.biases[0], key=0.01), *first.biases[1:])
    return (replace(first, biases=moved), *others)


FINDINGS = {
    "attention_is_the_models_own": {"rows": one_family_off},
    "key_bias_cancels_where_it_should": {"rows": key_bias_counts_in_the_first},
}
