"""Section 5's numbers of one text: each against its definition, padding in and out, refusals."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from analysis.core.attention_layer import Norm
from analysis.maps import entropy
from analysis.statistics import normality
from analysis.transformer.encoder import EncoderLayer, random_layers, run_layer
from analysis.transformer.layernorm import normalise
from book.lab.mathematics import layer_profile
from tests.analysis.tiny import draw

N, MODEL, HEADS = 9, 12, 3


def stack_of(depth=2):
    """Layers whose gain and bias are not trivial."""
    layers = random_layers(depth, HEADS, MODEL, generator=torch.Generator().manual_seed(1))
    norm = Norm(1 + 0.5 * draw(MODEL, seed=2), 0.3 * draw(MODEL, seed=3), 1e-12)
    return [EncoderLayer(layer.attention, norm, layer.mlp, norm) for layer in layers]


def run(x, keep=None):
    passed = []
    for layer in stack_of():
        passed.append(run_layer(x, layer, keep=keep))
        x = passed[-1].second
    return passed


def pad(rows, filling):
    return torch.cat([rows, filling]), torch.arange(len(rows) + len(filling)) < len(rows)


def test_padding_left_out_is_the_text_without_padding():
    plain = layer_profile.measure(run(draw(N, MODEL)))
    for filling in (draw(5, MODEL, seed=7), 100 * draw(30, MODEL, seed=8)):
        x, keep = pad(draw(N, MODEL), filling)
        found = layer_profile.measure(run(x, keep), keep)
        assert found.keys() == plain.keys()
        for name, value in plain.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-12, err_msg=name)


def test_padding_counted_in_is_the_sum_over_all_rows():
    x, keep = pad(draw(N, MODEL), draw(1, MODEL, seed=7).expand(20, MODEL))
    passed = run(x, keep)
    inside, outside = layer_profile.measure(passed, keep, padding=True), layer_profile.measure(passed, keep)
    assert inside["rows"].tolist() == [29]
    assert outside["rows"].tolist() == [9]
    for layer, stations in enumerate(passed):
        total = stations.second.sum(0)
        assert inside["cone"][layer] == pytest.approx(total.norm().item())
        assert inside["D_sum"][layer] == pytest.approx(normality.lilliefors(total[None]).item())
        assert inside["cosine"][layer] > outside["cosine"][layer] + 0.2  # twenty equal rows
        spread = -(stations.attention[..., :N] * stations.attention[..., :N].log()).sum(-1) / math.log(N)
        np.testing.assert_allclose(inside["entropy"][layer], spread.mean(-1))
        np.testing.assert_allclose(inside["sink"][layer], stations.attention[..., [0, N - 1]].sum(-1).mean(-1))
    assert not np.allclose(inside["D_total"], outside["D_total"])


def statistic(v):
    return stats.kstest(v, "norm", args=(v.mean(), v.std(ddof=1))).statistic


def test_numbers_are_those_of_their_definitions():
    passed = run(draw(N, MODEL))
    found, rows = layer_profile.measure(passed), layer_profile.row_statistics(passed)
    total = sum(s.second for s in passed).sum(0).numpy()
    bare = [normalise(s.before_second).numpy() for s in passed]
    due = [statistic(total), statistic(sum(bare).sum(0))]
    np.testing.assert_allclose([found["D_total"][0], found["D_total_bare"][0]], due)
    assert found["mean_total"][0] == pytest.approx(total.mean() / total.std(ddof=1))
    assert abs(found["mean_total_bare"][0]) < 1e-12
    for layer, s in enumerate(passed):
        due = list(map(statistic, s.first.numpy()))
        np.testing.assert_allclose(rows["first"][layer], due)
        assert found["first_failing"][layer] == pytest.approx((np.array(due) > normality.critical_value(MODEL)).mean())
        unit = (s.second / s.second.norm(dim=1, keepdim=True)).numpy()
        assert found["resultant"][layer] == pytest.approx(np.linalg.norm(unit.mean(0)))
        assert found["cone_bare"][layer] == pytest.approx(np.linalg.norm(bare[layer].sum(0)))
        second = s.second.numpy()
        for name, rows_ in (("", second), ("_bare", bare[layer])):
            units = rows_ / np.linalg.norm(rows_, axis=1, keepdims=True)
            cosine = (np.square(units.sum(0)).sum() - N) / (N * (N - 1))
            assert found[f"resultant{name}"][layer] == pytest.approx(np.linalg.norm(units.mean(0)))
            assert found[f"cosine{name}"][layer] == pytest.approx(cosine)
            assert found[f"D_sum{name}"][layer] == pytest.approx(statistic(rows_.sum(0)))
        assert found["D_sum_unit"][layer] == pytest.approx(statistic(unit.sum(0)))
        lengths = np.linalg.norm(second, axis=1)
        assert found["ratio"][layer] == pytest.approx(np.linalg.norm(second.sum(0)) / lengths.sum())
        np.testing.assert_allclose(found["histogram"][layer], entropy.histogram_entropy(s.attention, 256))
        np.testing.assert_allclose(found["sink"][layer], s.attention[..., [0, N - 1]].sum(-1).mean(-1))
        due = np.linalg.svd((s.attention @ s.values).numpy(), compute_uv=False)
        np.testing.assert_allclose(found["largest"][layer], due[:, 0])
        np.testing.assert_allclose(found["stable_rank"][layer], (due**2).sum(-1) / due[:, 0] ** 2)
        np.testing.assert_allclose(layer_profile.singular_values(passed)[layer] * N**0.5, due, atol=1e-7)
    before = normality.lilliefors(torch.stack([s.before_first for s in passed]))
    torch.testing.assert_close(rows["bare"], before)  # LayerNorm's core does not change it; gain and bias do
    assert (rows["first"] - before).abs().mean() > 0.01


def test_extreme_coordinates_are_dropped_from_a_sum():
    layer = stack_of(1)[0]
    wide = random_layers(1, 2, 64, generator=torch.Generator().manual_seed(0))[0]
    x = draw(20, 64)
    x[:, 5] += 30
    found = layer_profile.measure([run_layer(x, wide)])
    assert found["dropped"].tolist() == [1]
    total = run_layer(x, wide).second.sum(0)
    rest = torch.cat([total[:5], total[6:]])
    assert found["D_sum_kept"][0] == pytest.approx(normality.lilliefors(rest).item())
    assert found["D_sum_kept"][0] < found["D_sum"][0] - 0.02
    assert layer_profile.measure([run_layer(draw(N, MODEL), layer)])["dropped"].tolist() == [0]


def test_outstanding_coordinates_are_found_over_texts():
    rows = draw(30, 50)
    rows[:, 3] = 12 * rows[:, 3].sign()
    rows[0, 7] = 5
    rows[0] *= 1000  # one long row must not name the coordinate that is large in it alone
    found = layer_profile.outstanding([rows, draw(30, 50, seed=0)], [10, 20])
    assert found["outliers"].tolist() == [1, 0]
    assert found["size"].shape == (2, 50)
    assert found["size"][0].argmax() == 3
    assert normality.outlier_dimensions(rows).tolist() == [3]
    standard = (rows.numpy() - rows.numpy().mean(1, keepdims=True)) / rows.numpy().std(1, keepdims=True)
    np.testing.assert_allclose(found["size"][0], np.sqrt(np.square(standard).mean(0)))
    assert found["kurtosis"][0] > 5
    assert abs(found["kurtosis_kept"][0]) < 1
    cut = normality.critical_value(49)
    without = np.delete(rows.numpy(), 3, axis=1)
    failed = [statistic(v) > cut for v in without]
    np.testing.assert_allclose(found["failing_kept"][:, 0], [np.mean(failed[:10]), np.mean(failed[10:])])


@pytest.mark.usefixtures("unchecked")
def test_refusals():
    passed = run(draw(N, MODEL))
    with pytest.raises(ValueError, match="no layer"):
        layer_profile.measure([])
    with pytest.raises(ValueError, match="keep must be a bool"):
        layer_profile.measure(passed, torch.ones(N))
    with pytest.raises(ValueError, match="keep must be a bool"):
        layer_profile.measure(passed, torch.ones(N + 1, dtype=torch.bool))
    with pytest.raises(ValueError, match="no position"):
        layer_profile.measure(passed, torch.zeros(N, dtype=torch.bool))
    with pytest.raises(ValueError, match="two rows"):
        layer_profile.measure(passed, torch.arange(N) < 1)
