"""The switches in a real browser, from a file: residuals against the functions, the controls."""

import itertools

import numpy as np
import pytest

from book.experiments import bert_rank

pytestmark = pytest.mark.browser
BOXES = {"skip": "skip connections", "mlp": "MLPs", "norm": "LayerNorms"}
GELU = bert_rank.MLPS.index("GELU")


@pytest.fixture
def fresh(visit):
    """The page with its first state; one visit serves all tests."""
    for label in BOXES.values():
        visit.get_by_label(label, exact=True).check()
    return visit


def runs(page, **state):
    shown = page.evaluate("s => document.querySelector('.play').numbers.networks(s)", state)
    return [np.array(network["runs"]) for network in shown]


def test_every_setting_shows_the_residuals_of_the_record(fresh, record):
    for skip, mlp, norm in itertools.product((0, 1), (0, GELU), (0, 1)):
        trained, *controls = runs(fresh, skip=skip, mlp=mlp, norm=norm)
        np.testing.assert_array_equal(trained[0], record.array("trained")[skip, mlp, norm, 1])
        np.testing.assert_array_equal(controls, record.array("controls")[:, :, skip, mlp, norm, 1])


def shown(page):
    return [float(cell.get_attribute("data-log")) for cell in page.locator(".play td[data-log]").all()]


def test_a_switch_moves_the_numbers(fresh, record):
    assert shown(fresh)[0] == record.array("trained")[1, GELU, 1, 1, -1]
    fresh.get_by_label("MLPs", exact=True).uncheck()
    assert shown(fresh)[0] == record.array("trained")[1, 0, 1, 1, -1]
    fresh.get_by_label("skip connections", exact=True).uncheck()
    means = record.array("controls")[:, :, 0, 0, 1, 1, -1].astype(float).mean(1)
    np.testing.assert_allclose(shown(fresh), [record.array("trained")[0, 0, 1, 1, -1], *means], rtol=1e-6)
    fresh.get_by_label("LayerNorms", exact=True).uncheck()
    assert shown(fresh)[0] == record.array("trained")[0, 0, 0, 1, -1]


def test_the_question_on_the_card_has_one_answer(record):
    ends = np.vstack([record.array("trained")[None, ..., 1, -1], record.array("controls").mean(1)[..., 1, -1]])
    whole, without = ends[:, 1, GELU, 1], {"skip": (0, GELU, 1), "mlp": (1, 0, 1), "norm": (1, GELU, 0)}
    together = np.log10(0.25)
    assert (whole < together).sum() == 2
    assert [part for part, place in without.items() if (ends[:, *place] < together).all()] == ["skip"]


def test_without_skip_connections_each_layer_of_minilm_triples_the_power_of_ten_after_the_third(record):
    run = record.array("trained")[0, GELU, 1, 1]
    np.testing.assert_allclose(run[4:6] / run[3:5], 3, atol=0.2)  # the layer after that ends in rounding
