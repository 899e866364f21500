"""The chapter on patterns and messages: its whole measurement, and each error where something is wrong."""

from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from analysis.core.attention_layer import Mask
from analysis.transformer.attention import attend
from book.studies.patterns_and_messages import experiments, forms, readings
from book.studies.shared.equality import draw, random_layer
from tests.book.studies.known import double, plain, record

study = import_module("book.studies.patterns_and_messages.measure")  # the package exports a function of that name
CPU = torch.device("cpu")
EYE = torch.eye(2).double()


def test_the_whole_chapter_is_measured_on_one_layer_of_three_heads(monkeypatch):
    names = ("rewriting", "bias_free", "gauge", "readings", "spaces", "rotary", "costs")
    for name in names:
        monkeypatch.setattr(study, f"measure_{name}", lambda *given, name=name: (name, *given))
    monkeypatch.setattr(study, "run_printed_lists", lambda *given: given)
    left_out = {"no constant pattern": np.array([0.3, 0.12, 0.255])}
    asked = []
    equality = SimpleNamespace(gpt2=left_out)
    monkeypatch.setattr(study, "measure_equality", lambda *given: asked.append(given) or (equality, "of equality"))
    monkeypatch.setattr(study, "measure_spectra", lambda *given: asked.append(given) or ("spectra", "of spectra"))
    m = study.measure(device="cpu")
    layer, x = m.layer, m.x
    assert layer.W_Q.shape == layer.W_K.shape == layer.W_V.shape == (3, 12, 4)
    assert torch.equal(x, draw(2, 9, 12))
    assert torch.equal(layer.W_O, random_layer(3, 12, 4).W_O)
    assert asked == [(layer, x, m.inputs), (m.inputs,)]
    assert m.equality is equality
    assert m.no_constant == "12% to 30%"
    assert m.rewriting == ("rewriting", layer, x)
    assert m.gauge == ("gauge", layer, x)
    assert m.rotary == ("rotary", layer, x)
    assert m.costs == ("costs", layer, x, m.inputs)
    assert (m.readings, m.spaces, m.spectra) == (("readings", m.inputs), ("spaces", m.inputs), "spectra")
    assert m.sources == {"equality": "of equality", "spectra": "of spectra"}
    free, same = m.lists
    assert m.bias_free == ("bias_free", free, x)
    assert same is x
    for name in ("b_Q", "b_K", "b_V", "b_O"):
        assert not getattr(free, name).any()
        assert getattr(layer, name).any()
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        assert torch.equal(getattr(free, name), getattr(layer, name))


# ---- the steps of the document


def bias_free_layer():
    layer = random_layer(3, 12, 4)
    return replace(layer, **{name: 0 * getattr(layer, name) for name in ("b_Q", "b_K", "b_V", "b_O")})


def module_of(change_output, change_attention):
    """Return what stands for a module: the layer itself, changed."""

    def module(family, layer):
        causal = replace(layer, mask=Mask(causal=family != "bert"))
        return lambda x: (change_output(attend(x, causal).output), change_attention(attend(x, causal).attention))

    return module


def same(tensor):
    return tensor


def wrong():
    """Name the steps that are off by more than rounding."""
    errors = forms.measure_bias_free(bias_free_layer(), draw(2, 6, 12)).errors
    return {name for name, error in errors.items() if error > 1e-9}


BROKEN = {
    "the module's output": (
        forms,
        "attention_module",
        lambda _: module_of(lambda output: output + 1, same),
        {"concatenation", "sum over heads", "values first", "sum of messages"},
    ),
    "the module's attention": (
        forms,
        "attention_module",
        lambda _: module_of(same, lambda attention: attention * 1.5),
        {"attention", "values first", "sum of messages"},
    ),
    "torch's attention": (
        torch.nn.functional,
        "scaled_dot_product_attention",
        lambda own: lambda *given: 2 * own(*given),
        {"concatenation", "torch's attention", "sum over heads"},
    ),
    "the messages": (
        forms.qk_ov,
        "messages",
        lambda own: lambda *given: 2 * own(*given),
        {"messages", "cross-attention"},
    ),
    "the matrix of messages": (
        forms.qk_ov,
        "ov_matrix",
        lambda own: lambda layer: 2 * own(layer),
        {"messages", "sum of messages"},
    ),
    "the patterns": (
        forms.qk_ov,
        "patterns",
        lambda own: lambda *given: 2 * own(*given),
        {"patterns", "cross-attention"},
    ),
    "the matrix of patterns": (
        forms.qk_ov,
        "qk_matrix",
        lambda own: lambda layer: 2 * own(layer),
        {"patterns", "scores"},
    ),
    "the softmax": (
        forms,
        "softmax",
        lambda own: lambda scores: own(2 * scores),
        {"torch's attention", "attention", "cross-attention"},
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_step_of_the_document_fails_with_what_it_is_held_to(monkeypatch, broken):
    monkeypatch.setattr(forms, "attention_module", module_of(same, same))
    module, name, change, failing = BROKEN[broken]
    monkeypatch.setattr(module, name, change(getattr(module, name)))
    found = wrong()
    if broken == "torch's attention":  # the module for three inputs may use it as well
        found -= {"cross-attention"}
    assert found == failing


def test_a_message_that_hangs_on_other_rows_is_told(monkeypatch):
    """The product with a matrix stands for one that takes the first row from every message."""
    monkeypatch.setattr(forms, "attention_module", module_of(same, same))
    layer, x = bias_free_layer(), draw(2, 6, 12)
    assert forms.measure_bias_free(layer, x).other_messages == 0
    mixing = torch.eye(12).double().repeat(3, 1, 1)

    own = torch.Tensor.__matmul__

    def matmul(one, other):
        return one - one[..., :1, :].expand(-1, 3, -1, -1) if other is mixing else own(one, other)

    monkeypatch.setattr(forms.qk_ov, "ov_matrix", lambda _: mixing)
    monkeypatch.setattr(torch.Tensor, "__matmul__", matmul)
    assert forms.measure_bias_free(layer, x).other_messages == pytest.approx(1)


def test_a_rewritten_layer_is_held_to_the_causal_module_and_to_the_semi_bias(monkeypatch):
    layer, x = random_layer(3, 12, 4), draw(2, 6, 12)
    monkeypatch.setattr(forms, "attention_module", module_of(lambda output: 2 * output, same))
    found = forms.measure_rewriting(layer, x)
    assert found == {"output": pytest.approx(0.5), "semi-bias": pytest.approx(0, abs=1e-12)}
    monkeypatch.setattr(forms, "attention_module", module_of(same, same))
    monkeypatch.setattr(forms, "semi_bias", lambda x, layer: torch.einsum("bnd,hdc,hc->bhn", x, layer.W_K, layer.b_Q))
    found = forms.measure_rewriting(layer, x)
    # the scores are divided by the root of 4, and what stands for the semi-bias is not
    assert found == {"output": pytest.approx(0, abs=1e-12), "semi-bias": pytest.approx(0.5)}


def test_other_factors_of_the_same_layer_are_two_random_changes(monkeypatch):
    layer, x = random_layer(3, 12, 4), draw(2, 6, 12)
    found = forms.measure_gauge(layer, x)
    assert torch.equal(found.G, draw(3, 4, 4, seed=5))
    assert torch.equal(found.F, draw(3, 4, 4, seed=6))
    turned = torch.einsum("hdc,hce->hde", layer.W_Q, found.G)
    assert found.moved == pytest.approx(((turned - layer.W_Q).abs().max() / layer.W_Q.abs().max()).item())
    monkeypatch.setattr(forms.qk_ov, "change_gauge", lambda layer, G, F: replace(layer, W_V=2 * layer.W_V))
    found = forms.measure_gauge(layer, x)
    assert {name for name, gap in found.unchanged.items() if gap > 1e-12} == {"W_M", "output"}
    assert found.unchanged["W_M"] == pytest.approx(1)
    assert found.moved == 0
    monkeypatch.setattr(forms.qk_ov, "change_gauge", lambda layer, G, F: replace(layer, W_K=0 * layer.W_K))
    found = forms.measure_gauge(layer, x)
    assert {name for name, gap in found.unchanged.items() if gap > 1e-12} == {"W_P", "b_P", "output"}


def test_ranks_are_those_of_the_layer_before_its_change():
    layer = random_layer(3, 12, 4)
    layer.W_Q[0, :, :2] = 0
    layer.W_V[1, :, 1:] = 0
    found = forms.measure_gauge(layer, draw(2, 6, 12))
    assert (found.pattern_ranks.tolist(), found.message_ranks.tolist()) == ([2, 4, 4], [4, 1, 4])


def test_one_input_for_three_is_another_function():
    layer = bias_free_layer()
    error, one_input = forms.measure_cross_attention(layer)
    assert error < 1e-12
    queries, keys, values = (draw(1, n, 12, seed=seed)[0] for n, seed in ((5, 7), (8, 8), (8, 9)))

    def output(queries, keys, values):
        total = 0
        for W_Q, W_K, W_V, W_O in zip(layer.W_Q, layer.W_K, layer.W_V, layer.W_O):
            total = total + (queries @ W_Q @ (keys @ W_K).T / 2).softmax(1) @ values @ W_V @ W_O
        return total

    due, other = output(queries, keys, values), output(queries, queries, queries)
    assert one_input == pytest.approx(((other - due).abs().max() / due.abs().max()).item())


def test_the_work_of_a_form_is_counted_for_what_it_reads():
    layer, x = random_layer(2, 6, 3), draw(1, 5, 6)
    found = forms.count("input-cached", layer, x)
    assert found.counted == found.formula == 4 * 5 * 6 * 6 + 2 * 5 * 5 * 2 * 6
    assert found.error < 1e-12


def test_a_form_that_gives_another_output_is_told(monkeypatch):
    monkeypatch.setattr(forms.operation_counts, "prepare", lambda form, layer: lambda x: 3 * attend(x, layer).output)
    assert forms.count("merged", random_layer(2, 6, 3), draw(1, 5, 6)).error == pytest.approx(2)


def test_the_errors_of_rotary_forms_are_differences_of_attention(monkeypatch):
    layer, x = random_layer(4, 32, 8), draw(1, 6, 32)
    maps = torch.full((1, 4, 6, 6), 7.0).double()
    monkeypatch.setattr(forms, "attention_module", lambda family, _: lambda x: (None, maps if family == "llama" else 0))
    found = forms.measure_rotary(layer, x, longest=1)
    assert set(found.errors) == {"rotary form", "no b_K", "one W_P"}
    assert list(found.errors.values()) == pytest.approx([7] * 3)  # where a later key has no weight


def test_lengths_of_the_curves_are_whole_numbers_up_to_a_hundred_thousand(monkeypatch):
    table = record(seconds=np.ones((3, 2)), lengths=np.array([16, 64]))
    monkeypatch.setattr(forms.publish, "live_or_record", lambda *_, **__: (table, ""))
    monkeypatch.setattr(forms, "count", lambda form, layer, x: (form, len(x)))
    found = forms.measure_costs(None, torch.ones(2, 3, 4), None)
    lengths = found.lengths.tolist()
    assert lengths == sorted(set(lengths))
    assert (lengths[:3], lengths[-1]) == ([1, 2, 3], 100_000)
    assert 30 < len(lengths) <= 40
    logarithms = np.log10(lengths[10:])
    assert np.diff(logarithms) == pytest.approx(np.full(len(logarithms) - 1, 5 / 39), abs=0.02)
    assert found.counts == {form: (form, 1) for form in ("factored", "merged", "input-cached")}
    assert found.timed_lengths.tolist() == [16, 64]


# ---- on text


def test_readings_are_means_over_passages_layer_by_layer(monkeypatch):
    passages = [[("w0", 1.0), ("w1", 2.0)], [("w0", 3.0), ("w1", 10.0)]]
    monkeypatch.setattr(readings, "layers", lambda checkpoint, **which: iter(passages))
    monkeypatch.setattr(readings, "_read", lambda x, w: {"angle": double(x, len(w)), "other": double(-x)})
    found = readings.readings("checkpoint")
    assert {name: values.tolist() for name, values in found.items()} == {
        "angle": [[2, 2], [6, 2]],
        "other": [[-2], [-6]],
    }


def test_a_model_reads_so_many_tokens_of_so_many_passages(monkeypatch):
    asked = []

    def tokenizer(text, truncation, max_length):
        asked.append((text, truncation, max_length))
        return {"input_ids": [len(text), 7]}

    monkeypatch.setattr(readings.pretrained, "tokenizer", lambda checkpoint: tokenizer)
    model = lambda ids, output_hidden_states: SimpleNamespace(hidden_states=[ids.double(), 2 * ids.double()])  # noqa: E731
    loaded = []
    monkeypatch.setattr(readings.pretrained, "load", lambda checkpoint, **which: loaded.append(which) or model)
    monkeypatch.setattr(readings, "load", lambda _: SimpleNamespace(plain_layers=lambda: ["first", "second"]))
    monkeypatch.setattr(readings, "attention_inputs", lambda _, states: states)
    monkeypatch.setattr(readings.texts, "passages", lambda count, source: [source, "a" * count])
    found = list(readings.layers("checkpoint", source="own", tokens=5, control_seed=4))
    assert [[(w, x.tolist()) for w, x in passage] for passage in found] == [
        [("first", [3, 7]), ("second", [6, 14])],
        [("first", [8, 7]), ("second", [16, 14])],
    ]
    assert asked == [("own", True, 5), ("a" * 8, True, 5)]
    assert loaded == [{"control_seed": 4, "dtype": torch.float64, "device": "cpu"}]
    asked.clear()
    list(readings.layers("checkpoint", source="own"))
    assert asked[0] == ("own", True, 64)


def test_the_variance_of_scores_is_parted_over_rows_that_see_enough(monkeypatch):
    """Of four rows the last two count; parts by hand from the scores of a layer of one head."""
    monkeypatch.setattr(readings, "SEEN", 2)
    x = draw(4, 3)
    layer = random_layer(1, 3, 2)
    found = readings._read(x, layer)
    pattern = x @ layer.W_Q[0] @ layer.W_K[0].T
    shared = layer.b_Q[0] @ layer.W_K[0].T
    scores = (pattern + shared) @ x.T
    constant, bias = (pattern.mean(0) + shared) @ x.T, shared @ x.T
    total = of_constant = of_bias = 0.0
    hits = {"angle": [], "influence": []}
    for i in (2, 3):
        seen = slice(i + 1)
        row = (scores[i, seen] - scores[i, seen].mean()).numpy()
        total += (row**2).sum()
        of_constant += (row * (constant[seen] - constant[seen].mean()).numpy()).sum()
        of_bias += (row * (bias[seen] - bias[seen].mean()).numpy()).sum()
        angle = [torch.cosine_similarity(pattern[i] + shared, x[j], dim=0).item() for j in range(i + 1)]
        weights = (scores[i, seen] / 2**0.5).softmax(0)
        lengths = [(weights[j] * (x[j] @ layer.W_V[0] @ layer.W_O[0]).norm()).item() for j in range(i + 1)]
        hits["angle"].append(np.argmax(angle) == int(scores[i, seen].argmax()))
        hits["influence"].append(np.argmax(lengths) == int(weights.argmax()))
    assert found["constant"].item() == pytest.approx(of_constant / total)
    assert found["query bias"].item() == pytest.approx(of_bias / total)
    for name, values in hits.items():
        assert found[name].item() == np.mean(values)


def test_factors_are_changed_head_by_head(monkeypatch):
    """Two heads of width one, so that a matrix of a head is a number, which turns no angle but those of its sign."""
    asked = []
    layer = plain(2, heads=2, W_Q=double([1], [0]), W_K=double([1], [1]))
    x = double([1, 0], [0, 1], [2, 2])
    monkeypatch.setattr(readings, "SEEN", 1)
    own = readings.draw
    monkeypatch.setattr(readings, "draw", lambda *shape, **how: asked.append((shape, how)) or own(*shape, **how))
    monkeypatch.setattr(readings.checkpoints, "find", lambda name: name)
    monkeypatch.setattr(readings, "layers", lambda *_, **__: iter([[(layer, x)]]))
    found = readings.measure_spaces(SimpleNamespace(model="m", texts=None, device="cpu"))
    assert asked == [((2, 1, 1), {"seed": 5, "device": "cpu"})]
    assert found.nearest_to_query == found.nearest_to_turned_query


# ---- what is recorded


def test_a_form_is_timed_by_the_clock_and_waited_for_on_a_gpu(monkeypatch):
    log, readings_ = [], iter([2.0, 5.0, 1.0, 8.0])
    monkeypatch.setattr(experiments, "time", SimpleNamespace(perf_counter=lambda: next(readings_)))
    monkeypatch.setattr(experiments.torch.cuda, "synchronize", lambda: log.append("waited"))
    assert experiments._timed(log.append, "x", CPU) == 3
    assert log == ["x"]
    assert experiments._timed(log.append, "y", torch.device("cuda")) == 7
    assert log == ["x", "y", "waited"]


def test_the_quickest_of_four_runs_is_recorded(monkeypatch):
    seconds = iter(range(48, 0, -1))
    monkeypatch.setattr(experiments, "LENGTHS", (2, 3, 4, 5))
    monkeypatch.setattr(experiments, "MODEL", 6)
    monkeypatch.setattr(experiments, "HEAD", 2)
    monkeypatch.setattr(experiments, "CHANNEL", 3)
    monkeypatch.setattr(experiments, "_timed", lambda run, x, device: run(x).sum() * 0 + next(seconds))
    found = experiments.compute_costs(CPU)
    assert found.arrays["seconds"].tolist() == [[45, 41, 37, 33], [29, 25, 21, 17], [13, 9, 5, 1]]
    n = np.array([2, 3, 4, 5])
    assert found.arrays["lengths"].tolist() == n.tolist()
    due = [4 * n * 6 * 6 + 2 * n * n * 6, 2 * n * 2 * 36 + 2 * n * n * 2 * 6, 4 * n * 6 * 6 + 2 * n * n * 2 * 6]
    assert found.arrays["multiply_adds"].tolist() == np.array(due).tolist()
