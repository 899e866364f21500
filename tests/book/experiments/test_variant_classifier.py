"""The records on the variant classifier, computed on two or six layers and a short gene."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from analysis.maps.gates import GATES
from analysis.models.controls import scale_matrices
from analysis.models.reading import load
from analysis.representations.anisotropy import mean_pairwise_cosine
from analysis.statistics import normality
from book.experiments import (
    variant_baselines,
    variant_classifier_fine_tuned_sequence,
    variant_classifier_training,
    variant_fine_tuned,
    variant_measures,
    variant_seeds,
)
from book.lab import classifier_survey, marked_words
from book.lab.dna.simulate import invent_backbones
from book.lab.training import dna_classifier

TINY = dna_classifier.shortened(dna_classifier.TINY, sequences=160)


@pytest.fixture(scope="module")
def stations(variant):
    return classifier_survey.pass_all(variant.model, variant.data.encode(variant.data.genes[:1]))[0]


def test_a_classifier_is_measured_beside_its_control(variant):
    genes = classifier_survey.firsts(variant.data)
    arrays, values = variant_measures.measure_genes(variant, genes, 1, pad_to=24)
    assert arrays["gates"].shape == arrays["control_gates"].shape == (8, 2, 2, len(GATES))
    assert not np.allclose(arrays["cone"], arrays["control_cone"])
    ratios = marked_words.by_sequence(arrays["profile"], arrays["profile_marks"], "received")[:, 2]
    assert ratios[:, 0].mean() == pytest.approx(values["received_telling"].value, abs=1e-4)
    assert values["received_telling_chance_low"].value < 1 < values["received_telling_chance_high"].value


def test_words_that_get_more_are_found_to(variant):
    genes = [variant.data.genes[i] for i in variant.data.parts.test[:8]]
    marked = marked_words.marks(variant.data, genes)

    def masses(weight):
        shares = [np.concatenate([[0.5], 1 + weight * m["site"]])[None] for m in marked]
        return [dict.fromkeys(marked_words.MASSES, share) for share in shares]

    values = variant_measures.summarise(variant.data, genes, masses(9.0))
    assert values["columns_site"].value > values["columns_site_chance_high"].value > 1
    flat = variant_measures.summarise(variant.data, genes, masses(0.0))
    assert flat["columns_site"].value == pytest.approx(1)
    on_class = [0.5 / (0.5 + len(m["site"])) for m in marked]
    assert flat["columns_on_class"].value == pytest.approx(np.mean(on_class))


def test_a_seed_is_scored_on_its_whole_parts_and_on_new_sequences(variant):
    values, counts = variant_seeds.score_run(variant, 0, invent_backbones(0, codons=60))
    assert values["whole_test"].value == pytest.approx(variant.card["test"])
    assert counts.sum((1, 2)).tolist() == [len(variant.data.parts.test)] + [48] * 4
    assert values["test"].value == np.trace(counts[0]) / counts[0].sum()
    shares = [values[f"exchanged_{part}"] for part in ("bases", "deletions")]
    assert sum(share.value for share in shares) <= 1
    assert shares[0].n == shares[1].n > 0


def test_a_head_that_writes_nothing_has_no_effect(variant):
    width = variant.model.config.hidden_size // variant.model.config.num_attention_heads
    output = variant.model.bert.encoder.layer[1].attention.output.dense.weight
    before = output.clone()
    with torch.no_grad():
        output[:, :width] = 0  # head 0 of layer 1
        effects = variant_fine_tuned.level_heads(variant.model, variant.data, variant.data.genes[:2])
        output.copy_(before)
    assert effects.shape == (2, 2, 2)
    assert effects[:, 1, 0] == pytest.approx(0, abs=1e-6)
    assert (effects[:, 1, 1] > 1e-6).all()


def test_counts_and_diagonals_are_of_the_maps_that_are_read(stations):
    read = variant_fine_tuned.read_maps(stations)
    counts = dict(zip(variant_fine_tuned.COUNTED, read["counts"].T, strict=True))
    np.testing.assert_array_equal(counts["maps"], stations[0].attention.shape[0])
    np.testing.assert_allclose(read["gates"].sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(counts["directional_mass"], read["gates"][..., 0].sum(-1), atol=1e-4)
    cells = np.stack([layer.attention.diagonal(dim1=-2, dim2=-1).numpy() for layer in stations])
    last = variant_fine_tuned.LAST
    expected = np.stack([cells[..., :-last].mean(-1), cells[..., -last:].mean(-1)], -1)
    np.testing.assert_allclose(variant_fine_tuned.diagonals(stations), expected, rtol=1e-6)


def test_a_sum_is_tested_without_what_lies_four_deviations_out(stations):
    """A coordinate that is made to tower changes the sum, and not the sum without its extremes."""
    total = stations[0].second.sum(0)
    assert not len(normality.outlier_dimensions(total[None], 4.0)), "the test needs a sum without extremes"
    expected = float(normality.lilliefors(total)) / normality.critical_value(len(total))
    assert variant_fine_tuned.sum_without_extremes(stations)[0] == pytest.approx(expected, rel=1e-5)
    towering = stations[0].second.clone()
    towering[:, 0] = 1000
    changed = replace(stations[0], second=towering)
    without = float(normality.lilliefors(total[1:])) / normality.critical_value(len(total) - 1)
    assert variant_fine_tuned.sum_without_extremes([changed])[0] == pytest.approx(without, rel=1e-5)


def test_without_an_mlp_the_second_layernorm_reads_the_first(variant, stations):
    layers, first = load(variant.model).encoder_layers(), stations[0].first
    cosines = variant_fine_tuned.mlp_cosines(stations, layers)
    assert cosines[0, 0] == pytest.approx(float(mean_pairwise_cosine(first)), abs=1e-6)
    scale = layers[0].norm_mlp
    by_torch = torch.nn.functional.layer_norm(first, first.shape[-1:], scale.gain, scale.bias, scale.eps)
    assert cosines[0, 1] == pytest.approx(float(mean_pairwise_cosine(by_torch)), abs=1e-5)


def test_untrained_models_are_measured_class_by_class(variant_data):
    untrained = classifier_survey.untrained(0, TINY, variant_data)
    found = variant_seeds.measure_untrained(0, untrained)
    first = classifier_survey.firsts(variant_data)
    assert found["cone"].shape == (8, 2)
    assert found["gates"].shape[0] == found["profile"].shape[0] == len(variant_seeds.READ)
    again = classifier_survey.survey(untrained.model, variant_data, [first[3]], pad_to=None)[0]
    assert found["cone"][3] == pytest.approx(again["cone"], rel=1e-5)
    sums = variant_seeds.many_sums(2, variant_data, TINY)
    last = classifier_survey.survey(untrained.model, variant_data, first[-1:], read=False, pad_to=None)[0]
    assert sums[0] == pytest.approx(last["D_sum"], abs=1e-4)
    assert not np.allclose(sums[0], sums[1])


def test_one_sequence_is_measured_in_all_networks(variant_data):
    """On six layers of twelve heads: a head without queries differs from the others in the rows of Q alone."""
    shape = {"hidden_size": 48, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 64}
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(variant_data.tokenizer), num_labels=8, attn_implementation="eager", **shape)
    model = BertForSequenceClassification(config).eval().requires_grad_(False)
    silent = scale_matrices(model, model)
    with torch.no_grad():
        silent.bert.encoder.layer[0].attention.self.query.weight.zero_()
    coded = variant_data.encode(variant_data.genes[:1])
    found = variant_classifier_fine_tuned_sequence.measure({"one": model, "same": model, "other": silent}, coded)
    stations, _ = classifier_survey.pass_all(model, coded)
    n, (layer, head) = len(stations[0].x), found["heads"][3]
    assert found["maps"].shape == (3, 5, n // 3, n // 3)
    mean = stations[layer].attention[head, :3, :3].mean() * n
    assert found["maps"][0, 3, 0, 0] == pytest.approx(float(mean), rel=2e-3)
    np.testing.assert_allclose(found["total"][0], sum(layer.second.sum(0) for layer in stations), atol=1e-3)
    np.testing.assert_array_equal(found["sums"][0], found["sums"][1])
    assert np.abs(found["growth"][0, 0] - found["growth"][2, 0]).max() > 1e-3
    np.testing.assert_array_equal(found["growth"][0, 1:], found["growth"][2, 1:])


def test_the_course_of_a_training_is_read_off_its_losses():
    learned, lost = np.full(100, 2.0), np.full(300, 1e-4)
    course = variant_classifier_training.course
    assert course(np.concatenate([learned, lost])) == (100, 400)
    assert course(learned) == (100, 100)
    assert course(np.concatenate([learned, lost, learned])) == (100, 412)


def test_baselines_measure_what_they_say():
    backbones = invent_backbones(0, codons=150)
    result, _ = variant_baselines.measure(backbones, 240)
    value = {name: v.value for name, v in result.values.items()}
    assert len({value[f"{name}/only-substitutions"] for name in ("majority", "length", "phase")}) == 1  # blind to them
    assert value["kmers/only-substitutions"] > 0.9
    assert value["phase/exchanged-bases"] == 0
    assert value["kmers-gapped/exchanged-bases"] > value["kmers/exchanged-bases"]
    assert all(one.low <= one.value <= one.high for one in result.values.values() if one.low is not None)
    assert result.arrays["length_counts"].sum() == 240


def test_a_careful_training_looks_and_keeps_the_best_weights(variant_data, tmp_path, monkeypatch):
    from book.lab.training import dna_classifier

    recipe = dna_classifier.shortened(
        dna_classifier.TINY, name="tiny-careful", sequences=160, steps=12, batch=8, warmup=2, look_every=5, guard=5.0
    )
    monkeypatch.chdir(tmp_path)
    run, trace = variant_classifier_training.train(recipe, torch.device("cpu"), variant_data)
    assert trace["step"].tolist() == [0, 5, 10, 12]
    assert run.card["kept"] == trace["step"][trace["validation_loss"].argmin()]
    result = variant_classifier_training.measure(run, trace)
    assert result["steps"] == 12
    assert result.array("gates").shape[1:3] == (2, 2)
    assert result.array("control_gates").shape == result.array("gates").shape
    assert result.array("losses").shape == (2, 12)
