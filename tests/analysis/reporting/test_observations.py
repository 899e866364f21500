"""The numbers of a map and of the rows between layers, by hand, and how they are added up."""

import numpy as np
import pytest
import torch

from analysis.maps import gates
from analysis.maps.attribution import attribute_divergence
from analysis.reporting.observations import Observations, _Observer, describe_map, describe_rows, draw_repeats, tokenise
from analysis.statistics.normality import critical_value, lilliefors
from tests.analysis.tiny import draw

MAPS = torch.tensor(
    [[[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.5, 0.25, 0.25]], [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.1, 0.8, 0.1]]],
    dtype=torch.float64,
)
LENGTHS = torch.tensor([[2.0, 1.0, 4.0], [0.0, 3.0, 1.0]], dtype=torch.float64)


def entropy(*weights):
    return -sum(w * np.log(w) for w in weights)


@pytest.mark.parametrize("causal", [True, False])
def test_the_numbers_of_two_maps_by_hand(causal):
    rows = [[entropy(0.25, 0.75), entropy(0.5, 0.25, 0.25)], [np.log(2), entropy(0.1, 0.8, 0.1)]]
    if causal:  # the first row sees one key and says nothing; the second sees two
        shares = [(first / np.log(2) + second / np.log(3)) / 2 for first, second in rows]
    else:
        shares = [(0 + first + second) / 3 / np.log(3) for first, second in rows]
    # mean weights on the keys: 7/12, 4/12, 1/12 and 16/30, 13/30, 1/30, times the lengths of their values
    moved = [7 / 12 * 2 / ((7 * 2 + 4 * 1 + 1 * 4) / 12), 0.0]
    due = [
        [shares[0], 7 / 12, moved[0], (0.25 + 0.25) / 2, 0.0, (1 + 0.75 + 0.25) / 3],
        [shares[1], 16 / 30, moved[1], (0.5 + 0.8) / 2, 0.0, (1 + 0.5 + 0.1) / 3],
    ]
    np.testing.assert_allclose(describe_map(MAPS, LENGTHS, causal=causal), due, rtol=1e-12)
    ahead = describe_map(MAPS.mT, LENGTHS, causal=False)
    assert ahead[:, 3:].tolist() == [pytest.approx([0.0, 0.25, 2 / 3]), pytest.approx([0.0, 0.65, 1.6 / 3])]


def test_values_of_zero_move_nothing():
    assert describe_map(MAPS, 0 * LENGTHS, causal=True)[:, 2].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("shape", [(9, 20), (20, 9)])
def test_the_numbers_of_rows_by_their_definitions(shape):
    rows = draw(*shape)
    rows[0], rows[1] = rows[0].exp() ** 3, rows[1] ** 5
    unit, values = rows / rows.norm(dim=-1, keepdim=True), torch.linalg.svdvals(rows)
    n = len(rows)
    due = [
        ((unit @ unit.T).sum() - n) / (n * (n - 1)),
        sum(float(d) > critical_value(shape[1]) for d in lilliefors(rows)) / n,
        values.square().sum() ** 2 / (values**4).sum() / min(shape),
        (rows - rows.mean(0)).norm() / rows.norm(),
    ]
    assert due[1] > 0
    np.testing.assert_allclose(describe_rows(rows), torch.tensor(due, dtype=torch.float64), rtol=1e-9)
    np.testing.assert_allclose(describe_rows(rows.float()), torch.tensor(due, dtype=torch.float64), rtol=1e-4)


def test_shares_and_means_over_texts():
    seen = Observations.empty(2, 3)
    assert np.isnan(seen.mean("states")).all()
    assert seen.states.shape == (3, 4)
    assert seen.heads.shape == (2, 3, 6)
    seen.texts = 4
    seen.parts += np.arange(24.0).reshape(2, 3, 4)
    assert seen.mean("parts")[1, 2].tolist() == [5.0, 5.25, 5.5, 5.75]
    assert seen.shares()[0].tolist() == pytest.approx([12 / 66, 15 / 66, 18 / 66, 21 / 66])
    assert seen.shares()[1].tolist() == pytest.approx([48 / 210, 51 / 210, 54 / 210, 57 / 210])


@pytest.mark.parametrize("causal", [True, False])
def test_texts_of_a_batch_are_seen_without_their_padding(causal):
    heads, channel, scale, lengths = 2, 3, 0.7, [18, 21]
    query, key, value = (draw(2, heads, 21, channel, seed=seed).float() for seed in range(3))
    bias = draw(1, heads, 21, 21, seed=4).float()
    b_Q, b_K = draw(heads, 1, channel, seed=5), draw(heads, 1, channel, seed=6)
    seen = Observations.empty(2, heads)
    observer = _Observer(seen, lambda layer, n, s: (b_Q, b_K), None)
    output = observer(1, query, key, value, scale=scale, causal=causal, lengths=lengths, bias=bias)
    numbers, scores, parts = 0, 0, 0
    for text, n in enumerate(lengths):
        q, k, v = (rows[text, :, :n] for rows in (query, key, value))
        visible = torch.ones(n, n).bool().tril() if causal else torch.ones(n, n).bool()
        maps = (scale * q @ k.mT + bias[0, :, :n, :n]).masked_fill(~visible, -torch.inf).softmax(-1)
        torch.testing.assert_close(output[text, :, :n], maps @ v)
        assert not output[text, :, n:].any()
        numbers = numbers + describe_map(maps, v.norm(dim=-1), causal=causal)
        scores = scores + gates.read_gates(maps, causal=causal).scores
        bare_q, bare_k = q.double() - b_Q, k.double() - b_K
        split = [bare_q @ bare_k.mT, b_Q @ bare_k.mT, bare_q @ b_K.mT, b_Q @ b_K.mT]
        split = torch.stack([(scale * part).expand(heads, n, n) for part in split])
        parts = parts + attribute_divergence(split, visible).parts.sum(-1).T
    np.testing.assert_allclose(seen.heads[1], numbers, rtol=1e-5)
    np.testing.assert_allclose(seen.gates[1], scores, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(seen.parts[1], parts, rtol=1e-4, atol=1e-6)
    assert not seen.heads[0].any()
    assert not seen.mean_parts.any()


def test_random_tokens_stand_twice_behind_a_first_token():
    ids = draw_repeats(7, 10, 40, count=3)
    assert (ids[:, 0] == 7).all()
    assert ids.shape == (3, 39)  # 19 tokens twice, behind the first
    assert ids[:, 1:20].equal(ids[:, 20:])
    assert not ids[:, 1:19].equal(ids[:, 2:20])
    assert draw_repeats(None, 10, 40, count=3).shape == (3, 40)
    assert draw_repeats(0, 10, 1000).shape == (4, 101)
    assert draw_repeats(0, 10, 1000).max() == 9


def test_texts_that_are_too_short_are_left_out():
    def tokenizer(text, *, max_length=9, return_special_tokens_mask=False, **options):
        ids = torch.arange(min(len(text), max_length))
        if return_special_tokens_mask:
            return {"input_ids": ids.tolist(), "special_tokens_mask": [0] * len(ids)}
        return {"input_ids": ids[None]}

    given = tokenise(tokenizer, ["a" * n for n in (5, gates.SHORTEST, 30, 40, 99)], 40)
    assert [ids.shape[-1] for ids in given.ids] == [gates.SHORTEST, 30, 40, 40]
    assert (given.short, given.cut, given.first) == (1, 1, None)
    with pytest.raises(ValueError, match=f"none of the 1 texts has {gates.SHORTEST} tokens"):
        tokenise(tokenizer, ["a" * (gates.SHORTEST - 1)], 40)
