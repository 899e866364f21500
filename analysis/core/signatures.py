"""``@checked``: validate the tensor arguments of a function against its jaxtyping annotations.

What belongs here: reading a signature once, and holding each call to it. What does not: the refusals of one argument
and their words (:mod:`analysis.core.checks`), and what an argument means to a formula, which the formula's own function
checks.
"""

import collections.abc
import functools
import inspect
import sys
import threading
import types
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from analysis.core import checks
from analysis.core.checks import check_finite, check_fit, check_floating, check_mask, check_tokens
from analysis.core.precision import without_autocast


class _Kind(typing.NamedTuple):
    """The dtypes that an annotation allows, and the check that says what is wrong with a tensor of another form."""

    dtypes: tuple[torch.dtype, ...]
    check: Callable[..., None]


_KINDS = {
    "float32": _Kind(checks.FLOATING, check_floating),
    "int64": _Kind(checks.WHOLE, check_tokens),
    "bool": _Kind((torch.bool,), check_mask),
}
_FLOATS = _KINDS["float32"]
_ABSENT = object()
_Function = typing.TypeVar("_Function", bound=Callable)


@dataclass(frozen=True, slots=True)
class _Rule:
    """What a signature says of one argument.

    ``axes`` are the last ones of its tensor; ``shared`` the same from the end, empty where no other argument has them;
    ``batch`` the name of all axes before them, if another argument has it.
    """

    name: str
    place: int
    optional: bool
    finite: bool
    mixed: bool
    kind: _Kind
    axes: tuple[str, ...]
    shared: tuple[str, ...]
    batch: str
    exact: bool
    owner: type | None
    path: str
    first: Callable[[Any], Tensor]
    several: bool

    @property
    def noun(self) -> str:
        """What a message calls it: a tensor by its name, weights by a noun of their class or as "the layer"."""
        if self.owner is None:
            return self.name
        return f"the {self.name}" if self.several else getattr(self.owner, "noun", f"the {self.name}")

    def argument(self, args: tuple, kwargs: dict) -> Any:
        """Return the argument of a call, or ``_ABSENT`` where there is none to check."""
        value = args[self.place] if self.place < len(args) else kwargs.get(self.name, _ABSENT)
        return _ABSENT if value is None and self.optional else value

    def tensors(self, value: Any) -> Sequence[Any]:
        """Return the tensor that an argument is; of weights the first one, to which they themselves fit the others."""
        if self.owner is None:
            return (value,)
        layers = value if self.several else (value,)
        for layer in layers:
            if not isinstance(layer, self.owner):
                raise TypeError(
                    f"{self.name} must be {'a sequence of ' * self.several}{self.owner.__name__}, got "
                    f"{type(layer).__name__}{'; give one of its layers' * hasattr(layer, 'layers')}"
                )
        return [self.first(layer) for layer in layers]


class _Promise(threading.local):
    """What the enclosing checked call already guarantees: 1 shapes, 2 finite numbers too."""

    level = 0


_promise = _Promise()


@typing.overload
def checked(function: _Function, /) -> _Function: ...


@typing.overload
def checked(
    *, finite: bool | str | Sequence[str] = False, mixed: bool = False, gradient: bool = True
) -> Callable[[_Function], _Function]: ...


def checked(
    function: Callable | None = None,
    /,
    *,
    finite: bool | str | Sequence[str] = False,
    mixed: bool = False,
    gradient: bool = True,
) -> Callable:
    """Validate the arguments of a function against its jaxtyping annotations before it computes.

    The annotations are read once, here. Raises for what is not a tensor, or is complex; for a ``Float`` argument not in
    float32 or float64, ``Int`` and not of whole numbers, ``Bool`` and no mask; what lacks a named axis or has it empty;
    and of two arguments the second if they give one name of an axis two sizes, or are floating in two dtypes or on two
    devices. Weights (a dataclass) stand for the axes of their first tensor: ``head``, ``model``, ``channel``. The axes
    before the last ones are compared, too, if they share a name (``*batch``).

    While a checked function runs, the checked functions that it calls do not check again, unless they refuse nan and
    infinity and it did not. One that takes a callable guarantees nothing about the callable's arguments.

    A checked function computes in the dtype of its tensors, also under ``torch.autocast``. Where there are no numbers
    to look at (on ``meta``, in ``torch.vmap``) only shapes are checked, and a function that decides by numbers refuses
    such a tensor by name; while ``torch.compile`` traces nothing is.

    Parameters
    ----------
    function
        Its tensors are annotated with jaxtyping.
    finite
        Whether nan and infinity are refused too: in all floating tensors, or in the named ones. For functions that
        would hide them; a formula passes them on.
    mixed
        Whether the floating arguments may differ in their dtype, as where each is ranked, or all become float64.
    gradient
        Whether a gradient passes through the function. If not, a tensor that requires one is refused: the result would
        be cut off from it without a word.

    Raises
    ------
    TypeError
        At once, if the annotations say nothing about a tensor, or ``finite`` names none of them.

    Examples
    --------
    >>> from jaxtyping import Float
    >>> @checked
    ... def scale(rows: Float[Tensor, "*any model"], gain: Float[Tensor, " model"]):
    ...     return rows * gain
    >>> scale(torch.ones(2, 3), torch.ones(1))
    Traceback (most recent call last):
    ValueError: gain must be (3,) in torch.float32 on cpu to fit rows, got (1,) in torch.float32 on cpu
    """
    if function is None:
        return functools.partial(checked, finite=finite, mixed=mixed, gradient=gradient)
    parameters = inspect.signature(function).parameters.values()
    rules = [replace(rule, mixed=mixed) for rule in _read(function.__qualname__, parameters, finite)]
    floats = [rule for rule in rules if rule.kind is _FLOATS and rule.owner is None]
    demand = 2 if any(rule.finite for rule in floats) else 1
    promise = 2 if all(rule.finite for rule in floats) else 1
    if any(typing.get_origin(arm) is collections.abc.Callable for each in parameters for arm in _arms(each.annotation)):
        promise = 0

    exactly = without_autocast(function)

    @functools.wraps(function)
    def call(*args, **kwargs):
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        if not gradient and torch.is_grad_enabled():
            _refuse_gradient(rules, args, kwargs)
        outer = _promise.level
        if outer < demand:
            _hold(rules, args, kwargs)
        elif promise:
            return function(*args, **kwargs)
        _promise.level = promise
        try:
            return exactly(*args, **kwargs)
        except RuntimeError as error:
            _name_missing_numbers(rules, args, kwargs, function.__name__, error)
            raise
        finally:
            _promise.level = outer

    return call


def _name_missing_numbers(
    rules: Sequence[_Rule], args: tuple, kwargs: dict, function: str, error: RuntimeError
) -> None:
    """Say of what torch refuses that a function decides by numbers, and which argument has none."""
    for rule in rules:
        value = rule.argument(args, kwargs)
        if isinstance(value, Tensor) and not checks.has_numbers(value):
            raise ValueError(
                f"{rule.name} has no numbers (it is on meta, or under torch.vmap), and {function} decides by them: "
                "give a tensor that has"
            ) from error


def _refuse_gradient(rules: Sequence[_Rule], args: tuple, kwargs: dict) -> None:
    for rule in rules:
        checks.check_detached(rule.name, rule.argument(args, kwargs))


def _hold(rules: Sequence[_Rule], args: tuple, kwargs: dict) -> None:
    """Validate the arguments of a call; search for the offending one only on failure."""
    sizes: dict[str, int | tuple[int, ...]] = {}
    first = None
    for rule in rules:
        value = rule.argument(args, kwargs)
        if value is _ABSENT:
            continue
        for tensor in rule.tensors(value):
            if not isinstance(tensor, Tensor) or tensor.dtype not in rule.kind.dtypes:
                _refuse(rules, args, kwargs, rule, tensor)
            shape = tensor.shape
            fits = len(shape) == len(rule.axes) if rule.exact else len(shape) >= len(rule.axes)
            for axis, size in zip(rule.shared, reversed(shape)):  # a shape may have more axes in front
                fits = fits and size and (not axis or sizes.setdefault(axis, size) == size)
            if fits and rule.batch:
                batch = shape[: len(shape) - len(rule.axes)]
                fits = sizes.setdefault(rule.batch, batch) == batch
            if rule.kind is not _FLOATS:
                fits = fits and 0 not in shape
            elif first is None:
                first = tensor
            else:
                fits = fits and (rule.mixed or tensor.dtype is first.dtype) and tensor.device == first.device
            if not fits:
                _refuse(rules, args, kwargs, rule, tensor)
    for rule in rules:
        if rule.finite and (value := rule.argument(args, kwargs)) is not _ABSENT:
            check_finite(rule.name, value)


def _refuse(rules: Sequence[_Rule], args: tuple, kwargs: dict, rule: _Rule, tensor: Any) -> None:
    """Raise what names the argument, what it was and what is allowed."""
    name = f"{rule.name}.{rule.path}" if rule.owner else rule.name
    rule.kind.check(name, tensor, *rule.axes, exact=rule.exact)
    shape = list(tensor.shape)
    like, noun = tensor, rule.noun
    bound: dict[str, tuple[Any, str]] = {}
    for other in rules[: rules.index(rule) + 1]:
        value = other.argument(args, kwargs)
        for earlier in () if value is _ABSENT else other.tensors(value):
            if like is tensor and other.kind is rule.kind is _FLOATS:
                like, noun = earlier, other.noun
            for axis, size in zip(other.shared, reversed(earlier.shape)):
                bound.setdefault(axis, (size, other.noun))
            bound.setdefault(other.batch, (earlier.shape[: earlier.ndim - len(other.axes)], other.noun))
    for place, axis in enumerate(rule.shared, 1):
        if axis and bound[axis][0] != shape[-place]:
            shape[-place], noun = bound[axis]
    batch = len(shape) - len(rule.axes)
    if rule.batch and tuple(shape[:batch]) != bound[rule.batch][0]:
        shape[:batch], noun = bound[rule.batch]
    if noun == rule.name:
        raise ValueError(f"{name} must be square, ({', '.join(rule.axes)}), got shape {tuple(tensor.shape)}")
    if rule.kind.check is check_mask:
        raise ValueError(
            f"{name} must be a bool tensor of shape {tuple(shape)} to fit {noun}, got "
            f"{tuple(tensor.shape)} in {tensor.dtype}"
        )
    check_fit(name, tensor.to(like.dtype) if rule.mixed else tensor, shape, noun, like)


def _read(name: str, parameters: Iterable[inspect.Parameter], finite: bool | str | Sequence[str]) -> list[_Rule]:
    """Return what the annotations of a function say of its arguments, weights first: the others must fit them."""
    rules = []
    for place, parameter in enumerate(parameters):
        arms = _arms(parameter.annotation)
        wanted = (
            finite if isinstance(finite, bool) else parameter.name in ([finite] if isinstance(finite, str) else finite)
        )
        for arm in arms:
            several = typing.get_origin(arm) is collections.abc.Sequence
            owner = typing.get_args(arm)[0] if several else arm
            path, annotation = _first_tensor(owner) if isinstance(owner, type) and is_dataclass(owner) else ("", arm)
            if not _is_tensor(annotation):
                continue
            kind = next(kind for dtype, kind in _KINDS.items() if dtype in annotation.dtypes)
            axes = annotation.dim_str.split()
            exact = not axes[0].startswith(("*", "..."))
            batch, axes = ("", axes) if exact else (axes[0], axes[1:])
            rules.append(
                _Rule(
                    parameter.name,
                    sys.maxsize if parameter.kind is parameter.KEYWORD_ONLY else place,
                    type(None) in arms,
                    wanted and not path and kind is _FLOATS,
                    False,
                    kind,
                    tuple(axes),
                    (),
                    batch,
                    exact,
                    owner if path else None,
                    path,
                    attrgetter(path),
                    several,
                )
            )
    if not rules:
        raise TypeError(f"{name} has no argument whose annotation says anything about a tensor")
    if finite and not any(rule.finite for rule in rules):
        raise TypeError(f"finite must name floating tensors among the arguments of {name}, got {finite}")
    uses = Counter(axis for rule in rules for axis in (*rule.axes, rule.batch))
    for i, rule in enumerate(rules):
        alone = Counter(rule.axes) if rule.several else Counter(set(rule.axes))  # layers may differ in what none reads
        rules[i] = replace(
            rule,
            batch=rule.batch if uses[rule.batch] > 1 and rule.batch != "..." else "",
            shared=tuple(
                axis if axis.isidentifier() and uses[axis] > alone[axis] else "" for axis in reversed(rule.axes)
            ),
        )
    return sorted(rules, key=lambda rule: rule.owner is None)


def _arms(hint: Any) -> Sequence[Any]:
    """Return the arms of a union, or the annotation alone."""
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _is_tensor(annotation: Any) -> bool:
    """Return whether an annotation is jaxtyping's of a tensor, and names an axis."""
    return getattr(annotation, "array_type", None) is Tensor and any(
        axis.isidentifier() for axis in annotation.dim_str.split()
    )


def _first_tensor(owner: Any, path: str = "") -> tuple[str, Any]:
    """Find the first tensor of a dataclass, in the first of its parts if need be: the path of attributes to it."""
    first = fields(owner)[0]
    if is_dataclass(first.type):
        return _first_tensor(first.type, f"{path}{first.name}.")
    return f"{path}{first.name}", first.type
