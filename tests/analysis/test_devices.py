"""Every public function of the mathematics on a GPU that is only pretended: nothing is made where its input is not.

The same calls as in ``test_every_function``. A GPU's refusals are real enough: tensors that meet must lie together, and
numpy is asked only after ``cpu()``. What comes out lies where the input lay, with the numbers that the CPU gives.
"""

import copy
from dataclasses import fields, is_dataclass, replace

import pytest
import torch

from analysis.decomposition import bilinear_form, folding, qk_ov, terms, uniform
from analysis.statistics import correlation
from analysis.transformer import attention_only, induction, mlp
from tests.analysis import test_every_function as every
from tests.analysis.fake_device import GPU, OnGPU, pretended
from tests.analysis.test_every_function import CALLS, call, numbers
from tests.analysis.tiny import random_layer

pytestmark = pytest.mark.usefixtures("unchecked")
TOLERANCE = {"rtol": 1e-9, "atol": 1e-12}


TAKE_TENSORS = [name for name, given in CALLS.items() if any(isinstance(v, torch.Tensor) for v in given.values())]


def move(value, put=lambda tensor: OnGPU(tensor.clone())):
    """Put all tensors in an argument on a GPU, the pretended one unless told otherwise."""
    if isinstance(value, torch.Tensor):
        return put(value)
    if is_dataclass(value):
        return replace(value, **{f.name: move(getattr(value, f.name), put) for f in fields(value) if f.init})
    if isinstance(value, list):
        return [move(part, put) for part in value]
    if hasattr(value, "state"):
        moved = copy.copy(value)
        moved.state = {name: move(total, put) for name, total in value.state.items()}
        return moved
    return value


def call_there(name, **how):
    """Make the call with its tensors on the GPU; generators stay on the CPU, which draws the same numbers."""
    given = {name: value for name, value in CALLS[name].items() if not isinstance(value, torch.Generator)}
    return numbers(call(name, **{argument: move(value, **how) for argument, value in given.items()}))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("name", TAKE_TENSORS)
def test_a_true_gpu_gives_the_same_numbers(name):
    due = numbers(call(name))
    for mine, right in zip(call_there(name, put=lambda tensor: tensor.cuda()), due, strict=True):
        assert mine.is_cuda or mine.ndim == 0 or name in GIVES_NUMPY
        torch.testing.assert_close(mine.cpu(), right, equal_nan=True, **TOLERANCE)


@pytest.mark.parametrize("name", TAKE_TENSORS)
def test_a_function_stays_where_its_input_lies(name):
    due = numbers(call(name))
    with pretended():
        found = call_there(name)
    for mine, right in zip(found, due, strict=True):
        on_gpu = isinstance(mine, OnGPU)
        assert on_gpu or mine.ndim == 0 or name in GIVES_NUMPY, f"a result of shape {tuple(mine.shape)} on the CPU"
        torch.testing.assert_close(mine.held if on_gpu else mine, right, equal_nan=True, **TOLERANCE)


GIVES_NUMPY = {"mathematics.layer_profile.measure", "mathematics.layer_profile.outstanding"}


LAYER = random_layer()
OF_LAYERS = [folding.fold_values, folding.fold_value_bias, uniform.key_preference, terms.key_direction]
OF_LAYERS += [bilinear_form.bordered, qk_ov.constant_pattern, qk_ov.ov_matrix, qk_ov.qk_matrix, qk_ov.update_bias]
OF_WEIGHTS = {
    **{f: (f, LAYER) for f in OF_LAYERS},
    **{f: (f, every.ONLY) for f in (attention_only.positional_qk_circuit, attention_only.full_ov_circuit)},
    "one-hot": (
        lambda layer: uniform.key_preference(layer, uniform.one_hot_input(layer.model, device=layer.W_Q.device)),
        LAYER,
    ),
    "rotary": (lambda layer: qk_ov.rotary_qk_matrix(layer, 3), LAYER),
    "fold norm": (folding.fold_norm, every.LAYER, every.NORM),
    "hull": (uniform.layer_norm_output, every.NORM),
    "fold output bias": (mlp.fold_output_bias, every.NORM, every.MLP),
    "fold layer": (mlp.fold_layer, every.STACK[0]),
    "built by hand": (induction.Layer.as_attention, induction.build(2, 3).first),
}
"""What takes weights and no tensor, so that the calls above leave it out."""


WEIGHTS_ALONE = pytest.mark.parametrize(
    "case", OF_WEIGHTS.values(), ids=[getattr(f, "__name__", f) for f in OF_WEIGHTS]
)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@WEIGHTS_ALONE
def test_a_true_gpu_makes_the_same_of_weights(case):
    function, *given = case
    found = numbers(function(*move(given, lambda tensor: tensor.cuda())))
    for mine, right in zip(found, numbers(function(*given)), strict=True):
        assert mine.is_cuda or mine.numel() == 1
        torch.testing.assert_close(mine.cpu(), right, **TOLERANCE)


@WEIGHTS_ALONE
def test_what_is_made_of_weights_lies_where_they_lie(case):
    function, *given = case
    due = numbers(function(*given))
    with pretended():
        found = numbers(function(*move(given)))
    for mine, right in zip(found, due, strict=True):
        assert isinstance(mine, OnGPU) or mine.numel() == 1, f"a result of shape {tuple(mine.shape)} on the CPU"
        torch.testing.assert_close(mine.held if isinstance(mine, OnGPU) else mine, right, **TOLERANCE)


def test_branches_that_the_calls_do_not_take():
    with pretended():
        head, tokens = induction.build(3, 4, device=GPU), torch.tensor([2, 0, 1, 0], device=GPU)
        assert all(isinstance(step.output, OnGPU) for step in induction.run(tokens, head))
        with pytest.raises(ValueError, match="finite"):
            correlation.rank_correlation(OnGPU(torch.tensor([1.0, 2.0, 3.0, 5.0])), OnGPU(torch.full((4,), torch.inf)))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x + torch.ones(3),
        lambda x: torch.cat([x, torch.ones(3)]),
        lambda x: x.numpy(),
        lambda x: torch.ones(3)[x.long()],
        lambda x: torch.stack([x[0], torch.tensor(1.0)]),
        lambda x: torch.zeros(3).scatter_add_(0, x.long(), x),
        lambda x: torch.randn(3, device=x.device, generator=torch.Generator()),
    ],
)
def test_the_pretended_gpu_refuses_what_a_gpu_refuses(wrong):
    with pretended(), pytest.raises((AssertionError, TypeError), match=r"on the GPU"):
        wrong(OnGPU(torch.zeros(3)))
