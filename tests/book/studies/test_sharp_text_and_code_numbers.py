"""The paper's text and its code: numbers of the records, counted a second time on random arrays."""

from statistics import median
from types import SimpleNamespace

import numpy as np
import pytest

from analysis.models.controls import RUNGS
from book.studies.text_and_code import layers, outputs
from book.studies.text_and_code.survey import FAULTS
from tests.book.studies.known import Known, record

NETWORKS = ("trained", "random")


def percent(value: float, digits: int = 0) -> str:
    return f"{100 * value:.{digits}f} %"


def mean(values) -> float:
    values = list(values)
    return sum(values) / len(values)


def both(*shapes, seed: int) -> tuple[Known, Known]:
    """Draw the records of the text model and of the classifier: (name, shape) each, trained and random."""
    rng = np.random.default_rng(seed)
    drawn = ({f"{network}/{name}": rng.random(shape) for network in NETWORKS for name, shape in shapes} for _ in "ab")
    text, classifier = (record(**arrays) for arrays in drawn)
    return text, classifier


def test_distances_are_means_over_heads_and_passages(monkeypatch):
    """Two passages, five faults, three layers and four heads."""
    shapes = [("distance", (2, 5, 3, 4)), ("alike", (2, 3, 4)), ("grown", (2, 3, 3, 4)), ("code_grown", (2, 3, 3, 4))]
    text, classifier = both(*shapes, seed=0)
    monkeypatch.setattr(layers, "compare_slices", lambda model: SimpleNamespace(rank_correlation=np.array([0.5])))
    monkeypatch.setattr(layers, "correlate_outputs", lambda table, network: {"trained": 0.25, "random": -0.5}[network])
    monkeypatch.setattr(layers, "draw", lambda drawn: drawn)
    text.arrays["trained/alike"] -= 0.9
    found = layers.measure_heads({"text model": 0, "classifier": 1}, "drawn", text, classifier)
    sources = {
        "text model": (text, "trained"),
        "classifier": (classifier, "trained"),
        "control": (classifier, "random"),
    }
    for source, (table, network) in sources.items():
        of = {name: table[f"{network}/{name}"] for name, _ in shapes}
        for fault, name in enumerate(FAULTS):
            for passage, layer in np.ndindex(2, 3):
                due = mean(of["distance"][passage, fault, layer])
                assert found.distances[source][name][passage, layer] == pytest.approx(due)
        for layer in range(3):
            assert found.alike[source][layer] == pytest.approx(mean(of["alike"][:, layer].ravel()))
            for kind in range(3):
                grown = mean(of["grown"][:, kind, layer].ravel())
                assert found.grown[source][kind, layer] == pytest.approx(grown)
                coded = mean(of["code_grown"][:, kind, layer].ravel())
                assert found.coded_grown[source][kind, layer] == pytest.approx(coded)

    def span(source):
        table, network = sources[source]
        by_layer = [mean(table[f"{network}/distance"][:, 4, layer].ravel()) for layer in range(3)]
        return f"{min(by_layer):.2f} to {max(by_layer):.2f}"

    assert (found.minilm_distance, found.classifier_distance) == (span("text model"), span("classifier"))
    assert found.control_distance == span("control")
    alike = [mean(text["trained/alike"][:, layer].ravel()) for layer in range(3)]
    assert min(alike) < 0
    assert found.minilm_alike == f"{max(map(abs, alike)):.2f}"
    grown = [[mean(text["trained/grown"][:, kind, layer].ravel()) for layer in range(3)] for kind in range(2)]
    assert (found.grown_queries, found.grown_keys) == (percent(max(grown[0])), percent(max(grown[1])))
    assert found.outputs == {"text model": 0.25, "classifier": 0.25, "control": -0.5}


def test_failing_rows_are_means_over_passages_and_ranges_over_layers():
    text, classifier = both(("failing", (4, 5)), ("code_failing", (4, 5)), seed=1)

    def span(table, name):
        by_layer = [mean(table[name][:, layer]) for layer in range(5)]
        return f"{100 * min(by_layer):.0f} to {100 * max(by_layer):.0f} %"

    found = layers.measure_first_rows(text, classifier)
    assert (found.minilm_own, found.minilm_code) == (span(text, "trained/failing"), span(text, "trained/code_failing"))
    assert found.classifier_own == span(classifier, "trained/failing")
    assert found.classifier_code == span(classifier, "trained/code_failing")
    assert found.control_own == span(classifier, "random/failing")
    assert found.control_code == span(classifier, "random/code_failing")
    np.testing.assert_array_equal(found.failing["text model, random"]["the code's"], text["random/code_failing"])
    np.testing.assert_array_equal(found.failing["text model, random"]["BERT's"], text["random/failing"])


def test_the_cone_is_followed_from_the_first_state_to_the_last():
    """Three passages of 4, 50 and 427 tokens, and five states."""
    names = ("cone", "padded_cone", "code_cone", "padded_code_cone")
    text, classifier = both(*((name, (3, 5)) for name in names), seed=2)
    tokens = text.arrays["trained/tokens"] = np.array([4, 50, 427])
    rng = np.random.default_rng(3)
    classes = classifier.arrays["classes/padded_code_cone"] = rng.random((4, 5))
    for rung in RUNGS[1:]:
        classifier.arrays[f"{rung}/padded_code_cone"] = rng.random((2, 5))
    for table in (text, classifier):
        for network in NETWORKS:
            table.arrays[f"{network}/padded_code_cone"] *= 500
    found = layers.measure_cone(text, classifier)

    def ends(values, by, form):
        first, last = (mean(values[k, place] / by[k] for k in range(3)) for place in (0, 4))
        return f"{first:{form}} to {last:{form}}"

    def rank_with_depth(values):
        ranks = [sum(other < value for other in values) for value in values]
        return np.corrcoef(range(5), ranks)[0, 1]

    rows = [round(count * 512 / 427) for count in tokens]
    assert found.minilm_printed == ends(text["trained/cone"], tokens, ".1f")
    assert found.minilm_code == ends(text["trained/padded_code_cone"], rows, ".2f")
    assert found.classifier_code == ends(classifier["trained/padded_code_cone"], [1] * 3, ".0f")
    assert found.control_code == ends(classifier["random/padded_code_cone"], [1] * 3, ".0f")
    assert found.by_class_rise == f"{min(map(rank_with_depth, classes)):.2f}"
    for form, name in layers.FORMS.items():
        by_state = [mean(classifier[f"random/{name}"][:, state]) for state in range(5)]
        assert found.rises["classifier, random"][form] == pytest.approx(rank_with_depth(by_state))
    for rung in ("trained", *RUNGS):
        due = [[row[0], row[4]] for row in classifier[f"{rung}/padded_code_cone"]]
        assert found.rungs[rung].tolist() == due


def test_drawn_shares_are_means_over_classes_layers_and_heads():
    shapes = [("seen", (2, 3, 4)), ("last", (2, 3, 4)), ("mean_seen", (5, 3, 4)), ("mean_empty", (5, 3, 4))]
    text, classifier = both(*shapes, seed=4)
    words = classifier.arrays["words"] = np.array([[400, 423, 410], [425, 420, 424]])
    found = layers.measure_drawn(text, classifier)
    every = {name: mean(classifier[name].ravel()) for name in classifier.arrays if name != "words"}
    assert found.classifier_seen == percent(every["trained/mean_seen"], 1)
    assert found.text_seen == percent(mean(text["trained/seen"].ravel()))
    assert (found.empty_share, found.control_empty) == (
        percent(every["trained/mean_empty"]),
        percent(every["random/mean_empty"]),
    )
    last = [mean(text["trained/last"][:, layer, head]) for layer, head in np.ndindex(3, 4)]
    assert (found.sep, found.most_sep) == (percent(mean(last), 1), percent(max(last)))
    assert (found.fewest_words, found.most_words, found.spread_in_a_class) == (400, 425, 23)
    for place in np.ndindex(2, 3):
        assert found.seen["classifier, random"][place] == pytest.approx(mean(classifier["random/seen"][place]))
    for place in np.ndindex(5, 3):
        assert found.mean_seen["random"][place] == pytest.approx(mean(classifier["random/mean_seen"][place]))
        assert found.empty["trained"][place] == pytest.approx(mean(classifier["trained/mean_empty"][place]))
    assert found.words.tolist() == words.tolist()


def test_keys_are_medians_over_heads_of_the_last_layer():
    """Twelve layers of four heads; two seeds of each rung and one of the trained network."""
    rng = np.random.default_rng(5)
    arrays = {}
    for name, count in (("trained", 1), *((rung, 2) for rung in RUNGS)):
        arrays[f"{name}/minimal_keys"] = rng.integers(1, 461, (count, 12, 4))
        arrays[f"{name}/softmax_cone"] = 500 * rng.random((count, 12))
        arrays[f"{name}/singular_values"] = rng.integers(1, 99, (count, 12))
    arrays["trained/own_minimal_keys"] = rng.integers(1, 427, (1, 12, 4))
    theirs = rng.integers(1, 461, (12, 4))
    ranks = {f"{network}/rank_{kind}": np.array([[1]]) for kind in ("maps", "outputs") for network in NETWORKS}
    of_authors = record(rank_maps=np.array([[1, 2]]), rank_outputs=np.array([[3, 4]]))
    found = outputs.measure_closing(
        of_authors, SimpleNamespace(minimal_keys=theirs), record(**ranks), record(**arrays, **ranks)
    )

    def last(rung):
        by_seed = [median(arrays[f"{rung}/minimal_keys"][seed, 11]) for seed in range(2)]
        return f"{min(by_seed):.0f} to {max(by_seed):.0f}"

    by_layer = [median(theirs[layer]) for layer in range(12)]
    assert (found.first, found.last) == (f"{by_layer[0]:.0f}", f"{by_layer[11]:.0f}")
    assert (found.lowest, found.lowest_layer) == (f"{min(by_layer):.0f}", by_layer.index(min(by_layer)))
    own = [median(arrays["trained/minimal_keys"][0, layer]) for layer in range(12)]
    assert (found.here_first, found.here_last) == (f"{own[0]:.0f}", f"{own[11]:.0f}")
    lasts = (found.control_last, found.scaled_last, found.permuted_last)
    assert lasts == (last("random"), last("random, as large"), last("permuted"))
    cones = arrays["random/softmax_cone"][:, 10].tolist()
    values = arrays["random/singular_values"][:, 10].tolist()
    assert found.here_cone == f"{arrays['trained/softmax_cone'][0, 10]:.3f}"
    assert found.control_cone == f"{min(cones):.1f} to {max(cones):.1f}"
    assert found.here_values == arrays["trained/singular_values"][0, 10]
    assert found.control_values == f"{min(values)} to {max(values)}"
    assert found.own_keys.tolist() == [median(heads) for heads in arrays["trained/own_minimal_keys"][0]]
    for name, of in found.keys.items():
        assert of.tolist() == [[median(heads) for heads in seed] for seed in arrays[f"{name}/minimal_keys"]]
    assert found.recorded_keys is theirs
