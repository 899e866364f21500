"""How plain text is set on a page: per cent, minus, indices; nothing else is touched."""

from types import SimpleNamespace

import pytest

from book._ext.api_pages import whole_sentences
from book._ext.typography import frame, keep_together, set_page, set_text


@pytest.mark.parametrize(
    ("plain", "as_set"),
    [
        ("from 5% to 31 % of it", "from 5\u00a0% to 31\u00a0% of it"),
        ("<td>-0.19</td>", '<td class="short">\u22120.19</td>'),
        ("above 1e-05, not 1.1e-13", "above 10<sup>\u22125</sup>, not 1.1\u00b710<sup>\u221213</sup>"),
        ("<td>-0%</td>", '<td class="short">0\u00a0%</td>'),
        ("<b>-15%</b>", "<b>\u221215\u00a0%</b>"),
        ("-10 %", "\u221210\u00a0%"),
        ("equal, to 0e+00", "equal, to 0"),
        ("off by 2e+00, 1e+05", "off by 2, 10<sup>5</sup>"),
        ("s &lt;= i, 5 x 5, a -&gt; b, sqrt(64)", "s \u2264 i, 5\u00a0\u00d7\u00a05, a \u2192 b, \u221a64"),
        ("(X W)^T", "(X W)<sup>T</sup>"),
        ("&lt; 1e-6", "&lt;\u00a010<sup>\u22126</sup>"),
        (
            "<td>0.20 to 0.84</td><td>1.90 (1.64 to 2.16)</td>",
            '<td class="short">0.20 to 0.84</td><td class="interval">1.90 (1.64 to 2.16)</td>',
        ),
        ('<p>Solution to<a href="#x"> Exercise 1</a></p>', '<p>Solution to <a href="#x">Exercise 1</a></p>'),
        ("<b>-15\u00a0%</b>", "<b>\u221215\u00a0%</b>"),
        ("<b>-0.07, +0.12</b>", "<b>\u22120.07, +0.12</b>"),
        ('<span class="pasted-text">18969</span>', '<span class="pasted-text">18,969</span>'),
        ("(-0.36 to 0.51)", "(\u22120.36 to 0.51)"),
        ("With W_VO and b_Q, W_1, T^pp", "With W<sub>VO</sub> and b<sub>Q</sub>, W<sub>1</sub>, T<sup>pp</sup>"),
    ],
)
def test_numbers_and_names_are_set(plain, as_set):
    assert set_text(plain) == as_set


@pytest.mark.parametrize(
    "body",
    [
        '<a href="x%20-1_b_Q">GPT</a>-2 reads',
        "<a><em>GPT</em></a>-2, which reads",
        "<em>layer</em>-1 to 3",
        "<pre>b_Q -1 5%</pre>",
        '<span class="pre">b_Q</span>',
        '<dt class="sig sig-object"><em>b_Q</em></dt>',
        '<span class="math notranslate">\\(W_Q -1 5\\%\\)</span>',
        "2026-11-22",
        "gpt-2, [CLS]-1",
        "in 1936",
        '<span class="pasted-text">999</span>',
        "<b>-1-year</b>",
        '<p style="width: 5%">x</p>',
        "unb_QK and my_b_Q",
    ],
)
def test_code_formulas_dates_and_attributes_are_left_alone(body):
    assert set_text(body) == body


@pytest.mark.parametrize(
    ("page", "as_set"),
    [("book/semi-bias", "b<sub>Q</sub>"), ("book/api-core", "b_Q"), ("_modules/analysis/core/attention_layer", "b_Q")],
)
def test_names_of_the_package_stay_code(page, as_set):
    context = {"body": "<strong>b_Q</strong>"}
    set_page(SimpleNamespace(builder=SimpleNamespace(images={})), page, "page.html", context, None)
    assert context["body"] == f"<strong>{as_set}</strong>"


def test_a_constant_keeps_its_sentence():
    lines = ["on what it reads, or after the sum.", "", ":type: Where a norm stands"]
    whole_sentences(None, "data", "PLACES", (), None, lines)
    assert lines == ["Where a norm stands: on what it reads, or after the sum.", ""]
    lines = ["the number", "", ":type: int"]
    whole_sentences(None, "data", "NUMBER", 1, None, lines)
    assert lines[-1] == ":type: int"


MATH = '<span class="math notranslate nohighlight">\\(x\\)</span>'


def test_a_formula_keeps_its_comma_and_a_number_its_sign():
    assert keep_together(f"if {MATH}, then 5 % of {MATH} more") == (
        f'if <span class="nobreak">{MATH},</span> then 5\u00a0% of {MATH} more'
    )


def test_code_is_left_alone():
    code = f"<div><pre>print('{{x}} 5 %') {MATH},\n</pre></div>"
    assert keep_together(code + "6 %" + code) == code + "6\u00a0%" + code


def test_all_figures_but_the_first_wait_until_they_are_near_and_keep_their_room(tmp_path):
    drawn = tmp_path / "a.svg"
    drawn.write_text('<svg width="540pt" height="240pt"><g transform="scale(0.09 -0.09)"/></svg>', encoding="utf-8")
    first, *others = frame('<figure><img src="_images/a.svg"></figure>\n' * 3, {drawn.name: drawn}).splitlines()
    assert "lazy" not in first
    assert all('loading="lazy" width="720" height="320"' in other for other in others)
