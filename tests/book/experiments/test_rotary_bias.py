"""The experiments on rotary positions on tiny models: controls, the surveys that wait for a hub, the arrows."""

import numpy as np
import pytest
import torch

from analysis.decomposition.rotary_kernel import distance_kernel
from analysis.models.reading import load
from book.experiments import rotary_bias as surveys
from book.experiments import rotary_bias_arrows, rotary_bias_ladder
from book.publish import experiments
from book.viewers import arrows
from tests.book.lab.test_kernel_survey import GROUPED, SIZES, save
from tests.book.lab.test_rotary_ablation import make_model

CPU = torch.device("cpu")


def test_biases_of_controls_are_as_long_and_in_another_order():
    model = make_model("neox-mini", seed=1)
    for rung, seed, network in rotary_bias_ladder.make_rungs(model):
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


def test_a_network_is_measured_with_all_that_the_record_holds():
    windows = torch.randint(40, (16, 13), generator=torch.Generator().manual_seed(0))
    found = rotary_bias_ladder.measure_network(make_model("neox-mini", seed=1), windows)
    record = experiments.load("rotary-bias-ladder")
    assert {name: np.shape(of) for name, of in found.items()} == {
        name.removeprefix("trained_"): of.shape for name, of in record.arrays.items() if name.startswith("trained_")
    }
    assert found["rise"][0, 0] == found["rise"][1, 0] == 0  # with all parts


def test_the_waiting_surveys_run_on_random_models(tmp_path):
    oss = {**GROUPED, "num_local_experts": 2, "num_experts_per_tok": 1}
    folders = {
        "phi": ("Phi", SIZES),
        "oss": ("GptOss", oss),
        "qwen2.5": ("Qwen2", GROUPED),
        "qwen3": ("Qwen3", GROUPED),
    }
    for name, (kind, sizes) in folders.items():
        save(tmp_path / name, kind, **sizes)
    found = surveys.survey_models([str(tmp_path / name) for name in folders], CPU)
    assert found["qwen2.5 range"] > 0 == found["qwen3 range"]
    assert (found.array("phi cancelling") > 0).all()
    assert found.array("oss sink").shape == (2, 4)
    assert {"gpt-oss", "phi", "pythia", "qwen"} == set(surveys.EXPERIMENTS)


def test_pythias_steps_are_its_branches(tmp_path):
    assert len(surveys.PYTHIA) == 154
    assert surveys.PYTHIA[512] == "EleutherAI/pythia-160m@step512"
    steps = {step: str(tmp_path / str(step)) for step in (0, 2, 1000)}
    for k, folder in enumerate(steps.values()):
        save(folder, "GPTNeoX", **SIZES, seed=k)
    result = surveys.survey_steps(steps, CPU)
    assert result.array("step").tolist() == list(steps)
    assert result.array("range").shape == (3, 2, 4)
    last = result.array("range")[-1].max()
    assert result["range"] == pytest.approx(last, rel=1e-6), "the range is that of the last step"
    assert len(set(result.array("range")[:, 0, 0].tolist())) == 3  # every branch has weights of its own


def test_the_record_of_the_arrows_is_the_bundled_models():
    written, found = experiments.load("rotary-bias-arrows"), rotary_bias_arrows.compute(CPU)
    for name in ("length", "angle", "turn"):
        np.testing.assert_allclose(found.array(name), written.array(name), atol=1e-5)
    layer = load("neox-mini").layers[1]
    kernel = distance_kernel(layer.b_Q, layer.b_K, layer.positions)
    np.testing.assert_allclose(found.array("length")[0, 1], kernel.amplitude, atol=1e-6)


def test_the_static_arrows_end_where_the_kernel_is():
    record = experiments.load("rotary-bias-arrows")
    plane, panel = arrows.draw(record, distance=2).axes
    (place,), (reach,) = panel.lines[1].get_data()
    assert (place, reach) == (2, pytest.approx(plane.lines[1].get_xdata()[1]))
    length, angle, turn = (record.array(name).astype(float) for name in ("length", "angle", "turn"))
    at = arrows.START["source"], arrows.START["layer"], arrows.START["head"]
    assert reach == pytest.approx((length[at] * np.cos(angle[at] + 2 * turn)).sum())
