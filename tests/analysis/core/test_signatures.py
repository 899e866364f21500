"""``@checked`` refuses what a signature does not allow, in words that name it, and stays out of the way else."""

import functools
import inspect
import re
import typing
from collections.abc import Sequence

import pytest
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Norm
from analysis.core.signatures import checked
from analysis.core.weights import EncoderLayer, MlpWeights
from analysis.decomposition.terms import semi_bias

ONES = torch.ones(2, 3)
WEIGHTS = AttentionLayer(*[torch.ones(2, 4, 3)] * 3, torch.ones(2, 3, 4), *[torch.ones(2, 3)] * 3, torch.ones(4))


@checked
def add(
    a: Float[Tensor, "*any row column"],
    b: Float[Tensor, "row column"] | None = None,
    *,
    keep: Bool[Tensor, "*other row"] | None = None,
):
    """Add."""
    return a if b is None else a + b


@checked
def pick(tokens: Int[Tensor, "*batch position"], table: Float[Tensor, "token model"]):
    return table[tokens]


@checked(finite=True)
def square(matrix: Float[Tensor, "side side"], tokens: Int[Tensor, " side"] | None = None):
    return matrix.mT


@checked(finite="mean")
def move(rows: Float[Tensor, "*any model"], mean: Float[Tensor, " model"]):
    return rows + mean


@checked(mixed=True)
def weigh(values: Float[Tensor, " item"], weights: Float[Tensor, " item"]):
    return values.double() @ weights.double()


@checked
def average(rows: Float[Tensor, "*batch row column"], shares: Float[Tensor, "*batch row"]):
    return shares[..., None, :] @ rows


@checked
def read(x: Float[Tensor, "*batch position model"], weights: AttentionLayer, ln: Norm | None = None):
    return x


@checked
def read_all(x: Float[Tensor, "position model"], layers: Sequence[AttentionLayer]):
    return x


COLUMNS = "(..., row, column), none of them empty, got shape"
HALF = "must be in float32 or float64, got torch.float16: convert it"
NARROW = Norm(ONES[0], ONES[0])


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: add([1.0]), TypeError, "a must be a tensor, got list"),
        (lambda: add(None), TypeError, "a must be a tensor, got NoneType"),
        (lambda: add(ONES.to(torch.complex64)), ValueError, "a must hold real numbers, got torch.complex64"),
        (lambda: add(ONES.half()), ValueError, f"a {HALF}"),
        (lambda: add(ONES.long()), ValueError, "a must be in float32 or float64, got torch.int64: convert it"),
        (lambda: add(ONES[0]), ValueError, f"a must be {COLUMNS} (3,)"),
        (lambda: add(ONES[:, :0]), ValueError, f"a must be {COLUMNS} (2, 0)"),
        (lambda: add(ONES, ONES[None]), ValueError, "b must be (row, column), none of them empty, got shape (1, 2, 3)"),
        (lambda: add(ONES, b=ONES[:1]), ValueError, "b must be (2, 3) in torch.float32 on cpu to fit a, got (1, 3) in"),
        (lambda: add(a=ONES, b=ONES.double()), ValueError, "to fit a, got (2, 3) in torch.float64 on cpu"),
        (lambda: add(ONES, keep=torch.ones(2)), ValueError, "keep must be a bool tensor, (..., row), none of"),
        (lambda: add(ONES, keep=[True]), ValueError, "(..., row), none of them empty, got list"),
        (lambda: add(ONES, keep=torch.ones(3).bool()), ValueError, "keep must be a bool tensor of shape (2,) to fit a"),
        (lambda: pick(torch.zeros(3), ONES), ValueError, "tokens must be (..., position), whole numbers and at least"),
        (lambda: pick(torch.zeros(0, 2).long(), ONES), ValueError, "at least one, got (0, 2) of torch.int64"),
        (lambda: pick(torch.ones(2).bool(), ONES), ValueError, "numbers and at least one, got (2,) of torch.bool"),
        (lambda: square(ONES), ValueError, "matrix must be square, (side, side), got shape (2, 3)"),
        (lambda: square(ONES[:, :2] / 0), ValueError, "matrix holds entries that are not finite (nan or inf)"),
        (lambda: square(ONES[:, :2], torch.zeros(3).long()), ValueError, "tokens must be (2,) in torch.int64 on cpu"),
        (lambda: move(ONES, ONES[0] / 0), ValueError, "mean holds entries that are not finite (nan or inf)"),
        (lambda: weigh(ONES[0], ONES[0, :2].double()), ValueError, "weights must be (3,) in torch.float64 on cpu"),
        (lambda: weigh(ONES[0], ONES[0].half()), ValueError, f"weights {HALF}"),
        (lambda: average(ONES[None], ONES[:, 0]), ValueError, "shares must be (1, 2) in torch.float32 on cpu"),
        (lambda: read(ONES, WEIGHTS), ValueError, "x must be (2, 4) in torch.float32 on cpu to fit the layer, got (2,"),
        (lambda: read(torch.ones(1, 4).double(), WEIGHTS), ValueError, "fit the layer, got (1, 4) in torch.float64 on"),
        (lambda: read(torch.ones(1, 4), ONES), TypeError, "weights must be AttentionLayer, got Tensor"),
        (lambda: read(torch.ones(1, 4), WEIGHTS, NARROW), ValueError, "ln.gain must be (4,) in torch.float32 on cpu"),
        (lambda: read_all(torch.ones(1, 3), [WEIGHTS]), ValueError, "x must be (1, 4) in torch.float32 on cpu to fit"),
        (lambda: read_all(torch.ones(1, 4), [WEIGHTS, ONES]), TypeError, "a sequence of AttentionLayer, got Tensor"),
        (lambda: read_all(torch.ones(1, 4), [WEIGHTS, WEIGHTS.double()]), ValueError, "layers.W_Q must be (2, 4, 3)"),
    ],
)
def test_what_a_signature_does_not_allow_is_refused_by_name(call, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        call()


def test_what_a_signature_allows_passes():
    assert add(ONES[None, None], ONES, keep=torch.tensor([True, False])).shape == (1, 1, 2, 3)
    assert add(ONES * torch.nan).isnan().all()
    assert add(torch.ones(0, 2, 3)).numel() == 0
    assert move(ONES / 0, ONES[0]).isinf().all()
    assert pick(torch.tensor([[0, 1]], dtype=torch.int32), ONES).shape == (1, 2, 3)
    assert read(torch.ones(5, 1, 4), WEIGHTS, Norm(torch.ones(4), torch.ones(4))).shape == (5, 1, 4)
    narrow = AttentionLayer(*[torch.ones(1, 4, 2)] * 3, torch.ones(1, 2, 4), *[torch.ones(1, 2)] * 3, torch.ones(4))
    assert read_all(torch.ones(1, 4), (WEIGHTS, narrow)) is not None  # other heads, which no other argument has
    assert read_all(torch.ones(1, 4), []) is not None
    assert average(ONES[None], ONES[None, :, 0]).shape == (1, 1, 3)
    assert weigh(ONES[0], ONES[0].double()) == 3


def test_missing_and_unknown_arguments_are_python_s_own_errors():
    with pytest.raises(TypeError, match=r"missing .* 'a'"):
        add()
    with pytest.raises(TypeError, match="unexpected keyword argument 'c'"):
        add(ONES, c=1)


def test_what_says_nothing_about_tensors_is_not_decorated():
    with pytest.raises(TypeError, match="has no argument whose annotation"):
        checked(lambda x: x)
    with pytest.raises(TypeError, match="finite must name"):
        checked(finite="other")(inspect.unwrap(add))


def test_it_looks_like_the_function():
    assert semi_bias.__name__ == "semi_bias"
    assert semi_bias.__doc__ == inspect.unwrap(semi_bias).__doc__
    assert [*inspect.signature(semi_bias).parameters] == ["y", "layer"]
    assert typing.get_type_hints(semi_bias).keys() == {"y", "layer", "return"}
    assert inspect.getsource(semi_bias).startswith("@checked\ndef semi_bias")
    assert functools.partial(semi_bias, layer=WEIGHTS)(torch.ones(1, 4)).shape == (2, 1)


def test_a_gradient_is_refused_only_where_none_is_computed():
    @checked(gradient=False)
    def size(rows: Float[Tensor, "*any column"], by: Float[Tensor, " column"] | None = None):
        return float(rows.sum())

    asked = torch.ones(2, 3, requires_grad=True)
    for call in (lambda: size(asked), lambda: size(rows=asked), lambda: size(ONES, by=asked[0])):
        with pytest.raises(ValueError, match=r"(rows|by) requires a gradient"):
            call()
        with torch.no_grad():
            assert call() == 6
    assert size(asked.detach()) == 6
    assert add(asked).requires_grad


@pytest.mark.parametrize("finite", ["b", ["b"], ("b", "c")])
def test_only_the_named_tensors_must_be_finite(finite):
    @checked(finite=finite)
    def take(a: Float[Tensor, " x"], b: Float[Tensor, " y"], c: Float[Tensor, " z"]):
        return "taken"

    fine, bad = torch.ones(2), torch.tensor([1.0, float("nan")])
    assert take(bad, fine, fine) == "taken"
    with pytest.raises(ValueError, match=r"^b holds entries that are not finite"):
        take(fine, bad, fine)

    @checked
    def through(a: Float[Tensor, " x"], b: Float[Tensor, " y"]):
        return take(a, b, a)

    with pytest.raises(ValueError, match=r"^b holds entries that are not finite"):
        through(fine, bad)
    if "c" in finite:
        with pytest.raises(ValueError, match=r"^c holds entries that are not finite"):
            take(fine, fine, c=bad)
    else:
        assert take(fine, fine, c=bad) == "taken"


def test_what_decides_by_numbers_names_the_tensor_that_has_none():
    @checked
    def decide(a: Float[Tensor, " x"], b: Float[Tensor, " x"]):
        return b if float(b.sum()) > 0 else -b

    with pytest.raises(ValueError, match=r"^b has no numbers .*, and decide decides by them"):
        torch.vmap(decide, in_dims=(None, 0))(torch.ones(3), ONES)


def test_weights_are_known_by_the_first_tensor_of_their_first_part():
    @checked
    def read(x: Float[Tensor, "*batch position model"], layer: EncoderLayer):
        return "read"

    norm = Norm(torch.ones(4), torch.ones(4))
    mlp = MlpWeights(torch.ones(4, 5), torch.ones(5), torch.ones(5, 4), torch.ones(4))
    layer = EncoderLayer(WEIGHTS, norm, mlp, norm)
    assert read(torch.ones(2, 7, 4), layer) == "read"
    with pytest.raises(ValueError, match=r"^x must be \(7, 4\) .* to fit the layer, got \(7, 3\)"):
        read(torch.ones(7, 3), layer)

    @checked
    def meet(layer: EncoderLayer, rows: Float[Tensor, "head position channel"]):
        return "met"

    assert meet(layer, torch.ones(2, 7, 3)) == "met"
    for shape in ((3, 7, 3), (2, 7, 4)):
        with pytest.raises(ValueError, match=r"^rows must be \(2, 7, 3\) .* to fit the layer"):
            meet(layer, torch.ones(shape))
