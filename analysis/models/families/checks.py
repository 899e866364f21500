"""Whether a model has the tensors that its family must have, and no other."""

import posixpath
import re
from collections.abc import Callable
from functools import cache
from functools import partial as partial_function

from analysis.models.families.expected import (
    attention_layers,
    count_layers,
    layer_path,
    layer_tensors,
    norms_of,
    say_width,
    table_tensors,
)
from analysis.models.families.row import Config, Family
from analysis.models.families.tensors import Shapes, Source, Tensors
from analysis.models.files import MissingTensor

MOST_LAYERS = 1000
"""Of a model: as many as the deepest that was published has (DeepNet), so that a mistaken number is refused at once."""
BUFFERS = ("rotary_emb.inv_freq", "masked_bias", "causal_mask", "relative_position_index")
"""Ends of names inside an attention that files may hold and that are not parameters, in any family."""


def for_family(source: Source, row: Family, config: Config) -> Tensors | None:
    """Return the tensors of a stack of layers under the names of its row.

    ``None`` where no tensor is called as the output of its first layer's attention, or two stacks have it under
    different prefixes.

    Raises
    ------
    ValueError
        If two names are the same tensor of the family: in two spellings, or under two prefixes.
    """
    anchor = f"{layer_path(row, config, attention_layers(row, config)[0])}.{row.output}.weight"
    own = {name: _spell(name, row) for name in source.headers}
    prefixes = {name.removesuffix(anchor) for name in own.values() if name == anchor or name.endswith("." + anchor)}
    if len(prefixes) != 1:
        return None
    prefix, spelled = prefixes.pop(), {}
    for full, name in own.items():
        if name.startswith(prefix):
            inside = name.removeprefix(prefix)
            _refuse_two(source, spelled.setdefault(inside, full), full)
    for table in table_tensors(row, config, spelled):
        for full, name in own.items():
            if name.endswith("." + table) and table in spelled and name != prefix + table:
                _refuse_two(source, spelled[table], full)
    return Tensors(source, prefix, spelled)


def _spell(name: str, row: Family) -> str:
    """Return how the row writes a name that files may write otherwise."""
    for part, before in reversed(row.older):
        name = name.replace(before, part)
    return name


def _refuse_two(source: Source, first: str, second: str) -> None:
    if first != second:
        raise ValueError(
            f"{source.where} has {first!r} and {second!r}, which are the same tensor: which is meant cannot be told"
        )


def check_tensors(tensors: Tensors, row: Family, config: Config, *, partial: bool = False) -> list[str]:
    """Refuse a model that lacks a tensor of its attention or its tables, or has one too many.

    Parameters
    ----------
    partial
        Whether the model is a part by design, of which a layer is there wholly or not at all.

    Returns
    -------
    list of str
        What a part does not have, tables first; of layers the first name of each.

    Raises
    ------
    MissingTensor
        Naming the first tensor that is not there.
    ValueError
        Naming a tensor that the configuration knows nothing of: of a layer too many, or inside an attention.
    """
    if (layers := count_layers(row, config)) > MOST_LAYERS:
        raise ValueError(f"{tensors.source.where} must have at most {MOST_LAYERS} layers, got {row.layers} = {layers}")
    wanted = cache(partial_function(layer_tensors, row, config))
    _refuse_unknown(tensors, row, config, wanted)
    missing = tensors.check(table_tensors(row, config, tensors))
    if missing and not partial:
        _refuse_missing(tensors, row, missing)
    for layer in attention_layers(row, config):
        shapes = wanted(layer)
        absent = tensors.check(shapes, say_width(row, config))
        if absent and not (partial and len(absent) == len(shapes)):
            _refuse_missing(tensors, row, absent)
        missing += absent[:1]
    return missing


def _refuse_missing(tensors: Tensors, row: Family, missing: list[str]) -> None:
    more = f" and {len(missing) - 1} more of it" if len(missing) > 1 else ""
    raise MissingTensor(
        f"{tensors.source.where} lacks {missing[0]!r}{more}, which the configuration of a model of the family "
        f"{row.name} implies"
    )


def _refuse_unknown(tensors: Tensors, row: Family, config: Config, wanted: Callable[[int], Shapes]) -> None:
    """Refuse a layer beyond the last, and what a layer's attention or norm holds and the row does not know."""
    numbered = re.compile(re.escape(row.layer).replace(r"\{\}", r"(\d+)") + r"\.(.+)")
    layers, attends = count_layers(row, config), set(attention_layers(row, config))
    numbers = {row.number(config, layer): layer for layer in reversed(range(min(layers, len(tensors.spelled) + 1)))}
    parts = [name.replace(".", "/") for name in (*row.maps.names, row.output)]
    inside = posixpath.commonpath(parts).replace("/", ".")  # what the parts of an attention have in common
    expected: dict[int, tuple[Shapes, tuple[str, ...]]] = {}
    for name, full in tensors.spelled.items():
        if not (match := numbered.match(name)):
            continue
        number, rest = int(match[1]), match[2]
        if number not in numbers:
            raise ValueError(
                f"{tensors.source.where} has {full!r}, of a layer beyond the {layers} of its configuration: which is "
                "right cannot be told"
            )
        if numbers[number] not in attends and rest != f"{row.output}.weight":
            continue
        if number not in expected:
            norms = tuple(f"{path}." for _, path in norms_of(row, config, numbers[number]))
            expected[number] = (wanted(numbers[number]), norms) if numbers[number] in attends else ({}, ())
        shapes, norms = expected[number]
        if (
            name not in shapes
            and (not inside or rest.startswith(f"{inside}.") or name.startswith(norms))
            and not (rest in row.buffers or rest.endswith(BUFFERS))
        ):
            raise ValueError(
                f"{tensors.source.where} has {full!r}, of which the configuration of a model of the family {row.name} "
                "knows nothing: what it does to the attention cannot be told"
            )
