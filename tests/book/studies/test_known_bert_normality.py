"""Normality, cone, singular values and entropy: what the page averages and counts, on arrays known by hand."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from analysis.models.controls import LARGE, PERMUTED, SHARP
from analysis.statistics.intervals import Interval
from book.studies.bert_normality import claims, cone, controls, heads, released, rows, sums, tables
from book.studies.bert_normality.measure import _phrase_heads, _phrase_sums
from book.studies.shared.documents import LADDER, DocumentLadder, Rungs
from book.studies.shared.released_code import MapEntropies
from tests.book.studies.counterfeits import forge
from tests.book.studies.known import double, record
from tests.book.studies.measurements import measurement

STUDENT = 12.7062 * 0.5  # the half-width for two values that are 1 apart


def test_means_over_texts_have_students_interval():
    found = rows.over_texts(np.array([[1.0, 5.0], [2.0, 5.0]]))
    np.testing.assert_allclose(found, [[1.5, 1.5 - STUDENT, 1.5 + STUDENT], [5, 5, 5]], atol=1e-4)
    rise = rows.depth_correlation(np.array([[1.0, 2, 3], [3.0, 2, 1], [1.0, 3, 2]]))
    assert rise.value == pytest.approx((1 - 1 + 0.5) / 3)


def test_a_threshold_has_the_level_of_what_lies_above_it(monkeypatch):
    """A hundred draws from 0.001 to 0.100: 68 of them lie above 0.032."""
    asked = []

    def simulate_null(size, draws, generator):
        asked.append((size, draws))
        return torch.arange(1, 101) / 1000

    monkeypatch.setattr(rows.normality, "simulate_null", simulate_null)
    monkeypatch.setattr(rows.normality, "critical_value", {768: 0.0325, 384: 0.0451}.__getitem__)
    found = rows.measure_threshold(384)
    assert asked == [(768, 40_000)]
    assert (found.table, found.critical, found.rule) == (0.0325, 0.0451, pytest.approx(0.886 / 27.7128, abs=1e-6))
    assert (found.level, found.five_percent) == (0.68, pytest.approx(0.09505))
    assert found.paper_fails.tolist() == [True] * 4 + [False] * 8
    assert found.paper[[0, -1]].tolist() == [0.06, 0.015]


def test_rows_that_fail_are_those_of_their_kind(monkeypatch):
    monkeypatch.setattr(rows.normality, "lilliefors", lambda first: first.sum(-1))
    names = ("first_failing", "bare_failing", "first_failing_kept", "bare_failing_kept")
    arrays = {
        network: {name: np.full((2, 1), 0.1 * k + more) for k, name in enumerate(names)}
        | {
            "bare_size": np.array([[1.0, 2], [3, 4]]) + more,
            "tokens": np.array([4, 5]),
            "first_outliers": np.array([3, 1]),
        }
        for network, more in (("trained", 0.0), ("control", 0.5))
    }
    stations = {
        name: [SimpleNamespace(first=double([k + more, 1])) for k in range(3)]
        for name, more in (("trained", 0), ("control", 10))
    }
    found = rows.measure_rows(SimpleNamespace(stations=stations, layers=(0, 2)), arrays, 4)
    assert {layer: [of["trained"].item(), of["control"].item()] for layer, of in found.statistics.items()} == {
        0: [1, 11],
        2: [3, 13],
    }
    assert {kind: shares[0, 0] for kind, shares in found.failing.items()} == {
        "trained": 0,
        "plain": 0.1,
        "kept": pytest.approx(0.2),
        "plain kept": pytest.approx(0.3),
        "control": 0.5,
        "control plain": 0.6,
    }
    assert (found.longer.tolist(), found.most_outliers) == ([False, True], 3)
    assert found.sizes["trained"].tolist() == [3, 4]
    written = tables.by_layer(found.failing)
    assert written.loc["trained, less what stands out", "layer 0"] == pytest.approx(0.2)


def padded_arrays(factor):
    """Three texts of two layers, of which the first two were padded as well: every quantity by a factor."""
    values = {name: np.array([[0.1, 0.2], [0.3, 0.4], [9.0, 9.0]]) for name in rows.MEANS.values()}
    values["entropy"] = values["entropy"][..., None] * [1.0, 3.0]
    padded = {f"pad_{name}": factor * of[:2] for name, of in values.items()}
    given = {"cone": np.array([[1.0, 2], [4, 5], [9, 9]]), "pad_cone": np.array([[3.0, 4], [4, 20]])}
    return values | padded | given | {"tokens": np.array([10, 20, 900]), "pad_rows": np.array([50, 50])}


def test_padded_texts_are_compared_with_themselves():
    found = rows.measure_padding({"trained": padded_arrays(2), "control": padded_arrays(3)}, 0.5)
    assert (found.texts, found.share) == (2, pytest.approx(0.7))
    assert found.rows["trained"]["without"][:, 0].tolist() == pytest.approx([0.2, 0.3])
    assert found.sums["control"]["with"][:, 0].tolist() == pytest.approx([0.6, 0.9])
    assert found.last_sum_fails["trained"] == {"without": 0, "with": 0.5}  # 0.4 and 0.8
    assert found.means["entropy"]["trained"]["with"].tolist() == pytest.approx([0.8, 1.2])
    assert found.means["mean cosine"]["control"]["without"].tolist() == pytest.approx([0.2, 0.3])
    assert found.cone_ratio["trained"] == pytest.approx((3 + 2 + 1 + 4) / 4)
    written = tables.padding(found).loc["D of the sum, trained"]
    assert written.tolist() == pytest.approx([0.2, 0.4, 0.3, 0.6])


@pytest.fixture
def summed(monkeypatch):
    """Two texts and one layer of four coordinates; the critical value is a tenth of how many coordinates are left."""
    monkeypatch.setattr(sums.normality, "critical_value", lambda size: size / 10)
    monkeypatch.setattr(sums, "_sum_independent", lambda tokens, width: (tokens, width))
    monkeypatch.setattr(sums, "_drawn_sums", lambda text: {"layer 0": ("trained", np.arange(4.0))})
    layer = SimpleNamespace(norm_mlp=SimpleNamespace(gain=torch.tensor([1.0, -2, 0, 1e-7])))
    monkeypatch.setattr(sums, "load", lambda model: SimpleNamespace(encoder_layers=lambda: [None, layer]))
    names = ("D_sum", "D_sum_bare", "D_sum_unit", "D_sum_kept")
    trained = {name: np.array([[0.4], [0.5]]) + k for k, name in enumerate(names)}
    trained |= {"dropped": np.array([[0.0], [1.0]]), "D_sum_kept": np.array([[0.4], [0.35]])}
    control = {"D_sum": np.array([[0.1], [0.3]])}
    before = double([1, -1, 1, -1], [2, -2, 2, -2], [5, -5, -5, 5])  # plain, their sum is 3, -3, 1, -1
    text = SimpleNamespace(
        states={"trained": torch.zeros(2, 3, 4)},
        networks={"trained": None},
        stations={"trained": [None, SimpleNamespace(before_second=before)]},
    )
    return sums.measure_sums(text, {"trained": trained, "control": control}, 0.4)


def test_sums_fail_above_the_value_for_what_is_left_of_them(summed):
    assert summed.independent == (3, 4)
    assert {kind: values[0, 0] for kind, values in summed.statistics.items()} == pytest.approx(
        {"trained": 0.45, "plain": 1.45, "unit rows": 2.45, "kept": 0.375, "control": 0.2}
    )
    assert {network: shares.tolist() for network, shares in summed.failing.items()} == {
        "trained": [0.5],
        "control": [0],
    }
    assert summed.failing_kept.tolist() == [0.5]  # 0.4 is not above 0.4, and 0.35 is above 0.3
    assert summed.dropped.tolist() == [0.5]
    assert (summed.silent, summed.silent_share) == ([2, 3], pytest.approx(0.1))
    assert list(summed.vector_statistics) == ["layer 0"]
    written = tables.sums(summed)
    assert written.loc["share that fails without these", "layer 0"] == 0.5


def test_phrases_of_sums_are_the_lowest_and_the_last(summed):
    statistics = {"trained": [[0.3], [0.2], [0.1]], "plain": [[9], [9], [0.5]], "control": [[0.01], [0.03], [0.02]]}
    of_sums = SimpleNamespace(
        statistics={kind: np.array(values) for kind, values in statistics.items()}, silent=[2, 3], silent_share=0.1
    )
    found = _phrase_sums(
        of_sums,
        SimpleNamespace(
            texts=2,
            sums={"trained": {"with": np.array([[9.0], [0.25]])}},
            last_sum_fails={"trained": {"with": 0.75, "without": 0.5}},
            cone_ratio={"trained": 2.5, "control": 1.5},
        ),
        SimpleNamespace(climb={"trained": 0.125, "control": -0.5}),
    )
    assert (found.sum_low, found.sum_last, found.sum_plain_last, found.sum_control) == (
        "0.20",
        "0.100",
        "0.50",
        "0.030",
    )
    assert (found.silent, found.silent_share, found.padded) == ("2, 3", "10 %", "2")
    assert (found.pad_last, found.pad_last_fails, found.pad, found.pad_control) == ("0.250", "75 %", "2.5", "1.5")
    assert (found.climb, found.climb_control) == ("0.12", "-0.50")


def test_the_sum_of_all_layers_is_that_of_the_text_that_is_drawn(monkeypatch):
    monkeypatch.setattr(sums.layer_profile, "sums", lambda stations: {"total": stations, "second": None})
    monkeypatch.setattr(sums.normality, "lilliefors", lambda vector: vector.max())
    arrays = {
        "trained": {"D_total": [[1]], "pad_D_total": [[2]], "mean_total_bare": np.array([[0.1], [-0.3]])},
        "control": {"D_total": [[3]], "pad_D_total": [[4]], "mean_total_bare": np.array([[0.0], [0.2]])},
    }
    stations = {"trained": torch.tensor([1.0, 5]), "control": torch.tensor([2.0, 3])}
    found = sums.measure_total(SimpleNamespace(stations=stations), arrays)
    assert (found.statistics, found.plain_mean) == ({"trained": 5, "control": 3}, {"trained": 0.3, "control": 0.2})
    assert (found.D["control"], found.D_padded["trained"]) == ([[3]], [[2]])
    assert found.vectors["trained"].tolist() == [1, 5]


def test_identities_of_the_cone_hold_on_three_rows():
    found = cone._check_identities(double([1, 0], [1, 1], [0, 2]))
    assert max(found.square_error, found.cosine_error) < 1e-12
    assert (found.index, found.bound) == (pytest.approx(13**0.5), pytest.approx(3 * 2**0.5))


def test_the_cone_is_per_token_of_the_trained_network(monkeypatch):
    monkeypatch.setattr(cone, "_check_identities", lambda rows: rows.tolist())
    monkeypatch.setattr(cone, "_describe_embeddings", lambda text: text.middle)
    cosine = np.array([[0.1, 0.2, 0.4], [0.3, 0.2, 0.8]])

    def of(by):
        named = {"cosine": by * cosine, "resultant": cosine[:, ::-1], "cone_bare": cosine, "pad_resultant": cosine + 1}
        return named | {"cone": by * np.array([[10.0, 20, 30], [40, 40, 20]]), "tokens": np.array([10, 20]) * by}

    before = double([1, 3], [6, 2])
    text = SimpleNamespace(stations={"trained": [None, SimpleNamespace(before_second=before)]}, middle=1)
    found = cone.measure_cone(text, {"trained": of(1), "control": of(10)})
    assert found.identities == [pytest.approx([-1, 1]), pytest.approx([1, -1])]
    assert found.per_token["trained"][:, 0].tolist() == [1.5, 2, 2]
    assert found.per_token["control"][:, 0].tolist() == [15, 20, 20]
    assert found.cosine["trained"][:, 0].tolist() == pytest.approx([0.2, 0.2, 0.6])
    assert found.resultant["control"][:, 0].tolist() == pytest.approx([0.6, 0.2, 0.2])
    assert found.resultant_padded["trained"][:, 0].tolist() == pytest.approx([1.2, 1.2, 1.6])
    assert found.ends["trained"]["cosine"] == pytest.approx((0.2, 0.6))
    assert found.climb["trained"] == pytest.approx(0.4)
    assert found.rise["trained"]["cosine"].value == pytest.approx((1 + 0.5) / 2)
    assert found.rise["trained"]["resultant"].value == pytest.approx((-1 - 0.5) / 2)
    written = tables.cone(found)
    assert written.loc["index, rows as written, trained"].tolist() == ["25", "25", "+0.07"]
    assert written.loc["mean cosine, trained"].tolist() == [pytest.approx(0.2), pytest.approx(0.6), "+0.75"]


class Embedded(nn.Module):
    """A model of three words of the lengths 5, 1 and 0 and two token types."""

    def __init__(self, shared):
        super().__init__()
        self.embeddings = nn.Module()
        self.embeddings.word_embeddings = nn.Embedding.from_pretrained(torch.tensor([[3.0, 4], [0, 1], [0, 0]]))
        self.embeddings.token_type_embeddings = nn.Embedding.from_pretrained(torch.tensor([shared, [7.0, 7.0]]))


def test_embeddings_share_the_vector_of_the_token_type():
    states = {"trained": double([[1, 0], [1, 0]], [[1, 0], [0, 2]]), "control": double([[1, 0], [-1, 0]])}
    text = SimpleNamespace(
        networks={"trained": Embedded([0.0, 2.0]), "control": Embedded([3.0, 4.0])},
        states=states,
        bare=Embedded([0.0, 0.0]),
        bare_states=double([[1, 1], [1, 1]]),
    )
    found = cone._describe_embeddings(text)
    assert [each.shared_length for each in found.values()] == [5, 0, 2]
    assert found["trained"].cosines == pytest.approx([1, 0])
    assert [each.cosines[0] for each in found.values()] == pytest.approx([-1, 1, 1])
    assert found["control"].word_length == 2


def test_singular_values_are_over_the_root_of_the_tokens(monkeypatch):
    monkeypatch.setattr(heads.layer_profile, "singular_values", lambda stations: torch.arange(3.0) + stations)
    largest = np.array([[[2.0, 6], [8, 8]], [[9.0, 9], [3, 3]]])  # (text, layer, head)
    arrays = {
        network: {"largest": by * largest, "stable_rank": by * largest, "tokens": np.array([4, 9]) * by}
        for network, by in (("trained", 1), ("control", 2))
    }
    text = SimpleNamespace(stations={"trained": 0, "control": 10}, layers=(0, 2))
    found = heads.measure_spectra(text, arrays)
    assert {layer: [float(of[name]) for name in ("trained", "control")] for layer, of in found.drawn.items()} == {
        0: [0, 10],
        2: [2, 12],
    }
    assert found.largest["trained"][:, 0].tolist() == [2.5, 2.5]  # 4 / 2 and 9 / 3; 8 / 2 and 3 / 3
    assert found.largest["control"][:, 0].tolist() == [5, 5]
    assert found.stable_rank["trained"][:, 0].tolist() == [6.5, 5.5]
    assert found.rise["trained"].value == pytest.approx(0)


def test_ideal_gates_have_the_entropy_of_their_values():
    """One cell in 32 is 1; the identity hands on all values, a column or an even map one direction."""
    found = heads._measure_ideal_gates()
    two_values = -(1 / 32 * math.log(1 / 32) + 31 / 32 * math.log(31 / 32))
    for name in ("directional", "open (identity)"):
        assert (found[name].row_entropy, found[name].histogram_entropy) == pytest.approx((0, two_values))
    assert (found["closed (uniform)"].row_entropy, found["closed (uniform)"].histogram_entropy) == pytest.approx((1, 0))
    for name in ("closed (uniform)", "directional"):
        assert found[name].rank == pytest.approx(1)
    assert 3 < found["open (identity)"].rank < 8
    assert found["random softmax"].histogram_entropy > 2 > found["random softmax"].row_entropy > 0.8
    assert tables.ideal(found).loc["directional", "rank of S V"] == "1.0"


def test_entropies_are_means_over_heads_and_the_fewest_values_are_told(monkeypatch):
    monkeypatch.setattr(heads, "_measure_ideal_gates", dict)
    monkeypatch.setattr(heads.entropy, "histogram_entropy", lambda maps, bins: maps.amax((-2, -1)) * bins)
    arrays = {
        "trained": {
            name: np.array([[[0.1, 0.3]], [[0.5, 0.5]]]) * by for name, by in (("entropy", 1), ("histogram", 2))
        }
    }
    maps = torch.tensor([[[0.25, 0.25], [0.5, 0.0]], [[1.0, 0.0], [1.0, 0.0]]])
    text = SimpleNamespace(
        stations={"trained": [SimpleNamespace(attention=maps[:1]), SimpleNamespace(attention=maps)]}, middle=1
    )
    found = heads.measure_entropies(text, arrays)
    assert (found.row["trained"][0, 0], found.histogram["trained"][0, 0]) == pytest.approx((0.35, 0.7))
    assert found.by_bins[16]["trained"] == [8, 12]
    assert found.by_bins[256]["trained"] == [128, 192]
    assert found.distinct == 0.5
    assert tables.bins(found.by_bins).loc["4,096 bins, trained", "layer 1"] == 3072


@pytest.fixture
def effects():
    """Two texts, two layers of three heads: in layer 0 the sharpest head matters least, in layer 1 most."""
    effect = np.array([[[1.0, 2, 3], [4, 5, 6]]] * 2)
    entropy = np.array([[[0.1, 0.2, 0.3], [0.9, 0.8, 0.7]]] * 2)
    sink = np.array([[[0.5, 0.2, 0.9], [0.0, 0.6, 0.6]], [[0.5, 0.4, 0.3], [0.0, 0.8, 0.2]]])
    arrays = {"trained": {"effect": effect, "effect_entropy": entropy, "effect_sink": sink}}
    arrays["control"] = {"effect": -effect, "effect_entropy": entropy, "effect_sink": 0 * sink}
    return heads.measure_effects(arrays)


CHANCES = ((0.25, 0.75, 0.125), (0.125, 0.75, 0.25))
"""By layer; only the first and the last are spoken of."""


def test_effects_are_correlated_over_all_heads_and_within_layers(effects):
    # ranks of the entropies 1, 2, 3, 6, 5, 4: 1 - 6 (2^2 + 2^2) / (6 35); ties of depth: 1, 1, 1, 2, 2, 2
    assert effects.with_entropy["trained"].value == pytest.approx(1 - 48 / 210)
    assert effects.with_entropy["control"].value == pytest.approx(-1 + 48 / 210)
    assert effects.with_depth["trained"].value == pytest.approx(4.5 / (17.5 * 1.5) ** 0.5 * 1)
    assert [each.value for each in effects.within] == pytest.approx([1, -1])
    assert effects.chance == pytest.approx([1 / 3, 1 / 3], abs=0.03)  # two of six orders are as far from 0
    np.testing.assert_allclose(effects.sink, [[0.5, 0.3, 0.6], [0, 0.7, 0.4]])
    assert effects.is_sink.tolist() == [[False, False, True], [False, True, False]]
    assert effects.sink_places == {0: [1], 1: [2]}
    assert effects.means("entropy")["trained"][0].tolist() == pytest.approx([0.1, 0.2, 0.3])
    found = _phrase_heads(effects)
    assert (found.linked_all, found.linked_first) == ("0.77 [0.77, 0.77]", "1.00 [1.00, 1.00]")
    assert (found.linked_last, found.linked_deep_control) == ("−1.00 [−1.00, −1.00]", "−0.88 [−0.88, −0.88]")
    assert (found.ablated, found.ablated_tokens, found.sinks, found.heads) == (2, 96, 2, 3)
    assert found.sink_places == "1 (layer 0); 2 (layer 1)"
    by_chance = {layers: _phrase_heads(replace(effects, chance=list(layers))).chance_ends for layers in CHANCES}
    assert list(by_chance.values()) == ["25.0 %", "25.0 %"]
    written = tables.correlations(effects)
    assert written.loc["entropy, layer 1, trained"].tolist()[:2] == ["-1.00", "-1.00 to -1.00"]
    assert np.isnan(written.loc["depth, all heads, trained", "as far by chance"])


def test_chance_is_of_the_mean_over_texts():
    """Two texts of which one says the opposite: the mean correlation is 0, and every order is as far from it."""
    effect = np.array([[1.0, 2, 3], [3, 2, 1]])
    assert heads.share_by_chance(effect, np.array([[1.0, 2, 3], [1, 2, 3]])) == 1
    # correlations 1 and 1/2, the mean 3/4: of six orders four have a mean as far from 0
    differing = heads.share_by_chance(np.array([[1.0, 2, 3], [1, 3, 2]]), np.array([[1.0, 2, 3], [1, 2, 3]]))
    assert differing == pytest.approx(4 / 6, abs=0.03)
    both = heads.share_by_chance(effect, effect)
    assert both == pytest.approx(1 / 6 + 1 / 6, abs=0.03)


def test_silenced_heads_are_joined_with_the_entropies_of_the_census(monkeypatch):
    zero = np.array([[[1.0, 2], [3, 4]], [[3, 4], [5, 6]]])  # means 2, 3, 4, 5
    table = record(zero=zero, uniform=-zero)
    entropy = np.array([[1.0, 2], [3, 4]])
    monkeypatch.setattr(heads, "live_or_record", lambda name, inputs, recompute: (table, name))
    monkeypatch.setattr(heads, "load", lambda name: record(entropy=entropy))
    monkeypatch.setattr(heads, "correlate_heads", lambda effect, entropy: Interval(effect[0], entropy[-1], -0.125))
    given = []

    def within(effect, entropy):
        given.append((effect.tolist(), entropy.tolist()))
        shuffled = Interval(-0.5, -1.0, 0.25)
        return SimpleNamespace(value=0.5, by_layer=np.array([0.25, -0.75]), chance=0.125, shuffled=shuffled)

    monkeypatch.setattr(heads, "correlate_within_layers", within)
    found = heads.measure_silenced(None)
    assert given == [([[2, 3], [4, 5]], [[1, 2], [3, 4]])]
    assert found.zero == Interval(2, 4, -0.125)
    assert found.depth == pytest.approx(4 / 20**0.5)  # ranks 1 to 4 with 1.5, 1.5, 3.5, 3.5: 0.894
    assert (found.depth_phrase, found.largest) == ("+0.89", 5)
    assert (found.zero_phrase, found.uniform_phrase) == ("+2.00 [+4.00, −0.12]", "−2.00 [+4.00, −0.12]")
    assert (found.shuffled_phrase, found.within_phrase) == ("−0.50 [−1.00, +0.25]", "+0.50")
    assert (found.within_low, found.within_high, found.within_chance) == ("−0.75", "+0.25", 0.125)


def test_the_interval_of_heads_holds_the_correlation():
    rising = np.arange(20.0)
    found = heads.correlate_heads(rising, np.r_[rising[:18], 19, 18])
    assert found.value == pytest.approx(1 - 6 * 2 / (20 * 399))
    assert 0.9 < found.low <= found.value <= found.high <= 1


def test_the_classifiers_measures_are_means_by_layer(monkeypatch):
    given = {name: np.arange(4.0).reshape(2, 2) + k for k, name in enumerate(released.NAMES)}
    given["entropy"] = given["entropy"][..., None] + [0.0, 2.0]
    given |= {f"control_{name}": -values for name, values in given.items()}
    monkeypatch.setattr(released, "live_or_record", lambda *_, **__: (record(**given), ""))
    monkeypatch.setattr(released.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(released, "load", lambda name: SimpleNamespace(width=4))
    monkeypatch.setattr(released, "critical_value", {4: 0.375}.__getitem__)
    found = released.measure_classifier(None)
    assert (found.critical, found.trained["first_failing"].tolist()) == (0.375, [1, 2])
    assert found.trained["entropy"].tolist() == [1 + 6 + 1, 2 + 6 + 1]
    assert found.control["cosine"].tolist() == [-5, -6]


def test_the_codes_index_is_the_number_of_rows_times_their_resultant(monkeypatch):
    names = {"trained/failing": [[0.5, 0.7], [0.7, 0.9]], "trained/code_failing": [[0.1, 0.2], [0.3, 0.2]]}
    names["trained/mean_value_entropy"] = np.array([[3.0, 2, 1], [1, 3, 2]])[..., None] + [-0.5, 0.5]
    monkeypatch.setattr(released, "live_or_record", lambda *_, **__: (record(**names), ""))
    gates = {"closed": MapEntropies(0.25, 1, 1)}
    noise = {0.1: MapEntropies(9, 9, 9), 0.01: MapEntropies(2.5, 1, 1)}
    monkeypatch.setattr(released.released_code, "measure_gates", lambda: gates)
    monkeypatch.setattr(released.released_code, "measure_noise", lambda: noise)
    keys = np.array([[1.0, 2, 9], [5, 5, 6]])
    monkeypatch.setattr(released.released_code, "load_authors_outputs", lambda: SimpleNamespace(minimal_keys=keys))
    states = torch.tensor([[[9.0, 9], [1, -1], [1, 1]], [[3.0, 0], [0, 4], [5, 0]], [[1.0, 0], [5, 0], [2, 0]]])
    text = SimpleNamespace(states={"trained": states})
    found = released.measure_released(text, None)
    assert (found.closed, found.faint, found.tokens, found.padding) == ("0", "2.5", 427, 85)
    assert found.index_error < 1e-12
    assert found.failing["own"].tolist() == pytest.approx([0.6, 0.8])
    assert found.failing["coded"].tolist() == pytest.approx([0.2, 0.2])
    assert found.value_rises.tolist() == pytest.approx([-1, 0.5])
    assert found.minimal_keys.tolist() == [2, 5]
    monkeypatch.setattr(released.code, "cone_index", lambda rows: rows.norm(dim=-1).sum(-1))  # lengths: 12 and 8
    found = released.measure_released(text, None)
    assert found.index_error == pytest.approx(max(12 / 5**0.5, 8 / 3) - 1)


def test_phrases_of_the_ladder_are_means_over_layers_and_seeds():
    def ladder(documents, **by):
        values = np.array(documents, float)
        factors = {rung: by.get(rung.split()[-1], 1.0) for rung in LADDER}
        return DocumentLadder(
            values, {rung: np.stack([values[0] * by, values[0] * by * 3]) for rung, by in factors.items()}
        )

    half = [[0.1, 0.3], [0.3, 0.5]]
    measures = {name: ladder(half) for name in controls.PLACES}
    measures["plain rows that fail"] = ladder(half, permuted=0.25, large=0.75)
    measures["largest singular value"] = ladder([[1.0, 5, 4], [2, 6, 7]])
    measures["row entropy"] = ladder([[0.9, 0.4], [0.9, 0.8]], large=0.5, permuted=0.25)
    found = controls.phrase_rungs(Rungs("", measures))
    assert (found.plain_trained, found.plain_permuted, found.rows_permuted) == ("30 %", "10 %", "40 %")
    assert found.plain_random == "30 %"
    assert (found.climb_trained, found.climb_large, found.climb_permuted) == (
        "0.20 to 0.40",
        "0.20 to 0.60",
        "0.20 to 0.60",
    )
    assert (found.sigma_trained, found.sigma_large) == ("1.50 to 5.50", "2.00 to 8.00")
    assert found.sigma_dip == "50 %"
    assert (found.entropy_trained, found.entropy_sharp, found.entropy_permuted) == ("0.60", "0.40", "0.20")
    assert {LARGE, PERMUTED, SHARP} < set(LADDER)


def test_lengths_and_outliers_are_told_apart():
    trained = {
        "first_failing": np.array([[0.1, 0.3], [0.6, 0.8]]),
        "bare_failing": np.zeros((2, 2)),
        "D_sum": np.ones((2, 2)),
    }
    found = tables.lengths(trained, np.array([True, False]), 4)
    assert found.loc["more than 4 tokens, 1 texts", "rows that fail"] == pytest.approx(0.2)
    assert found.loc["4 or fewer, 1 texts", "rows that fail"] == pytest.approx(0.7)
    given = {}
    for kind in ("first", "bare"):
        given |= {f"{kind}_size": np.array([[1.0, 3, 2]]), f"{kind}_outliers": [2 if kind == "first" else 0]}
        given |= {f"{kind}_kurtosis": [9.0], f"{kind}_kurtosis_kept": [0.5]}
    found = tables.outliers(given)
    assert found.loc["with gain and bias, layer 0"].tolist() == ["1, 2", 9, 0.5]
    assert found.loc["plain, layer 0", "coordinates"] == "none"


def test_the_last_layer_falls_back_in_a_third_of_the_documents():
    def falling(documents):
        changed = np.tile(np.arange(documents.shape[1], dtype=float), (len(documents), 1))
        changed[: len(documents) // 3, -1] = 0
        return changed

    forged = forge(measurement("bert_normality"), {"rungs.measures.largest singular value.documents": falling})
    assert "the last layer falls back in 33%" in claims.singular_values_rise(forged).more
