"""The viewer's page: labels and tokens are data, whatever they hold, and nothing of them is ever run."""

import html
import json
import re

import numpy as np
import pytest

from analysis.maps.gates import GATES
from analysis.plotting import attention_viewer
from analysis.plotting.attention_viewer import AttentionViewer, fill

HOSTILE = ["@DATA@", "@ID@", "@LABEL@", '";alert(1)//', "</script><script>alert(1)</script>", "<!--", "\\1", "\u2028"]


def view(tokens, **options) -> AttentionViewer:
    n = len(tokens)
    cells, scores = np.zeros((1, 1, n, n), int), np.zeros((1, 1, len(GATES)))
    return AttentionViewer(cells + 1 / n, tokens, cells=cells, scores=scores, **{"order": GATES} | options)


@pytest.mark.parametrize("label", HOSTILE)
def test_what_a_label_and_tokens_hold_is_shown_and_never_filled_in_or_run(label):
    page = view(HOSTILE, label=label).html
    data = re.search(r"var D=(\{.*?\}), root=", page)[1]
    assert json.loads(data)["tokens"] == HOSTILE
    assert html.unescape(re.search(r'aria-label="([^"]*)" aria-desc', page)[1]) == label
    assert page.count("<script>") == page.count("</script>") == 1
    assert "<!--" not in page


def test_every_place_of_the_template_is_filled():
    template = attention_viewer.TEMPLATE.read_text(encoding="utf-8")
    assert set(re.findall("@([A-Z]+)@", template)) == {"ID", "LABEL", "DATA"}
    with pytest.raises(KeyError):
        fill("@OTHER@", {})


def test_a_name_that_is_no_gate_is_refused():
    with pytest.raises(ValueError, match=r"order must be names of gates, .*; got 'gate'"):
        view(["a"], order=["gate", *GATES[1:]])
