"""The information stream: what the survey, the ladder and the page's phrases say of arrays known by hand."""

import numpy as np
import pytest

from analysis.models.controls import LARGE, PERMUTED
from book.studies.bert_stream import controls, minilm, survey, tables
from book.studies.bert_stream.controls import POOLED, READ, STATIONS
from book.studies.bert_stream.measure import _phrase_mixing, _phrase_read_back, _phrase_sums
from book.studies.shared.documents import LADDER, DocumentLadder, Rungs

COUPLINGS, READ_BACK = minilm.COUPLINGS, minilm.READ_BACK


def couplings(**off: tuple) -> np.ndarray:
    """Return couplings of two blocks in two layers: of each map so much is off the diagonal, more to one side."""
    found = np.zeros((2, len(COUPLINGS), 2, 2))
    found[..., range(2), range(2)] = 0.5
    for name, shares in off.items():
        for layer, share in enumerate(shares):
            found[layer, COUPLINGS.index(name.replace("_", " "))] = [[0.5 - share, 0.75 * share], [0.25 * share, 0.5]]
    return found


def test_what_is_off_the_diagonal_is_a_share():
    trained = couplings(LN=(0.1, 0.2), MLP=(0.25, 0.125))
    trained[:, COUPLINGS.index("W_O and LN")] = [[[0.3, 0.2], [0.1, 0.4]], [[0.1, 0.3], [0.3, 0.3]]]
    last = COUPLINGS.index("MLP, skip and LN")
    trained[:, last] = [[[0.4, 0.1], [0.0, 0.5]], [[0.2, 0.0], [0.3, 0.5]]]
    control = couplings()
    control[:, last] = [[[0.0, 0.5], [0.5, 0.0]], [[0.4, 0.3], [0.0, 0.3]]]
    found = survey.measure_coupling({"trained": {"coupling": trained}, "control": {"coupling": control}})
    assert found.mixed == 0.5
    assert found.off_diagonal("trained", "LN").tolist() == pytest.approx([0.1, 0.2])
    drawn = found.between_blocks()
    assert drawn["trained"]["MLP"].tolist() == pytest.approx([0.25, 0.125])
    assert drawn["trained"]["$W_O$ and LayerNorm"].tolist() == pytest.approx([0.3, 0.6])
    assert drawn["control"]["skip connection"].tolist() == [0, 0]
    phrases = _phrase_mixing(found)
    assert (phrases.ln, phrases.wo_low, phrases.wo_high, phrases.mixed) == ("20.0 %", "30.0 %", "60.0 %", "50.0 %")
    assert (phrases.mlp_alone_low, phrases.mlp_alone_high) == ("12 %", "25 %")
    assert (phrases.mlp_trained_low, phrases.mlp_trained_high) == ("10 %", "30 %")
    assert (phrases.mlp_control_low, phrases.mlp_control_high) == ("30 %", "100 %")
    assert tables.coupling(found).loc["LN", "trained"] == "0.100 to 0.200"


def test_sums_rise_in_the_first_half_of_a_layer_and_fall_in_the_second():
    names = ("product_error", "interaction", "additive", "linear", "additive_linear")
    cosine = np.zeros((2, 3, 4))  # (layer, text, station); means over the texts
    cosine[0] = np.array([0.1, 0.5, 0.0, 0.3]) + np.array([-0.1, 0, 0.1])[:, None]
    cosine[1] = np.array([0.2, 0.3, 0.0, 0.6]) + np.array([-0.1, 0, 0.1])[:, None]
    arrays = {
        network: {name: np.array([k + 0.25, k + 0.75]) * by for k, name in enumerate(names)} | {"cosine": cosine * by}
        for network, by in (("trained", 1.0), ("control", 0.5))
    }
    found = survey.measure_sums(arrays)
    assert found.rise.tolist() == pytest.approx([0.4, 0.1])
    assert found.fall().tolist() == pytest.approx([0.2, -0.3])
    assert found.fall("control").tolist() == pytest.approx([0.1, -0.15])
    half = 4.3027 * 0.1 / 3**0.5  # Student's point for three texts
    assert found.cosine["trained"][0, 1].tolist() == pytest.approx([0.5, 0.5 - half, 0.5 + half], abs=1e-4)
    assert found.linear["control"].tolist() == [1.625, 1.875]
    phrases = _phrase_sums(found)
    assert (phrases.additive_low, phrases.additive_high, phrases.control_additive) == ("225 %", "275 %", "125 %")
    assert (phrases.product_low, phrases.product_high) == ("0.2", "0.8")
    assert (phrases.rise, phrases.fall) == ("0.25", "-0.05")
    written = tables.sums(found)
    assert written.loc["explained by a linear map, trained"].tolist() == [3.25, 3.75]


def test_what_is_read_back_is_the_mean_of_the_blocks():
    shares = np.zeros((2, len(READ_BACK), 3))
    shares[:, READ_BACK.index(("heads", "x"))] = [[0.1, 0.2, 0.6], [0.5, 0.5, 0.8]]  # means 0.3 and 0.6
    shares[:, READ_BACK.index(("heads", "second"))] = [[0.3, 0.4, 0.5], [0.2, 0.3, 0.4]]
    shares[:, READ_BACK.index(("heads", "x and second"))] = [[0.4, 0.5, 0.6], [0.7, 0.7, 0.7]]
    read = {"read_back": shares, "least_singular": np.array([0.25, 0.125])}
    found = survey.measure_read_back({"trained": read, "control": {"read_back": shares / 2, "least_singular": None}})
    assert found.least_singular == 0.125
    np.testing.assert_allclose(found.band("heads", "x"), [[0.3, 0.1, 0.6], [0.6, 0.5, 0.8]])
    assert found.added().tolist() == pytest.approx([0.2, 0.1])
    assert found.input_better.tolist() == [1]
    phrases = _phrase_read_back(found)
    assert (phrases.input_low, phrases.input_high, phrases.input_better) == ("30 %", "60 %", "layer 1")
    assert (phrases.added_low, phrases.added_high, phrases.added_control_low) == ("10 %", "20 %", "5 %")
    assert tables.read_back(found).loc["heads after the layer, control"].tolist() == pytest.approx([0.2, 0.15])


def test_what_no_pattern_explains_is_the_mean_of_heads_and_texts():
    residual = np.zeros((2, 3, 2, 2))  # (share, text, layer, head)
    residual[0] = np.array([[0.2, 0.4], [0.6, 0.8]]) + np.array([-0.1, 0, 0.1])[:, None, None]
    residual[1] = [[0.25, 0.75], [0.0, 0.5]]
    found = survey.measure_patterns({"trained": {"residual": residual}})
    half = 4.3027 * 0.1 / 3**0.5
    np.testing.assert_allclose(
        found.unexplained["trained"], [[0.3, 0.3 - half, 0.3 + half], [0.7, 0.7 - half, 0.7 + half]], atol=1e-4
    )
    assert found.closed["trained"].tolist() == [0.5, 0.25]
    assert tables.patterns(found).loc["closed, trained"].tolist() == [0.5, 0.25]


def ladder(documents, by=None) -> DocumentLadder:
    """Return a ladder whose rungs hold one seed or two of so many times the mean of the documents."""
    values, by = np.array(documents, float), by or {}
    return DocumentLadder(values, {rung: np.stack([values[0] * by.get(rung, 1.0)] * 2) for rung in LADDER})


@pytest.fixture
def rungs(monkeypatch):
    """Two documents and two layers; pooled measures have a first row for all of them, and one for each kind."""
    cosines = {  # read, first LayerNorm, second without the MLP, second LayerNorm, plain first, plain second
        "read": [[0.0, 0.0], [0.0, 0.0]],
        "first LayerNorm": [[0.5, 0.4], [0.3, 0.4]],
        "second without the MLP": [[0.4, 0.3], [0.2, 0.1]],
        "second LayerNorm": [[0.3, 0.7], [0.2, 0.2]],
        "plain first": [[0.1, 0.1], [0.1, 0.1]],
        "plain second": [[0.4, 0.0], [0.0, 0.0]],
    }
    measures = {name: ladder(values, {LARGE: 2.0}) for name, values in cosines.items()}
    for k, name in enumerate(name for name in controls.PLACES if name not in (*STATIONS, *READ)):
        measures[name] = ladder([[9.0, 9.0], [0.1 + k, 0.3 + k], [0.3 + k, 0.3 + k]], {LARGE: 0.5, PERMUTED: 0.25})
    measures |= {pair: ladder([[0.1 * k, 0.1 * k + 0.2]]) for k, pair in enumerate(READ)}
    monkeypatch.setattr(controls, "load_rungs", lambda name, inputs, places: Rungs(name, measures))
    return controls.measure_rungs(None)


def test_units_are_the_kinds_and_the_mlp_adds_a_difference(rungs):
    assert rungs["explained by a sum"].documents.tolist() == [[0.1, 0.3], [0.3, 0.3]]
    assert len(rungs["read"].documents) == 2
    assert len(rungs[READ[0]].documents) == 1
    added = rungs["added by the MLP"]
    assert added.documents.tolist() == pytest.approx(np.array([[-0.1, 0.4], [0, 0.1]]))
    assert added.controls[LARGE][0].tolist() == pytest.approx([-0.2, 0.8])
    assert POOLED[controls.PLACES["interaction of two blocks"][1]] == "interaction"


def test_the_second_half_of_a_layer_is_split(rungs):
    found = controls.measure_anisotropy(rungs)
    assert found.whole.tolist() == pytest.approx([-0.15, 0.05])
    assert found.norm.tolist() == pytest.approx([-0.1, -0.2])
    assert found.mlp.tolist() == pytest.approx([-0.05, 0.25])
    assert found.plain.tolist() == pytest.approx([0.1, -0.1])
    assert found.mlp_rises.tolist() == [0, 1]  # in the second document the cosine falls, but less than without it
    phrases = controls.phrase_rungs(rungs, found)
    assert (phrases.plain, phrases.rising_layer, phrases.rising_share) == ("+0.10, −0.10", "1", "100 %")
    places = [name for name in controls.PLACES if name not in (*STATIONS, *READ)]
    k = places.index("interaction of two blocks")
    assert phrases.interaction_trained == f"{k + 0.2:.2f} to {k + 0.3:.2f}"
    assert (phrases.interaction_large, phrases.interaction_permuted) == ("4.50 to 4.50", "2.25 to 2.25")
    assert (phrases.sum_trained, phrases.sum_large) == ("0.20 to 0.30", "4.50 to 4.50")
    k = places.index("off the diagonal, MLP")
    assert (phrases.mlp_mixed_trained, phrases.mlp_mixed_large) == (f"{k + 0.2:.2f} to {k + 0.3:.2f}", "4.50 to 4.50")
    written = tables.anisotropy(found, rungs)
    assert written.loc["what it adds in random weights as large"].tolist() == ["-0.20", "+0.80"]
    assert written.loc["without the MLP"].tolist() == ["-0.10", "-0.20"]
    table = controls.read_back_table(rungs)
    assert table.loc["head outputs from the layer's output", "MiniLM"] == "0.20"
    assert table.loc["head outputs from both", LARGE] == "0.30 to 0.30"


def test_the_last_of_three_layers_stands_apart_from_the_span_of_the_others(rungs):
    both = ladder([[0.1, 0.5, -0.25]], {LARGE: 2.0, PERMUTED: 0.5})
    rungs.measures[controls.BOTH] = both
    phrases = controls.phrase_rungs(rungs, controls.measure_anisotropy(rungs))
    assert (phrases.told_trained, phrases.told_last) == ("0.10 to 0.50", "\N{MINUS SIGN}0.25")
    assert (phrases.told_large, phrases.told_permuted) == ("-0.50 to 1.00", "-0.12 to 0.25")


def test_the_names_of_what_is_read_fit_their_places():
    assert [controls.PLACES[station] for station in STATIONS] == [("cosine", k) for k in range(6)]
    named = {name: POOLED[place[1]] for name, place in controls.PLACES.items() if place[0] == "pooled"}
    assert named == {
        "explained by a sum": "additive",
        "explained by a linear map": "linear",
        "interaction of two blocks": "interaction",
        "off the diagonal, W_O": "coupling of W_O",
        "off the diagonal, MLP": "coupling of the MLP",
    }
    assert tuple(controls.READ_NAMES) == READ
