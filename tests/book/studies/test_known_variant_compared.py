"""The figures of both stand-ins for the paper's classifier, from measures whose place is written into their numbers."""

from types import SimpleNamespace

import numpy as np
import pytest

from analysis.models.controls import LARGE, PERMUTED, RANDOM
from book.studies.shared.nearest_classifier import START
from book.studies.variant_classifier import compared
from book.studies.variant_classifier.compared import SCRATCH, TUNED
from book.studies.variant_classifier.controls import Pair
from book.studies.variant_classifier.sequence import KINDS, NETWORKS, SEVERAL

MEASURES = ("first_failing", "D_sum", "cosine", "largest", "entropy")
SUMS = np.array([1.0, 2.0, 6.0])  # the mean 3 and the deviation root of 7
KIND = [*KINDS, SEVERAL]


@pytest.fixture
def both(monkeypatch):
    """Both models side by side; the critical value at width 4 is 0.5, at the paper's width 0.02."""
    monkeypatch.setattr(compared.normality, "critical_value", {4: 0.5, 768: 0.02}.__getitem__)
    network = np.arange(4.0)
    spread = (START, RANDOM, LARGE, PERMUTED)
    nearest = SimpleNamespace(
        critical=0.1,
        layers={name: np.full((6, 3), 0.25) for name in MEASURES},
        controls={
            name: {rung: np.array([[1.0] * 6, [3.0] * 6]) * k for k, rung in enumerate(spread)} for name in MEASURES
        },
    )
    place = network[:, None, None] + 10 * np.arange(3)[:, None]  # (network, layer, ...)
    sequence = SimpleNamespace(
        growth=place + np.zeros(2),
        row_D=place + np.zeros(2),
        sums=place + SUMS,
        total=network[:, None] + SUMS,
        singular=place + np.zeros(2),
        maps=network[:, None, None, None] + 10 * np.arange(5)[:, None, None] + np.zeros((2, 2)),
        carried=np.arange(20.0).reshape(4, 5) / 100,
    )
    trained = np.stack([np.full((2, 6), 2.0), np.full((2, 6), 4.0)])  # (seed, sequence, layer)
    trained[0, 0] = 0.0  # that seed has the mean 1
    control = np.full((2, 2, 6), 8.0)
    given = {name: Pair(trained, control) for name in MEASURES}
    given["largest"] = Pair(trained[..., None] + [-1, 1], control[..., None] + [-1, 1])
    example = SimpleNamespace(
        width=4,
        n=16,
        norms={"trained": np.array([[2.0], [4.0], [6.0], [8.0]]), "control": np.array([[2.0], [2.0], [2.0], [1.0]])},
        row_statistics={k: {"trained": np.array([k + 0.5]), "control": np.array([0.25])} for k in (1, 2, 5, 11)},
        sums={f"{name}, layer {k}": (name, k * SUMS) for name in ("trained", "control") for k in (1, 2, 5)},
        totals={"trained": SUMS, "control": -SUMS},
        singular_values={str(k): {"trained": np.array([float(k)]), "control": np.array([-1.0])} for k in range(3)},
    )
    gallery = SimpleNamespace(
        maps=np.arange(10.0).reshape(2, 5)[..., None, None] + 100, carried=np.arange(10.0).reshape(2, 5) / 10
    )
    return compared.compare(
        nearest, sequence, SimpleNamespace(pair=given.get), example, gallery, large=np.array([[1.0] * 6, [2.0] * 6])
    )


def test_pictures_of_one_sequence_are_in_one_unit(both):
    growth, rows, sums, singular = both.growth, both.rows, both.sums, both.singular
    assert {k: [v["trained"][0], v["control"][0]] for k, v in growth[TUNED].items()} == {
        "Q": [0, 2],
        "K": [10, 12],
        "V": [20, 22],
    }
    assert {k: [v["trained"][0], v["control"][0]] for k, v in growth[SCRATCH].items()} == {
        "Q": [2, 1],
        "K": [3, 1],
        "V": [4, 0.5],
    }
    assert list(rows[TUNED]) == list(rows[SCRATCH]) == ["layer 1", "layer 2", "layer 5"]
    assert rows[TUNED]["layer 2"]["trained"][0] == pytest.approx(100)
    assert rows[TUNED]["layer 2"]["control"][0] == pytest.approx(120)
    assert [rows[SCRATCH]["layer 5"][name][0] for name in ("control", "trained")] == [0.5, 11]
    for model in (TUNED, SCRATCH):
        np.testing.assert_allclose(sums[model]["layer 5"]["trained"], np.array([-2, -1, 3]) / 7**0.5)
        np.testing.assert_allclose(both.total["sum of all layers"][model]["trained"], np.array([-2, -1, 3]) / 7**0.5)
    np.testing.assert_allclose(both.total["sum of all layers"][SCRATCH]["control"], np.array([2, 1, -3]) / 7**0.5)
    assert list(singular[TUNED]) == ["first layer", "fifth layer", "last layer"]
    assert [of["trained"][0] for of in singular[TUNED].values()] == [0, 10, 20]
    assert [of["trained"][0] for of in singular[SCRATCH].values()] == [0, 1, 2]
    for panels in (growth[SCRATCH], rows[SCRATCH], sums[SCRATCH], singular[SCRATCH]):
        assert [next(iter(panel)) for panel in panels.values()] == ["control"] * 3


def test_curves_by_layer_are_in_one_unit(both):
    assert both.failing[TUNED]["fine-tuned"][0].tolist() == [25, 25, 25]
    assert both.failing[SCRATCH]["trained"][0].tolist() == [250, 100, 400]  # mean over seeds, the least and the most
    assert both.failing[SCRATCH]["random"][0].tolist() == [800] * 3
    assert both.failing[TUNED]["random, as large"][0].tolist() == [400, 200, 600]
    assert both.table[TUNED]["fine-tuned"][0].tolist() == pytest.approx([2.5] * 3)
    assert both.table[SCRATCH]["trained"][0].tolist() == [5, 2, 8]
    np.testing.assert_allclose(both.table["table 1"]["the paper"][0], [3] * 3)
    assert both.largest[TUNED]["fine-tuned"][0].tolist() == [0.0625] * 3  # over the root of 16
    assert both.largest[SCRATCH]["trained"][0].tolist() == [0.625, 0.25, 1]
    assert both.cosine[SCRATCH]["random, as large"][0].tolist() == [1.5, 1, 2]
    assert both.cosine[TUNED]["shuffled"][0].tolist() == [6, 3, 9]
    assert both.entropy[TUNED]["before the genes"][0].tolist() == [0, 0, 0]
    assert both.entropy[SCRATCH]["random"].shape == (6, 3)


def test_maps_have_what_they_carry_in_their_titles(both):
    found = both.maps["cluster"]
    k, start = KIND.index("cluster"), NETWORKS.index("start")
    assert list(found) == [
        "fine-tuned\n3 %",
        f"before the genes\n{5 * start + k} %",
        "from random weights\n30 %",
        "untrained\n80 %",
    ]
    assert [picture.flat[0] for picture in found.values()] == [30, 31, 103, 108]
    assert set(both.maps) == {*KINDS, SEVERAL}
    assert {letter: picture[0, 0] for letter, picture in both.quiz["one head"].items()} == {"A": 21, "B": 23, "C": 20}
    assert {letter: picture[0, 0] for letter, picture in both.quiz["another head"].items()} == {
        "A": 31,
        "B": 33,
        "C": 30,
    }


def test_coordinates_further_out_than_four_and_a_half_deviations_are_put_there():
    found = compared.standardised(np.r_[np.zeros(99), 1.0])
    assert found[-1] == 4.5
    assert found[0] == pytest.approx(-0.1)
