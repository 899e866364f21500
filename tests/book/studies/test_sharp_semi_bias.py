"""The chapter on the semi-bias as a whole, its controls and its limits, held to a second computation."""

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.models import checkpoints
from analysis.models.controls import RUNGS, SEEDS
from analysis.models.reading import load
from book.studies.semi_bias import experiments, first_layer, locality, tilt
from tests.book.studies.known import double, no_norm, plain, record

chapter = import_module("book.studies.semi_bias.measure")  # the package exports a function of that name
CPU = torch.device("cpu")


# ---- the chapter


def test_every_part_of_the_chapter_is_measured_on_its_own_inputs(monkeypatch):
    """Each part answers with its name and what it was handed."""
    inputs = SimpleNamespace(device="device")
    asked = {}

    def choose(model, *, own, texts, device, whole):
        asked["choice"] = model, own, texts, device, whole
        return inputs

    def live(name, given, elsewhere):
        asked["record"] = name, given, elsewhere
        return "record", "its source"

    monkeypatch.setattr(chapter, "choose_inputs", choose)
    monkeypatch.setattr(chapter, "live_or_record", live)
    monkeypatch.setattr(chapter.checkpoints, "find", lambda name: f"checkpoint {name}")
    monkeypatch.setattr(chapter.first_layer, "read", lambda of, device: f"layer of {of} on {device}")
    monkeypatch.setattr(chapter.first_layer, "control", lambda of, device: f"control of {of} on {device}")
    monkeypatch.setattr(chapter.pretrained, "load", lambda of, task, dtype, device: (of, task, dtype, device))
    monkeypatch.setattr(chapter, "held_out_windows", lambda of, given: list(range(32)))
    monkeypatch.setattr(chapter, "measure_gpt2", lambda *given: given)
    monkeypatch.setattr(chapter, "measure_tilt", lambda gpt2: SimpleNamespace(of=gpt2))
    monkeypatch.setattr(chapter, "measure_sentence", lambda of, mini: SimpleNamespace(ids="ids", given=(of, mini)))
    monkeypatch.setattr(chapter, "measure_locality", lambda *given: SimpleNamespace(local_heads=(3, 4), given=given))
    parts = ("errors", "table", "rise", "first_key", "losses", "chance", "shared_direction")
    parts += ("mini_locality", "layers", "tokens", "emergence", "endings")
    for name in parts:
        monkeypatch.setattr(chapter, f"measure_{name}", lambda *given, name=name: (name, *given))
    found = chapter.measure("another", "texts", "cpu")
    assert asked["choice"] == ("another", "gpt2", "texts", "cpu", False)
    assert asked["record"][:2] == ("semi-bias-gpt2", inputs)
    mini, shown = "checkpoint gpt2-mini", "checkpoint another"
    assert asked["record"][2]() == (shown, "device")
    layer, model = f"layer of {mini} on device", (mini, "lm", torch.float64, "device")
    windows = list(range(32))
    assert (found.inputs, found.sources, found.checkpoints, found.mini) == (
        inputs,
        ("its source",),
        (mini, shown),
        layer,
    )
    assert found.sentence.given == (mini, layer)
    assert found.tilt.of == "record"
    assert found.locality.given == ("record", found.tilt, inputs)
    due = {
        "errors": ("record", layer, "ids"),
        "table": ("record",),
        "rise": ("record", found.tilt, (3, 4)),
        "first_key": ("record", found.tilt),
        "losses": ("record", model, windows, inputs),
        "chance": ("record", f"control of {mini} on device"),
        "shared_direction": ("record", (3, 4)),
        "mini_locality": (layer, windows[:8]),
        "layers": ("record", layer, model, windows),
        "tokens": (layer, shown, inputs),
        "emergence": (inputs,),
        "endings": (inputs,),
    }
    assert {name: getattr(found, name) for name in due} == {name: (name, *given) for name, given in due.items()}


def test_errors_of_two_models_have_a_largest_and_a_smallest():
    names = chapter.EXACT
    errors = {"a": dict.fromkeys(names, 1.0) | {"off": 3.0}, "b": dict.fromkeys(names, 2.0) | {"off": 0.5}}
    of = SimpleNamespace(errors=errors)
    measured = chapter.Measured
    assert (measured.largest_error(of, "off"), measured.smallest_error(of, "off")) == (3, 0.5)
    assert measured.exact_errors.fget(of) == {"a": dict.fromkeys(names, 1.0), "b": dict.fromkeys(names, 2.0)}


def test_held_out_windows_are_cut_from_all_passages(monkeypatch):
    monkeypatch.setattr(chapter.texts, "passages", lambda source: ["one of " + source, "two"])
    monkeypatch.setattr(chapter.pretrained, "tokenizer", lambda of: f"tokenizer of {of}")
    length = chapter.gpt2_mini.CONTEXT
    seen = []
    encode = lambda tokenizer, text: seen.append((tokenizer, text)) or torch.arange(64 * length + 1)  # noqa: E731
    monkeypatch.setattr(chapter.gpt2_mini, "encode", encode)
    found = chapter.held_out_windows("mini", SimpleNamespace(texts="mine", device=CPU))
    assert seen == [("tokenizer of mini", "one of mine\n\ntwo")]
    assert found[:, 0].tolist() == [2 * length * k for k in range(32)]  # every second of 64
    assert found.shape == (32, length + 1)


# ---- the controls of a first layer


def test_controls_of_the_first_layer_keep_its_norm_its_positions_and_its_tokens(monkeypatch):
    """In the place of its tilt each layer tells what it is made of."""

    def told(layer):
        weights = layer.weights
        drawn = [weights.W_Q.std(), weights.W_Q[0, 0, 0], weights.W_K.square().sum(), weights.b_Q.abs().sum()]
        kept = [layer.ln.gain.sum(), layer.ln.bias.sum(), layer.positions.sum(), layer.tokens.sum()]
        return torch.stack([*drawn, *kept]).numpy()

    monkeypatch.setattr(locality, "tilt", told)
    folder = checkpoints.find("gpt2-mini").folder
    found = locality.measure_ladder(folder)
    trained = load(checkpoints.find("gpt2-mini"), dtype=torch.float64)
    layer, norm = trained.layers[0], trained.norm("attention", 0)
    assert found.shape == (len(RUNGS), len(SEEDS), 8)
    kept = [norm.gain.sum(), norm.bias.sum(), trained.positions.sum(), trained.tokens.sum()]
    np.testing.assert_allclose(found[..., 4:], np.broadcast_to(kept, (len(RUNGS), len(SEEDS), 4)), rtol=1e-9)
    random, large, permuted = found
    width = trained.width
    for seed in SEEDS:
        generator = torch.Generator().manual_seed(1_000_003 * seed)  # of layer 0
        W = 0.02 * torch.randn(width, width, generator=generator, dtype=torch.float64)
        assert random[seed, 0] == pytest.approx(W.std().item())
        assert random[seed, 1] == pytest.approx(W[0, 0].item())
    assert not random[:, 3].any()  # drawn biases are zero
    size = layer.W_K.double().square().sum().item()
    assert large[:, 2] == pytest.approx([size] * len(SEEDS), rel=1e-6)
    assert permuted[:, 2] == pytest.approx([size] * len(SEEDS), rel=1e-6)
    assert permuted[:, 3] == pytest.approx([layer.b_Q.double().abs().sum().item()] * len(SEEDS), rel=1e-6)


def test_the_control_of_a_first_layer_is_drawn_with_its_seed():
    checkpoint = checkpoints.find("gpt2-mini")
    found, stored = first_layer.control(checkpoint, 1), load(checkpoint)
    drawn = torch.randn(2, 64, generator=torch.Generator().manual_seed(1_000_003), dtype=torch.float64)
    W_Q = found.weights.W_Q.movedim(0, 1).flatten(1)
    assert W_Q.flatten()[:128].tolist() == pytest.approx((0.02 * drawn).flatten().tolist())
    for table in (found.positions, found.tokens):
        assert table.std().item() == pytest.approx(0.02, rel=0.05)
    assert (found.ln.gain.unique().tolist(), len(found.ln.gain)) == ([1], stored.width)
    assert not found.ln.bias.any()
    assert found.ln.eps == stored.config.layer_norm_epsilon


def test_a_deeper_layer_is_read_with_the_same_positions_and_tokens():
    checkpoint = checkpoints.find("gpt2-mini")
    stored = load(checkpoint, dtype=torch.float64)
    for layer in (0, 1):
        found = first_layer.read(checkpoint, layer)
        torch.testing.assert_close(found.weights.W_K, stored.layers[layer].W_K)
        torch.testing.assert_close(found.ln.bias, stored.norm("attention", layer).bias)
        torch.testing.assert_close(found.positions, stored.positions)
        torch.testing.assert_close(found.tokens, stored.tokens)
    wide = found.positions.var(1, correction=0)
    torch.testing.assert_close(found.sigma_p, (wide + found.ln.eps).sqrt())
    bias = found.weights.b_Q + torch.einsum("m,hmc->hc", found.ln.bias, found.weights.W_Q)
    torch.testing.assert_close(found.folded.b_Q, bias)


def test_a_checkpoint_without_a_table_of_tokens_is_read_without_one(monkeypatch):
    layer, norm, places = plain(2), no_norm(2), double([1, 0])
    stored = SimpleNamespace(tokens=None, positions=places, layers=[layer], norm=lambda kind, k: norm)
    monkeypatch.setattr(first_layer, "load", lambda *_, **__: stored)
    found = first_layer.read("checkpoint")
    assert (found.tokens, found.positions.tolist()) == (None, [[1, 0]])


# ---- limits


def marks(**given) -> tilt.Marks:
    return tilt.Marks(**{"apart": 1, "early": 3, "third": 4, "half": 6, "late": 10} | given)


def far_and_near(distances, near=0.2, far_in_sum=()):
    """Measure some heads over 13 queries, from the distance of the largest weight of each.

    In ``far_in_sum`` are pairs of head and query whose largest weight lies far back by both terms together.
    """
    heads = len(distances)
    mass = np.zeros((3, 2, 3, heads))
    mass[1, 0, 2] = near
    peaks = np.zeros((3, heads, 13), dtype=int)
    peaks[1] = np.array(distances)[:, None]
    for head, query in far_in_sum:
        peaks[2, head, query] = 6
    of = SimpleNamespace(marks=marks(), heads=heads, odd=5, weak=5)
    given = record(mass=mass, uniform=np.ones(2), peak=peaks)
    return locality.measure_locality(given, of, SimpleNamespace(departs=False))


def test_a_head_looks_far_beyond_the_early_mark_and_nearby_up_to_five_keys_back():
    found = far_and_near([3, 4])
    assert (found.alias, found.period) == (1, 4)
    assert (found.alias_low, found.alias_high) == (1, 1)
    found = far_and_near([6, 5])
    assert (found.alias, found.alias_low, found.alias_high) == (2, 0, 1)
    assert found.period == 5.5
    assert far_and_near([4, 5, 9, 1]).period == 5  # the median head's of the three
    assert far_and_near([2, 3]).alias == 2  # of none that looks far, all heads are told


def test_with_both_terms_the_head_that_looks_nearby_least_is_told():
    found = far_and_near([6, 6, 6, 3], far_in_sum=[(1, 4), (1, 5), (2, 4), *((3, query) for query in range(4, 8))])
    assert found.alias == 3  # head 3 does not look far back by one term alone
    assert found.alias_sum_low == 6 / 8  # head 1: all but two of the queries 4 to 11


def test_a_local_head_has_more_than_a_third_on_the_nearest_keys():
    found = far_and_near([6, 6], near=(1 / 3, 0.34))
    assert (found.local_heads, found.near_heads, found.near_sum) == ((1,), "1", pytest.approx((1 / 3 + 0.34) / 2))


def test_a_model_of_a_reader_may_have_its_largest_weight_on_other_keys():
    peaks = np.full((3, 2, 13), 7)
    of = SimpleNamespace(marks=marks(), heads=2, odd=5, weak=5)
    given = record(mass=np.zeros((3, 2, 3, 2)), uniform=np.ones(2), peak=peaks)
    assert locality.measure_locality(given, of, SimpleNamespace(departs=True)).alias_sum_low == 0
    with pytest.raises(AssertionError):
        locality.measure_locality(given, of, SimpleNamespace(departs=False))


# ---- tolerances of what is recorded


def test_seeds_are_held_to_wide_tolerances_and_their_controls_to_narrow_ones(monkeypatch):
    """Two heads of one layer: on another machine a training drifts away, and a drawn control does not."""
    trace = {name: np.zeros((2, 1, 2)) for name in experiments.KEPT} | {"step": np.array([0, 8])}
    trace["held_out"] = np.array([3.0, 2.0])
    trace["rank_correlation"][1, 0] = 0.5, 0.6
    monkeypatch.setattr(experiments, "find_run", lambda *_: None)
    monkeypatch.setattr(experiments.gpt2_mini, "read_trace", lambda _: (None, trace))
    monkeypatch.setattr(experiments, "count_tokens", lambda _: SimpleNamespace(arrays={"per_million": [1.0]}))
    names = ("tilt", "overlap", "tokens", "losses")
    monkeypatch.setattr(experiments.locality, "measure", lambda *_: {name: np.zeros(1) for name in names})
    monkeypatch.setattr(experiments.locality, "measure_ladder", lambda *_: np.zeros(1))
    found = experiments.trace_seeds(CPU)
    wide = dict.fromkeys(("rank_correlation", "size", "rank_correlation_folded", "size_folded", "tilt", "tokens"), 2)
    wide |= {"held_out": 0.5, "overlap": 0.5, "loss": 1, "losses": 1, "ladder": 0.001}
    assert {name: found.tolerances[name] for name in wide} == wide
    assert [found.values[f"{name}_3"].tolerance for name in ("held_out", "recent_heads", "appears")] == [0.05, 2, 200]
    assert found.values["recent_heads_3"].value == 1  # above one half, not on it
    assert found.values["appears_3"].value == 8  # half of the heads are enough
    assert {array.dtype for name, array in found.arrays.items() if name != "step"} == {np.dtype(np.float32)}
