"""The sink in a real browser, from a file: its numbers against Python, its controls, sentence and links."""

import numpy as np
import pytest
import torch

from book.experiments import bert_gates_ablation as dial
from book.lab.ablation import choose_sink
from tests.book.pages import play_pages

pytestmark = pytest.mark.browser
KEYS = dict(zip(dial.CHANGES, ("out", "shared", "louder"), strict=True))


@pytest.mark.parametrize("amount", [0, 30, 100])
@pytest.mark.parametrize("way", KEYS)
def test_rows_are_changed_as_in_the_study(visit, record, way, amount):
    weights = torch.as_tensor(record.array("weights").astype(float))[None, None]
    due = dial.CHANGES[way](weights, amount / 100 * weights * choose_sink(weights))[0, 0]
    shown = visit.evaluate("which => document.querySelector('.play').numbers.row(...which)", [KEYS[way], amount])
    np.testing.assert_allclose(shown, due, atol=2e-4)
    turned = visit.evaluate("which => document.querySelector('.play').numbers.turned(...which)", [KEYS[way], amount])
    assert turned == pytest.approx(record.array("effect")[list(KEYS).index(way), amount // 10], abs=2e-3)


def test_the_sentence_says_what_happened(visit):
    visit.get_by_label("leave it out", exact=True).check(force=True)
    play_pages.slide(visit, "How much of it", 0)
    assert "Nothing is taken yet" in visit.inner_text(".play-said")
    play_pages.slide(visit, "How much of it", 100)
    assert "next to nothing changes" in visit.inner_text(".play-said")
    visit.get_by_label("share it among the others", exact=True).check(force=True)
    assert "the vector is another one" in visit.inner_text(".play-said")
    play_pages.slide(visit, "How much of it", 10)
    assert "too little to turn the vector far" in visit.inner_text(".play-said")
    play_pages.slide(visit, "How much of it", 100)
    visit.get_by_label("keep it, turn the others up", exact=True).check(force=True)
    assert "Nothing was taken from [CLS]" in visit.inner_text(".play-said")
