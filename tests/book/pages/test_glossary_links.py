"""Words of the glossary: the first use in a chapter's prose links, and nothing else does."""

import re

from book._ext import glossary_links
from book.publish import execution


def test_longer_words_win_and_parts_of_words_do_not_count():
    words = glossary_links.pattern(["head", "induction head", "bias"])
    assert [m[1] for m in words.finditer("An induction head, a semi-bias, ahead, heads")] == ["induction head", "head"]


def test_every_chapter_links_to_the_glossary_each_word_once_and_in_prose_alone(html):
    for name, path in execution.pages().items():
        built = html / "book" / f"{name}.html"
        if "{code-cell}" in path.read_text(encoding="utf-8"):
            page = built.read_text(encoding="utf-8")
            linked = re.findall(r'<a class="to-glossary[^"]*" href="[^"]*glossary.html#(term-[^"]+)"', page)
            assert linked or "glossary.html#term-" in page, name
            assert len(linked) == len(set(linked)), name
            for other in re.findall(r"<(?:pre|h[1-6]|table|code)\b.*?</(?:pre|h[1-6]|table|code)>", page, re.DOTALL):
                assert 'class="to-glossary' not in other, name
