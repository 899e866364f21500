"""The study of rotary positions: parts left out are biases set to 0, and the waiting records run on random folders."""

import numpy as np
import pytest
import torch

from analysis.models.families import from_module
from analysis.surveys.rotary_probe import without_bias
from analysis.training import neox_mini
from book.studies.rotary_bias import gpt_oss, phi, pythia, qwen
from book.studies.rotary_bias.kernels import near_by_chance
from book.studies.rotary_bias.parts import WAYS, Scores, cut, evaluate
from tests.analysis.surveys.test_kernel_survey import GROUPED, SIZES, save


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
    layers = from_module(model)
    return Scores([(layer.b_Q, layer.b_K) for layer in layers], layers.positions(0), WAYS[way], **more)


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
    assert len({round(value, 6) for value in (evaluate(model, windows)[0], one,
                                              evaluate(model, windows, scores(model, "no kernel"))[0])}) == 3


def test_attention_to_the_previous_position_is_the_models(model, windows):
    watched = scores(model, "whole", watch=True)
    evaluate(model, windows, watched)
    maps = model(input_ids=windows[:, :-1], output_attentions=True).attentions
    for layer, attention in enumerate(maps):
        mean = attention.diagonal(-1, -2, -1).mean((0, 2))
        assert torch.allclose(watched.previous[layer][0] / watched.rows[layer], mean, atol=1e-5)


def test_windows_overlap_by_one():
    assert cut(torch.arange(10), 4).tolist() == [[0, 1, 2, 3, 4], [4, 5, 6, 7, 8]]


def test_one_slow_cosine_is_near_as_often_as_its_phase_allows():
    counts = near_by_chance({"amplitude": np.ones((1, 1)), "frequencies": np.array([2 * np.pi / 127])}, draws=4000)
    assert counts.mean() == pytest.approx(5 / 127, abs=0.02)


def test_the_waiting_records_run_on_random_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("ANALYSIS_DATA", str(tmp_path))
    for step in (10, 0, 2):
        save(tmp_path / pythia.DATA / f"step{step}", "GPTNeoX", **SIZES)
    result = pythia.compute(torch.device("cpu"))
    assert result.array("step").tolist() == [0, 2, 10]
    assert result.array("range").shape == (3, 2, 4)
    assert result["range"] > 0
    for name, kind, sizes in (("qwen2.5-0.5b", "Qwen2", GROUPED), ("qwen3-0.6b", "Qwen3", GROUPED),
                              ("phi-2", "Phi", SIZES),
                              ("gpt-oss-20b", "GptOss", {**GROUPED, "num_local_experts": 2, "num_experts_per_tok": 1})):
        save(tmp_path / name, kind, **sizes)
    compared = qwen.compute(torch.device("cpu"))
    assert compared["qwen2.5-0.5b range"] > 0 == compared["qwen3-0.6b range"]
    for study in (phi, gpt_oss):
        assert study.EXPERIMENT.missing() == []
        assert study.compute(torch.device("cpu"))[f"{study.MODELS[0]} range"] > 0
