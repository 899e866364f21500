"""The hand-built head: its six matrices entry by entry, its closed forms, and what it does on any sequence."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from analysis.transformer.attention import attend
from analysis.transformer.induction import build, embed, predict_next, required_sharpness, run, step, target_mass
from analysis.transformer.induction_scores import copying, earlier_matches, mean_of_successors, prefix_matching

TOKENS = st.lists(st.integers(0, 4), min_size=1, max_size=9).map(torch.tensor)
EXACT = {"rtol": 0, "atol": 1e-12}


def test_the_six_matrices_entry_by_entry():
    head = build(3, 3, beta=7.0, gain=5.0)
    eye, zero = torch.eye(3, dtype=torch.float64), torch.zeros(3, 3, dtype=torch.float64)
    previous = torch.tensor([[-7.0, -7, -7], [7, -7, -7], [-7, 7, -7]], dtype=torch.float64)
    lower_left = torch.cat([torch.zeros(3, 6, dtype=torch.float64), torch.cat([eye, zero], 1)])
    due = {"A": torch.block_diag(zero, previous), "V": lower_left, "W": torch.block_diag(eye, zero)}
    for name, matrix in due.items():
        torch.testing.assert_close(getattr(head.first, name), matrix, **EXACT)
    due = {
        "A": torch.cat([torch.cat([zero, 7 * eye], 1), torch.zeros(3, 6, dtype=torch.float64)]),
        "V": torch.block_diag(5 * eye, zero),
        "W": torch.zeros(6, 6, dtype=torch.float64),
    }
    for name, matrix in due.items():
        torch.testing.assert_close(getattr(head.second, name), matrix, **EXACT)


def test_changing_any_entry_of_the_second_layer_changes_what_is_computed():
    tokens = torch.tensor([0, 1, 2, 0, 2, 1])
    head = build(3, 6, beta=3.0)
    x = run(tokens, head)[0].output
    for row, column in [(r, c) for r in range(6) for c in range(6)]:
        A = head.second.A.clone()
        A[row, column] += 1.0
        changed = step(x, type(head.second)(A, head.second.V, head.second.W)).scores
        assert not torch.allclose(changed, step(x, head.second).scores), (row, column)


@given(TOKENS, st.floats(0.1, 50))
def test_equals_reference_attention_plus_passthrough(tokens, beta):
    head = build(5, 9, beta=beta, gain=2.0)
    x = embed(tokens, head)
    for layer in (head.first, head.second):
        ours, theirs = step(x, layer), attend(x, layer.as_attention())
        torch.testing.assert_close(ours.attention, theirs.attention[0], rtol=0, atol=1e-10)
        torch.testing.assert_close(ours.output, theirs.output + x @ layer.W.T, rtol=0, atol=1e-10)
        x = ours.output


@given(TOKENS, st.integers(1, 3))
def test_copies_the_mean_of_all_successors_and_else_the_mean_of_all(tokens, offset):
    head = build(5, 9, gain=1.0, offset=offset)
    second = run(tokens, head)[1].output[:, :5]
    one_hot = torch.eye(5, dtype=torch.float64)[tokens]
    for i in range(offset, len(tokens)):
        heard = [j for j in range(offset, i + 1) if tokens[j - offset] == tokens[i]]
        if any((tokens[: j + 1] == tokens[i]).any() for j in range(min(offset, i + 1))):
            continue  # the first rows have no key n back and store a mean: tested below
        torch.testing.assert_close(second[i], one_hot[heard or slice(0, i + 1)].mean(0), rtol=0, atol=1e-9)


def test_the_mean_of_successors_by_hand():
    # ! a b a c a: two successors of the last a; c is new among ! a b a c
    means = mean_of_successors(torch.tensor([0, 1, 2, 1, 3, 1]), vocab=4)
    due = torch.tensor([[1 / 5, 2 / 5, 1 / 5, 1 / 5], [0, 0, 0.5, 0.5]], dtype=torch.float64)
    torch.testing.assert_close(means[4:], due, **EXACT)
    with pytest.raises(ValueError, match=r"tokens must lie in 0\.\.2"):
        mean_of_successors(torch.tensor([0, 3]), vocab=3)


@given(TOKENS, st.integers(1, 3))
def test_prediction_is_the_mean_of_successors_and_takes_the_options_of_the_builder(tokens, offset):
    tokens = torch.cat([torch.tensor([5]), tokens])  # a first token that does not come again
    torch.testing.assert_close(predict_next(tokens, 6), mean_of_successors(tokens, 6), **EXACT)
    offset = min(offset, len(tokens))
    mixed = torch.eye(6, dtype=torch.float64) + 0.1
    head = build(6, len(tokens), beta=3.0, gain=1.0, offset=offset, similarity=mixed)
    predicted = predict_next(tokens, 6, beta=3.0, offset=offset, similarity=mixed)
    torch.testing.assert_close(predicted, run(tokens, head)[1].output[:, :6], **EXACT)


def test_the_first_token_is_its_own_predecessor():
    head = build(3, 4, gain=1.0)
    first, second = run(torch.tensor([0, 1, 2, 0]), head)
    assert first.attention[0, 0] == 1
    torch.testing.assert_close(first.output[0, 3:6], torch.tensor([1.0, 0, 0], dtype=torch.float64))
    due = torch.tensor([0.5, 0.5, 0], dtype=torch.float64)
    torch.testing.assert_close(second.output[3, :3], due, rtol=0, atol=1e-9)


def test_sizes_need_not_be_equal():
    for vocab, length in [(2, 9), (9, 2), (4, 4), (1, 1)]:
        head = build(vocab, length, gain=1.0)
        assert head.width == vocab + max(vocab, length) == head.second.A.shape[0]
        output = run(torch.arange(length) % vocab, head)[1].output
        torch.testing.assert_close(output[:, :vocab].sum(-1), torch.ones(length, dtype=torch.float64))
        assert output[:, vocab:].abs().max() == 0


def test_similarity_lets_a_similar_token_match():
    similarity = torch.eye(4)
    similarity[0, 1] = similarity[1, 0] = 0.8
    tokens = torch.tensor([3, 0, 2, 1])
    assert run(tokens, build(4, 4, gain=1.0))[1].output[3, 2] == pytest.approx(0.25)
    assert run(tokens, build(4, 4, gain=1.0, similarity=similarity))[1].output[3, 2] > 0.99


@pytest.mark.parametrize("beta", [0.0, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("matches", [1, 2, 3])
def test_mass_at_the_target_equals_the_closed_form(beta, matches):
    tokens = torch.tensor([0] + [1, 2] * matches + [3, 3, 1])
    first = run(tokens, build(4, len(tokens), beta=60.0))[0].output
    attention = step(first, build(4, len(tokens), beta=beta).second).attention
    here = earlier_matches(tokens)[-1].bool()
    assert int(here.sum()) == matches
    mass = attention[-1][here].sum().item()
    assert mass == pytest.approx(target_mass(beta, len(tokens), matches), abs=1e-12)
    if beta > 0:
        assert required_sharpness(mass, len(tokens), matches) == pytest.approx(beta, abs=1e-6)


def test_limits_of_the_closed_form():
    assert target_mass(3.0, 5, 0) == 0
    assert target_mass(3.0, 5, 5) == 1
    assert target_mass(1e4, 10, 1) == 1
    assert required_sharpness(0.9, 201) - required_sharpness(0.9, 101) == pytest.approx(math.log(2))


def test_prefix_matching_is_one_for_the_hand_built_head_and_less_for_an_even_one():
    tokens = torch.tensor([4, 0, 1, 2, 3, 0, 1, 2, 3])
    built = run(tokens, build(5, 9))[1].attention
    even = torch.ones(9, 9, dtype=torch.float64).tril()
    even = even / even.sum(-1, keepdim=True)
    scores = prefix_matching(torch.stack([built, even]), tokens)
    assert scores[0] == pytest.approx(1, abs=1e-12)
    assert scores[1] == pytest.approx(sum(1 / n for n in (6, 7, 8, 9)) / 4)
    with pytest.raises(ValueError, match="must repeat"):
        prefix_matching(built[None, :5, :5], tokens[:5])


def test_copying_is_one_for_pure_copying_and_zero_for_suppression():
    tokens = torch.tensor([2, 0, 1])
    attention = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [0, 0, 1]])[None].repeat(3, 1, 1)
    other = torch.eye(4)[(tokens + 1) % 4]
    logits = torch.stack([torch.eye(4)[tokens], -torch.eye(4)[tokens], torch.eye(4)[tokens] + other])
    torch.testing.assert_close(copying(attention, logits, tokens), torch.tensor([1.0, 0.0, 0.5]))


def test_earlier_matches_by_hand():
    due = torch.zeros(5, 5)
    due[2, 1] = due[3, 2] = due[4, 1] = due[4, 3] = 1  # 0 1 0 1 0
    torch.testing.assert_close(earlier_matches(torch.tensor([0, 1, 0, 1, 0])), due)
    assert earlier_matches(torch.tensor([0, 1]), offset=5).sum() == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocab": 0, "length": 3}, "vocab and length"),
        ({"vocab": 3, "length": 3, "offset": 4}, "offset must be"),
        ({"vocab": 3, "length": 3, "beta": math.inf}, "must be finite"),
        ({"vocab": 3, "length": 3, "similarity": torch.eye(2)}, "similarity must be"),
    ],
)
def test_build_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        build(**arguments)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [([], "at least one"), ([0, 0, 0, 0], "number 1 to 3"), ([3], r"in 0\.\.2"), ([-1], r"in 0\.\.2")],
)
def test_embed_refuses(tokens, message):
    with pytest.raises(ValueError, match=message):
        embed(torch.tensor(tokens, dtype=torch.long), build(3, 3))


def test_refuses_impossible_counts():
    for keys, matches in [(0, 0), (3, 4), (3, -1)]:
        with pytest.raises(ValueError, match="matches must lie"):
            target_mass(1.0, keys, matches)
    with pytest.raises(ValueError, match="strictly between"):
        required_sharpness(1.0, 3)
    with pytest.raises(ValueError, match="does not depend"):
        required_sharpness(0.5, 3, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: build(2.5, 3), "whole numbers"),
        (lambda: build(2, 3, dtype=torch.int64), "floating type"),
        (lambda: build(2, 3, beta=1e39, dtype=torch.float32), "finite in torch.float32"),
        (lambda: build(2, 2, similarity=torch.full((2, 2), math.nan)), "similarity holds"),
        (lambda: embed(torch.tensor([[0, 1]]), build(2, 3)), r"\(position,\)"),
        (lambda: embed(torch.tensor([0.0, 1.0]), build(2, 3)), "whole numbers"),
        (lambda: embed(torch.tensor([True, False]), build(2, 3)), "whole numbers"),
        (lambda: step(torch.zeros(3, 4, dtype=torch.float64), build(2, 3).first), r"x must be \(3, 5\)"),
        (lambda: step(torch.zeros(0, 5, dtype=torch.float64), build(2, 3).first), "none of them empty"),
        (lambda: step(torch.zeros(3, 5), build(2, 3).first), "torch.float64 on cpu to fit the layer"),
        (lambda: target_mass(math.nan, 3, 3), "beta must be a number"),
        (lambda: earlier_matches(torch.tensor([0, 0]), 0), "offset must be at least 1"),
        (
            lambda: prefix_matching(torch.ones(1, 4, 4), torch.tensor([0, 1, 0])),
            r"tokens must be \(4,\) .* to fit attention",
        ),
        (
            lambda: copying(torch.ones(1, 2, 2), torch.ones(1, 2, 4), torch.tensor([0])),
            r"tokens must be \(2,\) .* to fit attention",
        ),
        (lambda: copying(torch.ones(1, 2, 2), torch.ones(1, 2, 4), torch.tensor([0, 4])), r"in 0\.\.3"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_more_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("beta", [-1e4, -800.0, -3.0])
def test_closed_form_of_a_head_that_avoids_matches(beta):
    assert target_mass(beta, 10, 2) == pytest.approx(1 - target_mass(-beta, 10, 8), abs=1e-15)


def test_a_sharpness_that_float32_cannot_hold_is_exact_in_float64():
    head = build(3, 4, beta=0.12, gain=0.1)
    assert head.first.A.unique().tolist() == [-0.12, 0.0, 0.12]
    assert head.second.A.unique().tolist() == [0.0, 0.12]
    assert head.second.V.unique().tolist() == [0.0, 0.1]
