"""The loop lowers a loss, resumes to the bit, groups parameters as told, and refuses before it computes."""

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import nn

from book.lab.training import loop
from book.lab.training.loop import Settings, train

SETTINGS = Settings(steps=30, rate=1e-2, warmup=3, decay=0.1, seed=4)


def make_model(seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(5, 16), nn.Dropout(0.2), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 1))


def batch(step):
    x = torch.randn(64, 5, generator=torch.Generator().manual_seed(step))
    return x, x[:, :1] - x[:, 1:2]


def never(step):
    raise AssertionError(f"batch {step} was asked for")


def loss(model, pair):
    x, y = pair
    return (model(x) - y).square().mean()


def probe(step, model):
    return {"bias": model[0].bias.detach().cpu().clone().numpy(), "norm": model[4].weight.norm().item()}


def run(out, batch=batch, settings=SETTINGS, model=None, **more):
    model = model or make_model()
    more = {"probe": probe, "probe_at": (0, 1, 5, 20, 30), "save_every": 0.0, **more}
    return model, train(model, batch, loss, settings, out, **more)


def test_the_loss_falls(tmp_path):
    _, result = run(tmp_path, settings=Settings(steps=200, rate=1e-2))
    assert result.losses.shape == (200,)
    assert result.losses[-20:].mean() < 0.7 * result.losses[:20].mean()


@pytest.mark.parametrize("stop", [1, 5, 17])
def test_an_interrupted_run_ends_where_the_uninterrupted_one_ends_to_the_bit(tmp_path, stop):
    whole, reference = run(tmp_path / "whole")

    def interrupted(step):
        if step == stop:
            raise KeyboardInterrupt
        return batch(step)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "halves", interrupted)
    asked = []
    halves, result = run(tmp_path / "halves", lambda step: (asked.append(step), batch(step))[1], model=make_model(9))
    assert asked == list(range(stop, 30))
    for name, value in whole.state_dict().items():
        assert torch.equal(value, halves.state_dict()[name]), name
    assert np.array_equal(reference.losses, result.losses)
    assert reference.trace.keys() == result.trace.keys() == {"step", "bias", "norm"}
    for name, value in reference.trace.items():
        assert np.array_equal(value, result.trace[name]), name
    assert result.trace["step"].tolist() == [0, 1, 5, 20, 30]
    assert result.trace["bias"].shape == (5, 16)


def test_a_guarded_run_leaves_out_the_update_of_a_spike(tmp_path):
    def spoilt(step):
        x, y = batch(step)
        return x, y * (1e4 if step == 10 else 1)

    guarded = Settings(steps=12, rate=1e-2, guard=5.0)
    weights = [
        run(tmp_path / str(number), spoilt, settings, probe_at=(10, 11))[1].trace["norm"]
        for number, settings in enumerate((guarded, Settings(steps=12, rate=1e-2)))
    ]
    assert weights[0][0] == weights[0][1]
    assert weights[1][0] != weights[1][1]


def test_a_guard_gives_way_to_what_lasts(tmp_path):
    def larger(step):
        x, y = batch(step)
        return x, y * (1 if step < 10 else 1e3)

    settings = Settings(steps=100, rate=1e-2, guard=5.0, clip=None)
    _, result = run(tmp_path, larger, settings, probe_at=(10, 11, 99, 100))
    norms = result.trace["norm"]
    assert norms[0] == norms[1]
    assert norms[2] != norms[3]


def test_a_run_stops_at_its_limit_looks_and_saves(tmp_path):
    _, result = run(tmp_path, limit=0.0, probe_at=(20, 30))
    assert (len(result.losses), result.trace["step"].tolist()) == (0, [0])
    assert (tmp_path / loop.STATE).exists()


def test_a_finished_run_is_not_trained_again_and_a_fresh_one_is(tmp_path):
    _, first = run(tmp_path)
    _, again = run(tmp_path, batch=never)
    assert np.array_equal(first.losses, again.losses)
    asked = []
    run(tmp_path, lambda step: (asked.append(step), batch(step))[1], resume=False)
    assert len(asked) == 30


def test_what_is_random_in_the_model_depends_on_the_seed_and_leaves_the_outer_generator_alone(tmp_path):
    before = torch.random.get_rng_state()
    _, first = run(tmp_path / "a")
    assert torch.equal(before, torch.random.get_rng_state())
    _, other = run(tmp_path / "b", settings=Settings(steps=30, rate=1e-2, warmup=3, decay=0.1, seed=5))
    assert first.losses[0] != other.losses[0]


def test_a_state_of_another_run_is_refused_and_says_what_differs(tmp_path):
    run(tmp_path, identity={"corpus": "a"})
    with pytest.raises(ValueError, match=r"another run \(corpus 'a' there, 'b' here\)"):
        run(tmp_path, identity={"corpus": "b"})
    with pytest.raises(ValueError, match="steps 30 there, 40 here"):
        run(tmp_path, settings=Settings(steps=40, rate=1e-2, warmup=3, decay=0.1, seed=4), identity={"corpus": "a"})


def test_a_truncated_state_is_refused(tmp_path):
    run(tmp_path)
    state = tmp_path / loop.STATE
    state.write_bytes(state.read_bytes()[:-100])
    with pytest.raises(ValueError, match="no state of a training run"):
        run(tmp_path)


def test_the_state_is_safetensors_with_json_in_its_header_and_no_part_is_left(tmp_path):
    run(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [loop.STATE]
    with safe_open(tmp_path / loop.STATE, framework="pt") as file:
        assert json.loads(file.metadata()["about"])["settings"]["steps"] == 30
        assert "model/0.weight" in file.keys()  # noqa: SIM118
        assert "optimiser/0.weight/exp_avg_sq" in file.keys()  # noqa: SIM118


def test_an_output_folder_that_cannot_be_written_is_refused_before_any_batch(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"cannot write to .*file/out"):
        run(tmp_path / "file" / "out", batch=never)


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path):
    with pytest.raises(FloatingPointError, match="nan at step 2"):
        run(tmp_path, lambda step: (batch(step)[0] * (float("nan") if step == 2 else 1), batch(step)[1]))


def test_vectors_have_no_weight_decay_and_patterns_set_rates():
    settings = Settings(steps=1, rate=1.0, rates={"4.*": 0.5}, decay=0.1)
    model = make_model()
    seen = {id(p): (g["lr"], g["weight_decay"]) for g in loop._groups(model, settings) for p in g["params"]}
    assert {name: seen[id(p)] for name, p in model.named_parameters()} == {
        "0.weight": (1.0, 0.1),
        "0.bias": (1.0, 0.0),
        "2.weight": (1.0, 0.0),
        "2.bias": (1.0, 0.0),
        "4.weight": (0.5, 0.1),
        "4.bias": (0.5, 0.0),
    }


def test_schedules():
    cosine = Settings(steps=110, warmup=10, final=0.1)
    assert cosine.share(0) == 0.1
    assert cosine.share(9) == cosine.share(10) == 1
    assert cosine.share(60) == pytest.approx(0.55)
    assert Settings(steps=10, schedule="constant").share(9) == 1
    with pytest.raises(ValueError, match="schedule must be"):
        Settings(steps=1, schedule="step")
    with pytest.raises(ValueError, match="steps must be at least 1"):
        Settings(steps=0)


def test_bfloat16_autocast_keeps_the_parameters_in_float32(tmp_path):
    model, result = run(tmp_path, settings=Settings(steps=5, rate=1e-2, bf16=True))
    assert np.isfinite(result.losses).all()
    assert model[0].weight.dtype == torch.float32


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_it_trains_and_resumes_on_a_gpu(tmp_path):
    run(tmp_path, device="cuda")
    model, result = run(tmp_path, batch=never, device="cuda")
    assert model[0].weight.is_cuda
    assert len(result.losses) == 30
