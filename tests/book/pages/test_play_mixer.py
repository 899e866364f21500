"""The score mixer in a real browser, from a file: its weights against Python, the alias, its controls and links."""

import numpy as np
import pytest
import torch

from analysis.maps.locality import causal_attention
from tests.book.pages import play_pages

pytestmark = pytest.mark.browser


def python(record, head, query, *, Tp=1.0, Tpp=1.0, width=1.0, sharpness=1.0):
    sigma = record.array("sigma").astype(float)
    shrink = sigma / np.sqrt(sigma**2 + (width * np.median(sigma)) ** 2)
    left, right = (record.array(name)[head].astype(float) for name in ("left", "right"))
    scores = Tpp * (left @ right.T) * shrink[:, None] * shrink + Tp * record.array("own")[head].astype(float) * shrink
    return causal_attention(torch.from_numpy(sharpness * scores)[None])[0, query].numpy()


MIXES = [
    (3, 700, {"Tp": 0}),
    (3, 700, {}),
    (0, 0, {}),
    (5, 1022, {"width": 0}),
    (11, 350, {"sharpness": 2, "Tpp": 0.5}),
    (7, 512, {"width": 2.5, "Tp": 1.5}),
]


def test_the_weights_are_those_of_python(fresh, record):
    labels = {"Tp": "Ramp", "Tpp": "Circle", "width": "Token width", "sharpness": "Sharpness"}
    for head, query, mix in MIXES:
        fresh.get_by_label(f"Head {head}", exact=True).check(force=True)
        fresh.locator(f".play[data-head='{head}']").wait_for()
        for key, label in labels.items():
            play_pages.slide(fresh, label, mix.get(key, 1))
        shown = fresh.evaluate(f"Array.from(document.querySelector('.play').scores({head}, {query}).weights)")
        np.testing.assert_allclose(shown, python(record, head, query, **mix), rtol=1e-4, atol=1e-9, err_msg=str(mix))


def state(page):
    return page.eval_on_selector(".play", "e => ({...e.dataset})")


def test_the_alias_appears_and_goes(fresh, record):
    weights, both = python(record, 0, 700, Tp=0), python(record, 0, 700)
    assert state(fresh)["head"] == "0"
    assert state(fresh)["alias"] == "true"
    assert int(state(fresh)["far"]) == weights.argmax() < 700 - record["period"] / 2
    said = fresh.inner_text(".play-said")
    assert said.startswith(f"The circle alone: query 700 looks most at key {weights.argmax()}, ")
    assert " positions back, on the turn below. " in said
    play_pages.slide(fresh, "Ramp", 1)
    assert fresh.inner_text(".play-said").startswith("Ramp and circle together: query 700 looks most at itself.")
    assert state(fresh)["alias"] == "false"
    assert float(state(fresh)["mass"]) == pytest.approx(both[651:701].sum(), rel=1e-4)
    assert both[651:701].sum() > 2 * weights[651:701].sum()
    assert fresh.get_by_label("Both", exact=True).is_checked()


def test_without_the_mask_later_keys_get_weight(fresh):
    sums = (
        "(([i]) => { const w = document.querySelector('.play').scores(0, i).weights; return [w.slice(i + 1)"
        ".reduce((a, b) => a + b, 0), w.reduce((a, b) => a + b, 0)]; })"
    )
    assert fresh.evaluate(sums, [300])[0] == 0
    fresh.get_by_label("the query sees no later key").uncheck()
    later, every = fresh.evaluate(sums, [300])
    assert later > 1e-3
    assert every == pytest.approx(1)


def test_the_stated_error_is_the_records(fresh, record):
    assert f"{100 * record['total_variation']:.1f}\u00a0%" in fresh.text_content(".play")
