"""The switches in a real browser, from a file: residuals against the functions, the controls."""

import itertools

import numpy as np
import pytest

from book.experiments import bert_rank

pytestmark = pytest.mark.browser
BOXES = {"skip": "skip connections", "norm": "LayerNorm", "gain": "its learned factors"}


@pytest.fixture
def fresh(visit):
    """The page with its first state; one visit serves all tests."""
    visit.get_by_label("MiniLM and random weights", exact=True).check(force=True)
    for label in BOXES.values():
        visit.get_by_label(label, exact=True).check()
    visit.get_by_label("MLP: GELU").check(force=True)
    return visit


def runs(page, **state):
    shown = page.evaluate("s => document.querySelector('.play').numbers.networks(s)", state)
    return [np.array(network["runs"]) for network in shown]


def test_every_setting_shows_the_residuals_of_the_record(fresh, record):
    for place in itertools.product(*map(range, bert_rank.SHAPE)):
        state = dict(zip(("skip", "mlp", "norm", "gain"), place, strict=True))
        trained, *controls = runs(fresh, of="model", **state)
        np.testing.assert_array_equal(trained[0], record.array("trained")[place])
        np.testing.assert_array_equal(controls, record.array("controls")[:, :, *place])
        np.testing.assert_array_equal(runs(fresh, of="random", **state), record.array("stacks")[:, :, *place[:3]])


def shown(page):
    return [float(cell.get_attribute("data-log")) for cell in page.locator(".play td[data-log]").all()]


def test_a_switch_moves_the_numbers(fresh, record):
    assert shown(fresh)[0] == record.array("trained")[1, 2, 1, 1, -1]
    fresh.get_by_label("MLP: linear").check(force=True)
    assert shown(fresh)[0] == record.array("trained")[1, 1, 1, 1, -1]
    fresh.get_by_label("skip connections", exact=True).uncheck()
    means = record.array("controls")[:, :, 0, 1, 1, 1, -1].astype(float).mean(1)
    np.testing.assert_allclose(shown(fresh), [record.array("trained")[0, 1, 1, 1, -1], *means], rtol=1e-6)
    fresh.get_by_label("deeper random networks", exact=True).check(force=True)
    np.testing.assert_allclose(shown(fresh), record.array("stacks")[:, :, 0, 1, 1, -1].astype(float).mean(1), rtol=1e-6)
    assert fresh.get_by_label(BOXES["gain"]).is_disabled()
