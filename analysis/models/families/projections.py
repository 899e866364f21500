"""Queries, keys, values and outputs of one layer: from the layouts of files to ``(head, model, channel)``."""

from collections.abc import Sequence

from torch import Tensor

from analysis.models.families.expected import count_groups, has_biases
from analysis.models.families.row import Config, Family
from analysis.models.families.tensors import Tensors

ALIGNED, PADDING = 128, 8
"""Entries: rows whose distance is a multiple of the first meet in the cache, and the second sets them apart."""


def read_projections(row: Family, config: Config, tensors: Tensors, path: str) -> dict[str, Tensor | str]:
    """Return the maps of one layer as fields of an `AttentionLayer`; raises as `read_maps`."""
    fields = read_maps(row, config, tensors, path, "QKV")
    W_O, heads = tensors.need(f"{path}.{row.output}.weight"), getattr(config, row.heads)
    W_O = W_O.contiguous() if row.maps.inputs_first else _transposed([W_O])[0]
    has_bias = "O" in has_biases(row, config)
    fields["W_O"] = W_O.unflatten(0, (heads, -1))
    fields["b_O"] = tensors.need(f"{path}.{row.output}.bias") if has_bias else W_O.new_zeros(W_O.shape[1])
    return fields | {"biases": has_biases(row, config)}


def read_maps(row: Family, config: Config, tensors: Tensors, path: str, letters: str) -> dict[str, Tensor | str]:
    """Return ``W_Q``, ``b_Q`` and so on of the first ``letters`` of ``"QKV"``; no tensor is read but what holds them.

    Raises
    ------
    MissingTensor
        If one is not there.
    ValueError
        If its shape does not fit the number of heads and groups.
    """
    split = _separate if row.maps.layout == "separate" else _fused
    matrices, biases = split(row, config, tensors, path, letters)
    fields: dict[str, Tensor | str] = {}
    for letter, W, turned, b in zip(letters, matrices, _transposed(matrices), biases, strict=True):
        fields[f"W_{letter}"] = turned
        fields[f"b_{letter}"] = W.new_zeros(W.shape[:2]) if b is None else b.contiguous()
    there = has_biases(row, config)
    return fields | {"biases": "".join(letter for letter in letters if letter in there)}


def _transposed(matrices: Sequence[Tensor]) -> list[Tensor]:
    """Return the transposes of the last two axes, each in a memory of its own.

    Columns of a matrix whose rows are a power of two apart share a few lines of the processor's cache, so these are
    copied to rows a little longer first, in one place for all: that takes half of the time.
    """
    turned, longer = [], None
    for rows in matrices:
        if rows.stride(-1) == 1 and not rows.stride(-2) % ALIGNED:
            if longer is None or longer.shape != rows.shape:
                longer = rows.new_empty(*rows.shape[:-1], rows.shape[-1] + PADDING)[..., : rows.shape[-1]]
            rows = longer.copy_(rows)  # noqa: PLW2901
        turned.append(rows.mT.contiguous())
    return turned


def _separate(row: Family, config: Config, tensors: Tensors, path: str, letters: str) -> tuple[list, list]:
    """Return the matrices ``(head, channel, model)`` and their biases, ``None`` where there is none."""
    names, there = row.maps.names, has_biases(row, config)
    own = row.maps.biases or tuple(f"{name}.bias" for name in names)
    matrices = [tensors.need(f"{path}.{name}.weight") for name, _ in zip(names, letters, strict=False)]
    biases = [
        tensors.need(f"{path}.{name}") if name and letter in there else None
        for letter, name in zip(letters, own, strict=False)
    ]
    counts = [getattr(config, row.heads), *[count_groups(row, config)] * 2]
    for letter, W, count in zip(letters, matrices, counts, strict=False):
        if W.shape[row.maps.inputs_first] % count:
            raise ValueError(
                f"W_{letter} of {path} in {tensors.source.where} is {tuple(W.shape)}, no multiple of {count} heads"
            )
    turned = [W.T if row.maps.inputs_first else W for W in matrices]
    return tuple(
        [None if rows is None else rows.unflatten(0, (count, -1)) for rows, count in zip(part, counts, strict=False)]
        for part in (turned, biases)
    )


def _fused(row: Family, config: Config, tensors: Tensors, path: str, letters: str) -> tuple[list, list]:
    """The same out of one matrix that holds all three."""
    maps, heads, groups = row.maps, getattr(config, row.heads), count_groups(row, config)
    W = tensors.need(f"{path}.{maps.names[0]}.weight")
    W = W.T if maps.inputs_first else W
    if W.shape[0] % (heads + 2 * groups):
        raise ValueError(
            f"{path}.{maps.names[0]} in {tensors.source.where} has {W.shape[0]} rows, no multiple of {heads} "
            f"queries and {groups} keys and values"
        )
    count, there = len(letters), has_biases(row, config)
    matrices = SPLITS[maps.layout](W, heads, groups)[:count]
    if maps.biases:
        own = zip(letters, maps.biases, strict=False)
        biases = [tensors.need(f"{path}.{name}") if name else None for _, name in own]
        return list(matrices), [
            None if b is None else b.view(W.shape[:2]) for b, W in zip(biases, matrices, strict=True)
        ]
    if "Q" not in there:
        return list(matrices), [None] * count
    b = tensors.need(f"{path}.{maps.names[0]}.bias")
    return list(matrices), list(SPLITS[maps.layout](b, heads, groups)[:count])


def split_blocks(rows: Tensor, heads: int, groups: int) -> tuple[Tensor, ...]:
    """Take all queries, then all keys, then all values, each ``(head, channel, ...)``.

    >>> import torch
    >>> split_blocks(torch.arange(4), 2, 1)
    (tensor([[0],
            [1]]), tensor([[2]]), tensor([[3]]))
    """
    return rows.unflatten(0, (heads + 2 * groups, -1)).split((heads, groups, groups))


def split_groups(rows: Tensor, heads: int, groups: int) -> tuple[Tensor, ...]:
    """Take each group's queries, its key, its value; with one query to a group, each head's three lie together.

    >>> import torch
    >>> split_groups(torch.arange(6), 2, 2)
    (tensor([[0],
            [3]]), tensor([[1],
            [4]]), tensor([[2],
            [5]]))
    """
    share = heads // groups
    by_group = rows.unflatten(0, (groups, share + 2, -1))
    parts = by_group.split((share, 1, 1), dim=1)
    return tuple(part.flatten(0, 1) for part in parts)


def split_codegen(rows: Tensor, heads: int, groups: int) -> tuple[Tensor, ...]:
    """Take CodeGen's: four blocks, in each the queries, values and keys of a quarter of the heads.

    >>> import torch
    >>> [part.flatten().tolist() for part in split_codegen(torch.arange(12), 4, 4)]
    [[0, 3, 6, 9], [2, 5, 8, 11], [1, 4, 7, 10]]
    """
    queries, values, keys = rows.unflatten(0, (4, 3, heads // 4, -1)).unbind(1)
    return queries.flatten(0, 1), keys.flatten(0, 1), values.flatten(0, 1)


SPLITS = {"blocks": split_blocks, "heads": split_groups, "groups": split_groups, "codegen": split_codegen}
