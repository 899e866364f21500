"""The classifier that was fine-tuned from text, on a record whose answer is known by hand."""

import numpy as np
import pytest

from analysis.maps.gates import GATES
from analysis.models.controls import RUNGS
from book.lab.dna.simulate import CLASSES
from book.studies.shared import nearest_classifier
from book.studies.shared.census import ratio_interval
from book.studies.shared.nearest_classifier import BY_LAYER, START
from book.studies.shared.variant_fine_tuned import COUNTED, READ, RECIPE, SEEDS
from tests.book.studies.known import record

TRAININGS, SEQUENCES, LAYERS, HEADS = len(SEEDS), len(CLASSES), 3, 4
CLUSTER = GATES.index("cluster")


def arrays() -> dict[str, np.ndarray]:
    """Return zeros for all that the study reads: trainings, two starts, and two draws of each rung."""
    by_sequence = dict.fromkeys(BY_LAYER, (LAYERS,)) | {
        "entropy": (LAYERS, HEADS),
        "largest": (LAYERS, HEADS),
        "D_total": (1,),
        "mean_total": (1,),
        "gates": (LAYERS, HEADS, len(GATES)),
        "grown": (3, LAYERS, HEADS),
        "diagonal": (LAYERS, HEADS, 2),
        "counts": (LAYERS, len(COUNTED)),
        "mlp_cosine": (LAYERS, 2),
    }
    found = {name: np.zeros((TRAININGS, SEQUENCES, *shape)) for name, shape in by_sequence.items()}
    found |= {f"start_{name}": np.zeros((2, 2, *shape)) for name, shape in by_sequence.items()}
    found |= {f"ladder_{name}": np.zeros((len(RUNGS), 2, 2, *shape)) for name, shape in by_sequence.items()}
    shape = (3, LAYERS, HEADS)
    found |= {"maps": np.zeros((TRAININGS, *shape)), "start_maps": np.zeros((2, *shape))}
    found["ladder_maps"] = np.zeros((len(RUNGS), 2, *shape))
    found["effects"] = np.random.default_rng(0).random((TRAININGS, len(READ), LAYERS, HEADS))
    found["entropy"] += np.random.default_rng(1).random((LAYERS, HEADS))
    found["gates"][..., CLUSTER] = 0.1
    found["counts"] += 1
    return found | {
        f"{name}_{seed}": 0.5 for name in ("whole_test", "exchanged_deletions", "exchanged_bases") for seed in SEEDS
    }


def read(**changed) -> nearest_classifier.Nearest:
    return nearest_classifier.summarise(record(**(arrays() | changed)))


def of_training(place: int = 0) -> np.ndarray:
    """Return a number by layer that is 1, 2 and 4, and twice as large in one training."""
    values = np.tile([1.0, 2, 4], (TRAININGS, SEQUENCES, 1))
    values[place] *= 2
    return values


def test_layers_are_means_over_sequences_with_those_of_each_training():
    ladder = np.zeros((len(RUNGS), 2, 2, LAYERS))
    ladder[1, 0], ladder[1, 1] = [[1, 2, 3], [3, 2, 1]], 6
    found = read(
        cosine=of_training(), start_cosine=np.array([[[1.0, 2, 3]] * 2, [[3, 2, 5]] * 2]), ladder_cosine=ladder
    )
    mean = 1 + 1 / TRAININGS
    assert found.layers["cosine"][:, 0].tolist() == pytest.approx([mean, 2 * mean, 4 * mean])
    assert found.layers["cosine"][0, 1] < mean < found.layers["cosine"][0, 2]
    assert found.by_seed["cosine"][:2].tolist() == [[2, 4, 8], [1, 2, 4]]
    assert found.phrase("cosine") == ", ".join(
        f"{mean * each:.2f}" for each in (1, 2, 4)
    )  # the means, not their bounds
    assert (found.apart("cosine"), found.apart_cosine) == (4, "4.00")
    assert (found.rise("cosine"), found.rises("cosine")) == (1, [1] * TRAININGS)
    assert found.controls["cosine"][RUNGS[1]].tolist() == [[2, 2, 2], [6, 6, 6]]
    assert found.rung("cosine", RUNGS[1]).tolist() == [4, 4, 4]
    assert (found.cosine_ends, found.start_cosine_ends) == (f"{mean:.2f} to {4 * mean:.2f}", "2.00 to 4.00")
    assert found.phrase_ends("cosine", ".1f") == f"{mean:.1f} to {4 * mean:.1f}"
    assert found.ladder("cosine").controls[RUNGS[1]].shape == (2, LAYERS)


def test_what_the_mlp_adds_is_told_apart_from_what_the_norm_does():
    steps = np.stack([of_training(1) / 8, of_training(1) / 4], -1)
    found = read(cosine=of_training(), mlp_cosine=steps)
    assert found.by_mlp[0].tolist() == [2 - 0.25, 4 - 0.5, 8 - 1]
    assert found.by_mlp[1].tolist() == [1 - 0.5, 2 - 1, 4 - 2]
    assert found.by_norm.tolist() == [[0.125, 0.25, 0.5], [0.25, 0.5, 1]]


def test_effects_go_with_the_entropies_of_the_classes_that_were_read():
    effects = np.zeros((TRAININGS, len(READ), LAYERS, HEADS)) + np.arange(12.0).reshape(LAYERS, HEADS)
    entropy = np.zeros((TRAININGS, SEQUENCES, LAYERS, HEADS)) - np.arange(12.0).reshape(LAYERS, HEADS)
    places = [sorted(CLASSES).index(label) for label in READ]
    entropy[:, places] = [[1, 2, 3, 4], [5, 7, 6, 8], [12, 11, 10, 9]]
    found = read(effects=effects, entropy=entropy)
    # ranks apart by 1 and 1, and by 3, 1, 1 and 3
    assert found.effect_with_entropy == pytest.approx(1 - 6 * (1 + 1 + 9 + 1 + 1 + 9) / (12 * 143))
    assert found.effect_with_depth == pytest.approx(128 / (143 * 128) ** 0.5)  # layers of four ties each
    assert found.effect_within.tolist() == pytest.approx([1, 0.8, -1])


def test_ratios_are_of_what_was_counted_over_layers_and_sequences():
    counts = np.zeros((TRAININGS, SEQUENCES, LAYERS, len(COUNTED)))
    at = COUNTED.index
    counts[..., at("maps")], counts[..., 0, at("composed")], counts[0, ..., at("composed")] = 4, 2, 4
    start = np.zeros((2, 2, LAYERS, len(COUNTED)))
    start[..., at("maps")], start[0, ..., at("composed")], start[1, ..., at("composed")] = 4, 1, 3
    found = read(counts=counts, start_counts=start)
    rest = 2 / 12
    assert found.ratios_by_seed["composed"].tolist() == pytest.approx([1, *[rest] * (TRAININGS - 1)])
    mean = (1 + (TRAININGS - 1) * rest) / TRAININGS
    assert found.ratios["composed"].value == pytest.approx(mean)
    by_sequence = np.concatenate(counts)[..., [at("composed"), at("maps")]].sum(1)  # of all layers of a sequence
    assert found.ratios["composed"] == pytest.approx(ratio_interval(*by_sequence.T))
    assert (found.composed, found.composed_start) == (f"{100 * mean:.0f} %", "50 %")
    assert found.control_ratios[START]["composed"].tolist() == [0.25, 0.75]
    assert np.isnan(found.ratios_by_seed["open_with_either"]).all()  # nothing to divide by
    assert found.counts["maps"] == 4 * LAYERS * SEQUENCES * TRAININGS


def test_gates_are_carried_by_heads_and_clusters_have_company():
    gates = np.zeros((TRAININGS, SEQUENCES, LAYERS, HEADS, len(GATES)))
    gates[..., 0, :, CLUSTER], gates[..., 0, 0, 0] = 0.06, 0.2  # of four maps with a cluster one holds a column
    gates[..., 1, :, GATES.index("open")] = 0.5  # maps without a cluster
    gates[..., 2, :, CLUSTER] = 0.04  # too little to count
    start = np.zeros((2, 2, LAYERS, HEADS, len(GATES)))
    start[..., CLUSTER] = 0.1
    found = read(gates=gates, start_gates=start)
    assert found.company.value == pytest.approx(0.25)
    assert found.carries("cluster", "directional")[0].tolist() == pytest.approx([0.26, 0.06, 0.06, 0.06])
    assert found.clusters_at_start  # 0.1 against 0.033
    ladder, at_start = found.panels()["columns and clusters"]
    assert ladder.trained.tolist() == pytest.approx([0.11, 0, 0.04])
    assert at_start.tolist() == pytest.approx(np.full((2, LAYERS), 0.1))
    start[0, ..., CLUSTER] = 0.03
    assert not read(gates=gates, start_gates=start).clusters_at_start


def test_sums_fail_above_the_critical_value():
    critical = nearest_classifier.normality.critical_value(RECIPE.width)
    sums = np.full((TRAININGS, SEQUENCES, LAYERS), critical * 0.9)
    sums[0, :, 1], sums[:, :, 2] = critical * 1.1, critical
    kept = np.ones((TRAININGS, SEQUENCES, LAYERS))
    kept[:, 0, 0] = 1.01
    total = np.full((TRAININGS, SEQUENCES, 1), critical)
    total[1] = critical * 1.1
    ladder = np.zeros((len(RUNGS), 2, 2, LAYERS))
    ladder[2, 1, 0] = 1
    failing = np.zeros((TRAININGS, SEQUENCES, LAYERS))
    failing[0, :, 1] = 0.5
    found = read(D_sum=sums, sum_kept=kept, D_total=total, ladder_D_sum=ladder, first_failing=failing)
    assert found.critical == critical
    assert found.failing_sums.tolist() == pytest.approx([0, 1 / TRAININGS, 0])
    assert found.failing_sums_kept.tolist() == pytest.approx([1 / SEQUENCES, 0, 0])
    assert found.control_failing_sums[RUNGS[2]].tolist() == [[0, 0, 0], [0.5, 0.5, 0.5]]
    assert (found.sequences, found.trainings) == (TRAININGS * SEQUENCES, TRAININGS)
    assert found.total_passes == (TRAININGS - 1) * SEQUENCES
    assert found.D_total[SEQUENCES] == pytest.approx(critical * 1.1)
    assert (found.failing_rows, found.apart_failing) == (f"0, {50 / TRAININGS:.0f}, 0", "50 %")
    assert found.shares("first_failing") == f"0, {50 / TRAININGS:.0f}, 0 %"


def test_rows_grow_in_a_share_of_the_heads():
    grown = np.zeros((TRAININGS, SEQUENCES, 3, LAYERS, HEADS))
    grown[:, :, 0, 0, 3], grown[:, :, 2] = 0.6, 0.125
    maps = np.zeros((TRAININGS, 3, LAYERS, HEADS))
    maps[0] = TRAININGS
    largest = np.zeros((TRAININGS, SEQUENCES, LAYERS, HEADS))
    largest[..., 1, 0] = 8
    entropy = np.zeros((TRAININGS, SEQUENCES, LAYERS, HEADS))
    entropy[:, 0, 0], entropy[..., 2, 1] = SEQUENCES / 4, 1
    entropy += np.arange(HEADS) / 1000  # no two heads are alike
    found = read(grown=grown, maps=maps, largest=largest, entropy=entropy)
    assert found.entropy_by_layer == "0.25, 0.00, 0.25"
    assert found.amplified == "5.0 % (Q), 0.0 % (K), 12.5 % (V)"  # of 12 heads
    assert found.amplified_named == "60.0 % (Q), 0.0 % (K), 12.5 % (V)"
    assert found.largest_weights.tolist() == np.ones((3, LAYERS, HEADS)).tolist()
    assert (found.largest_by_layer, found.test_right) == ("0, 2, 0", ", ".join(["50.0 %"] * TRAININGS))
    assert found.by_seed["largest"].tolist() == [[0, 2, 0]] * TRAININGS
    assert found.phrase("largest", ".1f") == "0.0, 2.0, 0.0"
    assert (found.updates, found.batch) == (RECIPE.steps, RECIPE.batch)
    assert float(found.rate) == pytest.approx(RECIPE.rate, rel=0.05)
    assert "e-0" not in found.rate


def test_controls_are_means_over_their_sequences_and_heads():
    ladder = {name: array for name, array in arrays().items() if name.startswith("ladder_")}
    ladder["ladder_entropy"][1, 1, :, 2] = [[1, 2, 3, 6], [0, 0, 0, 4]]
    ladder["ladder_grown"][2, :, :, 1, 0, 3] = [[0.5, 0.25], [0.75, 0.5]]
    ladder["ladder_maps"][0, 1, 2, 1, 3] = 7
    ladder["ladder_D_total"][0, 1, 1] = 5
    ladder["ladder_gates"][1, 0, :, 1, 2, 4] = [0.25, 0.75]
    diagonal, mean_total = arrays()["diagonal"], arrays()["mean_total"]
    diagonal[1, 0, 2, 3, 1], mean_total[0, 1] = 0.5, 0.75
    found = read(**ladder, diagonal=diagonal, mean_total=mean_total)
    assert found.controls["entropy"][RUNGS[1]].tolist() == [[0, 0, 0], [0, 0, 2]]
    assert found.control_grown[RUNGS[2]][1, 0, 3] == 0.5
    assert found.control_largest_weights[RUNGS[0]][1, 2, 1, 3] == 7
    assert found.control_D_total[RUNGS[0]].tolist() == [[0, 0], [0, 5]]
    assert found.control_gates[RUNGS[1]][0, 1, 2, 4] == 0.5
    assert found.diagonal[SEQUENCES, 2, 3, 1] == 0.5
    assert found.mean_total.tolist() == [0, 0.75, *[0] * (TRAININGS * SEQUENCES - 2)]
