"""The studies of a BERT's gates: biases exchanged, heads taken away, the reader held to known truth, also on a GPU."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.data import texts
from analysis.maps import gates
from analysis.maps.gates import synthetic
from analysis.models import checkpoints, pretrained
from analysis.models.reading import load
from book.studies.bert_gates import interventions, query_bias
from book.studies.gate_detector import specimens
from tests.analysis.fake_device import GPU, OnGPU, pretended
from tests.book.studies.same_results import assert_same_results, random_bert

TEXTS = texts.passages(longest=45)[:3]


@pytest.fixture(scope="module")
def minilm():
    found = checkpoints.find("minilm")
    return pretrained.load(found), pretrained.tokenizer(found)


def test_exchanging_biases(minilm):
    model, tokenizer = minilm
    own = [layer.b_Q for layer in load(model).layers]
    none = [0 * b for b in own]
    found = query_bias.exchange(model, tokenizer, TEXTS[:1], {"own": own, "none": none})
    assert found.shape == (1, 2, 6, 12, len(gates.GATES))
    inputs = tokenizer(TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        maps = model(**inputs, output_attentions=True)
    assert np.allclose(found[0, 0], gates.read_gates(torch.cat(maps.attentions)).scores.numpy(), atol=5e-3)
    bare = pretrained.load(checkpoints.find("minilm"))
    bare.encoder.layer[0].attention.self.query.bias.data.zero_()  # the first layer's input does not change
    with torch.no_grad():
        first = bare(**inputs, output_attentions=True).attentions[0]
    assert np.allclose(found[0, 1, 0], gates.read_gates(first).scores[0].numpy(), atol=5e-3)
    columns = found[0, :, ..., 0].mean((1, 2))
    assert columns[0] > columns[1]


@pytest.mark.slow
def test_studies_of_gates_run_where_the_models_lie(minilm):
    def studied(*pair):
        moved = interventions.measure_effects(pair[0], minilm[1], TEXTS[:2])[0]
        return query_bias.survey(*pair, minilm[1], TEXTS[:2]), moved

    due, effects = studied(random_bert(0), random_bert(1))
    with pretended():
        found, moved = studied(random_bert(0).to(GPU), random_bert(1).to(GPU))
    assert_same_results(found, due)
    np.testing.assert_allclose(moved, effects, atol=1e-5)
    assert due.values["maps_mostly"].value > 0


def test_the_reader_is_held_to_known_truth_on_the_device(monkeypatch):
    for name, few in (("SIZES", {16: 1}), ("TUNING", ()), ("HELD_OUT", ("ragged",))):
        monkeypatch.setattr(specimens, name, few)
    due, read = specimens.compute(torch.device("cpu")), []
    real = specimens.gates.read_gates
    for module in (specimens.gates, synthetic):
        monkeypatch.setattr(module, "read_gates", lambda maps, **how: read.append(maps) or real(maps, **how))
    with pretended():
        found = specimens.compute(GPU)
    assert {type(maps) for maps in read} == {OnGPU}
    for name, array in due.arrays.items():
        np.testing.assert_allclose(found.arrays[name], array, atol=1e-6, err_msg=name)


def test_mixtures_count_gates_as_found_from_half_of_what_is_there(monkeypatch):
    """One size and two noises: of five gates one has 0.4, one 0.05, one 0.03, others nothing; the reader gets these."""
    kinds = len(gates.PATTERNS)
    truth = np.zeros(len(gates.GATES))
    truth[:3] = 0.4, 0.05, 0.03
    reads = {"x": [0.2, 0.024, 0.9, 0.05], "y": [0.19, 0.025, 0, 0.04]}
    monkeypatch.setattr(specimens, "SIZES", {16: 3})
    monkeypatch.setattr(specimens, "HELD_OUT", ("x", "y"))
    monkeypatch.setattr(specimens, "TUNING", ("z",))
    drawn = []

    def draw(n, present, noise, rng):
        drawn.append((n, tuple(present), noise))
        return SimpleNamespace(truth=truth, noise=noise, attention=np.eye(n), present=present)

    def read(some, device):
        for one in some:
            scores = np.zeros(len(gates.GATES))
            scores[:4] = reads[one.noise]
            yield one, scores, one.present[0] if one.present else "residual"

    monkeypatch.setattr(specimens, "draw", draw)
    monkeypatch.setattr(specimens, "read_specimens", read)
    shuffled = SimpleNamespace(scores=torch.arange(2.0)[:, None].expand(2, len(gates.GATES)))
    monkeypatch.setattr(specimens.gates, "read_gates", lambda maps: shuffled)
    found = specimens.compute(torch.device("cpu"))
    by_name = {name.removeprefix("mixed_"): array for name, array in found.arrays.items()}
    assert by_name["maps"].tolist() == [[[12] * kinds] * 2]
    assert by_name["present"][0].tolist() == [[12, 12] + [0] * (kinds - 2)] * 2
    assert by_name["found"][0, :, :3].tolist() == [[12, 0, 0], [0, 12, 0]]
    assert by_name["absent"][0, 0].tolist() == [0] * 3 + [12] * (kinds - 3)
    assert by_name["false"][0, :, :4].tolist() == [[0, 0, 0, 12], [0, 0, 0, 0]]
    np.testing.assert_allclose(by_name["error"][0, 0, :4], 12 * np.array([0.2, 0.026, 0.87, 0.05]), rtol=1e-5)
    confusion = by_name["confusion"][0]
    for k, label in enumerate(specimens.LABELS):
        named = label if label != "closed" else "residual"
        assert confusion[:, k, gates.GATES.index(named)].tolist() == [3, 3]
    assert confusion.sum() == 2 * 3 * len(specimens.LABELS)
    assert found.values["accuracy"].value == 1, "noise that is called residual is named rightly"
    assert by_name["shuffled"].tolist() == [[[0.5] * kinds] * 3]
    assert all(
        2 <= len(present) <= 4 for n, present, _ in drawn if len(set(present)) > 1 and "directional" not in present
    )
