"""The study of rotary positions: parts left out are biases set to 0, and the waiting records run on random folders."""

import dataclasses
import hashlib
import json
from copy import deepcopy

import numpy as np
import pytest
import torch

from analysis.decomposition.rotary_kernel import Kernel, distance_kernel
from analysis.models.reading import load
from book.lab.rotary_probe import without_bias
from book.lab.training import neox_mini
from book.publish import experiments, records
from book.studies.rotary_bias import experiments as surveys
from book.studies.rotary_bias import figures, heads, kernels, runs
from book.studies.rotary_bias import ladder as rungs
from book.studies.rotary_bias.kernels import near_by_chance
from book.studies.rotary_bias.parts import WAYS, Scores, cut, evaluate, split_attention
from book.studies.rotary_bias.runs import lose_heads, lose_pieces, mean_query_and_key
from tests.analysis.fake_device import GPU, pretended
from tests.analysis.tiny import write_hub_cache
from tests.book.lab.test_kernel_survey import GROUPED, SIZES, save


@pytest.fixture(scope="module")
def model():
    made = neox_mini.make_model(neox_mini.VARIANTS["neox-mini"], vocabulary=40).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)) / 4)
    made.set_attn_implementation("eager")
    return made


@pytest.fixture(scope="module")
def windows():
    return torch.randint(40, (3, 13), generator=torch.Generator().manual_seed(0))


def scores(model, way, **more):
    layers = load(model).layers
    return Scores([(layer.b_Q, layer.b_K) for layer in layers], layers[0].positions, WAYS[way], **more)


def test_with_all_parts_it_is_the_model_itself(model, windows):
    assert evaluate(model, windows, scores(model, "whole")) == pytest.approx(evaluate(model, windows), abs=1e-5)


@pytest.mark.parametrize("part", ["query", "key"])
def test_without_the_parts_of_a_bias_it_is_the_model_without_that_bias(part, model, windows):
    own = evaluate(model, windows)[0]
    with without_bias(model, part):
        expected = evaluate(model, windows)[0]
    assert abs(expected - own) > 1e-3
    assert evaluate(model, windows, scores(model, f"no {part} bias"))[0] == pytest.approx(expected, abs=1e-5)


def test_one_head_is_not_all_heads(model, windows):
    one = evaluate(model, windows, scores(model, "no kernel", head=(1, 3)))[0]
    assert (
        len(
            {
                round(value, 6)
                for value in (evaluate(model, windows)[0], one, evaluate(model, windows, scores(model, "no kernel"))[0])
            }
        )
        == 3
    )


def test_attention_to_the_previous_position_is_the_models(model, windows):
    watched = scores(model, "whole", watch=("whole", "no kernel"))
    evaluate(model, windows, watched)
    maps = model(input_ids=windows[:, :-1], output_attentions=True).attentions
    for layer, attention in enumerate(maps):
        mean = attention.diagonal(-1, -2, -1).mean((0, 2))
        assert torch.allclose(watched.previous[layer][0] / watched.rows[layer], mean, atol=1e-5)


def test_what_takes_the_place_of_a_part_is_what_is_there_then(model, windows):
    layers = load(model).layers
    own = [
        rungs.spread_kernel(distance_kernel(layer.b_Q.double(), layer.b_K.double(), layer.positions), 12)
        for i, layer in enumerate(layers)
    ]
    again = evaluate(model, windows, scores(model, "no kernel", instead=own))[0]
    assert again == pytest.approx(evaluate(model, windows)[0], abs=1e-5)
    nothing = [torch.zeros_like(kernel) for kernel in own]
    assert evaluate(model, windows, scores(model, "no kernel", instead=nothing))[0] != pytest.approx(again, abs=1e-4)


def test_a_head_without_its_kernel_changes_later_layers_only(model, windows):
    layers = load(model).layers
    biases = [(layer.b_Q, layer.b_K) for layer in layers]
    after = lose_heads(model, windows, biases, layers[0].positions)
    before = after["previous"][0]
    assert np.allclose(after["previous_after"][:, :, 0], before[0], atol=1e-6)
    assert np.abs(after["previous_after"][0, :, 1] - before[1]).max() > 1e-4
    assert (after["by_head"] != 0).all()


@pytest.fixture(scope="module")
def partial():
    made = neox_mini.make_model(neox_mini.VARIANTS["neox-mini-partial"], vocabulary=40).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)) / 4)
    made.set_attn_implementation("eager")
    return made


def test_what_nothing_turns_has_no_share_and_what_is_turned_has(partial, windows):
    layers = load(partial).layers
    biases = [(layer.b_Q, layer.b_K) for layer in layers]
    split = split_attention(partial, windows, {"bias": biases}, layers[0].positions)
    shares = split.means()[0]
    assert split.gap < 1e-9
    assert np.abs(shares[..., 4]).max() < 1e-9
    assert np.abs(shares[..., 1:4]).min() > 1e-6
    assert biases[0][1][:, 4:].abs().min() > 0


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_shares_are_split_where_the_model_is(partial, windows):
    layers = load(partial).layers
    biases = {"bias": [(layer.b_Q, layer.b_K) for layer in layers]}
    due = split_attention(partial, windows, biases, layers[0].positions).means()
    with pretended():
        there = deepcopy(partial).to(GPU)
        rotary = load(there).layers[0].positions
        found = split_attention(there, windows, biases, rotary).means()
        lost = lose_pieces(there, windows, biases["bias"], rotary)
    assert lost == pytest.approx(lose_pieces(partial, windows, biases["bias"], layers[0].positions), abs=1e-9)
    np.testing.assert_allclose(found, due, atol=1e-9)


def test_of_the_key_bias_only_the_turned_piece_counts(partial, windows):
    layers = load(partial).layers
    biases = [(layer.b_Q, layer.b_K) for layer in layers]
    whole = evaluate(partial, windows, Scores(biases, layers[0].positions))[0]
    single = [tuple(part.float() for part in pair) for pair in biases]
    turned, rest = lose_pieces(partial, windows, single, layers[0].positions)
    assert rest == pytest.approx(whole, abs=1e-9)
    assert abs(turned - whole) > 1e-3


def test_biases_of_controls_are_as_long_and_in_another_order(model):
    for rung, seed, network in rungs.make_rungs(model):
        for layer, own in zip(load(network).layers, load(model).layers, strict=True):
            if rung == "random":
                assert not layer.b_K.any()
                continue
            torch.testing.assert_close(layer.b_K.norm(), own.b_K.norm())
            torch.testing.assert_close(layer.b_Q.norm(), own.b_Q.norm())
            same = torch.allclose(layer.b_K.flatten().sort().values, own.b_K.flatten().sort().values)
            assert same == (rung == "permuted")
            assert not torch.allclose(layer.b_K, own.b_K)
        if seed:
            break


def test_random_phases_keep_amplitudes():
    kernel = Kernel(torch.ones(2, 3).double(), torch.zeros(2, 3).double(), torch.ones(3).double(), torch.zeros(2))
    drawn = rungs.with_random_phases(kernel, torch.Generator().manual_seed(0))
    assert torch.equal(drawn.amplitude, kernel.amplitude)
    assert len(drawn.phase.unique()) == 6


def test_the_mean_query_of_a_model_without_rotation_is_that_of_its_inputs():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    gpt2 = GPT2LMHeadModel(GPT2Config(n_embd=16, n_head=2, n_layer=1, vocab_size=40, n_positions=16)).eval()
    ids = torch.randint(40, (3, 13))
    ((query, key),) = mean_query_and_key(gpt2, ids)
    inputs = []
    gpt2.transformer.h[0].attn.c_attn.register_forward_hook(lambda module, args, out: inputs.append(out))
    gpt2(ids[:, :-1])
    mean = inputs[0].mean((0, 1)).view(3, 2, 8)
    torch.testing.assert_close(query, mean[0])
    torch.testing.assert_close(key, mean[1])


def test_windows_overlap_by_one():
    assert cut(torch.arange(10), 4).tolist() == [[0, 1, 2, 3, 4], [4, 5, 6, 7, 8]]


def test_one_slow_cosine_is_near_as_often_as_its_phase_allows():
    counts = near_by_chance({"amplitude": np.ones((1, 1)), "frequencies": np.array([2 * np.pi / 127])}, draws=4000)
    assert counts.mean() == pytest.approx(5 / 127, abs=0.02)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub's cache without a network: call it with a name and what `save` takes."""
    cache = tmp_path / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))

    def fill(name, kind, **sizes):
        hub_id, _, branch = name.partition("@")
        save(tmp_path / name, kind, **sizes)
        write_hub_cache(cache, hub_id, tmp_path / name, hashlib.sha1(name.encode()).hexdigest(), branch or "main")

    return fill


def test_the_waiting_records_run_on_a_hub_of_random_models(hub, tmp_path, monkeypatch):
    oss = {**GROUPED, "num_local_experts": 2, "num_experts_per_tok": 1}
    waiting = surveys.EXPERIMENTS
    for name, kind, sizes in (("phi", "Phi", SIZES), ("gpt-oss", "GptOss", oss)):
        model = waiting[name].models[0]
        assert waiting[name].missing() == [f"model {model}"]
        hub(model, kind, **sizes)
        assert waiting[name].missing() == []
    for model in waiting["qwen"].models:
        hub(model, model.split("/")[1].split(".")[0].split("-")[0], **GROUPED)
    compared = waiting["qwen"].compute(torch.device("cpu"))
    assert compared["Qwen2.5-7B range"] > 0 == compared["Qwen3-8B range"]
    assert (waiting["phi"].compute(torch.device("cpu")).array("phi-2 cancelling") > 0).all()
    written = records.write(dataclasses.replace(waiting["gpt-oss"], name="oss"), torch.device("cpu"), tmp_path / "r")
    assert records.load("oss", written.parent).array("gpt-oss-20b sink").shape == (2, 4)
    assert json.loads(written.read_text())["provenance"]["models"][0]["source"] == "hub"


def test_pythias_steps_are_its_branches(hub, monkeypatch):
    assert len(surveys.PYTHIA) == 154
    assert {"EleutherAI/pythia-160m@step512", "EleutherAI/pythia-160m@step143000"} <= set(surveys.PYTHIA)
    assert surveys.EXPERIMENTS["pythia"].missing()[-1] == "151 more models"
    steps = (0, 2, 1000)
    monkeypatch.setattr(surveys, "STEPS", steps)
    monkeypatch.setattr(surveys, "PYTHIA", tuple(f"EleutherAI/pythia-160m@step{step}" for step in steps))
    for k, name in enumerate(surveys.PYTHIA):
        hub(name, "GPTNeoX", **{**SIZES, "num_attention_heads": 4}, seed=k)
    result = surveys.survey_steps(torch.device("cpu"))
    assert result.array("step").tolist() == list(steps)
    assert result.array("range").shape == (3, 2, 4)
    *before, last = result.array("range").max((1, 2)).tolist()
    assert last not in before
    assert result.values["range"].value == pytest.approx(last, rel=1e-9), "the range is that of the last step"
    assert len(set(result.array("range")[:, 0, 0].tolist())) == 3  # every branch has weights of its own


class Recorded:
    """A record of which a test needs a few arrays."""

    def __init__(self, **arrays):
        self.arrays = arrays

    def array(self, name):
        return np.asarray(self.arrays[name])


def test_every_variant_is_trained_with_as_many_seeds():
    every = (*runs.RUNS, *runs.SEQUENTIAL)
    assert {name for name, _ in every} == set(neox_mini.VARIANTS)
    assert {len(runs.seeds_of(name, every)) for name in neox_mini.VARIANTS} == {runs.SEEDS}


def test_previous_token_heads_are_counted_with_a_part_and_without():
    names = list(WAYS)
    bias, mean = np.zeros((1, len(WAYS), 1, 3)), np.zeros((1, len(WAYS), 1, 3))
    bias[0, :, 0], mean[0, :, 0] = (0.5, 0.25, 0.2), (0.5, 0.25, 0.2)  # two heads reach a quarter, one does not
    bias[0, names.index("no kernel"), 0] = (0.5, 0.2, 0.9)
    mean[0, names.index("no kernel"), 0] = (0.1, 0.1, 0.9)
    mean[0, names.index("no query side"), 0] = (0.3, 0.1, 0.9)
    assert heads.count_strong(Recorded(previous_bias=bias, previous_mean=mean)) == {
        "strong_heads": 2,
        "strong_left_bias": 1,
        "strong_left_mean": 0,
        "strong_left_semi": 2,
        "strong_left_side": 1,
    }


def test_the_static_arrows_end_where_the_kernel_is():
    record = Recorded(
        length=np.full((2, 2, 8, 2), 2.0), angle=np.zeros((2, 2, 8, 2)), turn=np.array([np.pi / 2, np.pi / 4])
    )
    shown = kernels.arrows(record)
    plane, panel = figures.arrows(shown.length, shown.angle, shown.turn, 2).axes
    assert panel.lines[0].get_ydata()[:3] == pytest.approx([4, 2**0.5, -2])  # an arrow of 2 turns twice as fast
    assert plane.lines[1].get_xdata() == pytest.approx([0, -2])
    assert {"distance", "source", "random", "layer", "head"} == set(shown.start())


def test_the_record_of_the_arrows_is_the_bundled_models():
    written, found = experiments.load("rotary-bias-arrows"), kernels.compute(torch.device("cpu"))
    for name in ("length", "angle", "turn"):
        np.testing.assert_allclose(found.array(name), written.array(name), atol=1e-5)
    layer = load("neox-mini").layers[1]
    kernel = distance_kernel(layer.b_Q, layer.b_K, layer.positions)
    np.testing.assert_allclose(found.array("length")[0, 1], kernel.amplitude, atol=1e-6)


def test_runs_are_measured_one_by_one(tmp_path, monkeypatch):
    measured = {"a": {"held_out": np.array([3.0, 2.0]), "step": np.array([0, 5])}}
    measured["b"] = {"held_out": np.array([3.0, 1.0]), "step": np.array([0, 5])}
    monkeypatch.setattr(runs, "train", lambda name, seed, corpus, device: name)
    monkeypatch.setattr(runs, "measure_run", lambda folder, corpus, device: measured[folder])
    losses, arrays = runs.measure_runs([("a", 0), ("b", 4)], None, torch.device("cpu"))
    assert {name: value.value for name, value in losses.items()} == {"loss a 0": 2.0, "loss b 4": 1.0}
    assert arrays["held_out"].shape == (2, 2)
    assert arrays["step"].tolist() == [0, 5]
