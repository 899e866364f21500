"""The story on the classifier computes what the study measured, and its evidence compares what it says."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.maps.gates import GATES, PATTERNS
from analysis.models.controls import LARGE
from book.lab.training import dna_classifier
from book.publish import dependencies, execution
from book.publish.inputs import choose_inputs
from book.studies.shared import variant_measures
from book.studies.shared.nearest_classifier import START, read_nearest
from book.studies.variant_classifier import compared, sequence
from book.studies.variant_classifier.controls import Pair
from tests.book.studies.measurements import measurement


@pytest.fixture(scope="module")
def ran():
    """Run the story's cells one after the other, and keep what they leave."""
    space = {"__name__": "__main__"}
    for cell in dependencies.cell_sources(execution.pages()["variant-classifier"].read_text(encoding="utf-8")):
        exec(compile(cell, "story", "exec"), space)
    return SimpleNamespace(**space)


@pytest.fixture(scope="module")
def nearest():
    return read_nearest(choose_inputs(device="cpu"))


# Other words and another draw than the record's, whose five seeds lie within 0.05 of their mean in the start.
@pytest.mark.parametrize(("network", "rung", "apart"), [("text", START, 0.03), ("large", LARGE, 0.06)])
def test_the_story_computes_the_start_and_the_large_control_of_the_study(ran, nearest, network, rung, apart):
    entropy, cosine = (torch.stack(values) for values in ran.look(getattr(ran, network)))
    np.testing.assert_allclose(entropy, nearest.rung("entropy", rung), atol=apart)
    np.testing.assert_allclose(cosine, nearest.rung("cosine", rung), atol=apart)


def test_what_the_story_says_of_its_six_pictures(nearest):
    """After the genes, before them, and with random weights as large."""

    def carries(gate):
        k = GATES.index(gate)
        return [nearest.gates[..., k].mean(), *(nearest.control_gates[rung][..., k].mean() for rung in (START, LARGE))]

    def of(measure):
        return [nearest.layers[measure][:, 0], *(nearest.rung(measure, rung) for rung in (START, LARGE))]

    failing = [nearest.failing_sums, *(nearest.control_failing_sums[rung].mean(0) for rung in (START, LARGE))]
    assert [share > 0.2 for share in carries("directional")] == [True, True, True]
    assert [share > 0.2 for share in carries("cluster")] == [True, True, False]
    assert [bool(rows.mean() < 0.2) for rows in of("first_failing")] == [False, False, True]
    assert [bool(sums[:2].min() > 0.5 > sums[2:].max()) for sums in failing] == [True, False, False]
    assert [bool(rows[-1] > rows[0] + 0.3) for rows in of("cosine")] == [True, False, True]
    assert [int(shares.argmin()) for shares in of("entropy")] == [1, 1, 0]


def test_what_the_story_says_of_the_classifier_from_random_weights():
    m = measurement("variant_classifier")
    assert (m.phases.holding_changed >= 0.195).all()
    assert (m.phases.holding_changed <= 0.35).all()
    assert (m.phases.holding_unchanged < 0.03).all()
    assert m.gates.control_maps[..., : len(PATTERNS)].max() < 0.05
    closed = m.emergence.top_resultant.argmax(1)
    assert (m.emergence.steps[range(len(closed)), closed] <= 100).all()
    assert 0.4 < m.emergence.accuracy[range(len(closed)), closed].mean() < 0.6
    assert (m.emergence.top_resultant[:, -1] < m.emergence.top_resultant.max(1)).all()
    closing = m.compared.cosine[compared.SCRATCH]
    assert closing["trained"][-1, 1] > 0.7
    assert closing["random, as large"][:, 2].max() < 0.45


def test_one_sequence_is_measured_in_all_networks(variant_folder, variant_data, monkeypatch):
    model = dna_classifier.load(variant_folder)[0].requires_grad_(False)
    monkeypatch.setattr(sequence, "TUNED_SPECTRA_OF", ((0, 1), (1, 0)))
    monkeypatch.setattr(sequence, "NORMS_OF", (0, 1))
    coded = variant_data.encode(variant_data.genes[:1])
    silent = sequence.scale_matrices(model, model)
    with torch.no_grad():
        silent.bert.encoder.layer[0].attention.self.query.weight.zero_()
    found = sequence.measure({"one": model, "same": model, "other": silent}, coded, (0, 1))
    stations, _ = variant_measures.pass_all(model, coded)
    n, (layer, head) = len(stations[0].x), found["heads"][3]
    assert found["maps"].shape == (3, 5, n // 3, n // 3)
    mean = stations[layer].attention[head, :3, :3].mean() * n
    assert found["maps"][0, 3, 0, 0] == pytest.approx(float(mean), rel=2e-3)
    np.testing.assert_allclose(found["total"][0], sum(layer.second.sum(0) for layer in stations), atol=1e-3)
    np.testing.assert_array_equal(found["sums"][0], found["sums"][1])
    assert np.abs(found["growth"][0, 0] - found["growth"][2, 0]).max() > 1e-3  # Q of the silent head
    np.testing.assert_array_equal(found["growth"][0, 1:], found["growth"][2, 1:])


def test_bands_hold_intervals_and_ranges(nearest):
    pair = Pair(np.arange(24.0).reshape(2, 3, 4), np.zeros((2, 3, 4)))
    both = compared.bands(nearest, "cosine", pair, {compared.TUNED: 2.0, compared.SCRATCH: 1.0})
    tuned, scratch = both[compared.TUNED], both[compared.SCRATCH]
    np.testing.assert_allclose(tuned["fine-tuned"], 2 * nearest.layers["cosine"])
    np.testing.assert_allclose(tuned["before the genes"][:, 0], 2 * nearest.rung("cosine", START))
    assert scratch["trained"][0].tolist() == [10.0, 4.0, 16.0]
    assert scratch["random"].tolist() == [[0.0] * 3] * 4
