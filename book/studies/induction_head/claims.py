"""The verdicts on the claims of the induction-head slides."""

import torch

from book.publish import Outcome, claim, conditional, corrected, reproduced
from book.studies.induction_head.measure import Measured


@claim("I-01")
def vocabulary_of_six(m: Measured) -> Outcome:
    """The vocabulary has six symbols, and its embedding is the identity."""
    return reproduced(
        "Six symbols; the embedding of the vocabulary is the identity.", when=m.by_hand.errors["embedding"] == 0
    )


@claim("I-02")
def input_is_token_and_position(m: Measured) -> Outcome:
    """A row of the input is a one-hot token beside a one-hot position."""
    return reproduced("All 72 cells of the printed input agree.", when=m.by_hand.errors["input"] == 0)


@claim("I-03")
def simplified_model(m: Measured) -> Outcome:
    """The model is attention on one-hot tokens and positions without a feed-forward part."""
    return reproduced(
        "The simplified model is ordinary attention with W_Q = A, W_K = I, W_V W_O = V^T and a passthrough, "
        "without feed-forward.",
        more=("Both layers agree with reference attention to 1e-9."),
        when=m.by_hand.errors["attention"] < 1e-9,
    )


@claim("I-04")
def layer_is_attention_and_passthrough(m: Measured) -> Outcome:
    """Equation 1: a layer adds what it attends to and a passthrough."""
    return reproduced(
        "As a definition it equals reference attention plus passthrough; that the printed outputs need "
        "another sum is judged at I-16 and I-22.",
        when=m.by_hand.errors["attention"] < 1e-9,
    )


@claim("I-05")
def query_stands_on_the_left(m: Measured) -> Outcome:
    """Equation 2: the score is the query's row times A times the key's row."""
    otherwise = m.readings.fewest_cells(scores="y_j A y_i")
    return reproduced(
        "With the query on the left all scores of layer 1 come out; with the key on the left at least "
        f"{otherwise} cells differ.",
        more=("That holds however the rest of the slides is read."),
        when=m.by_hand.cells["scores 1"] == 0 and otherwise > 0,
    )


@claim("I-06")
def softmax_sums_over_earlier_keys(m: Measured) -> Outcome:
    """Equation 3: the weights are normalised over s."""
    over_all = m.readings.fewest_cells(normaliser="all s")
    return corrected(
        "The sum must run over s <= i: over all s, row ! of the first layer has weight 1/6 instead of the printed 1.",
        more=(f"Over all s the fewest cells that differ are {over_all}, however the rest is read."),
        when=m.readings.fewest_cells(normaliser="s <= i") == 0 and over_all > 0,
    )


@claim("I-07")
def first_scores_are_a_sub_diagonal(m: Measured) -> Outcome:
    """The position block of A_1 has +100 on its sub-diagonal and -100 elsewhere; its other blocks are 0."""
    return reproduced(
        "The position block is the printed table of scores; the other three blocks are 0.",
        when=m.by_hand.errors["A_1 in the position block"] == 0 and m.by_hand.errors["A_1 elsewhere"] == 0,
    )


@claim("I-08")
def first_values_store_the_token(m: Measured) -> Outcome:
    """V_1 writes the token half into the position half."""
    return reproduced(
        "On random rows V_1 puts the token half into the position half and clears the rest.",
        when=m.by_hand.errors["V_1"] == 0,
    )


@claim("I-09")
def first_passthrough_keeps_the_token(m: Measured) -> Outcome:
    """W_1 keeps the token and drops the position."""
    return reproduced(
        "On random rows W_1 keeps the token half and clears the position half.", when=m.by_hand.errors["W_1"] == 0
    )


@claim("I-10")
def second_scores_compare_with_the_stored_token(m: Measured) -> Outcome:
    """A_2 compares the current token with the stored one."""
    return reproduced(
        "On random rows the score is 100 times current token times stored token.", when=m.by_hand.errors["A_2"] < 1e-9
    )


@claim("I-11")
def gain_of_one_hundred(m: Measured) -> Outcome:
    """V_2 multiplies the copied token by 100."""
    survivors = m.readings.survivors
    return corrected(
        "The printed output needs the gain 1: with 100 the copied cells are 100.",
        more=(f"Of the {len(survivors)} readings that print all tables none has the gain 100."),
        when=bool(survivors)
        and all(reading.gain == 1 for reading in survivors)
        and m.by_hand.errors["copied at a gain of 100"] < 1e-9,
    )


@claim("I-12")
def no_second_passthrough(m: Measured) -> Outcome:
    """W_2 is zero."""
    rows = m.by_hand.counts["passthrough rows"]
    return reproduced(
        "Without a passthrough the output is what is copied and nothing else; a passthrough like W_1 "
        f"would add the current token in all {rows} rows.",
        when=m.by_hand.errors["output without a passthrough"] < 1e-9 and rows == len(m.by_hand.second.output),
    )


@claim("I-13")
def scores_as_printed(m: Measured) -> Outcome:
    """Equations 4 and 9 print y_j on both sides of A."""
    as_printed = m.readings.fewest_cells(scores="y_j A y_j")
    return corrected(
        f"With y_j twice all rows of the scores are alike and at least {as_printed} cells differ; with y_i on "
        "the left none.",
        more=("That holds however the rest of the slides is read."),
        when=as_printed > 0 and m.readings.fewest_cells(scores="y_i A y_j") == 0,
    )


@claim("I-14")
def first_table_of_scores(m: Measured) -> Outcome:
    """The printed scores of layer 1."""
    cells = m.by_hand.cells["scores 1"]
    return reproduced(f"{cells} of 36 cells differ.", when=cells == 0)


@claim("I-15")
def first_table_of_weights(m: Measured) -> Outcome:
    """The printed weights of layer 1."""
    cells = m.by_hand.cells["weights 1"]
    return reproduced(f"{cells} of 36 cells differ, with the sum over s <= i.", when=cells == 0)


@claim("I-16")
def first_table_of_outputs(m: Measured) -> Outcome:
    """The printed output of layer 1."""
    table = m.by_hand.compared[2]
    first_row, stored_first = 0, 6
    return corrected(
        "One of 72 cells differs: row !, column P_0 is 1, since ! attends to itself.",
        more=("The printed 0 needs an output in which row ! writes nothing about itself."),
        when=m.by_hand.cells["output 1"] == 1
        and table.computed[first_row, stored_first] == 1
        and table.printed[first_row, stored_first] == 0,
    )


@claim("I-17")
def first_layer_looks_back(m: Measured) -> Outcome:
    """Layer 1 looks at the previous token."""
    return reproduced(
        "The largest weight of every row but the first is at the previous position, for 6 positions and for 300.",
        when=min(m.by_hand.one_back) == 1,
    )


@claim("I-18")
def first_weights_are_almost_one_hot(m: Measured) -> Outcome:
    """Equation 7: the weight is about 1 where i = j + 1 or i = j = 0, and nowhere else."""
    return reproduced(
        "1 where i = j + 1 or i = j = 0, else below 1e-80.", when=m.by_hand.errors["first weights"] < 1e-80
    )


@claim("I-19")
def first_output_as_printed(m: Measured) -> Outcome:
    """Equation 8: the output of layer 1 holds the embedding of x_i twice."""
    wrong, rows = m.by_hand.counts["rows stored otherwise than printed"], len(m.by_hand.first.output) - 1
    return corrected(
        "The second half is the embedding of the previous token, to 1e-80; the printed $E[x_i]$ is wrong in "
        f"{wrong} of {rows} rows.",
        more=("These are rows 1 to 5; row 0 has no previous token."),
        when=m.by_hand.errors["stored token"] < 1e-80 and wrong == rows,
    )


@claim("I-20")
def second_table_of_scores(m: Measured) -> Outcome:
    """The printed scores of layer 2."""
    return corrected(
        "One of 36 cells differs: ! with itself is 100, since it is its own predecessor.",
        when=m.by_hand.cells["scores 2"] == 1 and m.by_hand.second.scores[0, 0] == 100,
    )


@claim("I-21")
def second_table_of_weights(m: Measured) -> Outcome:
    """The printed weights of layer 2."""
    cells, unseen = m.by_hand.cells["weights 2"], m.by_hand.errors["weights of unseen rows"]
    return corrected(
        f"{cells} of 36 cells differ: the rows of a, b and c that match nothing have equal weights, not 0.",
        more=("They are equal to 1e-12, since a softmax sums to 1."),
        when=cells == 10 and unseen < 1e-12,
    )


@claim("I-22")
def second_table_of_outputs(m: Measured) -> Outcome:
    """The printed output of layer 2."""
    cells, errors = m.by_hand.cells["output 2"], m.by_hand.errors
    return corrected(
        f"{cells} of 72 cells differ: copies are 100, not 1; row ! copies itself; rows that match nothing "
        "give a mean, not 0.",
        more=(
            "The gain is judged in I-11, row ! in I-16, the rows that match nothing in I-21: they give 100 times "
            "the mean of all rows so far."
        ),
        when=cells == 12 and errors["outputs of unseen rows"] < 1e-9 and errors["copied at a gain of 100"] < 1e-9,
    )


@claim("I-23")
def second_scores_check_the_predecessor(m: Measured) -> Outcome:
    """The score of layer 2 checks whether x_i = x_(j-1)."""
    return conditional(
        "For every j > 0 the score says x_i = x_(j-1); for j = 0 there is no x_(j-1), and it says x_i = x_0.",
        more=(
            f"Tried over all sequences of up to 5 tokens, {m.by_hand.counts['pairs']} pairs, "
            f"{m.by_hand.mistaken_keys.get(0, 0)} of which are of the second kind."
        ),
        when=set(m.by_hand.mistaken_keys) == {0},
    )


@claim("I-24")
def second_values_clear_the_stored_token(m: Measured) -> Outcome:
    """The output of layer 2 is zeroed out by V_2."""
    errors, gathering = m.by_hand.errors, m.by_hand.counts["rows that gather a stored token"]
    return corrected(
        "V_2 zeroes out half of it: it clears the stored half and keeps the other, times the gain.",
        more=("The rows attended to hold current and stored token."),
        when=gathering == len(m.by_hand.second.output)
        and errors["written stored tokens"] == 0
        and errors["written current tokens"] < 1e-9
        and errors["copied at a gain of 100"] < 1e-9,
    )


@claim("I-25")
def seen_tokens_copy_their_successor(m: Measured) -> Outcome:
    """Equation 12a: a token that was seen before copies x_(i+1)."""
    halves = torch.tensor([0, 0, 0.5, 0.5, 0, 0], dtype=torch.float64)
    return corrected(
        "Rows a at 3 and b at 5 copy b and a, the token after the earlier occurrence, not x_(i+1).",
        more=(
            "The token x_(i+1) is c after position 3 and does not exist after 5. With two earlier occurrences "
            "the head writes the mean of what followed them."
        ),
        when=m.prediction.copied == ("b", "a") and torch.allclose(m.prediction.two_matches, halves, atol=1e-9),
    )


@claim("I-26")
def unseen_tokens_give_zero(m: Measured) -> Outcome:
    """Equation 12b: a token that was not seen before gives zero."""
    errors = m.prediction.errors
    return corrected(
        "An unseen token gives the mean of all rows so far, not 0, to 1e-12 and at any sharpness of layer 2.",
        more=(f"Tested in {m.prediction.unseen} rows; six different tokens give uniform causal attention."),
        when=errors["unseen"] < 1e-12 and errors["uniform"] < 1e-12,
    )


@claim("I-27")
def attention_copies_from_history(m: Measured) -> Outcome:
    """Attention can copy from history."""
    seen = m.prediction.rows - m.prediction.unseen
    trained, untrained = (m.trained.heads.scores[name].prefix[1].max() for name in ("trained", "control"))
    return reproduced(
        f"In {seen} rows of random sequences whose token came before, the output is the mean of the "
        "successors, to 1e-12.",
        more=(f"A trained model does it too (prefix matching {trained:.2f}, untrained {untrained:.2f})."),
        when=m.prediction.errors["seen"] < 1e-12 and seen > 1000 and trained > 0.5 > 3 * untrained,
    )


@claim("I-28")
def copying_generalises(m: Measured) -> Outcome:
    """Copying works for similar words and contexts, and with n tokens skipped."""
    p, a_half = m.prediction, torch.full((2,), 0.5, dtype=torch.float64)
    return conditional(
        "Skipping n needs the n-th sub-diagonal in A_1, similar words a similarity matrix in A_2, similar "
        "contexts a stream of two tokens.",
        more=("In a stream that keeps one token, this head gives the mean of both continuations of a context of two."),
        when=p.skipping[4] > 0.999 and p.similar[3] > 0.999 and torch.allclose(p.context[[3, 5]], a_half),
    )


@claim("I-29")
def halves_of_equal_size(m: Measured) -> Outcome:
    """The two halves of a row have equal size, that of the vocabulary."""
    p = m.prediction
    return conditional(
        "Only with as many positions as tokens; in general the width is vocab + max(vocab, length), here 3 + "
        f"8 = {p.uneven_width}.",
        more=("That is for 3 tokens at 8 positions."),
        when=min(m.by_hand.one_back) == 1 and p.errors["uneven"] < 1e-9 and p.crowded_weight < 0.5,
    )
