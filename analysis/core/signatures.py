"""``@checked``: validate the tensor arguments of a function against its jaxtyping annotations.

Why not jaxtyping with beartype, which the tests switch on for every function: its error shows the annotation and the
value, and says neither which other argument it disagrees with nor what to do. It also takes integers where a formula
needs float32, empty axes, two dtypes, and nan; and it would be one more dependency of every user.
"""

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from analysis.core import checks
from analysis.core.checks import check_finite, check_fit, check_floating, check_mask, check_tokens
from analysis.core.precision import without_autocast

_FORMS = {"float32": check_floating, "int64": check_tokens, "bool": check_mask}
"""The check of a tensor by itself, by a dtype that its annotation allows."""
_ABSENT = object()
_Function = typing.TypeVar("_Function", bound=Callable)


@dataclass(frozen=True, slots=True)
class _Argument:
    """What a signature says of one argument: a tensor, or weights (a dataclass ``owner``) with a first tensor.

    ``axes`` are the last axes of the tensor and ``batch`` is the name of those before them; the sizes of ``compared``
    must agree with those of other arguments. ``path`` leads from weights to their first tensor, and ``several`` is True
    for a sequence of weights.
    """

    name: str
    place: int
    optional: bool
    finite: bool
    check: Callable[..., None]
    axes: tuple[str, ...]
    compared: tuple[str, ...]
    batch: str
    exact: bool
    owner: type | None
    path: str
    several: bool

    @property
    def floating(self) -> bool:
        return self.check is check_floating

    @property
    def noun(self) -> str:
        """What a message calls it: a tensor by its name, weights by a noun of their class or as "the layer"."""
        if self.owner is None:
            return self.name
        return f"the {self.name}" if self.several else getattr(self.owner, "noun", f"the {self.name}")

    def value(self, args: tuple, kwargs: dict) -> Any:
        """Return the argument of a call, or ``_ABSENT`` where there is none to check."""
        value = args[self.place] if self.place < len(args) else kwargs.get(self.name, _ABSENT)
        return _ABSENT if value is None and self.optional else value

    def tensors(self, value: Any) -> Sequence[Any]:
        """Return the tensor that an argument is, or the first one of weights: the class has compared the others."""
        if self.owner is None:
            return (value,)
        layers = value if self.several else (value,)
        for layer in layers:
            if not isinstance(layer, self.owner):
                raise TypeError(
                    f"{self.name} must be {'a sequence of ' * self.several}{self.owner.__name__}, got "
                    f"{type(layer).__name__}{'; give one of its layers' * hasattr(layer, 'layers')}"
                )
        return [attrgetter(self.path)(layer) for layer in layers]


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

    Raises for what is not a tensor, or is complex; for a ``Float`` argument that is not in float32 or float64, an
    ``Int`` that does not hold whole numbers, and a ``Bool`` that is not a mask; for a tensor that lacks a named axis or
    has an empty one; and for two arguments that give one name of an axis two sizes, or are floating in two dtypes or on
    two devices. Weights (a dataclass) stand for the axes of their first tensor: ``head``, ``model``, ``channel``. Axes
    before the last ones are compared, too, if they share a name (``*batch``).

    A checked function computes in the dtype of its tensors, also under ``torch.autocast``. Where there are no numbers
    to look at (on ``meta``, in ``torch.vmap``) only shapes are checked, and a function that decides by numbers raises
    for such a tensor by name. Nothing is checked while ``torch.compile`` traces.

    Parameters
    ----------
    function
        Function whose tensor arguments are annotated with jaxtyping.
    finite
        Raise for nan and infinity too: in all floating tensors, or in the named ones. For functions that would hide
        them; a formula passes them on.
    mixed
        Let the floating arguments differ in their dtype.
    gradient
        Whether a gradient passes through the function. If not, a tensor that requires one raises: otherwise the result
        would be cut off from it without a word.

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
    arguments = _read(function.__qualname__, inspect.signature(function).parameters.values(), finite)
    exactly = without_autocast(function)

    @functools.wraps(function)
    def call(*args, **kwargs):
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        given = [(argument, argument.value(args, kwargs)) for argument in arguments]
        given = [(argument, value) for argument, value in given if value is not _ABSENT]
        if not gradient and torch.is_grad_enabled():
            for argument, value in given:
                checks.check_detached(argument.name, value)
        _validate(given, mixed)
        try:
            return exactly(*args, **kwargs)
        except RuntimeError as error:
            # torch cannot decide by the numbers of a tensor that has none: say which one it is
            for argument, value in given:
                if isinstance(value, Tensor) and not checks.has_numbers(value):
                    raise ValueError(
                        f"{argument.name} has no numbers (it is on meta, or under torch.vmap), and "
                        f"{function.__name__} decides by them: give a tensor that has"
                    ) from error
            raise

    return call


def _validate(given: Sequence[tuple[_Argument, Any]], mixed: bool) -> None:
    """Check each argument by itself, then against the sizes, dtype and device of those before it."""
    sizes: dict[str, tuple[Any, str]] = {}
    first = None
    for argument, value in given:
        for tensor in argument.tensors(value):
            name = f"{argument.name}.{argument.path}" if argument.owner else argument.name
            argument.check(name, tensor, *argument.axes, exact=argument.exact)
            if argument.floating and first is None:
                first = tensor, argument.noun
            # floating tensors share dtype and device; whole numbers and masks have only shapes to compare
            like, noun = first if argument.floating and first else (tensor, argument.noun)
            if mixed:
                like = like.new_empty(0, dtype=tensor.dtype)
            due = list(tensor.shape)
            for place, axis in enumerate(reversed(argument.compared), 1):
                size, owner = sizes.setdefault(axis, (due[-place], argument.noun)) if axis else (due[-place], noun)
                if size != due[-place]:
                    due[-place], noun = size, owner
            batch = len(due) - len(argument.axes)
            if argument.batch:
                size, owner = sizes.setdefault(argument.batch, (due[:batch], argument.noun))
                if size != due[:batch]:
                    due[:batch], noun = size, owner
            if due != list(tensor.shape):
                _name_misfit(argument, name, tensor, due, noun)
            check_fit(name, tensor, due, noun, like)
    for argument, value in given:
        if argument.finite:
            check_finite(argument.name, value)


def _name_misfit(argument: _Argument, name: str, tensor: Tensor, due: Sequence[int], noun: str) -> None:
    """Raise for a matrix that should be square and for a mask, of which `check_fit` says less."""
    if noun == argument.name:
        raise ValueError(f"{name} must be square, ({', '.join(argument.axes)}), got shape {tuple(tensor.shape)}")
    if argument.check is check_mask:
        raise ValueError(
            f"{name} must be a bool tensor of shape {tuple(due)} to fit {noun}, got "
            f"{tuple(tensor.shape)} in {tensor.dtype}"
        )


def _read(
    function: str, parameters: Iterable[inspect.Parameter], finite: bool | str | Sequence[str]
) -> list[_Argument]:
    """Return what the annotations of a function say of its arguments, weights first: the others must fit them."""
    named = [finite] if isinstance(finite, str) else finite
    found = []
    for place, parameter in enumerate(parameters):
        # A tensor, several of them, or a dataclass whose first tensor stands for it.
        hint = parameter.annotation
        arms = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
        for arm in arms:
            several = typing.get_origin(arm) is Sequence
            owner = typing.get_args(arm)[0] if several else arm
            path, annotation = _first_tensor(owner) if isinstance(owner, type) and is_dataclass(owner) else ("", arm)
            names_axes = any(map(str.isidentifier, getattr(annotation, "dim_str", "").split()))
            if getattr(annotation, "array_type", None) is not Tensor or not names_axes:
                continue
            check = next(check for dtype, check in _FORMS.items() if dtype in annotation.dtypes)
            # Axes by name, after an optional batch.
            axes = annotation.dim_str.split()
            exact = not axes[0].startswith(("*", "..."))
            batch, axes = ("", axes) if exact else (axes[0].removeprefix("..."), axes[1:])
            wanted = named if isinstance(named, bool) else parameter.name in named
            found.append(
                _Argument(
                    name=parameter.name,
                    place=sys.maxsize if parameter.kind is parameter.KEYWORD_ONLY else place,
                    optional=type(None) in arms,
                    finite=wanted and not path and check is check_floating,
                    check=check,
                    axes=tuple(axes),
                    compared=tuple(axis if axis.isidentifier() else "" for axis in axes),
                    batch=batch,
                    exact=exact,
                    owner=owner if path else None,
                    path=path,
                    several=several,
                )
            )
    if not found:
        raise TypeError(f"{function} has no argument whose annotation says anything about a tensor")
    if finite and not any(argument.finite for argument in found):
        raise TypeError(f"finite must name floating tensors among the arguments of {function}, got {finite}")
    for i, argument in enumerate(found):
        if argument.several:  # the layers of a sequence may differ in an axis that no other argument has
            others = {axis for other in found if other is not argument for axis in other.axes}
            found[i] = replace(argument, compared=tuple(axis if axis in others else "" for axis in argument.compared))
    return sorted(found, key=lambda argument: argument.owner is None)


def _first_tensor(owner: Any, path: str = "") -> tuple[str, Any]:
    """Find the first tensor of a dataclass, in the first of its parts if need be: the path of attributes to it."""
    first = fields(owner)[0]
    if is_dataclass(first.type):
        return _first_tensor(first.type, f"{path}{first.name}.")
    return f"{path}{first.name}", first.type
