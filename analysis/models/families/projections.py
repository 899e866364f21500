"""Queries, keys, values and outputs of one layer: from the layouts of files to ``(head, model, channel)``.

What belongs here: taking fused matrices apart. What does not: where they lie (:mod:`analysis.models.families.row`).
"""

from torch import Tensor

from analysis.models.families.row import Config, Family
from analysis.models.families.tensors import Tensors


def read_projections(family: Family, config: Config, tensors: Tensors, path: str) -> dict[str, Tensor | str]:
    """Return the maps of one layer as fields of an `AttentionLayer`.

    Raises
    ------
    MissingTensor
        If a matrix is not there.
    ValueError
        If its shape does not fit the number of heads and groups.
    """
    heads = getattr(config, family.heads)
    groups = count_groups(family, config) or heads
    split = _separate if family.maps.layout == "separate" else _fused
    matrices, biases = split(family, tensors, path, heads, groups)
    fields = _by_head(matrices, biases, (heads, groups, groups), f"{path} in {tensors.where}")
    W_O, b_O = tensors.need(f"{path}.{family.output}.weight"), tensors.get(f"{path}.{family.output}.bias")
    W_O = W_O if family.maps.inputs_first else W_O.T
    fields["W_O"] = W_O.unflatten(0, (heads, -1)).contiguous()
    fields["b_O"] = W_O.new_zeros(W_O.shape[1]) if b_O is None else b_O
    fields["biases"] = "".join(letter for letter, b in zip("QKVO", (*biases, b_O), strict=True) if b is not None)
    return fields


def read_query_key(family: Family, config: Config, tensors: Tensors, path: str) -> dict[str, Tensor | str]:
    """Return ``W_Q``, ``b_Q``, ``W_K``, ``b_K`` of one layer, and no other tensor is read but one that holds them.

    Raises as `read_projections`.
    """
    heads = getattr(config, family.heads)
    groups = count_groups(family, config) or heads
    split = _separate if family.maps.layout == "separate" else _fused
    matrices, biases = split(family, tensors, path, heads, groups, count=2)
    fields = _by_head(matrices, biases, (heads, groups), f"{path} in {tensors.where}")
    return {**fields, "biases": "".join(letter for letter, b in zip("QK", biases, strict=True) if b is not None)}


def _by_head(matrices: list, biases: list, rows: tuple[int, ...], where: str) -> dict[str, Tensor | str]:
    fields: dict[str, Tensor | str] = {}
    for name, W, b, count in zip("QKV", matrices, biases, rows, strict=False):
        if W.shape[0] % count:
            raise ValueError(f"W_{name} of {where} has {W.shape[0]} rows, no multiple of its {count} heads")
        fields[f"W_{name}"] = W.unflatten(0, (count, -1)).mT.contiguous()
        bias = W.new_zeros(W.shape[0]) if b is None else b
        fields[f"b_{name}"] = bias.reshape(count, -1).contiguous()
    return fields


def count_groups(family: Family, config: Config) -> int | None:
    """Return how many sets of keys and values a family has; ``None``: as many as heads."""
    if isinstance(family.groups, str):
        return getattr(config, family.groups, None)
    return family.groups(config) if family.groups else None


def _separate(
    family: Family, tensors: Tensors, path: str, heads: int, groups: int, *, count: int = 3
) -> tuple[list, list]:
    """Return the first matrices ``(head channel, model)`` and their biases, ``None`` where there is none."""
    maps = family.maps
    matrices = [tensors.need(f"{path}.{name}.weight") for name in maps.names[:count]]
    names = (maps.biases or tuple(f"{name}.bias" for name in maps.names))[:count]
    biases = [tensors.get(f"{path}.{name}") if name else None for name in names]
    return [W.T if maps.inputs_first else W for W in matrices], biases


def _fused(
    family: Family, tensors: Tensors, path: str, heads: int, groups: int, *, count: int = 3
) -> tuple[list, list]:
    """The same out of one matrix that holds all three."""
    maps = family.maps
    W, b = tensors.need(f"{path}.{maps.names[0]}.weight"), tensors.get(f"{path}.{maps.names[0]}.bias")
    W = W.T if maps.inputs_first else W
    if W.shape[0] % (heads + 2 * groups):
        raise ValueError(
            f"{path}.{maps.names[0]} in {tensors.where} has {W.shape[0]} rows, no multiple of {heads} "
            f"queries and {groups} keys and values"
        )
    matrices = SPLITS[maps.layout](W, heads, groups)[:count]
    if maps.biases:
        return list(matrices), [tensors.get(f"{path}.{name}") if name else None for name in maps.biases[:count]]
    return list(matrices), [None] * count if b is None else list(SPLITS[maps.layout](b, heads, groups)[:count])


def split_blocks(rows: Tensor, heads: int, groups: int) -> tuple[Tensor, ...]:
    """Take all queries, then all keys, then all values.

    >>> import torch
    >>> split_blocks(torch.arange(4), 2, 1)
    (tensor([0, 1]), tensor([2]), tensor([3]))
    """
    channel = len(rows) // (heads + 2 * groups)
    return rows.split((heads * channel, groups * channel, groups * channel))


def split_groups(rows: Tensor, heads: int, groups: int) -> tuple[Tensor, ...]:
    """Take each group's queries, its key, its value; with one query to a group, each head's three lie together.

    >>> import torch
    >>> split_groups(torch.arange(6), 2, 2)
    (tensor([0, 3]), tensor([1, 4]), tensor([2, 5]))
    """
    share = heads // groups
    by_group = rows.unflatten(0, (groups, share + 2, -1))
    parts = by_group.split((share, 1, 1), dim=1)
    return tuple(part.flatten(0, 2) for part in parts)


def split_codegen(rows: Tensor, heads: int, groups: int) -> tuple[Tensor, ...]:
    """Take CodeGen's: four blocks, in each the queries, values and keys of a quarter of the heads.

    >>> import torch
    >>> split_codegen(torch.arange(12), 4, 4)
    (tensor([0, 3, 6, 9]), tensor([ 2,  5,  8, 11]), tensor([ 1,  4,  7, 10]))
    """
    queries, values, keys = rows.unflatten(0, (4, 3, -1)).unbind(1)
    return queries.flatten(0, 1), keys.flatten(0, 1), values.flatten(0, 1)


SPLITS = {"blocks": split_blocks, "heads": split_groups, "groups": split_groups, "codegen": split_codegen}
