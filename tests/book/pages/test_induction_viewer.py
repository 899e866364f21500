"""The viewer of the hand-built induction head in a real browser, opened from a file: its numbers, keys and words."""

import math

import pytest
import torch

from analysis.transformer.induction import build, embed, run
from tests.book.pages.book_pages import ROOT

pytestmark = pytest.mark.browser
FRAGMENT = ROOT / "book" / "assets" / "induction-viewer.html"
STEPS = ("Embeddings", *(f"Layer {n} {of}" for n in (1, 2) for of in ("scores", "weights", "output")))
CELLS = """() => [...document.querySelectorAll('#iv-table tbody tr')].map(
  r => [...r.querySelectorAll('td')].map(c => Number(c.dataset.value)))"""


@pytest.fixture
def tab(tab):
    """Open the viewer from its file."""
    tab.page.goto(FRAGMENT.as_uri(), wait_until="load")
    tab.page.evaluate("document.querySelector('.iv-more').open = true")
    return tab.page


def computed(tokens, vocab, beta, gain, offset):
    tokens = torch.tensor(tokens)
    head = build(vocab, len(tokens), beta=beta, gain=gain, offset=offset)
    steps = run(tokens, head)
    return [embed(tokens, head), *(table for step in steps for table in (step.scores, step.attention, step.output))]


TYPED = [
    ("the cat saw the cat and the", [0, 1, 2, 0, 1, 3, 0], 4, (2.5, 1.0, 1)),
    ("abcabdab", [1, 2, 3, 1, 2, 4, 1, 2], 6, (7.0, 100.0, 2)),
    ("xx", [0, 0], 1, (0.0, -3.0, 5)),
    ("! a b a c b", [0, 1, 2, 1, 3, 2], 6, (100.0, 1.0, 1)),
]


@pytest.mark.parametrize(("typed", "tokens", "vocab", "settings"), TYPED)
def test_a_typed_sequence_gives_the_numbers_of_the_package(tab, typed, tokens, vocab, settings):
    beta, gain, offset = settings
    tab.fill("#iv-sequence", typed)
    tab.fill("#iv-beta", str(beta))
    tab.fill("#iv-gain", str(gain))
    tab.fill("#iv-offset", str(offset))
    offset = min(offset, len(tokens))  # the package refuses to look back further; all scores are equal either way
    for name, due in zip(STEPS, computed(tokens, vocab, beta, gain, offset), strict=True):
        tab.get_by_role("button", name=name).click()
        shown = torch.tensor(tab.evaluate(CELLS), dtype=torch.float64)
        torch.testing.assert_close(shown, due, rtol=1e-12, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}")


def masked_late(x, layer):
    """One layer with the mask after the softmax, as the slides have it."""
    weights = (x @ layer.A @ x.T).softmax(-1).tril()
    weights = weights / (weights.sum(-1, keepdim=True) + 1e-9)
    return weights, weights @ x @ layer.V.T + x @ layer.W.T


def test_a_mask_after_the_softmax_silences_what_is_new(tab):
    tab.get_by_label("The mask comes").select_option("after")
    tokens = torch.tensor([0, 1, 2, 1, 3, 2])
    head = build(6, 6, beta=100.0, gain=1.0)
    first, stored = masked_late(embed(tokens, head), head.first)
    second, copied = masked_late(stored, head.second)
    for name, due in zip(STEPS, (None, None, first, stored, None, second, copied), strict=True):
        tab.get_by_role("button", name=name).click()
        if due is not None:
            shown = torch.tensor(tab.evaluate(CELLS), dtype=torch.float64)
            torch.testing.assert_close(shown, due, rtol=1e-12, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}")
    assert second[[1, 2, 4]].abs().max() < 1e-12
    tab.get_by_role("button", name="Layer 2 weights").click()
    assert "over all places, then masked" in tab.locator("#iv-table caption").inner_text()
    tab.get_by_label("The row that is explained").select_option("4")
    assert "next position has c in its pocket" in tab.inner_text("#iv-say")
    assert "induction.mask=after" in tab.evaluate("document.querySelector('#iv-link').href")


def test_the_slider_follows_the_keyboard_and_the_field(tab):
    assert tab.input_value("#iv-slide") == "45"
    tab.focus("#iv-slide")
    tab.keyboard.press("ArrowRight")
    assert tab.input_value("#iv-beta") == "120"
    tab.keyboard.press("Home")
    assert tab.input_value("#iv-beta") == "0"
    tab.fill("#iv-beta", "3.3")
    assert (tab.input_value("#iv-slide"), tab.input_value("#iv-beta")) == ("23", "3.3")
    assert tab.eval_on_selector(".iv", "viewer => viewer.scrollWidth <= viewer.clientWidth + 1")


def test_a_link_leads_back_to_the_view_and_a_wrong_one_to_the_beginning(tab):
    tab.fill("#iv-sequence", "the cat saw the cat")
    tab.fill("#iv-beta", "2.5")
    tab.get_by_role("button", name="Layer 2 weights").click()
    tab.get_by_label("The row that is explained").select_option("3")
    table, address = tab.evaluate(CELLS), tab.evaluate("document.querySelector('#iv-link').href")
    assert "induction.beta=2.5" in address
    tab.click("#iv-link")
    assert tab.url == address
    tab.goto("about:blank")
    tab.goto(address)
    assert tab.evaluate(CELLS) == table
    assert "Row the at position 3" in tab.inner_text("#iv-say")
    assert tab.input_value("#iv-slide") == str(round(15 * math.log10(25)))
    for wrong in ("beta=-1", "beta=x&induction.sequence=a", "step=9&induction.row=-2", "mask=never"):
        tab.goto("about:blank")
        tab.goto(f"{FRAGMENT.as_uri()}?induction.{wrong}")
        assert tab.input_value("#iv-beta") == "100"
        assert "Step 1 of 7, Embeddings. Row b at position 5" in tab.inner_text("#iv-say")


def test_the_words_say_what_the_head_copies(tab):
    tab.get_by_label("Sequence of tokens").fill("d a b c a")
    tab.get_by_label("The row that is explained").select_option("4")
    tab.get_by_role("button", name="Layer 2 output").click()
    assert "Row a at position 4: it copies b (1)." in tab.inner_text("#iv-say")
    tab.get_by_label("The row that is explained").select_option("2")
    tab.get_by_role("button", name="Layer 2 weights").click()
    assert "the even mean of all positions so far" in tab.inner_text("#iv-say")


def test_the_keyboard_walks_through_all_steps(tab):
    tab.locator(".iv-steps button").first.click()
    for name in STEPS[1:]:
        tab.keyboard.press("ArrowRight")
        assert name in tab.inner_text(".iv-steps button[aria-current=step]")
        assert tab.evaluate("document.activeElement.getAttribute('aria-current')") == "step"
    assert tab.is_disabled("#iv-next")
    tab.keyboard.press("ArrowLeft")
    tab.click("#iv-back")
    assert "Layer 2 scores" in tab.inner_text("#iv-say")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("#iv-sequence", " ", "at least one"),
        ("#iv-sequence", "a " * 17, "up to 16"),
        ("#iv-beta", "-1", "sharpness must"),
        ("#iv-offset", "1.5", "whole number"),
        ("#iv-gain", "", "gain must"),
    ],
)
def test_what_cannot_be_computed_is_said_and_the_last_table_stays(tab, field, value, message):
    before = tab.inner_text("#iv-table")
    tab.fill(field, value)
    assert message in tab.inner_text("#iv-error")
    assert tab.inner_text("#iv-table") == before


SYMBOLS = ("<b>x</b> & <script>alert(1)</script>", "a" + "w" * 300 + " b", "\U0001f600\U0001f600z")


@pytest.mark.parametrize("typed", SYMBOLS)
def test_any_symbols_are_shown_as_they_are_and_fit(tab, typed):
    tab.fill("#iv-sequence", typed)
    symbols = typed.split() if " " in typed else list(typed)
    for name in STEPS:
        tab.get_by_role("button", name=name).click()
        shown = [text.rsplit(" ", 1)[0] for text in tab.locator("#iv-table tbody th").all_inner_texts()]
        assert shown == symbols
        assert tab.eval_on_selector(".iv", "viewer => viewer.scrollWidth <= viewer.clientWidth + 1")
    assert tab.locator(".iv b").count() == 0


def test_a_click_and_the_arrow_keys_choose_the_row_that_is_explained(tab):
    tab.locator("#iv-table tbody tr").nth(2).click()
    assert "Row b at position 2" in tab.inner_text("#iv-say")
    assert tab.input_value("#iv-row") == "2"
    tab.focus("#iv-scroll")
    tab.keyboard.press("ArrowUp")
    assert "Row a at position 1" in tab.inner_text("#iv-say")
    for _ in range(9):
        tab.keyboard.press("ArrowDown")
    assert "Row b at position 5" in tab.inner_text("#iv-say")
