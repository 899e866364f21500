"""The variant classifier by layer and during training, and where its columns point: answers known by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from analysis.maps.gates import GATES, PATTERNS
from book.publish.records import Value
from book.studies.shared.variant_columns import MARKS
from book.studies.variant_classifier import base, compared, depth
from book.studies.variant_classifier.controls import Pair, Recorded
from tests.book.studies.known import Known, record


def recorded(**given: Known) -> Recorded:
    names = ("measures", "seeds", "controls", "real")
    return Recorded(**{name: given.get(name, record()) for name in names}, sources=())


def pairs(**given: Pair) -> Recorded:
    """Return records in which each name has an array of the seeds and one of their controls."""
    seeds, controls = ({name: pair[i] for name, pair in given.items()} for i in (0, 1))
    return recorded(seeds=record(**seeds), controls=record(**controls))


def test_the_rows_that_fail_are_counted_by_seed_in_the_last_three_layers():
    trained = np.zeros((3, 2, 4))
    trained[0] = [[0.9, 0.1, 0.2, 0.3], [0.9, 0.3, 0.4, 0.5]]
    trained[2] = 0.5
    control = np.tile([0.01, 0.02, 0.03, 0.05], (3, 2, 1))
    control[1, 1, 3] = 0.11  # that layer has the mean 0.06
    found = depth.measure_rows(
        recorded(
            seeds=record(first_failing=trained),
            controls=record(first_failing=control),
            real=record(first_failing=[[0.9, 0.1, 0.3], [0.9, 0.3, 0.6]]),
        )
    )
    assert found.control_failing == "1.0 to 6.0 %"
    assert found.top_failing == "30.0, 0.0, 50.0 %"
    assert found.real_failing == "20 % and 45 %"


@pytest.fixture
def shapes(monkeypatch):
    """The paper's shapes at width 192: 0.5 in its first four layers, 0.2 in the others; the critical value is 0.5."""

    def at_other_size(statistics, size, other, generator):
        assert (tuple(statistics), size, other) == (depth.PAPER_TABLE, 768, 192)
        return SimpleNamespace(mean=np.repeat([0.5, 0.2], [4, 8]), failing=np.repeat([0.75, 0.1], [4, 8]))

    monkeypatch.setattr(depth.normality_power, "at_other_size", at_other_size)
    monkeypatch.setattr(depth.normality, "critical_value", {192: 0.5}.__getitem__)


STATISTICS = np.array([[[4.0, 4, 4, 8, 1, 1], [0.5, 0, 1, 1, 0, 0]], [[0.0, 0, 0, 0, 9, 9], [0, 0, 0, 1, 0, 0.5]]])
UNTRAINED = np.array([[0.1, 0.1, 0.1, 0.1, 0.0, 0.0], [0.6, 0.0, 0.6, 0.0, 0.0, 0.0]])  # 0.1 and 0.3 apart


def test_the_first_four_layers_are_compared_with_the_others(shapes):
    found = depth.compare_first_layers(STATISTICS, UNTRAINED, 192)
    assert found.difference.tolist() == pytest.approx([(4 + 0.625) / 2, (-9 + 0) / 2])
    assert found.expected == pytest.approx(0.3)
    assert found.error == pytest.approx(0.1)  # 0.2 / sqrt 2 is their deviation, and there are two seeds
    assert found.failing.tolist() == [6 / 8, 1 / 8]  # 0.5 is not above 0.5
    assert (found.expected_failing, found.chance) == (0.75, 2 / 8)


def test_the_table_counts_in_standard_errors(shapes):
    totals = {"D_total": np.array([[[1.0]]]), "D_sum": STATISTICS}
    found = depth.measure_table(
        recorded(
            seeds=record(**totals),
            controls=record(D_total=np.array([[[2.0]]]), D_sum=0 * STATISTICS, many_D_sum=UNTRAINED),
            measures=record(padded_D_total=[[3.0]], mean_total=[[0.25]], control_mean_total=[[0.5]]),
        ),
        192,
    )
    assert (found.due, found.gap) == ("3.0", "-10.9")  # the mean difference is (2.3125 - 4.5) / 2
    assert {name: values.item() for name, values in found.totals.items()} == {
        "trained": 1,
        "control": 2,
        "padding in": 3,
    }
    assert {name: values.item() for name, values in found.total_means.items()} == {"trained": 0.25, "control": 0.5}


def test_a_rise_is_a_rank_correlation_and_the_last_four_layers_over_the_first():
    values = np.zeros((2, 2, 6, 2))
    values[0] = np.array([1.0, 2, 3, 4, 5, 6])[:, None] + [-0.5, 0.5]
    values[1, 0] = np.array([2.0, 1, 1.5, 1.8, 1.9, 1.95])[:, None]  # the first is the largest
    values[1, 1] = np.array([6.0, 5, 4, 3, 2, 1])[:, None]
    found = depth.measure_rise(values)
    assert [each.value for each in found.factor] == pytest.approx([4.5, ((7.15 / 4) / 2 + 2.5 / 6) / 2])
    # the second seed's first sequence has the ranks 6, 1 to 5: 1 - 6 (25 + 5) / (6 35)
    assert [each.value for each in found.correlation] == pytest.approx([1, ((1 - 180 / 210) - 1) / 2])


@pytest.fixture
def layers(monkeypatch):
    """Three seeds of two sequences and five layers, two heads each; seed 0 is measured with padding as well."""
    monkeypatch.setattr(depth, "SPECTRA_OF", ((0, 1), (4, 0)))
    up = np.arange(1.0, 6)
    by_layer = np.stack([[up + 10 * seed, 3 * up + 10 * seed] for seed in range(3)])  # (seed, sequence, layer)
    by_head = by_layer[..., None] * [1.0, 3.0]
    entropy = np.ones((3, 2, 5, 2))
    entropy[0, :, 3], entropy[1, :, 0], entropy[2, 0, 1, 0] = 0.5, 0.9, 0.1
    trained = {"cone": 1000 * by_layer, "cosine": by_layer / 100, "D_sum": by_layer}
    control = {"cone": 500 * by_layer, "cosine": by_layer / 200, "D_sum": 2 * by_layer}
    padded = {"cone": 1.25, "cosine": 1.5, "D_sum": 3.0}
    given = {name: Pair(trained[name], control[name]) for name in trained}
    given |= {f"padded_{name}": Pair(by * trained[name], by * control[name]) for name, by in padded.items()}
    given |= {"entropy": Pair(entropy, entropy), "largest": Pair(by_head, 2 * by_head)}
    return pairs(**given, stable_rank=Pair(by_head, by_head / 2))


def test_depth_is_told_of_means_over_sequences(layers):
    found = depth.measure_depth(layers, 4)
    assert (found.cone_first, found.cone_last) == ("2,000", "10,000")
    assert (found.control_first, found.control_last) == ("1,000", "5,000")
    assert (found.cosine_last, found.cosine_others) == ("0.10", "0.20 and 0.30")
    assert found.sharpest == "3, 0, 1"
    assert found.largest["trained"][0].tolist() == [3, 5]  # 3 * 2 in layer 0, 10 in layer 4, over the root of 4
    assert found.largest["control"][1].tolist() == [36, 20]
    assert found.stable_rank["trained"][0].tolist() == [4, 8, 12, 16, 20]
    assert found.stable_rank["control"][0].tolist() == [2, 4, 6, 8, 10]
    assert set(found.rises) == {"cone", "cosine", "largest"}
    assert found.rises["cone"]["control"].factor[0].value == pytest.approx(3.5)


def test_padding_adds_a_share_to_the_index_and_a_difference_to_the_others(layers):
    found = depth.add_padding(layers)
    cone, cosine, sums = (found[name] for name in ("cone index", "mean cosine", "D of the sum"))
    np.testing.assert_allclose(cone.trained, 25)
    np.testing.assert_allclose(cone.control, 25)
    assert cosine.trained[0, 0].tolist() == pytest.approx([0.005, 0.01, 0.015, 0.02, 0.025])
    assert sums.control[0, 0].tolist() == [4, 8, 12, 16, 20]


def test_rows_close_at_the_look_at_which_the_last_layer_is_longest():
    resultant = np.zeros((2, 3, 2))
    resultant[0, :, 1], resultant[1, :, 1] = [0.1, 0.9, 0.5], [0.2, 0.3, 0.8]
    resultant[:, 0, 0] = 1  # not in the last layer
    gates = np.zeros((2, 3, 2, len(GATES)))
    gates[0, 0, 1, GATES.index("directional")], gates[0, 0, 0, GATES.index("cluster")] = 0.4, 0.2
    gates[0, 0, 0, len(PATTERNS)] = 7  # no pattern
    found = depth.measure_emergence(
        recorded(
            seeds=record(
                trace_gates=gates,
                trace_resultant=resultant,
                trace_validation=[[0.1, 0.4, 0.9], [0.2, 0.3, 0.6]],
                trace_step=[[0, 5, 9]] * 2,
                trace_entropy=2 * resultant,
            )
        ),
        8,
    )
    assert (found.when_closed, found.guess) == ("40, 60 %", "12.5 %")
    assert found.top_resultant.tolist() == [[0.1, 0.9, 0.5], [0.2, 0.3, 0.8]]
    assert found.mass[0].tolist() == pytest.approx([0.3, 0, 0])
    assert found.gates["cluster"][0, 0].tolist() == [0.2, 0]
    assert found.by_layer["row entropy"].max() == 2


def test_real_lineages_are_beside_the_seeds_and_one_control():
    def entropy(*by_layer):
        return np.array(by_layer)[None, :, None] + [[[-0.1, 0.1]], [[-0.2, 0.2]]]

    given = {f"columns_any_site_{k}": 1.0 + k for k in (1, 2)}
    chance = {"columns_any_site_chance_low": 0.5, "columns_any_site_chance_high": 1.75}
    real = record(cosine=[[0.2, 0.4], [0.4, 0.8]], entropy=entropy(0.9, 0.7), **chance)
    real.values = {"columns_any_site": Value(1.25, 0.0, low=1.0, high=1.5)}
    found = depth.measure_real(
        recorded(
            measures=record(columns_any_site=1.5),
            seeds=record(
                cosine=np.arange(12.0).reshape(3, 2, 2),
                entropy=[entropy(0.6, 0.8), entropy(0.3, 0.9), entropy(0.5, 0.4)],
                **given,
            ),
            controls=record(cosine=-np.arange(12.0).reshape(3, 2, 2), entropy=[entropy(0.01, 0.02)] * 3),
            real=real,
        )
    )
    assert (found.real_sharpest, found.real_lowest, found.seeds_lowest) == ("1", "0.70", "0.60, 0.30, 0.40")
    assert (found.real_any, found.real_any_range, found.seeds_any) == ("1.2", "1.0 to 1.5", "1.5, 2.0 and 3.0")
    assert found.by_layer["real lineages"]["cosine"].tolist() == pytest.approx([0.3, 0.6])
    assert found.by_layer["invented, seed 1"]["cosine"].tolist() == [5, 6]
    assert found.by_layer["seed 0, control"]["cosine"].tolist() == [-1, -2]
    assert found.chance == (0.5, 1.75)


CLASSES = ("Alpha", "GH/490R", "Mu", "Omicron")


@pytest.fixture
def pointed():
    """Four classes of four words each; two of them have columns where their site is, and two have not."""
    carried = np.array([[3.0, 1, 0, 0], [1, 1, 1, 1], [2, 1, 0, 1], [0, 4, 0, 0]])
    profile = np.ones((4, 3, 4))
    profile[:, 0] = carried
    marks = np.zeros((4, len(MARKS), 4), bool)
    marks[:, 0, 0] = True
    marks[2, 0, 1] = True
    enriched = np.zeros((3, 4, len(MARKS), 3))
    enriched[1:, :, 0, 0] = [[1.0, 2, 3, 4], [5, 6, 7, 8]]
    control = np.zeros((3, 4, len(MARKS), 3))
    control[0, :, 0, 0] = [0.1, 0.2, 0.3, 0.4]  # of Alpha, GH/490R, Lambda and Omicron
    names = [mark.replace(" ", "_") for mark in MARKS]
    measures, seeds, real = record(profile=profile, profile_marks=marks), record(enriched=enriched), record()
    measures.values, seeds.values, real.values = {}, {}, {}
    for k, name in enumerate(names):
        measures.values[f"columns_{name}"] = Value(1.5 + k, 0.0, low=1.0, high=2.25)
        for seed in (1, 2):
            seeds.values[f"columns_{name}_{seed}"] = Value(seed + k)
        of_mark = {f"tokens_{name}": 0.25, f"columns_{name}_chance_low": 0.5, f"columns_{name}_chance_high": 1.5}
        measures.arrays |= of_mark
        real.arrays[f"columns_{name}"] = 9.0 + k
    measures.values["columns_on_class"] = Value(0.0625, 0.0, low=0.05, high=0.07)
    measures.values["control_columns_on_class"] = Value(0.002)
    seeds.values |= {f"columns_on_class_{seed}": Value(0.1 * seed) for seed in (1, 2)}
    real.values["columns_on_class"] = Value(0.5)
    return recorded(measures=measures, seeds=seeds, real=real, controls=record(enriched=control))


def test_columns_are_compared_with_the_mean_word(pointed):
    found = compared.measure_columns(pointed, CLASSES, np.array([False, True, True, False]), 400)
    assert (found.on_class, found.on_class_times, found.on_class_range) == ("6.2 %", "25", "5.0 to 7.0 %")
    assert (found.site, found.site_range, found.site_other) == ("1.5", "1.0 to 2.2", "1.0 and 2.0")
    assert (found.gh, found.mu, found.site_rest) == ("1.0", "1.5", "1.5")  # the rest: 3 and 0
    assert (found.gh_mass, found.mu_mass) == ("25 %", "75 %")
    assert found.site_beyond == "Alpha"
    assert [each.value for each in found.class_token.values()] == [0.0625, 0.1, 0.2, 0.5, 0.002]
    rare = found.by_mark["rare"]
    assert ([each.value for each in rare.seeds], rare.tokens, rare.chance, rare.real) == (
        [4.5, 4, 5],
        0.25,
        (0.5, 1.5),
        12,
    )
    assert found.by_mark["any site"].seeds[0].value == 2.5


def test_the_sites_of_a_class_have_the_bounds_of_all_turns(pointed):
    found = compared.compare_classes(pointed, CLASSES)
    # turned round, Alpha's site gets 3, 1, 0 and 0 times the mean: the 97.5 % point lies 0.925 of the way from 1 to 3
    assert found["Alpha"][:3] == pytest.approx((3, 0, 2.85))
    assert found["Alpha"].others.tolist() == [1, 5]
    assert [found[label].control for label in CLASSES] == [0.1, 0.2, None, 0.4]


def test_the_course_of_the_large_training_is_read_from_its_record(monkeypatch):
    """Learned at update 100; right at the looks 100 and 200, wrong at 300, right again at 400."""
    table = record(
        step=[0, 100, 200, 300, 400],
        validation=[0.1, 1.0, 1.0, 0.9, 1.0],
        resultant=[[0.1, 0.2]] * 4 + [[0.75, 0.5]],
        losses=[[2.0], [3.0]],
        steps=401,
        seconds=90.0,
        ms_per_step=151.4,
        learned=100,
        lost=290,
        end_loss=2.08,
        test=0.125,
    )
    table.provenance = {"device": "a card"}
    monkeypatch.setattr(base, "live_or_record", lambda *_, **__: (table, "recorded"))
    found, sentence = base.read_base_training(None, 8)
    assert (found.updates, found.minutes, found.milliseconds, found.machine) == (401, "1.5", "151", "a card")
    assert (found.learned, found.last_right, found.lost, found.test) == (100, 200, 290, "12 %")
    assert (found.guess_loss, found.resultant, sentence) == (pytest.approx(2.0794, abs=1e-4), "0.50", "recorded")


def test_losses_are_small_and_large_as_means_over_fifty_updates():
    losses = np.concatenate([np.full(60, 2.0), np.zeros(100), np.full(100, 1.0)])
    # the last 2 is update 59, so the window from 60 on is small; 26 of 50 losses of 1 are above 0.5: update 160 + 25
    assert base.course(losses) == (60, 185)
    assert base.course(np.full(80, 2.0)) == (80, 80)
    assert base.course(np.zeros(80)) == (0, 80)
    assert base.last_right(np.array([0, 5, 9]), np.array([0.1, 0.5, 1.0]), 5) == 5
