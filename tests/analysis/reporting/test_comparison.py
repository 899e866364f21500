"""What a report calls unusual: nothing of a model that was never trained, and what was planted in one."""

import json
import re
from html import escape

import numpy as np
import pytest
import torch
from scipy.stats import t as student

import analysis
from analysis.reporting import comparison
from analysis.reporting.comparison import HEADS, LAYERS, compare, measure_heads, say_layers, spreads_away
from analysis.reporting.measurement import Measurement
from analysis.reporting.observations import OF_HEADS, Observations, draw_repeats, read_repeats
from analysis.reporting.parameters import late_over_early
from analysis.reporting.summary import statements
from tests.analysis.reporting.random_models import TEN, make_random, plant_previous_token, save

SENTENCE = "Every row of an attention map sums to one, whatever the scores of the row are, and so does row {0} of {0}."
LEVELS = "random", "random, as large", "permuted"


def write_texts(folder, count=2):
    path = folder / "texts.txt"
    path.write_text("\n\n".join(SENTENCE.format(number) for number in range(count)))
    return path


@pytest.mark.slow
def test_a_report_names_no_structure_in_models_that_were_never_trained(tmp_path):
    """Of twenty statements that ten reports could make at most one may be false; there are hundreds of comparisons."""
    made = possible = 0
    for number, (kind, options) in enumerate(TEN):
        folder = save(make_random(kind, seed=100 + number, **options), tmp_path / f"model-{number}")
        page = analysis.report(folder, out=tmp_path / f"out-{number}", texts=write_texts(tmp_path), longest=48)
        said, text = json.loads(page.with_name("report.json").read_text())["unusual"], page.read_text()
        made, possible = made + len(said), possible + len(LAYERS) + 1
        if not said:
            assert "<p>Nothing. In" in text
            assert "Attention is uniform" in text or options.get("initializer_range", 0.02) > 0.02
            for words in ("than in all controls", "heads do more of something", "most heads", "prefers distance"):
                assert words not in text, f"{kind} {options}: {words}"
            assert "0.00 nats" not in text
    assert made <= possible / 20, f"{made} false statements of {possible}"


@pytest.mark.slow
def test_a_report_names_the_head_that_was_planted_and_no_other(tmp_path):
    model = make_random("GPT2Config", seed=7, n_embd=64, n_layer=2, n_head=4, n_positions=128)
    plant_previous_token(model)
    page = analysis.report(save(model, tmp_path / "it"), out=tmp_path / "out", texts=write_texts(tmp_path), longest=48)
    said = json.loads(page.with_name("report.json").read_text())["unusual"]
    heads = [sentence for sentence in said if " heads" in sentence]
    assert re.match(r"Attention to the position before in 1 of 8 heads: layer 1, head 1 \(", heads[0])
    assert set(re.findall(r"layer \d+, head \d+", " ".join(heads))) == {"layer 1, head 1"}
    shown = re.sub("</?strong>", "", page.read_text())
    assert all(escape(sentence) in shown for sentence in heads)


def seen(seed: int, layers: int = 6, heads: int = 4, **shift: float) -> Observations:
    """Return random observations of one text; ``shift`` moves a quantity of head 0 in layer 2."""
    generator = np.random.default_rng(seed)
    observed = Observations.empty(layers, heads)
    observed.texts = 1
    observed.gates[:] = 0.01 * generator.random(observed.gates.shape)
    observed.heads[:] = 0.3 + 0.01 * generator.standard_normal(observed.heads.shape)
    observed.states[:] = 0.3 + 0.01 * generator.standard_normal(observed.states.shape)
    for name, amount in shift.items():
        observed.heads[2, 0, OF_HEADS.index(name)] += amount
    return observed


def with_controls(own: Observations, seeds: int = 5) -> Measurement:
    controls = {level: [seen(1000 * i + seed) for seed in range(seeds)] for i, level in enumerate(LEVELS, 1)}
    return Measurement({}, [], trained=own, beside=own, controls=controls)


def said(measured: Measurement) -> list[str]:
    return [str(statement) for statement in statements(measured, compare(measured))]


def test_one_more_draw_is_not_unusual_and_a_shift_is():
    assert sum(len(said(with_controls(seen(seed)))) for seed in range(20)) == 0
    found = compare(with_controls(seen(0, previous=0.5)))
    assert [(head.layer, head.head, head.reason) for head in found.shown] == [(2, 0, "previous")]
    assert found.shown[0].value == pytest.approx(0.8, abs=0.05)
    assert not any(of.outside.any() for of in found.layers.values())


def test_an_effect_below_the_least_is_not_said_however_sure():
    assert compare(with_controls(seen(0, previous=0.07))).heads.spreads[list(HEADS).index("previous")] > 3
    assert compare(with_controls(seen(0, previous=0.07))).shown == []


def test_a_layer_is_named_with_what_chance_would_give():
    own = seen(0)
    own.gates[3, :, :2] += 0.3
    found = compare(with_controls(own)).layers["gates"]
    assert np.flatnonzero(found.outside).tolist() == [3]
    assert any("larger than in all controls in 1 of 6 layers, most in layer 3" in of for of in said(with_controls(own)))
    assert "in 1 of 6 layers (chance: 0.00" in say_layers(found, LAYERS["gates"])
    lower = seen(0)
    lower.states[4, 0] -= 0.4
    assert any("cosine of two rows of the stream is smaller" in of for of in said(with_controls(lower)))


def test_the_line_is_students_and_holds_for_the_whole_page():
    found = compare(with_controls(seen(0)))
    assert found.count == len(HEADS) + sum(len(of.trained) for of in found.layers.values())
    assert found.heads.line == pytest.approx(-student.ppf(comparison.LEVEL / found.count / 2, 4))
    total = found.heads.expected + sum(of.expected for of in found.layers.values())
    assert total == pytest.approx(comparison.LEVEL)


def test_units_of_the_spread_are_those_of_one_more_seed():
    draws = np.random.default_rng(0).standard_normal((5, 200_000))
    away = spreads_away(np.random.default_rng(1).standard_normal(200_000), {"random": draws}, 1e-9)
    assert np.mean(np.abs(away) > student.isf(0.025, 4)) == pytest.approx(0.05, abs=0.003)


def test_the_nearest_level_counts_and_levels_on_both_sides_are_nothing():
    near, far = np.array([[0.0], [1.0], [2.0]]), np.array([[-10.0], [-9.0], [-8.0]])
    value = np.array([5.0])
    assert spreads_away(value, {"near": near, "far": far}, 1e-9) == spreads_away(value, {"near": near}, 1e-9)
    assert spreads_away(np.array([-4.0]), {"near": near, "far": far}, 1e-9) == 0


@pytest.mark.parametrize("seeds", [1, 2])
def test_without_a_spread_nothing_is_compared(seeds):
    assert compare(with_controls(seen(0, previous=0.5), seeds)) is None


def test_at_most_three_heads_for_one_reason_and_one_reason_a_head():
    own = seen(0)
    own.heads[0, :, OF_HEADS.index("sink")] += [0.4, 0.5, 0.6, 0.3]
    own.heads[0, 1, OF_HEADS.index("previous")] += 0.2
    shown = compare(with_controls(own)).shown
    assert [head.head for head in shown if head.reason == "sink"] == [2, 1, 0]
    assert len({(head.layer, head.head) for head in shown}) == len(shown)


def test_positions_out_of_order_prefer_no_half():
    curves = torch.randn(500, 60, generator=torch.Generator().manual_seed(0)).numpy()
    assert np.std(late_over_early(curves)) == pytest.approx(1, abs=0.1)
    assert (late_over_early(np.linspace(0, 1, 60)[None]) > 4).all()


def test_repeats_are_scored_on_the_second_reading():
    model = make_random("GPT2Config", n_embd=32, n_layer=2, n_head=4).eval()
    ids = draw_repeats(5, 2048, 21)
    assert ids.shape == (4, 21)
    scores = read_repeats(model, ids, (2, 4))
    assert scores.shape == (2, 4, 3)
    model.set_attn_implementation("eager")
    maps = torch.stack(model(ids, output_attentions=True).attentions).detach()  # (layer, text, head, query, key)
    rows = torch.arange(11, 21)
    for place, back in ((0, 9), (1, 10), (2, 1)):
        due = maps[..., rows, rows - back].mean((1, -1))
        np.testing.assert_allclose(scores[..., place], due, atol=1e-6)


def numbered(texts: int = 2) -> Observations:
    """Return sums over two texts of which every number is another one."""
    observed = Observations.empty(2, 3)
    observed.texts = texts
    for name in ("gates", "heads", "states", "repeats", "ranges"):
        array = getattr(observed, name)
        array[:] = np.arange(array.size).reshape(array.shape) ** 1.5
    return observed


def test_spreads_have_the_sign_of_the_side_and_a_floor_and_an_end():
    level = np.array([[0.0, 1.0, 5.0, 2.0], [1.0, 1.0, 5.0, 2.0], [5.0, 1.0, 5.0, 2.0]])
    spread = np.sqrt(7 * 4 / 3)  # the variance of 0, 1 and 5 is 7, and of a fourth from their mean 4/3 as much
    away = spreads_away(np.array([-4.0, 3.0, 4.0, 9.0]), {"a": level, "b": level + 1}, 0.5)
    assert away.tolist() == pytest.approx([-6 / spread, 2.0, -2.0, 12.0])
    assert spreads_away(np.array([9.0]), {"a": level[:, 1:2]}, 1e-9).tolist() == [comparison.FARTHEST]


def test_a_comparison_by_hand():
    own, controls = numbered(1), {level: [numbered(1) for _ in range(3)] for level in ("random", "permuted")}
    for shift, observed in enumerate(controls["random"]):
        observed.ranges[:] = [10.0 + shift, 20.0 + shift]
    for shift, observed in enumerate(controls["permuted"]):
        observed.ranges[:] = [13.0 + 2 * shift, 17.0 - shift]
    own.ranges[:] = [20.0, 9.0]
    found = compare(Measurement({}, [], trained=own, beside=own, controls=controls))
    distances = found.layers["distances"]
    assert distances.trained.tolist() == [20.0, 9.0]
    assert distances.controls["permuted"].tolist() == [[13.0, 17.0], [15.0, 16.0], [17.0, 15.0]]
    assert distances.beyond.tolist() == [3.0, 6.0]  # above 17, below 15
    root = np.sqrt(4 / 3)
    assert distances.spreads.tolist() == pytest.approx([5 / 2 / root, -7 / root])
    assert distances.least == 0.25
    assert distances.expected == pytest.approx(0.05 * 2 / found.count)
    assert found.count == len(HEADS) + sum(len(LAYERS[name].read(own)) for name in found.layers)
    assert found.heads.trained.tolist() == [float(of.max()) for of in measure_heads(own).values()]


def test_what_a_model_does_not_have_is_not_counted_among_comparisons():
    own = seen(0)
    found = compare(with_controls(own))
    assert "distances" not in found.layers
    assert found.count == len(HEADS) + 4 * 6 + 4 * 7  # of six layers; of seven states, before, between and after them
    own.ranges[:] = 1.0
    assert compare(with_controls(own)).count == found.count + 6
