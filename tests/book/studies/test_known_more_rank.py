"""Ranks, stacks and their ladder, on inputs whose answer is known by hand."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.core.weights import MlpWeights
from analysis.models.controls import RUNGS
from analysis.transformer.encoder import Switches, random_layers, run_layer
from book.studies.bert_rank import controls, stacks, statements, switches
from book.studies.bert_rank import measure as page
from book.studies.bert_rank.controls import LARGE, PERMUTED, WAYS
from book.studies.bert_rank.stacks import NO_MLP, WHOLE
from tests.book.studies.known import double, no_norm, record

write_prose, bound = (page.__globals__[name] for name in ("write_prose", "bound"))


# ---- ranks


class Text(SimpleNamespace):
    """The states of one text and the layers that read them."""

    def rows(self, layer: int) -> torch.Tensor:
        return self.states[layer]


def test_centring_costs_a_rank_once_there_are_as_many_rows_as_dimensions(monkeypatch):
    g = torch.Generator().manual_seed(0)
    layers = random_layers(2, 2, 6, generator=g)
    gains, shift = torch.ones(6).double(), torch.randn(6, generator=g, dtype=torch.float64)
    gains[:3] = double(1e-7, -1e-7, -5)
    layers = [replace(layer, norm_attention=replace(no_norm(6), bias=shift)) for layer in layers]
    layers[-1] = replace(layers[-1], norm_mlp=replace(no_norm(6), gain=gains))
    read, states = [], []

    def observe(network, tokenizer, passages, tokens):
        read.append((passages, tokens))
        states.append(torch.randn(2, tokens, 6, generator=g, dtype=torch.float64))
        return Text(layers=layers, states=states[-1])

    monkeypatch.setattr(statements.extraction, "observe", observe)
    config = SimpleNamespace(hidden_size=6, max_position_embeddings=20)
    networks = {"trained": SimpleNamespace(config=config), "control": SimpleNamespace()}
    found = statements.measure_ranks(networks, None, ["a" * 300, "b" * 300])
    assert (found.width, found.limit, found.short) == (6, 20, 2)
    assert [tokens for _, tokens in read] == [2, 20, 2, 20]
    assert read[0][0] == ["a" * 300 + " " + "b" * 99]
    assert list(found.reads) == ["n = 2, d = 6", "n = 20, d = 6"]
    first = states[1][0]  # what the trained model's first layer reads of the longer input
    added = statements.attend(first, layers[0].attention).output
    torch.testing.assert_close(found.reads["n = 20, d = 6"], first + added)
    for which in networks:
        assert (found.of("read", 2, which), found.of("centred", 2, which)) == ([2], [2])
        assert (found.of("read", 20, which), found.of("centred", 20, which)) == ([6], [5])
        assert found.added_by_bias(which) == [1]
    assert (found.lawful, found.clear) == (True, True)
    assert found.dead_gains == 2
    assert (found.last.divided.rank, found.last.with_gain.rank) == (5, 5)
    size = torch.linalg.svdvals(run_layer(states[1][1], layers[1]).before_second)  # of the last layer, longer input
    assert found.last.read.kept == pytest.approx((size[-1] / size[0]).item())
    assert len(found.all_steps) == 8
    wrong = replace(found, apart={key: [1.0, 1.0] for key in found.apart})
    assert not wrong.lawful
    steps = found.through["trained", 2][0]
    unclear = steps._replace(read=replace(steps.read, kept=1e-10))
    assert not replace(found, through=found.through | {("trained", 2): [unclear]}).clear
    unclear = steps._replace(read=replace(steps.read, dropped=1e-13))
    assert not replace(found, through=found.through | {("trained", 2): [unclear]}).clear


@pytest.mark.parametrize(("width", "limit", "short"), [(12, 6, 3), (3, 20, 2), (30, 100, 10)])
def test_the_shorter_input_has_a_third_of_the_width_or_half_of_what_there_can_be(width, limit, short, monkeypatch):
    g, lengths = torch.Generator().manual_seed(0), []
    layers = [replace(layer, norm_attention=no_norm(width)) for layer in random_layers(1, 1, width, generator=g)]

    def observe(network, tokenizer, passages, tokens):
        lengths.append(tokens)
        return Text(layers=layers, states=torch.randn(1, tokens, width, generator=g, dtype=torch.float64))

    monkeypatch.setattr(statements.extraction, "observe", observe)
    config = SimpleNamespace(hidden_size=width, max_position_embeddings=limit)
    found = statements.measure_ranks({"trained": SimpleNamespace(config=config)}, None, ["a"])
    assert (found.short, lengths) == (short, [short, limit])


def test_the_printed_norm_is_torchs_and_a_constant_row_has_no_deviation(monkeypatch):
    gaps = {"trained_gap": 1.0, "read_gap": 2.0, "concatenation_gap": 3.0, "skipped": 4.0}
    monkeypatch.setattr(statements, "compare_with_library", lambda *_: gaps)
    found = statements.measure_norm(None, None)
    assert max(found.plain_error, found.affine_error, found.matrix_error) < 1e-12
    assert found.ranks_down == [1, 1, 1, 1, 0]  # the bias takes the only row away
    assert found.only_row.tolist() == [[1, -1, 3]]
    assert found.opposite.bias.tolist() == pytest.approx([0, 2 / (8 / 3) ** 0.5, -2 / (8 / 3) ** 0.5])
    assert found.constant_deviation == 0
    assert (found.mean_spaces, found.with_means, found.zero_mean_rank) == ((1, 2), (3, 3), 0)


def test_the_library_norms_the_sum_and_not_the_concatenation(monkeypatch):
    x = double([1, -1], [2, -4])
    monkeypatch.setattr(statements, "attend", lambda rows, attention: SimpleNamespace(output=rows * attention))
    norm = replace(no_norm(2), gain=double(2, 2), bias=double(1, 1))
    heads = SimpleNamespace(
        self=lambda rows: (rows + double(0, 3),),
        output=lambda concatenation, rows: statements.apply_norm(3 * rows[0], norm)[None],
    )
    network = SimpleNamespace(encoder=SimpleNamespace(layer=[SimpleNamespace(attention=heads)]))
    layer = SimpleNamespace(norm_attention=norm)
    trained = SimpleNamespace(states=[[x]], layers=[layer], attention=[2.0])
    found = statements.compare_with_library(network, trained)
    # rows of two become (1, -1), with gain and bias (3, -1); the concatenation's are (-1, 1) and (1, -1)
    assert found == {"trained_gap": 2, "read_gap": 0, "concatenation_gap": 4, "skipped": 4}


# ---- stacks


def test_a_typical_residual_is_a_geometric_mean():
    run = np.array([[1.0, 1e-2], [1.0, 1e-4]])
    assert stacks.typical(run, 1) == pytest.approx(1e-3)
    assert stacks.typical(np.array([[0.0], [1.0]]), 0) == pytest.approx(1e-8)
    assert stacks.expected_factor(1.0) == pytest.approx(2**-0.5)
    assert stacks.expected_factor(2.0) == pytest.approx(17**-0.5)


def collapse(width, gain, seed, which, *, depth, device, activation=None):
    """Lose the share ``gain * (1 + place)`` in decades at each layer, with a hundredth for each seed."""
    rate = torch.tensor([gain * (1 + place) / 10 for place in range(len(which))]).double()
    return 10 ** (-rate[:, None] * torch.arange(depth + 1) + (seed + width / 1e4) / 100)


def test_random_stacks_are_followed_by_width_and_seed(monkeypatch):
    monkeypatch.setattr(stacks.rank_collapse, "random_collapse", collapse)
    found = stacks.measure_stacks(torch.device("cpu"))
    assert (found.seeds, found.depth) == (stacks.SEEDS, 48)
    assert found.names == [each.describe() for each in stacks.all_switches()]
    assert found.names[0] == "attention"
    run = found.runs[1.0]["attention"]
    assert run.shape == (4 * stacks.SEEDS, 13)
    assert run[:, 0].tolist() == pytest.approx(
        [10 ** ((seed + width / 1e4) / 100) for width in stacks.WIDTHS for seed in range(stacks.SEEDS)]
    )
    assert list(found.rate) == [0.55, 1.0]
    assert found.rate[1.0].value == pytest.approx(-math.log(10) / 10)
    assert found.rate[0.55].value == pytest.approx(-0.055 * math.log(10))
    assert next(iter(found.deep[2.0])) == "attention + skip"
    assert "attention + skip + linear MLP" in found.deep[2.0]
    assert len(found.deep[2.0]) == 4
    assert found.deep[2.0]["attention + skip"].shape == (stacks.SEEDS, 49)
    assert found.most_left == pytest.approx(10 ** (-4.8 + (4 + 0.0064) / 100))
    places = {name: place for place, name in enumerate(found.names)}
    slowest = min(place for name, place in places.items() if "skip" not in name)
    assert found.worst_without_skip == pytest.approx(10 ** (-0.055 * (1 + slowest) * 6 + 4.0128 / 100))
    assert found.least_with_skip == pytest.approx(10 ** (-0.1 * (1 + places["attention + skip"]) * 6 + 0.0016 / 100))
    more = found.linear_gain.value
    linear, gelu = places["attention + skip + linear MLP"], places["attention + skip + MLP"]
    ends = [10 ** (-0.1 * (1 + place) * 12) for place in (linear, gelu)]
    assert more == pytest.approx((ends[0] - ends[1]) * np.mean(run[:, 0]))


def test_activations_hasten_the_collapse_beside_attention_alone(monkeypatch):
    def by_activation(width, gain, seed, which, *, depth, device, activation):
        (slope,) = {float(activation(torch.tensor(100.0)).round()) / 100}
        assert (width, gain) == (64, 1.0)
        factor = 0.5 if which == [stacks.PURE_ATTENTION] else slope / 4
        return torch.stack([factor ** torch.arange(depth + 1).double()] * len(which)) * 2.0**seed

    monkeypatch.setattr(stacks.rank_collapse, "random_collapse", by_activation)
    found = stacks.measure_activations(torch.device("cpu"))
    assert found.cases == ["no skip, 3 layers", "skip, 6 layers", "all, 6 layers"]
    assert found.runs["z / 2"].shape == (3, stacks.SEEDS, 7)
    assert found.runs["z / 2"][1, :, 1].tolist() == pytest.approx([2.0**seed / 8 for seed in range(stacks.SEEDS)])
    assert found.hastened == pytest.approx({"GELU": 1 / 8, "z / 2": 1 / 64, "z": 1 / 8})


def test_texts_are_traced_with_the_direction_they_end_in(monkeypatch):
    monkeypatch.setattr(stacks, "encode", lambda x, layers, switches, activation: [x, x * double(1, layers)])
    one, two = double([1, 1], [1, -1]), double([2, 1], [2, 1])
    observed = SimpleNamespace(layers=0.0, states=[torch.stack([one, double([0, 5], [0, 5])]), torch.stack([two, two])])
    run, cosine = stacks.trace_texts(observed, None)
    assert run.tolist() == pytest.approx(np.array([[0.5**0.5, 0], [0, 0]]))
    assert cosine == pytest.approx((0 + 2 / 5**0.5) / 2)


def test_a_trained_stack_is_traced_under_all_switches(monkeypatch):
    def trace(o, which, activation=None):
        label = which.describe()
        size = (
            {"model": 1.0, "random": 0.1}[o]
            * (1 if "skip" in label else 2e-3 if "MLP" in label else 1e-3)
            * (1 if activation is None else activation(4.0))
        )
        return np.array([[1.0, size], [1.0, size]]), len(label) / 100

    monkeypatch.setattr(stacks, "trace_texts", trace)
    monkeypatch.setattr(stacks, "measure_hidden_rows", lambda o: f"hidden rows of {o}")
    monkeypatch.setattr(stacks, "ACTIVATIONS", {"z / 2": lambda z: z / 2, "z": lambda z: z})
    found = stacks.measure_trained_stack({"trained": "model", "control": "random"})
    assert found.final["trained"][WHOLE] == pytest.approx(1)
    assert found.final["control"]["attention"] == pytest.approx(1e-4)
    assert found.most_without_skip == pytest.approx(2e-3)
    assert found.cosines["trained"][NO_MLP] == len(NO_MLP) / 100
    assert found.hidden["control"] == "hidden rows of random"
    assert found.ends["trained"]["z"] == (pytest.approx(4), len(WHOLE) / 100)
    assert found.ends["control"]["z / 2"][0] == pytest.approx(0.2)


# ---- the text


def test_the_text_names_ranks_and_residuals():
    count = lambda rank, kept=1e-3, cutoff=1e-12: SimpleNamespace(rank=rank, kept=kept, cutoff=cutoff, dropped=0)  # noqa: E731

    class Steps(SimpleNamespace):
        def __iter__(self):
            return iter([self.read, self.centred])

    short = Steps(read=count(5), centred=count(4), with_bias=count(9))
    long = Steps(read=count(8, 2e-4), centred=count(7, cutoff=3e-12), with_bias=count(6))
    last = SimpleNamespace(divided=count(11), with_gain=count(10), with_bias=count(12))
    through = {("trained", 2): [short], ("trained", 20): [long]}
    of_ranks = SimpleNamespace(short=2, limit=20, through=through, all_steps=[short, long], last=last, dead_gains=3)
    run = lambda *at: np.array([[dict(at).get(state, 9.0) for state in range(13)]])  # noqa: E731
    runs = {
        "attention": run((12, 0.1), (6, 0.2)),
        "attention + skip": run((12, 0.31)),
        "attention + skip + MLP": run((12, 0.32)),
        "attention + skip + linear MLP": run((12, 0.33)),
        WHOLE: run((12, 0.34)),
        "attention + LayerNorm": run((6, 0.1234)),
    }
    of_stacks = SimpleNamespace(
        runs={1.0: runs, 2.0: runs},
        deep={0.55: {"a": run((3, 0.79)), "b": run((3, 0.86))}},
        depth=3,
        rate={1.0: SimpleNamespace(value=math.log(0.7))},
        worst_without_skip=1e-13,
        least_with_skip=0.456,
        most_left=2e-3,
    )
    trained = SimpleNamespace(
        final={"trained": {WHOLE: 0.61, NO_MLP: 0.62}, "control": {WHOLE: 0.63}},
        cosines={"trained": {NO_MLP: 0.64}},
        most_without_skip=1e-10,
    )
    assert vars(write_prose(of_ranks, of_stacks, trained, 0.02)) == {
        "cutoff": "3.0e-12",
        "kept": "2e-04",
        "dropped_below": "1e-14",
        "short_read": "5",
        "short_centred": "4",
        "long_read": "8",
        "long_centred": "7",
        "long_bias": "6",
        "worst_without": "10⁻¹²",
        "initial_gain": "0.55",
        "least_skip": "0.46",
        "deep_skip": "0.31",
        "deep_mlp": "0.32",
        "deep_linear": "0.33",
        "deep_all": "0.34",
        "hard_pure": "0.20",
        "hard_norm": "0.123",
        "depth": 3,
        "long_most": "2e-03",
        "rate_one": "0.70",
        "rate_expected": "0.71",
        "slow_least": "0.7",
        "trained_all": "0.61",
        "control_all": "0.63",
        "trained_mlp": "0.62",
        "trained_mlp_cosine": 0.64,
        "trained_none": "below 10⁻⁹",
        "dead_gains": 3,
        "last_divided": "11",
        "last_gain": "10",
        "last_bias": "12",
    }


def test_the_ladder_of_ranks_is_written_in_residuals():
    places = list(WAYS)
    levels = {way: -(k + 1) / 10 for k, way in enumerate(WAYS)}

    def measure(documents, **of_rungs):
        documents = np.array(documents, dtype=float)
        rungs = {LARGE: "large", PERMUTED: "permuted"}
        return SimpleNamespace(
            documents=documents, controls={rung: documents + of_rungs.get(word, 0) for rung, word in rungs.items()}
        )

    rungs = {way: measure([[9, level], [9, level]], large=-1, permuted=-2) for way, level in levels.items()}
    rungs["without the MLP"] = measure([[9, -0.3], [9, -0.1], [9, -0.2]], large=-1, permuted=-2)
    rungs["whole"] = measure([[9, -0.1]] * 3, large=-1, permuted=-2)
    each = np.arange(len(places)) / 100
    rungs["cosine"], rungs["size"] = measure([each, each]), measure([each + 1, each + 1], large=0.5)
    rungs["slope"] = measure([[0.5, 0.25], [0.7, 0.35]])
    rungs["share below zero"] = measure([[0.5, 0.7]], large=-0.1, permuted=-0.2)
    rungs["hidden rows, by GELU"] = measure([[-0.25, 0.5], [-0.35, 0.5]], large=1, permuted=-1)
    found = controls.write_ladder(rungs)

    def end(way, less=0):
        return pytest.approx(10 ** (levels[way] - less))

    assert (found.whole, found.whole_large, found.whole_permuted) == (end("whole"), end("whole", 1), end("whole", 2))
    assert (found.mlp, found.mlp_large, found.mlp_permuted) == tuple(end("without the MLP", less) for less in (0, 1, 2))
    assert found.mlp_factor == pytest.approx(10**-0.1)
    half = 4.302653 * 0.1 / 3**0.5
    assert found.mlp_factor_low == pytest.approx(10 ** (-0.1 - half))
    assert found.mlp_factor_high == pytest.approx(10 ** (-0.1 + half))
    assert found.norm == end("without the MLP and its LayerNorm")
    assert (found.line, found.map) == (end("best line per unit"), end("best linear map"))
    assert (found.z, found.uniform) == (end("z in place of GELU"), end("uniform attention"))
    assert (found.attention, found.attention_large) == (end("without attention"), end("without attention", 1))
    assert (found.half_large, found.double) == (end("attention half as large", 1), end("attention twice as large"))
    at = lambda way: places.index(way) / 100  # noqa: E731
    assert (found.mlp_cosine, found.line_cosine) == (at("without the MLP"), at("best line per unit"))
    assert (found.map_cosine, found.z_cosine) == (at("best linear map"), at("z in place of GELU"))
    assert (found.size, found.size_large) == (pytest.approx(1), pytest.approx(1.5))
    assert found.size_half_large == pytest.approx(1.5 + at("attention half as large"))
    assert found.size_double == pytest.approx(1 + at("attention twice as large"))
    assert (found.slope_low, found.slope_high) == (pytest.approx(0.3), pytest.approx(0.6))
    assert (found.below_trained, found.below_large, found.below_permuted) == ("60 %", "50 %", "40 %")
    assert (found.apart_trained, found.apart_large) == ("\u22120.30 to +0.50", "+0.70 to +1.50")
    assert found.apart_permuted == "\u22121.30 to \u22120.50"


def test_what_gelu_adds_is_a_difference_of_logarithms(monkeypatch):
    before = SimpleNamespace(documents=np.array([[1.0, 2]]), controls={"random": np.array([[4.0, 5]])})
    after = SimpleNamespace(documents=np.array([[1.5, 1]]), controls={"random": np.array([[5.0, 7]])})
    rungs = SimpleNamespace(measures={"residual before": before, "residual after": after})
    rungs = type("Rungs", (), {"measures": rungs.measures, "__getitem__": lambda self, name: self.measures[name]})()
    monkeypatch.setattr(controls, "load_rungs", lambda name, *_: rungs)
    found = controls.measure_rungs(None)["hidden rows, by GELU"]
    assert (found.documents.tolist(), found.controls["random"].tolist()) == ([[0.5, -1]], [[1, 2]])


def test_means_are_taken_off_by_row_or_as_printed_by_column():
    """Rows of sums 3 and 8, twice as large as they are."""
    X = np.array([[1, 2], [3, 5]])
    assert statements.centred(X).tolist() == [[2 - 3, 4 - 3], [6 - 8, 10 - 8]]
    assert statements.centred_as_printed(X).tolist() == [[2 - 3, 4 - 8], [6 - 3, 10 - 8]]


# ---- the ladder's own measures


def test_attention_is_scaled_with_its_bias_and_norms_get_plain_gains():
    (layer,) = random_layers(1, 2, 4, generator=torch.Generator().manual_seed(0))
    layer.attention.b_O[:] = double(1, 2, 3, 4)
    half = controls.scale_attention(layer, 0.5)
    assert half.attention.b_O.tolist() == [0.5, 1, 1.5, 2]
    torch.testing.assert_close(half.attention.W_O, layer.attention.W_O / 2)
    assert controls.level(torch.zeros(5, 4).double(), layer).flatten().tolist() == [0.2] * 50
    norm = replace(no_norm(4), gain=double(2, 3, 4, 5), bias=double(1, 1, 1, 1))
    (plain,) = switches.with_plain_gains([replace(layer, norm_attention=norm, norm_mlp=norm)])
    for each in (plain.norm_attention, plain.norm_mlp):
        assert (each.gain.tolist(), each.bias.tolist()) == ([1] * 4, [1] * 4)


def test_a_trace_is_the_mean_over_texts_of_the_logarithm_in_every_setting(monkeypatch):
    """Residuals of two texts, 1e-2 and 1e-4, and 100 times as large where the gains are the model's own."""
    layers = random_layers(2, 2, 4, generator=torch.Generator().manual_seed(0))
    layers = [replace(layer, norm_mlp=replace(layer.norm_mlp, gain=double(2, 2, 2, 2))) for layer in layers]

    def residuals(x, stack, chosen):
        own = 100 if stack[0].norm_mlp.gain[0] == 2 else 1
        return x * own * double(1, 1, 0 if chosen.skip else 1)

    monkeypatch.setattr(switches, "trace_residual", residuals)
    found = switches.trace([double(1e-2), double(1e-4)], layers)
    assert found.shape == (*switches.SHAPE, 3)
    for (skip, mlp, norm, gain), _ in switches.settings():
        high = -1 if norm and gain else -3  # without a LayerNorm there are no gains
        assert found[skip, mlp, norm, gain] == pytest.approx([high, high, -13 if skip else high])


def test_lines_and_maps_explain_what_they_explain(monkeypatch):
    """Two hidden units of which the first is the first coordinate, and the MLP writes GELU of it."""
    x = double([-100, 1], [100, 2], [0, 3])
    monkeypatch.setattr(controls, "run_layer", lambda rows, layer: SimpleNamespace(first=rows))
    mlp = MlpWeights(torch.eye(2).double(), double(0, -200), double([1, 0], [0, 0]), double(7, 0))
    layer = SimpleNamespace(mlp=mlp)
    nothing = MlpWeights(
        torch.zeros(2, 2).double(), double(0, 0), torch.zeros(2, 2).double(), double(107 / 3 + 14 / 3, 0)
    )
    fit = controls.Fit(double(0.5, 0.25), double(50, 0), nothing)
    line, of_map, slope = controls._try_fit(x, layer, fit).tolist()
    # written 0, 100, 0 (and 7); the line gives 0, 100, 50; the map their mean
    assert line == pytest.approx(1 - 50**2 / (2 * (100 / 3) ** 2 + (200 / 3) ** 2))
    assert (of_map, slope) == (pytest.approx(0), 0.375)
    mean, below, before, after = controls._look_at_hidden_rows(x, layer).tolist()
    assert (mean, below) == (pytest.approx(100 / 6), pytest.approx(4 / 6))
    z = np.array([[-100, -199], [100, -198], [0, -197]])
    assert before == pytest.approx(np.linalg.norm(z - z.mean(0)) / np.linalg.norm(z))
    assert after == pytest.approx((2 / 3) ** 0.5)  # 0, 100, 0 about their mean


def test_settings_are_read_with_the_most_parts_first():
    shape = (*switches.SHAPE, 3)
    trained = np.arange(np.prod(shape)).reshape(shape)
    controls_ = np.stack([[trained + 1000 * rung + 100 * seed for seed in range(2)] for rung in range(len(RUNGS))])
    found = switches.last_residuals(record(trained=trained, controls=controls_))
    assert len(found.names) == 2 * 3 * 2
    assert found.names[0] == Switches().describe().replace("attention + ", "")
    assert found.names[-1] == "attention"
    last = trained[..., 1, -1].ravel()[::-1]  # with the model's own gains, after the last layer
    assert found.ladder.trained.tolist() == last.tolist()
    assert found.ladder.controls[RUNGS[2]].tolist() == [(last + 2000).tolist(), (last + 2100).tolist()]


def test_one_random_stack_is_traced_with_plain_gains(monkeypatch):
    seen = []

    def collapse(width, gain, seed, which, *, depth, device):
        seen.append((width, gain, seed, len(which)))
        return torch.full((len(which), depth + 1), 1e-3).double() * torch.arange(len(which))[:, None]

    monkeypatch.setattr(switches, "random_collapse", collapse)
    found = switches.trace_stack(0.55, 4, torch.device("cpu"))
    assert seen == [(64, 0.55, 4, 12)]
    assert found.shape == (2, 3, 2, 13)
    assert found[0, 0, 0, 0] == pytest.approx(-13)  # the floor
    assert found[1, 2, 1, -1] == pytest.approx(math.log10(0.011))
