"""The parts of the score in a tiny GPT-2 and a tiny BERT: they sum, and what cancels has no share."""

import numpy as np
import pytest
import torch

from analysis.decomposition.terms import score_terms
from analysis.models import checkpoints, pretrained
from analysis.transformer import constructed_heads
from book.lab import head_changes, score_survey
from book.lab.score_survey import identity_error, read_texts, survey
from tests.analysis import tiny
from tests.book.test_evidence import write_bert

TEXTS = ["a cat sat", "one two three", "x"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A random BERT that reads letters, and three texts."""
    folder = tmp_path_factory.mktemp("score") / "my-bert"
    folder.mkdir()
    write_bert(folder, 2, 3)
    (folder.parent / "texts.txt").write_text("\n\n".join(TEXTS))
    return checkpoints.find(str(folder)), folder.parent / "texts.txt"


def test_parts_sum_to_the_divergence_about_either_origin(bert):
    found = survey(bert[0], source=bert[1])
    assert (found["error"] < 1e-12, found["gap"] < 1e-6) == (True, True)
    for name in ("parts", "from_zero"):
        np.testing.assert_allclose(found[name].sum(-1), found["divergence"], atol=1e-6)
    np.testing.assert_allclose(found["first"].sum(-1), found["divergence"][0], atol=1e-6)
    np.testing.assert_allclose(found["by_text"].mean(1), found["parts"])
    assert found["by_text"].shape == (2, len(TEXTS), 3, 5)
    assert not found["parts"][..., 3:].any()  # row constants
    assert found["parts"][..., 2].any()


def test_the_origin_is_the_mean_input_over_all_texts(bert):
    model = pretrained.load(bert[0], dtype=torch.float64)
    with torch.no_grad():
        states = [model(ids[None], output_hidden_states=True).hidden_states[1][0] for ids in read_texts(*bert)]
    np.testing.assert_allclose(survey(bert[0], source=bert[1])["origins"][1], torch.cat(states).mean(0), rtol=1e-9)


def test_the_bordered_product_is_held_to_the_modules_attention():
    layer, x = tiny.random_layer(), tiny.draw(5, 12)
    attention = torch.softmax(score_terms(x, layer).total(), -1)
    assert identity_error(x, layer, attention) < 1e-12
    assert identity_error(x, layer, attention.roll(1, -1)) > 1e-3


def test_a_row_that_sees_two_keys_is_split_by_hand():
    """With weights p and 1 - p of two keys and scores s and 0, the divergence is log 2 - H(p)."""
    layer, x = tiny.random_layer(), tiny.draw(2, 12)
    split = score_survey.split_layer([x], layer, causal=True)
    p = torch.softmax(score_terms(x, layer).total()[:, 1], -1)
    np.testing.assert_allclose(split.divergence, (p * (2 * p).log()).sum(-1))


def test_long_texts_are_split_in_evenly_spread_rows():
    assert score_survey.choose_rows(torch.zeros(10)).tolist() == list(range(1, 10))
    rows = score_survey.choose_rows(torch.zeros(1000))
    assert (len(rows), int(rows[0]), int(rows[-1])) == (score_survey.ROWS, 1, 999)


def test_the_first_key_can_be_left_out():
    layer, x = tiny.random_layer(), tiny.draw(3, 12)
    split = score_survey.split_layer([x], layer, causal=False, first=False)
    p = torch.softmax(score_terms(x, layer).total()[:, 1:, 1:], -1)  # the rows that are split, without the first key
    np.testing.assert_allclose(split.divergence, (p * (2 * p).log()).sum(-1).mean(-1))


def test_formulas_are_at_no_distance_from_themselves():
    tokens = torch.randint(5, (24,), generator=torch.Generator().manual_seed(0))
    for causal in (False, True):
        for k, maps in enumerate(score_survey.members(tokens, causal=causal).values()):
            assert score_survey.distances(maps, tokens, causal=causal)[:, k].max() == 0
    uniform = constructed_heads.attention_map(constructed_heads.uniform(5, 24), tokens, causal=False)
    previous = list(score_survey.FAMILIES).index("previous")
    assert score_survey.distances(uniform[None], tokens, causal=False)[0, previous] > 0.9


def test_what_takes_nothing_away_changes_nothing(bert):
    """On one text the mean map is the head's own, and one head's query bias is already 0."""
    model = pretrained.load(bert[0])
    layer = model.encoder.layer[1].attention.self
    with torch.no_grad():
        layer.query.bias[:12] = 0  # of head 0
    text = read_texts(*bert)[0]
    queries, maps = head_changes.observe(model, text[None])
    change = head_changes.Change(1, queries[1], layer.query.bias.view(3, 12), maps[1])
    lost = dict(zip(head_changes.WAYS, head_changes.effects(model, text, change)))
    assert lost["constant map"].abs().max() < 1e-9
    assert lost["no query bias"][0].abs() < 1e-9
    assert min(lost["no query bias"][1:].min(), lost["uniform"].min(), lost["mean query"].min()) > 1e-7
