"""The search in a real browser, opened from a file: what a reader asks, the page that answers, and its line of text."""

import json
import re

import pytest

from book._ext import search_texts
from tests.book.pages.book_pages import PAGES

ASKED = {  # and a page that is to be among the first three results
    "exercises solutions softmax shift invariance": "evidence/bert-stream.html#stream-exercise-count",
    "gpt2-mini training text licence Python documentation": "symbols.html#models",
    "lecture": "evidence/induction-head.html",
    "exercises": "exercises.html",
    "what does the book say about rotary positions?": "rotary-bias.html",
    "why was claim B-94 not reproduced": "evidence/bert-stream.html#verdict-b-94",
    "does b_K change the attention?": "claims.html#claim-k-15",
    "how do I run a chapter with my own model": "reproduce.html#run-a-chapter-with-your-own-model-device-or-texts",
    "ladder of controls": "glossary.html#term-ladder-of-controls",
    "normalization tests": "evidence/bert-normality.html",
    "attention sinks on the first token": "bert-gates.html",
}
FIRST = {
    "Exercise 3.1": "exercises.html",
    "semi-bias": "glossary.html#term-semi-bias",
    "AttentionLayer": "api-core.html#analysis.core.attention_layer.AttentionLayer",
    "how was the gate detector calibrated": "evidence/gate-detector.html",
    "participation ratio": "glossary.html",
    "what is attention": "glossary.html#term-pattern-of-attention",
    "why divide by sqrt d": "glossary.html#term-square-root-of-d",
    "layer norm": "glossary.html#term-LayerNorm",
    "self attention": "glossary.html#term-self-attention",
    "K-07": "evidence/semi-bias.html#verdict-k-07",
    "mean_total_variation": "api-maps.html#analysis.maps.distance.mean_total_variation",
}
FOUND_ON = {
    "participation ratio": "glossary",
    "stable rank": "glossary",
    "total variation": "glossary",
    "Toeplitz": "evidence/bert-similarity",
    "QK circuit": "glossary",
    "OV circuit": "glossary",
    "attention sink": "glossary",
    "previous-token head": "glossary",
    "attention entropy": "evidence/entropy",
}
AGAIN = """words => {
  document.querySelector('#search-results').replaceChildren();
  Search.performSearch(words);
  const links = [...document.querySelectorAll('#search-results li a')];
  return links.map(link => (link.pathname + link.hash).split('/book/')[1]);
}"""


@pytest.fixture(scope="module")
def tab(browser, html):
    tab = browser.new_page()
    tab.errors = []
    tab.on("pageerror", lambda error: tab.errors.append(str(error)))
    tab.goto((html / "search.html").as_uri() + "?q=attention")
    tab.locator("#search-results li").first.wait_for()
    yield tab
    tab.close()
    assert not tab.errors


@pytest.mark.browser
@pytest.mark.parametrize("words", ASKED)
def test_a_question_is_answered_among_the_first_three_results(tab, words):
    addresses = tab.evaluate(AGAIN, words)
    assert any(address.startswith(ASKED[words]) for address in addresses[:3]), addresses[:5]


@pytest.mark.browser
@pytest.mark.parametrize("words", FIRST)
def test_what_is_called_by_its_name_comes_first(tab, words):
    assert tab.evaluate(AGAIN, words)[0].startswith(FIRST[words])


@pytest.mark.browser
def test_standard_names_are_found_and_so_are_words_that_every_object_of_the_language_has(tab):
    for words, page in FOUND_ON.items():
        assert any(f"{page}.html" in address for address in tab.evaluate(AGAIN, words)), words
    for words in ("constructor", "__proto__", "hasOwnProperty", "toString"):
        assert tab.evaluate(AGAIN, words) is not None


@pytest.mark.browser
def test_a_word_that_no_page_has_hides_nothing_and_alone_finds_nothing(tab):
    known = tab.evaluate(AGAIN, "participation ratio")
    assert known[0] in tab.evaluate(AGAIN, "participation ratio zzyzx")
    assert tab.evaluate(AGAIN, "zzyzx") == []
    assert "did not match" in tab.inner_text("#search-results .search-summary")


@pytest.mark.browser
def test_chapters_come_before_the_package_where_both_have_the_word(tab):
    addresses = tab.evaluate(AGAIN, "entropy")
    assert not any(address.startswith("api") for address in addresses[:3])
    assert any(address.startswith("api") for address in addresses)


@pytest.mark.browser
def test_a_result_shows_a_line_of_its_section_with_the_words_marked(tab, html):
    address = tab.evaluate(AGAIN, "which text was gpt2-mini trained on")[0]
    line = tab.locator("#search-results li p.context").first
    marked = line.locator("mark").all_inner_texts()
    assert {"gpt2-mini", "text"} < set(marked)
    assert any(word.startswith("train") for word in marked)
    assert len(line.inner_text()) < 300
    page, anchor = address.split("#")
    assert f'id="{anchor}"' in (html / "book" / page).read_text(encoding="utf-8")


def test_the_texts_have_every_page_and_are_light(html):
    text = (html / search_texts.NAME).read_text(encoding="utf-8")
    texts = json.loads(re.fullmatch(r"window\.SEARCH_TEXTS = (.*);\n", text)[1])
    assert set(PAGES) <= set(texts)
    assert all(any(passages for _, _, passages in sections) for _, sections in texts.values())
    assert len(text.encode()) < 1_400_000


def test_passages_stand_in_their_section_and_a_row_is_one():
    article = """<section id="a"><h1>One<a class="headerlink" href="#a">#</a></h1><p>First \\(b_Q\\) text.</p>
      <figure id="f"><img src="f.svg"/><figcaption><p>Of a figure.</p></figcaption></figure>
      <p>After <b>it</b>, b<sub>K</sub>.</p>
      <pre>code</pre><form><label>Words <input/></label></form>
      <section id="b"><h2>Two</h2><table><tr id="r"><td><p>left</p></td><td>right</td></tr></table></section>
      <dl><dt id="t">word</dt><dd><p>What it means.</p></dd></dl></section>"""
    assert search_texts.passages(article) == [
        ("a", "One", "First b_Q text."),
        ("f", "One", "Of a figure."),
        ("a", "One", "After it, b_K."),
        ("r", "Two", "left right"),
        ("t", "One", "word: What it means."),
    ]


@pytest.mark.browser
def test_the_search_works_where_the_browser_lets_a_page_keep_nothing(browser, html):
    tab = browser.new_page()
    tab.add_init_script(
        "Object.defineProperty(window, 'localStorage', { configurable: true, get() { throw new Error('denied'); } })"
    )
    tab.goto((html / "search.html").as_uri() + "?q=semi-bias")
    tab.locator("#search-results li").first.wait_for(timeout=10_000)
    assert tab.evaluate(AGAIN, "semi-bias")[0] == FIRST["semi-bias"]
    tab.close()
