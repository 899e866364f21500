"""Every public function of the mathematics, given bad input: refused by name or visibly passed on, no wrong number.

``CALLS`` holds one valid call of each function that takes a tensor: each argument as ``USUAL`` has it under its name,
or ``OTHER`` for that function; a new function with an argument of another name needs a line there. Each tensor argument
in turn is given nan, no column, no row, nothing along its first axis, no axis, an axis less or more, one row alone, one
column or row more, whole, half and complex numbers, and a list. What may happen:

* a ``TypeError`` or ``ValueError`` whose message names the argument (of two that do not fit each other, one of them);
* nan, where a plain formula passes on what it was given (not in a count or a verdict);
* for no column and nothing along an axis, a result without numbers;
* for another dtype, the result of the converted input;
* for more columns, more rows, an axis less or more, a result, where a function takes any number of them.
"""

import copy
import importlib
import inspect
import itertools
import re
import typing
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from analysis.core.attention_layer import Mask, Norm
from analysis.core.positions import Disentangled, Rotary
from analysis.core.weights import MlpWeights
from analysis.decomposition import folding, uniform
from analysis.decomposition.rotary_kernel import distance_kernel
from analysis.maps import streaming
from analysis.statistics import exact_sums
from analysis.transformer import attention_only, constructed_heads, encoder, induction
from tests.analysis import rooms
from tests.analysis.tiny import draw, random_layer

ROOT = Path(__file__).parents[2]
HEADS, MODEL, CHANNEL, POSITIONS, VOCAB = 2, 6, 3, 9, 5
INTERNAL = {
    "maps.gates.points": "read by read_gates, which checks the maps",
    "maps.gates.shear": "read by read_gates, which checks the maps",
    "maps.gates.segmentation": "read by read_gates, which checks the maps",
    "core.checks": "are themselves the checks",
    "transformer.induction_scores.prefix_matching": "is induction_score under another name",
    "transformer.attention.check_places": "is itself the check",
    "transformer.activations.check_keep": "is itself the check",
    "transformer.head_layout.check_blocks": "is itself the check",
    "statistics.exact_sums.refuse_overflow": "is itself the check",
    "mathematics.rotary_product.change_gauge": "takes complex numbers, and refuses what does not fit",
    "decomposition.rotary_kernel.unpair_channels": "takes complex numbers, those of pair_channels",
    **dict.fromkeys(
        (
            f"transformer.attention.{name}"
            for name in ("added_by_positions", "arrange", "cap", "hide_keys", "meet", "queries_and_keys", "weigh")
        ),
        "called by compute_scores, attend and score_terms, which check the rows",
    ),
    "transformer.layernorm.divide_by_size": "called by apply_norm, which checks the rows",
    "decomposition.terms.multiply_out": "called by score_terms, which checks the rows",
    "core.attention_layer.AttentionLayer.per_head": "takes what belongs to the layer",
    "core.scaling.scale_to_one": "called by functions that check the tensor",
    "mathematics.exact_ranks.first_counterexample": "hands the matrices to the claim, and reads none",
    "matrices.spectra.by_gram": "called by product_singular_values, which checks the factors",
    "matrices.spectra.by_qr": "called by product_singular_values, which checks the factors",
}


def generator():
    return torch.Generator().manual_seed(0)


LAYER = random_layer(HEADS, MODEL, CHANNEL)
NORM = Norm(draw(MODEL), draw(MODEL, seed=0))
ROTARY = Rotary(torch.ones(1, dtype=torch.float64), CHANNEL)
GENERAL = replace(
    LAYER,
    **{name: getattr(LAYER, name)[:1] for name in ("W_K", "W_V", "b_K", "b_V")},
    scale=0.5,
    mask=Mask(causal=True),
    positions=ROTARY,
    norms=(Norm(draw(MODEL), draw(MODEL, seed=0), 1e-5),),
)
MLP = MlpWeights(draw(MODEL, 8), draw(8), draw(8, MODEL), draw(MODEL))
STACK = encoder.random_layers(2, HEADS, MODEL, generator=generator())
X, Y = draw(POSITIONS, MODEL), draw(POSITIONS, MODEL, seed=0)
SCORES = draw(HEADS, POSITIONS, POSITIONS)
MAPS = SCORES.softmax(-1)
LONG = draw(1, 12, 12).softmax(-1)
KEEP = torch.arange(POSITIONS) < POSITIONS - 2
TOKENS = torch.arange(POSITIONS) % VOCAB
HEAD = induction.build(VOCAB, POSITIONS)
CAUSAL = replace(LAYER, mask=Mask(causal=True))
ONLY = attention_only.AttentionOnly(draw(VOCAB, MODEL), draw(POSITIONS, MODEL), [CAUSAL, CAUSAL], draw(MODEL, VOCAB))
PASSED = [encoder.run_layer(X, layer, keep=KEEP) for layer in STACK]
KERNEL, COUNTED = distance_kernel(LAYER.b_Q, LAYER.b_K, ROTARY), streaming.MapStatistics(1, HEADS, POSITIONS)
PAIR = np.array([0.02, 0.06])
PARTS, HEADWISE = draw(2, HEADS, POSITIONS, POSITIONS), draw(1, HEADS, POSITIONS, CHANNEL)


def square(x):
    return x.square()


USUAL = (
    dict.fromkeys(("x", "rows", "e", "y", "values"), X)
    | dict.fromkeys(("vectors", "query", "key", "value", "queries"), HEADWISE)
    | dict.fromkeys(("attention", "patched_attention", "maps", "others"), MAPS)
    | dict.fromkeys(("layer", "weights", "folded"), LAYER)
    | {name: getattr(LAYER, name) for name in ("W_Q", "W_K", "W_O", "b_Q", "b_K")}
    | {"W": LAYER.W_Q, "b": LAYER.b_Q, "norm": NORM, "mlp": MLP, "rotary": ROTARY, "model": ONLY, "head": HEAD}
    | {"scores": SCORES, "parts": PARTS, "keep": KEEP, "visible": KEEP, "activations": PASSED, "layers": [LAYER, LAYER]}
    | {"states": draw(2, POSITIONS, MODEL), "positions": 2 * torch.arange(POSITIONS), "tokens": TOKENS, "vocab": VOCAB}
    | {"function": square, "blocks": HEADS, "size": 0.5, "rng": np.random.default_rng(0), "generator": generator()}
)
"""What an argument of that name is given."""
OTHER = {
    "decomposition.rotary_kernel.Kernel.at": {"self": KERNEL, "distances": draw(POSITIONS)},
    "transformer.rotary.rotate": {"rows": HEADWISE, "positions": torch.arange(POSITIONS, dtype=torch.float64)},
    "transformer.position_scores.relative_bucket": {"distance": TOKENS, "buckets": 8, "longest": 16, "two_sided": True},
    "transformer.position_scores.disentangled_scores": {
        "keys": HEADWISE,
        "positions": Disentangled(draw(1, 8, CHANNEL), draw(1, 8, CHANNEL), 4, None, 8),
    },
    "transformer.attention.compute_scores": {"layer": GENERAL},
    "transformer.attention.attend": {"layer": GENERAL},
    "decomposition.folding.apply_folded": {"circuit": folding.fold_values(LAYER)},
    "maps.entropy.entropy_at": {"inverse_temperatures": torch.tensor([0.0, 1.0], dtype=torch.float64)},
    "decomposition.qk_ov.match": {"patterns": draw(HEADS, POSITIONS, MODEL), "channel": CHANNEL},
    "decomposition.qk_ov.deliver": {"messages": draw(HEADS, POSITIONS, MODEL)},
    "decomposition.qk_ov.change_gauge": {"G": draw(HEADS, CHANNEL, CHANNEL), "H": draw(HEADS, CHANNEL, CHANNEL)},
    "transformer.positional_encodings.rotary_scores": {"x": draw(POSITIONS, 4), "weights": random_layer(1, 4, 2)},
    "maps.attribution.attribution_density": {"t": 0.5},
    "maps.shapley_values.in_order": {"order": (1, 0)},
    "transformer.constructed_heads.attention_map": {"layer": constructed_heads.uniform(VOCAB, POSITIONS)},
    "mathematics.normality_power.at_other_size": {"statistics": PAIR, "size": 64, "other": 32, "draws": 50},
    "statistics.intervals.mean_interval": {"values": np.array([1.0, 2.0, 4.0])},
    "statistics.intervals.grouped_share_interval": {"hits": np.array([True, False, True]), "groups": ["a", "a", "b"]},
    "statistics.intervals.rotations": {"values": np.array([3.0, 0.0, 1.0]), "marked": np.array([True, False, False])},
    "mathematics.exact_ranks.exact_rank": {"matrix": np.array([[1, 2], [2, 4]])},
    "mathematics.exact_ranks.solution": {"A": np.array([[1, 2], [2, 5]]), "x": [1, 0]},
    "mathematics.exact_ranks.rank_change": {"A": np.array([[1, 2], [2, 4]]), "x": [1, 2], "y": [1, 2]},
    "transformer.activations.LayerActivations.only": {"self": PASSED[0]},
    "maps.streaming.MapStatistics.attend": {"self": COUNTED, "layer": 0, "scale": 0.5},
    "maps.streaming.MapStatistics.add": {"self": COUNTED, "layer": 0},
    "statistics.exact_sums.Moments.add": {"self": exact_sums.Moments((POSITIONS, MODEL))},
    "decomposition.terms.score_terms": {"origin": draw(MODEL), "queries": Y},
    "decomposition.terms.six_terms": {"p": Y},
    "transformer.induction.build": {"vocab": 3, "length": 4, "similarity": torch.eye(3, dtype=torch.float64)},
    "transformer.induction.step": {"x": induction.embed(TOKENS, HEAD), "layer": HEAD.first},
    "transformer.induction.predict_next": {"similarity": torch.eye(VOCAB, dtype=torch.float64)},
    "transformer.induction_scores.copying_score": {"logits": draw(HEADS, POSITIONS, VOCAB)},
    "representations.anisotropy.head_output_spectrum": {"values": draw(HEADS, POSITIONS, CHANNEL)},
    "statistics.normality.without": {"outliers": torch.tensor([1])},
    "transformer.head_layout.concatenate": {"blocks": draw(2, 3, 4)},
    "transformer.head_layout.stack": {"blocks": draw(2, 3, 4)},
    "decomposition.block_mixing.off_diagonal_share": {"coupling": draw(3, 3).abs()},
    "decomposition.block_mixing.interaction": {"a": X, "b": Y, "pair": (0, 1)},
    "decomposition.block_mixing.expand_score": {"parts": draw(2, POSITIONS, MODEL)}
    | {name: getattr(LAYER, name)[0] for name in ("W_Q", "W_K", "b_Q", "b_K")},
    "decomposition.block_mixing.vanishing": {"terms": draw(2, 2, 3, 3)},
    "maps.distance.attention_moved": {"rows": Y},
    "matrices.symmetry.asymmetry": {"matrix": draw(4, 4)},
    "maps.distance.total_variation": {"p": MAPS[0], "q": MAPS[1]},
    "mathematics.stretching.row_norms": {"head": 0},
    "mathematics.stretching.isotropic_cone_positions": {"samples": 3},
    "matrices.rank.distance_of_ones": {"x": X[:3]},
    "representations.rank_collapse.trace_residual": {"layers": STACK, "switches": encoder.ALL_ON},
    "representations.rank_collapse.cubic_rate": {"sizes": torch.tensor(PAIR), "residuals": torch.tensor(PAIR**2)},
    "representations.rank_collapse.scatter_around_mean": {"mean": draw(MODEL), "noise": X},
    "transformer.encoder.run_layer": {"layer": STACK[0], "keep": None},
    "transformer.layernorm.jacobian": {"y": X[0]},
    "transformer.mlp.apply_masked_mlp": {"mask": draw(POSITIONS, 8)},
    "matrices.spectra.product_singular_values": {"A": LAYER.W_Q, "B": LAYER.W_K},
    "matrices.rank.effective_rank": {"values": X.abs()},
    "matrices.rank.stable_rank": {"values": X.abs()},
    "transformer.positional_encodings.toeplitz_defect": {"gram": draw(4, 4)},
    "mathematics.layer_profile.outstanding": {"by_layer": [X, Y], "lengths": [4, POSITIONS - 4]},
    "statistics.exact_sums.add": {"total": exact_sums.fixed(X), "more": exact_sums.fixed(Y)},
    "transformer.attention_only.run": {"tokens": TOKENS[None]},
    "transformer.attention_only.score_heads": {"tokens": TOKENS[None]},
    "transformer.attention_only.k_composition": {"share": draw(HEADS)},
    "transformer.layernorm_scale.inverse_sigma": {"tokens": ONLY.W_E, "positions": X, "frequency": draw(VOCAB).abs()},
    "maps.locality.position_scores": {"p": X, "width": draw(POSITIONS).abs()},
    "maps.locality.position_only": {"own": draw(HEADS, POSITIONS), "both": SCORES, "first": 2},
    "statistics.correlation.rank_correlation": {"a": X[:, 0], "b": X[:, 1]},
    "statistics.correlation.partial_rank_correlation": {"a": X[:, 0], "b": X[:, 1], "control": X[:, 2]},
    "maps.locality.position_share": {"states": draw(3, POSITIONS, MODEL)},
    "transformer.mlp.apply_mlp": {"weights": MLP},
    "transformer.encoder.encode_layer": {"layer": STACK[0]},
    "transformer.encoder.encode": {"layers": STACK},
    "maps.entropy.kullback_leibler": {"p": MAPS, "q": MAPS},
    "maps.gates.reader.read_gates": {"attention": LONG},
    "maps.gates.reader.shuffle_rows": {"attention": LONG},
}
"""What a function is given beside the usual, or in its place."""
ALONE = {("no axis", name) for name in ("statistics.exact_sums.fixed", "statistics.exact_sums.add")}
"""Take each number by itself, so one number will do."""
NOTHING = {
    ("no column", "statistics.normality.without", "outliers"),
    ("no column", "mathematics.exact_ranks.exact_rank", "matrix"),
    ("no column", "mathematics.exact_ranks.solution", "A"),
}
"""Arguments that may be empty: what is left is a result from none, a rank of 0, no solution."""
ROUNDED = {
    "decomposition.folding.apply_folded": "what it allows a row's sum to miss depends on the precision",
    "matrices.rank.numerical_rank": "so does the tolerance that it returns",
    "matrices.rank.ranks_through_norm": "so does the tolerance that it returns",
}


def modules():
    for package in rooms.mathematics():
        yield from rooms.modules(package)


def holds_array(annotation):
    """Say whether an argument so annotated is, or may hold, a tensor or an array; a callable is left alone."""
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return issubclass(annotation, torch.Tensor | np.ndarray) or hasattr(annotation, "array_type")
    return typing.get_origin(annotation) is not Callable and any(map(holds_array, typing.get_args(annotation)))


def public(owner, module):
    """Yield the functions that a module defines, and its classes' methods, but not what fills a dataclass."""
    for name, found in vars(owner).items():
        if name.startswith("_") or getattr(found, "__module__", module) != module:
            continue
        if inspect.isclass(found):
            yield from ((f"{name}.{method}", function) for method, function in public(found, module))
        elif inspect.isfunction(found := getattr(found, "__func__", found)):
            yield name, found


def takes_tensors():
    """Return the public functions of the mathematics with an array among their arguments, aliases resolved, by name."""
    return {
        f"{module.removeprefix('analysis.').removeprefix('book.lab.')}.{name}": function
        for module, _ in modules()
        for name, function in public(importlib.import_module(module), module)
        if any(holds_array(hint) for argument, hint in typing.get_type_hints(function).items() if argument != "return")
    }


FUNCTIONS = takes_tensors()
CALLS = {
    name: {key: USUAL[key] for key in inspect.signature(function).parameters if key in USUAL} | OTHER.get(name, {})
    for name, function in FUNCTIONS.items()
    if not {name, name.rpartition(".")[0]} & INTERNAL.keys()
}


def test_no_call_is_of_a_function_that_is_gone():
    assert OTHER.keys() <= CALLS.keys()


def call(name, **spoilt):
    """Call a function as the table has it, but for the arguments given; randomness begins anew."""
    given = {
        argument: generator() if isinstance(value, torch.Generator) else copy.deepcopy(value)
        for argument, value in CALLS[name].items()
        if argument not in spoilt
    }
    return FUNCTIONS[name](**given | spoilt)


@pytest.mark.parametrize("name", CALLS)
def test_the_call_is_valid(name):
    call(name)


def failures(check, cases):
    """Return what a check says of the cases that fail it, so that one test reports all of them."""
    messages = []
    for case in cases:
        try:
            check(*case)
        except AssertionError as error:
            messages.append(f"{case}: {error}")
    return messages


def spoil(tensor, how):
    if isinstance(tensor, np.ndarray):
        return spoil(torch.from_numpy(tensor), how).numpy()
    if how == "nan":
        spoilt = tensor.clone()
        spoilt.view(-1)[0] = torch.nan
        return spoilt
    return {
        "no column": lambda: tensor[..., :0],
        "no axis": lambda: tensor.flatten()[0],
        "no first": lambda: tensor[:0],
        "an axis less": lambda: tensor[0],
        "no row": lambda: tensor[..., :0, :],
        "one row": lambda: tensor[(0,) * (tensor.ndim - 1)],
        "whole": lambda: (3 * tensor).round().long(),
        "half": tensor.half,
        "real": tensor.double,
        "complex": lambda: torch.complex(tensor, tensor),
        "list": tensor.tolist,
        "wider": lambda: torch.cat([tensor, tensor[..., :1]], -1),
        "higher": lambda: torch.cat([tensor, tensor[..., :1, :]], -2),
        "deeper": lambda: torch.stack([tensor, tensor]),
    }[how]()


def spoilt_arguments(name):
    """Return each argument of a function's call with each way to spoil it."""
    return [
        (name, argument, how)
        for argument, value in CALLS[name].items()
        for how in ways(value)
        if (how, name) not in ALONE and (how, name, argument) not in NOTHING
    ]


def ways(value):
    if isinstance(value, np.ndarray):
        return ("nan", "no column", "no axis") if value.dtype.kind == "f" else ("no column", "no axis", "real")
    if not isinstance(value, torch.Tensor):
        return ()
    kind = ("nan", "whole", "half", "complex") if value.is_floating_point() else ("real",)
    several = ("higher", "no first", "an axis less") if value.ndim > 1 else ()
    deep = ("no row", "one row") if value.ndim > 2 else ()
    return (*kind, *several, *deep, "no column", "no axis", "list", "wider", "deeper")


def numbers(result):
    """Return all tensors and numbers in a result, whatever holds them."""
    if isinstance(result, torch.Tensor | np.ndarray):
        return [torch.as_tensor(result)]
    if isinstance(result, bool | int | float):
        return [torch.tensor(result)]
    if is_dataclass(result):
        return numbers([getattr(result, field.name) for field in fields(result)])
    if isinstance(result, dict):
        return numbers(list(result.values()))
    return [found for part in result for found in numbers(part)] if isinstance(result, list | tuple) else []


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", CALLS)
def test_bad_input_is_refused_by_name_or_visibly_passed_on(name):
    assert failures(check_bad_input, spoilt_arguments(name)) == []


def check_bad_input(name, argument, how):
    spoilt = spoil(CALLS[name][argument], how)
    refusal, found = None, []
    try:
        found = numbers(call(name, **{argument: spoilt}))
    except (TypeError, ValueError) as error:
        refusal = str(error)
    shaped = how in ("wider", "higher", "deeper", "an axis less", "one row")
    named = CALLS[name] if shaped else [argument]
    if refusal is not None:
        assert re.search(rf"\b({'|'.join(named)})\b", refusal), f"the message does not name {argument}: {refusal}"
    elif how == "nan":
        assert any(part.is_floating_point() and part.isnan().any() for part in found), "nan vanished"
    elif how in ("no column", "no first", "no row"):
        assert any(part.numel() == 0 for part in found), f"a result from nothing: {found}"
    elif not shaped:
        assert how not in ("no axis", "list", "complex"), f"a result from what is {how}: {found}"
        given = CALLS[name][argument]
        same = spoilt.to(given.dtype) if isinstance(given, torch.Tensor) else spoilt.astype(given.dtype)
        due = numbers(call(name, **{argument: same}))
        for mine, right in zip(found, due, strict=True):
            torch.testing.assert_close(mine.double(), right.double(), rtol=2e-3, atol=2e-3, equal_nan=True)


def in_precision(value, dtype):
    """Return an argument with its floating numbers in that precision."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if is_dataclass(value):
        return replace(value, **{f.name: in_precision(getattr(value, f.name), dtype) for f in fields(value) if f.init})
    return [in_precision(part, dtype) for part in value] if isinstance(value, list) else value


def scaled_arguments(name):
    """Return each floating argument of a function's call with each size to scale it to."""
    return [
        (name, argument, size)
        for size in (1e25, 1e-22, 1e-25)
        for argument, value in CALLS[name].items()
        if isinstance(value, torch.Tensor) and value.is_floating_point()
    ]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", [name for name in CALLS if name not in ROUNDED and scaled_arguments(name)])
def test_what_overflows_or_vanishes_becomes_no_other_number(name):
    """In float32 the squares are infinite or 0, in float64 not: they agree, or the first refuses or is no number."""
    assert failures(check_scaled_input, scaled_arguments(name)) == []


def check_scaled_input(name, argument, size):
    given = {
        key: in_precision(value, torch.float32)
        for key, value in CALLS[name].items()
        if not isinstance(value, torch.Generator | np.random.Generator)
    }
    given[argument] = given[argument] * size
    try:
        found = numbers(call(name, **given))
    except (TypeError, ValueError):
        return
    due = numbers(call(name, **{key: in_precision(value, torch.float64) for key, value in given.items()}))
    for mine, right in zip(found, due, strict=True):
        seen = mine.isfinite() & (right.double().abs() < 1e38)
        near = 1e-3 * float(right[seen].double().abs().max()) + 1e-30 if seen.any() else 0
        torch.testing.assert_close(mine[seen].double(), right[seen].double(), rtol=0, atol=near)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("weights", [LAYER, NORM, MLP, uniform.any_input(3)], ids=lambda of: type(of).__name__)
def test_weights_refuse_a_bad_field_by_name(weights):
    tensors = [field.name for field in fields(weights) if isinstance(getattr(weights, field.name), torch.Tensor)]
    for field, how in itertools.product(tensors, ["nan", "no column", "no axis", "whole", "half"]):
        with pytest.raises((TypeError, ValueError), match=field):
            replace(weights, **{field: spoil(getattr(weights, field), how)})
