"""The hand-built head: its six matrices entry by entry, its closed forms, and what it does on any sequence."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from analysis.transformer.attention import attend
from analysis.transformer.induction import build, embed, predict_next, required_sharpness, run, step, target_mass
from analysis.transformer.induction_scores import earlier_matches, mean_of_successors

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


@pytest.mark.parametrize("beta", [-1e4, -800.0, -3.0])
def test_closed_form_of_a_head_that_avoids_matches(beta):
    assert target_mass(beta, 10, 2) == pytest.approx(1 - target_mass(-beta, 10, 8), abs=1e-15)


def test_a_sharpness_that_float32_cannot_hold_is_exact_in_float64():
    head = build(3, 4, beta=0.12, gain=0.1)
    assert head.first.A.unique().tolist() == [-0.12, 0.0, 0.12]
    assert head.second.A.unique().tolist() == [0.0, 0.12]
    assert head.second.V.unique().tolist() == [0.0, 0.1]
