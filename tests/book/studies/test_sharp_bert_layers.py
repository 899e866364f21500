"""Ranks, stacks, heads and rows of a BERT, computed once more by other means."""

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from analysis.core.weights import MlpWeights
from analysis.transformer.encoder import random_layers, run_layer
from book.studies.bert_normality import cone, heads, released, sums
from book.studies.bert_rank import controls, stacks, statements, switches
from tests.book.studies.known import double, plain, record

# ---- rank: statements


def test_every_small_matrix_is_centred_and_counted_once_more():
    """The same counts from the ranks of floating-point matrices."""
    found = statements.try_centring([(2, 2), (2, 3), (3, 2)])
    counts = dict.fromkeys(("inside", "outside", "wide", "losing", "keeping", "gaining"), 0)
    for rows, columns in ((2, 2), (2, 3), (3, 2)):
        for entries in itertools.product((0.0, 1.0), repeat=rows * columns):
            X = np.reshape(entries, (rows, columns))
            if (X.min(1) == X.max(1)).any():
                continue
            change = np.linalg.matrix_rank(X - X.mean(1, keepdims=True)) - np.linalg.matrix_rank(X)
            solved = np.linalg.lstsq(X.T, np.ones(columns), rcond=None)[0]
            inside = bool(np.allclose(X.T @ solved, 1))
            counts["inside" if inside else "outside"] += 1
            counts["wide"] += inside and rows < columns
            counts["losing"] += inside and change == -1
            counts["keeping"] += not inside and change == 0
            counts["gaining"] += change > 0
    assert vars(found) == counts
    assert min(counts["inside"], counts["outside"], counts["wide"]) > 0


def test_the_matrices_that_are_tried_are_small_ones_of_few_entries(monkeypatch):
    asked = []

    def small_matrices(shapes, entries):
        asked.append((shapes, entries))
        return [np.ones(shapes[0], dtype=int)]

    monkeypatch.setattr(statements, "small_matrices", small_matrices)
    monkeypatch.setattr(
        statements, "first_counterexample", lambda rule, *matrices: [next(iter(each)) for each in matrices]
    )
    monkeypatch.setattr(statements, "rule_for_sums", lambda A, B: A.shape != (2, 2))
    found = statements.find_examples()
    signs = (-1, 0, 1)
    assert asked == [
        ([(1, 2), (2, 2), (3, 3)], (0, 1)),
        ([(2, 2), (3, 3)], (0, 1, 2)),
        *[([(1, 1)], (0, 1))] * 3,
        *[([(2, 2)], signs)] * 2,
        *[([(2, 3)], (0, 1))] * 2,
        *[([shape], signs) for shape in ((2, 2), (2, 1), (1, 2))],
    ]
    assert (found.pairs, found.pairs_failing, found.triples) == (2, 1, 1)
    assert (found.lost_ranks, found.gained_ranks) == ((1, 0), (1, 0))  # of ones, whose means are 1
    monkeypatch.undo()
    lost = [[0, 1], [0, 2]]  # gains a rank when the means of rows are taken off columns
    assert not statements.rank_grows_by_less_than_one(np.array(lost))
    assert statements.rank_grows_by_less_than_one(np.array([[0, 1], [0, 1]]))
    assert statements.rank_grows_by_less_than_one(np.array([[1, 1], [0, 1]]))  # a constant row has no LayerNorm


def test_updates_are_counted_by_how_far_the_rank_falls(monkeypatch):
    """Ranks are said to be the first entry: A = 5 falls by 2 or rises by 2, as x y is."""
    monkeypatch.setattr(statements, "exact_rank", lambda matrix: matrix[0, 0])
    steps = {(2, 2): [5], (2, 1): [-2, -1, 1, 2], (1, 2): [1]}
    monkeypatch.setattr(
        statements, "small_matrices", lambda shapes, entries: [np.array([[k]]) for k in steps[shapes[0]]]
    )
    monkeypatch.setattr(statements, "printed_rule_for_updates", lambda A, x, y: x[0, 0] == -2)
    monkeypatch.setattr(statements, "rule_for_updates", lambda A, x, y: x[0, 0] != 1)
    assert statements.try_updates() == {
        "triples": 4,
        "triples_failing": 1,
        "printed_failing": 3,
        "falls_by_more": 1,  # -2
        "drops_outside": 1,  # of -1, 1 and 2
    }


# ---- rank: one layer, and the ladder


def test_one_layer_is_measured_for_every_gain_and_with_scores_by_distance(monkeypatch):
    changes = []
    monkeypatch.setattr(stacks, "attend_with", lambda **change: changes.append(change))
    monkeypatch.setattr(stacks, "run_with", lambda chosen: chosen)

    def residuals(sizes, seed, run, gain, device):
        power = 1 if run == stacks.WITH_SKIP else 3
        return sizes**power * gain * math.exp(seed - 2) if power == 1 else sizes**power

    monkeypatch.setattr(stacks, "residuals_after_a_layer", residuals)
    found = stacks.measure_one_layer(torch.device("cpu"))
    np.testing.assert_allclose(found.sizes, [10 ** (-1 - k / 2) for k in range(7)])
    assert found.slope_by_gain == pytest.approx(dict.fromkeys(stacks.GAINS, 3))
    assert {gain: each.value for gain, each in found.log_factor.items()} == pytest.approx(
        {gain: math.log(gain) for gain in stacks.GAINS}
    )
    assert found.after["with skip"][:, 0].tolist() == pytest.approx([0.1 * math.exp(k - 2) for k in range(5)])
    assert (found.kept_residual, found.kept_rank) == (pytest.approx(0.75**0.5), 4)
    assert tuple(found.to_itself.W_Q.shape) == (1, 4, 4)
    mask, distance, _ = changes
    assert mask["mask"].causal
    table = distance["positions"].table
    assert table.shape == (stacks.HEADS, stacks.ROWS, stacks.ROWS)
    assert table[0, 3, :5].tolist() == table[-1, 3, :5].tolist() == [-3, -2, -1, 0, -1]


def test_a_mean_row_is_shrunk_by_what_attention_adds_with_its_biases():
    """Two equal rows attend to their mean: the skipped row plus its value with bias, through W_O, plus b_O."""
    attention = plain(2, W_V=double([2, 0], [0, 3]), b_V=double(1, -1), W_O=double([1, 1], [0, 1]), b_O=double(0, 4))
    (drawn,) = random_layers(1, 1, 2, generator=torch.Generator().manual_seed(0))
    layer = replace(drawn, attention=attention)
    x = double([3, 1], [5, 3])  # mean (4, 2): values (8, 6) + (1, -1) = (9, 5), written (9, 14) + (0, 4)
    expected, seen = controls._shrink(x, layer).tolist()
    assert expected == pytest.approx(math.hypot(4, 2) / math.hypot(13, 20))
    spread = lambda rows: ((rows - rows.mean(0)).norm() / rows.norm()).item()  # noqa: E731
    assert seen == pytest.approx(spread(x + double(9, 18)) / spread(x))


def test_a_linear_map_is_a_ridge_regression_on_what_the_mlp_reads(monkeypatch):
    monkeypatch.setattr(controls, "run_layer", lambda x, layer: SimpleNamespace(first=x))
    monkeypatch.setattr(controls, "apply_mlp", lambda rows, mlp: rows.square() + 5)
    monkeypatch.setattr(controls, "RIDGE", 0.5)
    x = double([1, 0], [2, 5], [6, 3], [0, -2])
    mlp = MlpWeights(torch.eye(2).double(), double(0, 0), torch.eye(2).double(), double(0, 0))
    (fit,) = controls.fit_mlps(SimpleNamespace(layers=[SimpleNamespace(mlp=mlp)], states=[[x[:1]], [x[1:]]]))
    read, written = x.numpy() - x.numpy().mean(0), x.numpy() ** 2 - (x.numpy() ** 2).mean(0)
    ridge = 0.5 * np.square(read).sum() / 2  # half of the mean squared length of a column
    stretched = np.vstack([read, ridge**0.5 * np.eye(2)])
    slopes = np.linalg.lstsq(stretched, np.vstack([written, np.zeros((2, 2))]), rcond=None)[0]
    np.testing.assert_allclose(fit.map.W_in @ fit.map.W_out, slopes)
    np.testing.assert_allclose(fit.map.b_out, (x.numpy() ** 2 + 5).mean(0) - x.numpy().mean(0) @ slopes)


def test_viewers_start_with_the_whole_model():
    shape = (*switches.SHAPE, 2)
    settings = switches.last_residuals(
        record(trained=np.zeros(shape), controls=np.zeros((len(switches.RUNGS), 1, *shape)))
    )
    assert settings.start() == {"of": "model", "skip": 1, "mlp": 2, "norm": 1, "gain": 1}
    shown = cone.Directions(np.zeros((2, 3, 3)), ("a", "b")).start()
    assert shown == {"network": 2, "text": 0, "layer": 0, "row": 3, "look": "angles", "yaw": 30, "pitch": 20}


def test_every_setting_traces_every_text_with_its_own_stack(monkeypatch):
    """A residual tells the text, the gain and the parts; below the floor it is the floor."""
    layers = random_layers(3, 2, 4, generator=torch.Generator().manual_seed(0))
    layers = [
        replace(
            layer,
            norm_attention=replace(layer.norm_attention, gain=double(1, 1, 1, 3)),
            norm_mlp=replace(layer.norm_mlp, gain=double(1, 1, 1, 3)),
        )
        for layer in layers
    ]
    seen = []

    def residuals(x, stack, chosen):
        gains = {layer.norm_mlp.gain[-1].item() for layer in stack} | {
            layer.norm_attention.gain[-1].item() for layer in stack
        }
        (gain,) = gains
        seen.append((float(x), gain, chosen))
        return double(1, 1e-2, 1e-4, 1e-20) * x / gain

    monkeypatch.setattr(switches, "trace_residual", residuals)
    found = switches.trace([double(1.0)[0], double(1e-2)[0]], layers)
    assert found.shape == (2, 3, 2, 2, 4)
    for skip, mlp, norm, gain in np.ndindex(2, 3, 2, 2):
        of = math.log10(3) if norm and gain else 0.0
        assert found[skip, mlp, norm, gain] == pytest.approx([-1 - of, -3 - of, -5 - of, -13])
    # each of the twelve sets of parts with plain gains, and the six with LayerNorm with the model's own, on two texts
    assert len(seen) == 2 * (12 + 6)
    assert sum(chosen.norm_mlp and chosen.norm_attention for *_, chosen in seen) == 2 * (6 + 6)
    assert sum(gain == 3 for _, gain, _ in seen) == 2 * 6


def test_a_run_of_a_layer_is_what_the_reader_of_the_stack_reads():
    """The mean of GELU and the share below zero of a layer's hidden rows are over all texts together."""
    (layer,) = random_layers(1, 2, 4, generator=torch.Generator().manual_seed(1))
    texts = [torch.randn(n, 4, generator=torch.Generator().manual_seed(n), dtype=torch.float64) for n in (2, 5)]
    found = stacks.measure_hidden_rows(SimpleNamespace(layers=[layer], states=[x[None] for x in texts]))
    z = torch.cat([run_layer(x, layer).first for x in texts]).numpy() @ layer.mlp.W_in.numpy() + layer.mlp.b_in.numpy()
    g = z * np.vectorize(lambda at: 0.5 * (1 + math.erf(at / 2**0.5)))(z)
    due = [g.mean(), (z < 0).mean(), *(np.linalg.norm(v - v.mean(0)) / np.linalg.norm(v) for v in (z, g))]
    assert found.tolist() == [pytest.approx(due)]


# ---- normality: heads, sums and the cone


def test_chances_and_intervals_are_those_of_the_generators_draws(monkeypatch):
    monkeypatch.setattr(heads, "DRAWS", 60)
    monkeypatch.setattr(heads, "RESAMPLES", 50)
    drawn = np.random.default_rng(5)
    effect, sharpness = drawn.random((3, 6)), drawn.random((3, 6))

    def linked(order):
        return np.mean([spearmanr(e[order], s).statistic for e, s in zip(effect, sharpness, strict=True)])

    generator = np.random.default_rng(0)
    own = abs(linked(np.arange(6)))
    due = np.mean([abs(linked(generator.permutation(6))) > own - 1e-9 for _ in range(60)])
    assert heads.share_by_chance(effect, sharpness) == pytest.approx(due)
    found = heads.correlate_heads(effect[0], sharpness[0])
    picked = np.random.default_rng(0).integers(6, size=(50, 6))
    draws = sorted(spearmanr(effect[0][each], sharpness[0][each]).statistic for each in picked)
    low, high = (np.interp(share * 49, np.arange(50), draws) for share in (0.025, 0.975))
    assert found == pytest.approx((spearmanr(effect[0], sharpness[0]).statistic, low, high))


def test_ideal_gates_hand_on_what_they_hand_on_of_the_same_values():
    found = heads._measure_ideal_gates()
    values = torch.randn(32, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64).numpy()
    noise = torch.randn(32, 32, generator=torch.Generator().manual_seed(0)).double().numpy()
    soft = np.exp(noise) / np.exp(noise).sum(1, keepdims=True)

    def rank(rows):
        size = np.linalg.svd(rows, compute_uv=False)
        return np.square(size).sum() / size[0] ** 2

    assert found["open (identity)"].rank == pytest.approx(rank(values))
    assert found["random softmax"].rank == pytest.approx(rank(soft @ values))
    assert found["random softmax"].row_entropy == pytest.approx(-(soft * np.log(soft)).sum(1).mean() / math.log(32))
    assert abs(found["backward"].rank - rank(values)) < 0.5  # all rows but one


def test_the_sum_of_independent_rows_is_stretched_to_lie_between_0_and_1(monkeypatch):
    tested = []
    monkeypatch.setattr(
        sums, "kstest", lambda sample, against: tested.append((sample, against)) or SimpleNamespace(pvalue=len(tested))
    )
    found = sums._sum_independent(5, 40)
    generator = np.random.default_rng(0)
    for rows, (sample, against), (name, test) in zip(
        (generator.standard_normal((5, 40)), generator.uniform(-1, 1, (5, 40))), tested, found.items(), strict=True
    ):
        total = rows.sum(0)
        assert against == "uniform"
        assert sample.tolist() == pytest.approx(np.interp(total, [total.min(), total.max()], [0, 1]))
        assert test.p_uniform == {"Gaussian": 1, "uniform": 2}[name]


def test_axes_are_turned_to_those_of_the_state_before_and_not_of_the_first():
    """Rows that turn by a third of a right angle at each state: each step is turned back to the first rows."""
    start = np.array([[2.0, 0.0], [0.0, 1.0], [-2.0, -1.0]])
    own = np.array([[1.0, 0.5], [0.2, 0.1], [0.3, 0.2]])
    states = []
    for k in range(4):
        angle = 1.1 * k
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        rows = start + 0.5 * k * own
        states.append(np.concatenate([np.full((3, 1), 0.1 * k), rows @ turn], 1))
    found = cone.align(torch.tensor(np.stack(states)))
    assert found[:, 0, 0].tolist() == pytest.approx([0, 0.1, 0.2, 0.3])
    for k in range(1, 4):
        before, here = found[k - 1, :, 1:].numpy(), states[k][:, 1:]
        angles = np.linspace(0, 2 * np.pi, 20001)
        turns = np.array([[np.cos(angles), np.sin(angles)], [-np.sin(angles), np.cos(angles)]]).transpose(2, 0, 1)
        mirrored = turns @ np.diag([1.0, -1.0])
        tried = np.concatenate([here @ turns, here @ mirrored])
        best = np.square(tried - before).sum((1, 2)).min()
        assert np.square(found[k, :, 1:].numpy() - before).sum() == pytest.approx(best, abs=1e-5)


def test_rows_are_placed_along_their_mean_and_its_two_widest_directions():
    rows = torch.randn(9, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64) + double(2, 0, 0, 1, 0)
    unit = rows.numpy() / np.linalg.norm(rows.numpy(), axis=1, keepdims=True)
    axis = unit.mean(0) / np.linalg.norm(unit.mean(0))
    rest = unit @ (np.eye(5) - np.outer(axis, axis))
    size, directions = np.linalg.eigh(rest.T @ rest)
    across = rest @ directions[:, [-1, -2]]
    assert size[-1] > size[-2] * 1.01
    found = cone.place(rows).numpy()
    np.testing.assert_allclose(found[:, 0], unit @ axis)
    np.testing.assert_allclose(abs(found[:, 1:]), abs(across), atol=1e-12)
    assert (np.take_along_axis(found[:, 1:], abs(found[:, 1:]).argmax(0)[None], 0) > 0).all()


def test_an_index_of_half_the_length_is_as_wrong_as_one_of_one_and_a_half(monkeypatch):
    names = ("trained/failing", "trained/code_failing")
    given = {name: [[0.5]] for name in names} | {"trained/mean_value_entropy": [[[1.0], [2.0]]]}
    monkeypatch.setattr(released, "live_or_record", lambda *_, **__: (record(**given), ""))
    one = SimpleNamespace(whole=1.0)
    monkeypatch.setattr(released.released_code, "measure_gates", lambda: {"closed": one})
    monkeypatch.setattr(released.released_code, "measure_noise", lambda: {0.5: one})
    authors = SimpleNamespace(minimal_keys=np.array([[1.0, 2, 30]]))
    monkeypatch.setattr(released.released_code, "load_authors_outputs", lambda: authors)
    text = SimpleNamespace(states={"trained": torch.tensor([[[9.0, 9], [9, 9]], [[1.0, 0], [0, 2]]])})
    for factor in (0.5, 1.5):
        monkeypatch.setattr(released.code, "cone_index", lambda rows, by=factor: by * double(2**0.5))
        assert released.measure_released(text, None).index_error == pytest.approx(0.5)
    assert released.measure_released(text, None).minimal_keys.tolist() == [2]
