"""Three words, their patterns and messages in a real browser: numbers against Python, what is said."""

import numpy as np
import pytest
import torch

from analysis import AttentionLayer, attend, messages, patterns
from book._ext import viewers

pytestmark = pytest.mark.browser
WORDS = torch.tensor([[1.0, 0], [0, 1], [1, 1]])


@pytest.fixture
def fresh(visit):
    """The page as it begins; one visit serves all tests."""
    visit.get_by_label("b looks").check(force=True)
    visit.get_by_label("query bias").set_checked(True)
    return visit


def layer(*, bias: bool) -> AttentionLayer:
    """Return the head of the small case: a query is twice the first number plus 1, a key the second number."""
    first, second = torch.tensor([[[1.0], [0.0]]]), torch.tensor([[[0.0], [1.0]]])
    zero, out = torch.zeros(1, 1), torch.tensor([[[0.0, 2.0]]])
    return AttentionLayer(2 * first, second, first, out, torch.tensor([[float(bias)]]), zero, zero, torch.zeros(2))


def numbers(page) -> dict:
    return page.evaluate(
        "() => Object.fromEntries(Object.entries(document.querySelector('.play').numbers).map(([k, of]) => [k, of()]))"
    )


@pytest.mark.parametrize("bias", [True, False])
def test_patterns_messages_and_what_arrives_are_those_of_the_library(fresh, bias):
    fresh.get_by_label("query bias").set_checked(bias)
    head, shown = layer(bias=bias), numbers(fresh)
    result = attend(WORDS, head)
    np.testing.assert_allclose(shown["patterns"], patterns(WORDS, head)[0], atol=1e-6)
    np.testing.assert_allclose(shown["messages"], messages(WORDS, head)[0], atol=1e-6)
    np.testing.assert_allclose(shown["attention"], result.attention[0], atol=1e-6)
    np.testing.assert_allclose(shown["received"], result.output, atol=1e-6)
    for row, name in enumerate("abc"):
        fresh.get_by_label(f"{name} looks").check(force=True)
        cells = fresh.locator("tbody td:nth-child(2)").all_inner_texts()
        assert list(map(float, cells)) == shown["scores"][row]
        assert f"{name} looks for" in fresh.inner_text(".play-said")


def test_without_the_query_bias_b_looks_at_all_alike_and_a_still_does_not(fresh):
    assert "b looks for (0, 1)" in fresh.inner_text(".play-said")
    fresh.get_by_label("query bias").set_checked(False)
    assert "b looks for nothing" in fresh.inner_text(".play-said")
    assert fresh.locator("tbody td:nth-child(3)").all_inner_texts() == ["33\u00a0%"] * 3
    fresh.get_by_label("a looks").check(force=True)
    assert "a looks for (0, 2)" in fresh.inner_text(".play-said")


def test_the_static_picture_names_the_patterns():
    figure, start = viewers.picture("pattern")
    assert start == {"word": "b", "bias": True}
    said = [f"{name} looks for (0, {p[1]:.0f})" for name, p in zip("abc", patterns(WORDS, layer(bias=True))[0])]
    assert [panel.get_title() for panel in figure.axes] == said
