"""The cone in a real browser, from a file: its numbers against Python, how it is turned, its controls and links."""

import math

import numpy as np
import pytest
import torch

from analysis.models import checkpoints, extraction, pretrained
from analysis.representations import anisotropy
from book.experiments import bert_normality_directions
from book.lab.documents import load_documents
from tests.book.pages import play_pages

pytestmark = pytest.mark.browser
SMALL, LARGE, SHUFFLED = "small random weights", "random weights as large as MiniLM's", "MiniLM's weights, shuffled"


@pytest.fixture
def fresh(visit):
    """The page with its first state; one visit serves all tests."""
    for label in (LARGE, "true angles"):
        visit.get_by_label(label, exact=True).check(force=True)
    visit.get_by_label("Text", exact=True).select_option("0")
    play_pages.slide(visit, "Layer", 0)
    play_pages.slide(visit, "Word", 3)
    visit.get_by_role("button", name="From the side").click()
    return visit


def measure(page, *which):
    return page.evaluate("which => document.querySelector('.play').numbers.measure(...which)", list(which))


def test_what_is_measured_is_the_models(fresh):
    checkpoint, document = checkpoints.find("minilm"), load_documents(each=1)[3]
    model, tokenizer = pretrained.load(checkpoint, dtype=torch.float64), pretrained.tokenizer(checkpoint)
    (states,) = extraction.hidden_states(model, tokenizer, [document.text], bert_normality_directions.TOKENS)
    for layer, rows in enumerate(states):
        shown, unit = measure(fresh, 0, 3, layer), anisotropy.unit(rows)
        assert shown["index"] == pytest.approx(float(anisotropy.cone_index(rows)), rel=1e-4)
        assert shown["resultant"] == pytest.approx(float(anisotropy.resultant_length(rows)), abs=1e-3)
        assert shown["cosine"] == pytest.approx(float(anisotropy.mean_pairwise_cosine(rows)), abs=2e-3)
        cosines = unit @ anisotropy.unit(unit.mean(0))
        np.testing.assert_allclose([point[0] for point in shown["points"]], cosines, atol=1e-3)
        assert abs(shown["inside"] - int((cosines >= cosines.mean()).sum())) <= 1
        away = unit - unit.mean(0)
        plane = torch.linalg.svdvals(unit - cosines[:, None] * anisotropy.unit(unit.mean(0)))[:2].square().sum()
        held = (plane + (cosines - cosines.mean()).square().sum()) / away.square().sum()
        assert shown["held"] == pytest.approx(float(held), abs=2e-3)


def test_controls_and_texts_are_the_records(fresh, record):
    rows = record.array("rows").astype(float)
    for network, text, layer in ((1, 0, 6), (2, 2, 3), (3, 1, 0)):
        assert measure(fresh, network, text, layer)["points"] == rows[network, text, layer].tolist()


def test_the_index_follows_the_layer(fresh, record):
    rows, index = record.array("rows").astype(float), record.array("index")
    for layer in (0, 3, 6):
        play_pages.slide(fresh, "Layer", layer)
        lines = (row.split("\t") for row in fresh.inner_text(".play tbody").splitlines())
        facts = {line[0]: line[1:] for line in lines}
        assert facts["cone index, length of the sum of vectors"] == [f"{index[k, 0, layer]:.1f}" for k in (0, 2)]
        angles = [math.degrees(math.acos(rows[k, 0, layer, :, 0].mean())) for k in (0, 2)]
        assert facts["half angle of the cone"] == [f"{angle:.0f}\u00b0" for angle in angles]


@pytest.mark.parametrize(("label", "network"), [(SMALL, 1), (LARGE, 2), (SHUFFLED, 3)])
def test_the_sentence_says_which_cloud_closes(fresh, label, network):
    fresh.get_by_label(label, exact=True).check(force=True)
    for layer in (0, 6):
        play_pages.slide(fresh, "Layer", layer)
        trained, other = measure(fresh, 0, 0, layer)["cosine"], measure(fresh, network, 0, layer)["cosine"]
        said = fresh.inner_text(".play-said")
        assert f"mean cosine of {trained:.2f}. With {label} it is {other:.2f}" in said
        assert said.endswith("about as much.") == (abs(trained - other) < 0.05)
        assert said.endswith("point more the same way.") == (other > trained + 0.05)
    assert fresh.locator(".play-head").all_inner_texts()[1].lower() == label.lower()


def angles(page):
    address = page.locator(".play-link").evaluate("link => link.href")
    return [int(address.split(f"cone.{name}=")[1].split("&")[0].split("#")[0]) for name in ("yaw", "pitch")]


def test_keys_buttons_and_drag_turn_it(fresh):
    assert angles(fresh) == [30, 20]
    fresh.locator(".play-cone").first.focus()
    fresh.keyboard.press("ArrowRight")
    fresh.keyboard.press("ArrowDown")
    assert angles(fresh) == [40, 30]
    fresh.get_by_role("button", name="Turn left").click()
    assert angles(fresh) == [30, 30]
    box = fresh.locator(".play-cone canvas").last.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    fresh.mouse.move(x, y)
    fresh.mouse.down()
    fresh.mouse.move(x + 40, y - 20)
    fresh.mouse.up()
    fresh.mouse.move(x, y)
    assert angles(fresh) == [50, 20]
    fresh.get_by_role("button", name="From above").click()
    assert angles(fresh) == [0, 90]
    fresh.keyboard.press("Tab")
    play_pages.slide(fresh, "Layer", 2)
    fresh.get_by_label("Layer", exact=True).focus()
    fresh.keyboard.press("ArrowRight")
    assert fresh.get_by_label("Layer", exact=True).get_attribute("aria-valuetext") == "layer 2"
