"""What a line must not tear apart: a formula and its comma, a number and its per cent sign; code stays as it is."""

from book._ext.book_ext import keep_together

MATH = '<span class="math notranslate nohighlight">\\(x\\)</span>'


def test_a_formula_keeps_its_comma_and_a_number_its_sign():
    assert keep_together(f"if {MATH}, then 5 % of {MATH} more") == (
        f'if <span class="nobreak">{MATH},</span> then 5\u00a0% of {MATH} more'
    )


def test_code_is_left_alone():
    code = f"<div><pre>print('{{x}} 5 %') {MATH},\n</pre></div>"
    assert keep_together(code + "6 %" + code) == code + "6\u00a0%" + code
