"""Rotary positions: the whole measurement of the chapter, its ladders, heads, trainings and surveys."""

from contextlib import contextmanager
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from book.publish.records import Value
from book.studies.rotary_bias import experiments, heads, runs
from book.studies.rotary_bias.parts import WAYS
from tests.book.studies.known import record

rotary = import_module("book.studies.rotary_bias.measure")


# ---- the chapter


def test_each_part_of_the_chapter_is_handed_its_own_inputs(monkeypatch):
    model = SimpleNamespace(layers=[SimpleNamespace(positions="turn"), None])
    checkpoint = SimpleNamespace(folder="folder")
    for module, name, answer in (
        (rotary, "choose_inputs", lambda device: SimpleNamespace(device=device)),
        (rotary.checkpoints, "find", {"neox-mini": checkpoint}.__getitem__),
        (rotary.gpt2_mini, "read_trace", lambda folder: ("card", f"trace of {folder}")),
        (rotary, "load", lambda folder, device: ("model", folder, device)),
        (rotary.reading, "load", {("model", "folder", "there"): model}.__getitem__),
        (rotary.pretrained, "tokenizer", lambda found: ("tokenizer", found)),
        (rotary, "passages", lambda count: f"{count} passages"),
        (rotary, "measure_shares", lambda *given, **named: ("shares", given, named)),
        (rotary, "measure_seeds", lambda inputs: (("seeds", inputs.device), "record", "first")),
        (rotary, "measure_rungs", lambda inputs: (("rungs", inputs.device), "second")),
        (rotary, "measure_seed_kernels", lambda given: f"kernels of {given}"),
        (rotary, "measure_order", lambda inputs, kernels: (("order", inputs.device, kernels), "third")),
        (rotary, "measure_kernels", lambda *given: ("kernels", *given)),
        (rotary, "measure_emergence", lambda *given: ("emergence", *given)),
        (rotary, "measure_exactness", lambda: "exactness"),
        (rotary, "measure_heads", lambda given: f"heads of {given}"),
    ):
        monkeypatch.setattr(module, name, answer)
    found = rotary.measure("there")
    assert found.inputs.device == "there"
    assert found.sources == ("first", "second", "third")
    assert (found.exactness, found.heads, found.seed_kernels) == ("exactness", "heads of record", "kernels of record")
    assert found.kernels == ("kernels", "trace of folder", "turn")
    assert found.emergence == ("emergence", "trace of folder", "turn")
    given = (("model", "folder", "there"), ("tokenizer", checkpoint), "6 passages", "trace of folder")
    assert found.shares == ("shares", given, {"rotary": "turn", "tokens": 48})
    assert (found.seeds, found.rungs) == (("seeds", "there"), ("rungs", "there"))
    assert found.order == ("order", "there", "kernels of record")


# ---- heads, one by one


def test_heads_of_three_layers_are_those_of_their_own_record(monkeypatch):
    """Two runs of three layers and four heads, drawn at random; the last layer is not the second."""
    rng = np.random.default_rng(9)
    of = {name: rng.random((2, len(WAYS), 3, 4)) for name in ("previous_bias", "previous_mean")}
    of |= {name: rng.normal(size=(2, 3, 4)) for name in ("by_head_bias", "by_head_mean")}
    of |= {f"gpt2_previous_{kind}": rng.random((len(WAYS), 3, 4)) for kind in ("bias", "mean")}
    of |= {f"gpt2_by_head_{kind}": rng.normal(size=(3, 4)) for kind in ("bias", "mean")}
    of["previous_after_mean"] = rng.random((2, 3, 4, 3, 4))
    of["gpt2_by_head_mean"][1, 2] = -9
    monkeypatch.setattr(heads, "seeds_of", {"neox-mini": [1], "neox-mini-partial": [0]}.__getitem__)
    found = heads.measure_heads(record(**of))
    bias, mean = ({way: of[f"previous_{kind}"][:, k] for k, way in enumerate(WAYS)} for kind in ("bias", "mean"))
    own = bias["whole"]
    layer, head = max(np.ndindex(3, 4), key=lambda at: own[0][at])
    last = max(range(4), key=lambda k: own[0, 2, k])
    strong = [at for at in np.ndindex(2, 3, 4) if own[at] >= 0.25]
    in_layer = [sum(at[1] == layer for at in strong) for layer in range(3)]
    in_last = in_layer[2]
    assert in_last not in {in_layer[0], in_layer[1], len(strong)}
    assert len(strong) < own.size
    left = {"bias": bias["no kernel"], "mean": mean["no kernel"]}
    left |= {"semi": mean["no semi-bias"], "side": mean["no query side"]}
    drops = [1 - mean["no kernel"][at] / own[at] for at in strong]
    numbers = {
        "previous_head": f"{layer}.{head}",
        "previous_best": own[0, layer, head],
        "previous_no_kernel": bias["no kernel"][0, layer, head],
        "previous_no_mean_kernel": mean["no kernel"][0, layer, head],
        "previous_content": mean["content only"][0, layer, head],
        "strong_heads": len(strong),
        "strong_place": f", {in_last} of them in the last layer",
        **{f"strong_left_{name}": sum(values[at] >= 0.25 for at in strong) for name, values in left.items()},
        **{"strong_drop_low": min(drops), "strong_drop_high": max(drops)},
        "gpt2_rise_head": 9,
        "head_rise_bias_high": max(of["by_head_bias"].ravel()),
        "head_rise_mean_high": max(of["by_head_mean"].ravel()),
        "later_least": min(of["previous_after_mean"][0, 0, k, 2, last] for k in range(4)),
    }
    assert {name: getattr(found, name) for name in numbers} == pytest.approx(numbers)
    assert (found.biased, found.strong) == ((1, 0), 0.25)
    order = [1, 0]
    panels = {
        "previous_panel": (
            (own[order], bias["no kernel"][order]),
            (own, mean["no kernel"]),
            (of["gpt2_previous_mean"][0], of["gpt2_previous_mean"][list(WAYS).index("no kernel")]),
        ),
        "rise_panel": (
            (own[order], of["by_head_bias"][order]),
            (own, of["by_head_mean"]),
            (of["gpt2_previous_mean"][0], of["gpt2_by_head_mean"]),
        ),
    }
    for name, due in panels.items():
        drawn = getattr(found, name)
        assert list(drawn) == ["kernel of the biases", "kernel of the mean input", "gpt2-mini, either"]
        for pair, due_pair in zip(drawn.values(), due, strict=True):
            np.testing.assert_array_equal(pair[0], due_pair[0])
            np.testing.assert_array_equal(pair[1], due_pair[1])
    np.testing.assert_array_equal(found.gpt2["rise_bias"], of["gpt2_by_head_bias"])
    np.testing.assert_array_equal(found.gpt2["without_bias"], of["gpt2_previous_bias"][list(WAYS).index("no kernel")])


# ---- trainings and surveys


def test_a_training_holds_a_folder_of_its_variant_and_seed(monkeypatch):
    held, trained = [], []

    @contextmanager
    def claim(folder, kind):
        held.append((str(folder), kind))
        yield
        held.append("left")

    monkeypatch.setattr(runs, "claim_folder", claim)
    monkeypatch.setattr(runs, "make_probe", lambda windows: ("probe of", windows))
    monkeypatch.setattr(runs.neox_mini, "train", lambda *given, **named: trained.append((given, named, len(held))))
    corpus = SimpleNamespace(windows="windows")
    out = runs.train("neox-mini-partial", 2, corpus, torch.device("cpu"))
    folder = "runs/rotary-bias-neox-mini-partial-2"
    assert (str(out), held) == (folder, [(folder, "training of neox-mini-partial"), "left"])
    named = {"seed": 2, "device": "cpu", "probe": ("probe of", "windows"), "corpus": corpus}
    assert trained == [((out, "neox-mini-partial"), named, 1)]


def test_gpt2_mini_loses_its_parts_with_positions_that_do_not_turn(monkeypatch):
    layers = [SimpleNamespace(b_Q="q0", b_K="k0"), SimpleNamespace(b_Q="q1", b_K="k1")]
    known = {"bias": [("q0", "k0"), ("q1", "k1")], "mean": "means of model over all"}
    kinds = {str(biases): k for k, biases in enumerate(known.values())}
    monkeypatch.setattr(runs.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(
        runs.pretrained,
        "load",
        lambda found, task, device: {("gpt2-mini", "lm", "there"): "model"}[found, task, device],
    )
    monkeypatch.setattr(runs.reading, "load", lambda model: SimpleNamespace(layers=layers))
    monkeypatch.setattr(runs, "mean_query_and_key", lambda model, windows: f"means of {model} over {windows}")
    monkeypatch.setattr(runs, "choose_windows", lambda windows: f"few of {windows}")

    def lose_parts(model, windows, biases, turn):
        assert (model, windows, turn) == ("model", "all", None)
        return [kinds[str(biases)] + k / 10 for k in range(3)]

    def lose_heads(model, windows, biases, turn):
        assert (model, windows, turn) == ("model", "few of all", None)
        return {"by_head": np.array([kinds[str(biases)] + 0.5]), "previous": np.array([kinds[str(biases)] + 0.25])}

    monkeypatch.setattr(runs, "lose_parts", lose_parts)
    monkeypatch.setattr(runs, "lose_heads", lose_heads)
    found = runs.measure_gpt2(SimpleNamespace(windows="all"), "there")
    assert {str(array.dtype) for array in found.values()} == {"float32"}
    rows = found.pop("gpt2_without")
    np.testing.assert_allclose(rows, [[0, 0.1, 0.2], [1, 1.1, 1.2]], rtol=1e-6)
    assert {name: array.tolist() for name, array in found.items()} == {
        **{"gpt2_by_head_bias": [0.5], "gpt2_by_head_mean": [1.5]},
        **{"gpt2_previous_bias": [0.25], "gpt2_previous_mean": [1.25]},
    }


def test_a_single_frequency_has_no_other_base(monkeypatch):
    """NTK's way changes the base, which decides nothing where there is one frequency alone."""
    monkeypatch.setattr(
        runs,
        "ntk_aware",
        lambda turn, factor: SimpleNamespace(frequencies=turn.frequencies / factor, attention_factor=1),
    )
    for frequencies, due in (([1.0], [1.0]), ([1.0, 0.5], [0.25, 0.125])):
        embedding = SimpleNamespace(inv_freq=torch.zeros(len(due)), attention_scaling=0)
        model = SimpleNamespace(gpt_neox=SimpleNamespace(rotary_emb=embedding))
        turn = SimpleNamespace(frequencies=torch.tensor(frequencies), attention_factor=1)
        runs._stretch(model, turn, "NTK")
        assert embedding.inv_freq.tolist() == due


def test_the_loss_of_a_training_is_its_last_and_the_tolerance_is_wide(monkeypatch):
    of = {k: {"step": np.array([k, 10 + k]), "held_out": np.array([9.0, k, k + 0.5])} for k in range(2)}
    monkeypatch.setattr(runs, "train", lambda name, seed, corpus, device: (name, seed, corpus, device))
    monkeypatch.setattr(runs, "measure_run", lambda folder, corpus, device: of[folder[1]])
    losses, arrays = runs.measure_runs([("a", 0), ("b", 1)], "corpus", "there")
    assert losses == {
        "loss a 0": Value(0.5, tolerance=0.05, unit="nats per token"),
        "loss b 1": Value(1.5, tolerance=0.05, unit="nats per token"),
    }
    assert arrays["step"].tolist() == [0, 10]
    assert (arrays["step"].dtype, arrays["held_out"].dtype) == (np.int64, np.float32)
    assert arrays["held_out"].tolist() == [[9, 0, 0.5], [9, 1, 1.5]]


def test_a_model_has_the_largest_range_of_its_heads(monkeypatch):
    surveys = {
        "team/one": {"range": np.array([[1.0, 3], [2, 0]]), "sink": np.array([0.5])},
        "two": {"range": np.array([[4.0, 8], [5, 6]]), "sink": np.array([0.25])},
    }
    monkeypatch.setattr(experiments, "survey_model", surveys.__getitem__)
    found = experiments.survey_models(["team/one", "two"], torch.device("cpu"))
    assert found.values == {"one range": Value(3.0, 1e-3, unit="nats"), "two range": Value(8.0, 1e-3, unit="nats")}
    assert {name: array.dtype for name, array in found.arrays.items()} == dict.fromkeys(
        ("one range", "one sink", "two range", "two sink"), np.float32
    )
    assert found.arrays["two range"].tolist() == [[4, 8], [5, 6]]
    assert found.tolerances == dict.fromkeys(found.arrays, 1e-3)


def test_the_steps_of_a_training_are_surveyed_in_turn_and_the_last_is_named(monkeypatch):
    sizes = dict(zip(experiments.PYTHIA, np.arange(float(len(experiments.PYTHIA)))[::-1], strict=True))
    monkeypatch.setattr(experiments, "survey_model", lambda name: {"range": sizes[name] + np.array([[0.25, 0.5]])})
    found = experiments.survey_steps(torch.device("cpu"))
    assert found.values == {"range": Value(0.5, 1e-3, unit="nats")}
    assert found.arrays["step"].tolist() == [0, *(2**k for k in range(10)), *(1000 * k for k in range(1, 144))]
    assert found.arrays["range"][:, 0, 1].tolist() == [size + 0.5 for size in sizes.values()]
    assert found.tolerances == {"range": 1e-3}


@pytest.mark.parametrize(("train", "trained"), [("train_variants", runs.RUNS), ("train_sequential", runs.SEQUENTIAL)])
def test_trainings_have_wide_tolerances_but_for_their_steps(monkeypatch, train, trained):
    monkeypatch.setattr(experiments.gpt2_mini, "read_corpus", lambda: "corpus")
    arrays = {"step": np.array([3]), "rise": np.array([0.5])}
    monkeypatch.setattr(experiments, "measure_runs", lambda *given: ({"loss": given}, dict(arrays)))
    monkeypatch.setattr(experiments, "measure_gpt2", lambda *given: {"gpt2": given})
    found = getattr(experiments, train)("there")
    assert found.values == {"loss": (trained, "corpus", "there")}
    gpt2 = {"gpt2": ("corpus", "there")} if train == "train_variants" else {}
    assert found.arrays == arrays | gpt2
    assert found.tolerances == dict.fromkeys(("rise", *gpt2), 20)
