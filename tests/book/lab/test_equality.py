"""Gaps between forms of a layer, and maps of a whole model as it reads text: against the model's own attention."""

import pytest
import torch

from analysis.data import texts
from analysis.maps import entropy
from analysis.models import checkpoints, pretrained
from book.lab.equality import draw, entropy_shares, gaps, log_maps, random_layer, relative_gap


@pytest.fixture(scope="module")
def mini():
    return checkpoints.find("gpt2-mini")


def test_entropy_shares_are_those_of_the_models_own_maps(mini):
    model, tokenizer = pretrained.load(mini, dtype=torch.float64), pretrained.tokenizer(mini)
    ids = torch.tensor([tokenizer(texts.passages(count=1)[0], truncation=True, max_length=20)["input_ids"]])
    maps = torch.stack(model(ids, output_attentions=True).attentions)[:, 0]
    p = maps[:, :, 1:]
    due = (torch.special.entr(p).sum(-1) / torch.arange(2.0, 21.0).double().log()).mean(-1)
    got = entropy_shares(mini, passages=1, tokens=20)
    torch.testing.assert_close(got[0], due, rtol=1e-9, atol=0)
    assert entropy_shares(mini, (0.0,), passages=1, tokens=20).sub(1).abs().max() < 1e-9


def test_control_is_nearly_uniform_and_bert_sees_all_keys():
    minilm = checkpoints.find("minilm")
    scores = next(log_maps(minilm, control_seed=0, passages=1, tokens=12))
    assert (entropy.count_visible_keys(scores) == 12).all()
    assert entropy_shares(minilm, control_seed=0, passages=1, tokens=12).min() > 0.99


def test_gaps_tell_rewritings_from_omissions():
    x = torch.randn(1, 9, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for family in ("gpt2", "bert"):
        found = list(gaps(family, random_layer(3, 12, 4), x).values())
        assert max(found[:5]) < 1e-12
        assert min(found[5:]) > 1e-3


def test_a_readers_own_texts_take_the_place_of_the_passages(mini, tmp_path):
    (tmp_path / "own.txt").write_text("One two three.\n\nFour five.")
    assert len(list(log_maps(mini, source=str(tmp_path / "own.txt")))) == 2


def test_a_relative_gap_is_a_share_of_the_second():
    one = draw(3, 4)
    assert relative_gap(one, one) == 0
    assert relative_gap(3 * one, one) == pytest.approx(2)
