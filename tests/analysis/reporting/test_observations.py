"""The numbers of a map and of the rows between layers, by hand, and how they are added up."""

import numpy as np
import pytest
import torch

from analysis.maps import gates
from analysis.maps.attribution import attribute_divergence
from analysis.reporting.observations import HeadNumbers, Observations, add_layer, describe_rows, draw_repeats, tokenise
from analysis.statistics.normality import critical_value, lilliefors
from analysis.surveys.layer_runs import LayerOnText, ScoreBlock
from analysis.transformer.attention import project
from tests.analysis.tiny import draw, random_layer

MAPS = torch.tensor(
    [[[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.5, 0.25, 0.25]], [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.1, 0.8, 0.1]]],
    dtype=torch.float64,
)
LENGTHS = torch.tensor([[2.0, 1.0, 4.0], [0.0, 3.0, 1.0]], dtype=torch.float64)


def describe(maps, lengths, seen, *, rows=3):
    """Return the numbers of maps, given so many of their rows at a time, of one head after the other."""
    numbers = HeadNumbers(len(maps), range(3), lengths)
    for head in range(len(maps)):
        for first in range(0, 3, rows):
            part, own = slice(first, first + rows), slice(head, head + 1)
            numbers.add(ScoreBlock(own, first, torch.tensor(seen)[part], maps[own, part].log()))
    return numbers.means()


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
    for rows in (1, 2, 3):
        found = describe(MAPS, LENGTHS, [1, 2, 3] if causal else [3, 3, 3], rows=rows)
        np.testing.assert_allclose(found, due, rtol=1e-12)
    ahead = describe(MAPS.mT, LENGTHS, [3, 3, 3])  # of which the softmax makes rows that sum to 1
    np.testing.assert_allclose(ahead[:, 3], 0)
    np.testing.assert_allclose(ahead[0, 4:], [(0.25 / 1.75 + 0.25) / 2, (1 / 1.75 + 0.75 + 1) / 3])
    np.testing.assert_allclose(ahead[1, 4:], [(0.5 / 1.6 + 0.8 / 1.3) / 2, (1 / 1.6 + 0.5 / 1.3 + 1) / 3])


def test_values_of_zero_move_nothing():
    assert describe(MAPS, 0 * LENGTHS, [1, 2, 3])[:, 2].tolist() == [0.0, 0.0]


def test_without_a_query_there_is_no_number():
    assert HeadNumbers(2, range(0), LENGTHS).means().isnan().all()


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
def test_what_a_layer_shows_is_added_up_by_its_number(causal):
    n, layer = 18, random_layer(2, 6, 3, causal=causal)
    shown = LayerOnText(1, 0, layer, draw(n, 6))
    b_Q, b_K = draw(2, 1, 3, seed=5), draw(2, 1, 3, seed=6)
    seen = Observations.empty(2, 2)
    add_layer(seen, shown, {"parts": lambda number, length: (b_Q, b_K)})
    q, k, v = (project(shown.x, *of) for of in ((layer.W_Q, layer.b_Q), (layer.W_K, layer.b_K), (layer.W_V, layer.b_V)))
    visible = torch.ones(n, n).bool().tril() if causal else torch.ones(n, n).bool()
    maps = (layer.scale * q @ k.mT).masked_fill(~visible, -torch.inf).softmax(-1)
    bare_q, bare_k = q - b_Q, k - b_K
    split = [bare_q @ bare_k.mT, b_Q @ bare_k.mT, bare_q @ b_K.mT, b_Q @ b_K.mT]
    split = torch.stack([(layer.scale * part).expand(2, n, n) for part in split])
    numbers = HeadNumbers(2, range(n), v.norm(dim=-1))
    numbers.add(ScoreBlock(slice(2), 0, visible.sum(-1), maps.log()))
    np.testing.assert_allclose(seen.heads[1], numbers.means())
    np.testing.assert_allclose(seen.gates[1], gates.read_gates(maps, causal=causal).scores)
    np.testing.assert_allclose(seen.parts[1], attribute_divergence(split, visible).parts.sum(-1).T)
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
