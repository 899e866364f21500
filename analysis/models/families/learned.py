"""Positions that are parameters of the attention: buckets of T5 and MPNet, rows of DeBERTa, BEiT's tables."""

from collections.abc import Callable

import torch
from einops import einsum
from jaxtyping import Int
from torch import Tensor

from analysis.core.positions import Disentangled, Positions, RelativeBuckets, ScoreTable, StreamPositions
from analysis.models.families.positions import whole
from analysis.models.families.row import Config, Family
from analysis.models.families.tensors import Tensors

MPNET_TABLE = "encoder.relative_attention_bias.weight"
ROWS = "encoder.rel_embeddings.weight"
"""DeBERTa's rows for distances."""
OWN_MAPS = {"c2p": "pos_key_proj", "p2c": "pos_query_proj"}
"""What makes keys and queries of these rows, where a later DeBERTa does not share its own."""


def _t5_table(family: Family, config: Config, layer: int) -> str:
    """Return the name of a table: the first layer's for all, but for umT5, whose layers have their own."""
    own = layer if config.model_type == "umt5" else 0
    return f"{family.layer.format(own)}.layer.0.SelfAttention.relative_attention_bias.weight"


def t5_buckets(family: Family, config: Config, layer: int, tensors: Tensors, fields: dict) -> RelativeBuckets:
    """Return the table of a T5's layer."""
    table = _need_of(tensors, _t5_table(family, config, layer), *_buckets(config))
    longest = whole(config, "relative_attention_max_distance")
    return RelativeBuckets(table, longest, family.stack == "encoder")


def mpnet_buckets(family: Family, config: Config, layer: int, tensors: Tensors, fields: dict) -> RelativeBuckets:
    """Return the one table that all layers of an MPNet share; whatever its size, the library reads 32 buckets."""
    return RelativeBuckets(_need_of(tensors, MPNET_TABLE, *_buckets(config))[:32], 128, two_sided=True)


def _need_of(tensors: Tensors, name: str, due: tuple[int, ...], implied_by: str) -> Tensor:
    """Return a table of the shape that the configuration implies; of another shape its rows would mean other things."""
    table = tensors.need(name)
    if tuple(table.shape) != due:
        raise ValueError(f"{name} has the shape {tuple(table.shape)}, and {implied_by} imply {due}")
    return table


def _buckets(config: Config) -> tuple[tuple[int, int], str]:
    """Return the shape of a table of buckets, and which options imply it."""
    due = config.relative_attention_num_buckets, config.num_attention_heads
    return due, "relative_attention_num_buckets and heads"


def _span(config: Config, buckets: int | None) -> tuple[int, tuple[tuple[int, int], str]]:
    """Return from which distance on a DeBERTa tells no two apart, and the shape of its rows with what implies it."""
    own = config.max_relative_positions > 0
    longest = whole(config, option := "max_relative_positions" if own else "max_position_embeddings")
    return longest, ((2 * (buckets or longest), config.hidden_size), "position_buckets" if buckets else option)


def _relative(config: Config) -> bool:
    return bool(config.relative_attention)


def _parts(config: Config) -> list[str]:
    """List what DeBERTa adds to products of queries and keys; of a third part, ``p2p``, no module computes anything."""
    return [part for part in ("c2p", "p2c") if _relative(config) and part in (config.pos_att_type or ())]


def _deberta_tensors(family: Family, config: Config, layer: int) -> list[str]:
    """List what `deberta_rows` reads."""
    if not _relative(config):
        return []
    path, parts = f"{family.layer.format(layer)}.attention.self", _parts(config)
    names = [ROWS]
    names += [f"{path}.pos_proj.weight"] if "c2p" in parts else []
    return names + ([f"{path}.pos_q_proj.weight", f"{path}.pos_q_proj.bias"] if "p2c" in parts else [])


def _deberta_v2_tensors(family: Family, config: Config, layer: int) -> list[str]:
    """List what `deberta_v2_rows` reads."""
    if not _relative(config):
        return []
    path = f"{family.layer.format(layer)}.attention.self"
    names = [ROWS] + (["encoder.LayerNorm.weight", "encoder.LayerNorm.bias"] if _normalised(config) else [])
    maps = [] if _shares_maps(config) else [OWN_MAPS[part] for part in _parts(config)]
    return names + [f"{path}.{name}.{half}" for name in maps for half in ("weight", "bias")]


def _shares_maps(config: Config) -> bool:
    return bool(getattr(config, "share_att_key", False))


def _normalised(config: Config) -> bool:
    words = getattr(config, "norm_rel_ebd", "none").lower().split("|")
    return "layer_norm" in (word.strip() for word in words)


def _beit_tensors(family: Family, config: Config, layer: int) -> list[str]:
    """List what `beit_tables` reads."""
    own = f"{family.layer.format(layer)}.relative_position_bias.relative_position_bias_table"
    shared = "shared_position_bias.relative_position_bias_table"
    return [own] * config.use_relative_position_bias + [shared] * config.use_shared_relative_position_bias


def deberta_rows(family: Family, config: Config, layer: int, tensors: Tensors, fields: dict) -> Positions:
    """Return the first DeBERTa's rows for distances, through maps of their own."""
    if not (parts := _parts(config)):
        return StreamPositions("learned")
    path, heads = f"{family.layer.format(layer)}.attention.self", config.num_attention_heads
    span, due = _span(config, None)
    rows = _need_of(tensors, ROWS, *due)
    keys = queries = None
    if "c2p" in parts:
        keys = (rows @ tensors.need(f"{path}.pos_proj.weight").T).unflatten(-1, (heads, -1)).transpose(0, 1)
    if "p2c" in parts:
        queries = rows @ tensors.need(f"{path}.pos_q_proj.weight").T + tensors.need(f"{path}.pos_q_proj.bias")
        queries = queries.unflatten(-1, (heads, -1)).transpose(0, 1)
    return Disentangled(keys, queries, span, None, span)


def deberta_v2_rows(family: Family, config: Config, layer: int, tensors: Tensors, fields: dict) -> Positions:
    """Return a later DeBERTa's rows, through the maps of queries and keys or, where not shared, through their own."""
    if not (parts := _parts(config)):
        return StreamPositions("learned")
    buckets = whole(config, "position_buckets") if getattr(config, "position_buckets", -1) > 0 else None
    longest, due = _span(config, buckets)
    rows = _need_of(tensors, ROWS, *due)
    if _normalised(config):
        gain, bias = (tensors.need(f"encoder.LayerNorm.{name}") for name in ("weight", "bias"))
        centred = rows - rows.mean(-1, keepdim=True)
        rows = centred * (centred.square().mean(-1, keepdim=True) + config.layer_norm_eps).rsqrt() * gain + bias
    path = f"{family.layer.format(layer)}.attention.self"

    def through(part: str, letter: str) -> Tensor | None:
        if part not in parts:
            return None
        if _shares_maps(config):
            keys = einsum(rows, fields[f"W_{letter}"], "row model, head model channel -> head row channel")
            return keys + fields[f"b_{letter}"][:, None]
        weight, bias = (tensors.need(f"{path}.{OWN_MAPS[part]}.{half}") for half in ("weight", "bias"))
        return (rows @ weight.T + bias).unflatten(-1, (config.num_attention_heads, -1)).transpose(0, 1)

    return Disentangled(through("c2p", "K"), through("p2c", "Q"), buckets or longest, buckets, longest)


def beit_tables(family: Family, config: Config, layer: int, tensors: Tensors, fields: dict) -> Positions:
    """Return what a BEiT adds for each pair of places in an image of its own size: a layer's table, or one for all."""
    names = _beit_tensors(family, config, layer)
    if not names:
        return StreamPositions("learned" if config.use_absolute_position_embeddings else "none")
    size = config.image_size if isinstance(config.image_size, list | tuple) else (config.image_size,) * 2
    offsets = image_offsets(*(side // config.patch_size for side in size))
    due = (int(offsets.max()) + 1, config.num_attention_heads)
    tables = [_need_of(tensors, name, due, "image_size and heads") for name in names]
    return ScoreTable(sum(tables)[offsets].permute(2, 0, 1).contiguous())


def image_offsets(height: int, width: int) -> Int[Tensor, "place place"]:
    """Number the offsets between patches of an image, a class token in front.

    Patches ``(y, x)`` and ``(v, u)`` have the number of ``(y - v, x - u)``, row by row; the last three numbers are the
    class token to a patch, a patch to it, and it to itself.

    >>> image_offsets(1, 2)
    tensor([[5, 3, 3],
            [4, 1, 0],
            [4, 2, 1]])
    """
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    y, x = y.flatten(), x.flatten()
    offsets = (y[:, None] - y + height - 1) * (2 * width - 1) + x[:, None] - x + width - 1
    count = (2 * height - 1) * (2 * width - 1)
    numbers = torch.full((len(y) + 1, len(y) + 1), count)
    numbers[1:, 1:], numbers[1:, 0], numbers[0, 0] = offsets, count + 1, count + 2
    return numbers


READERS: dict[str, Callable[..., Positions]] = {
    "t5": t5_buckets,
    "mpnet": mpnet_buckets,
    "deberta": deberta_rows,
    "deberta-v2": deberta_v2_rows,
    "beit": beit_tables,
}
"""By the name in a row's ``learned``."""
NEEDED: dict[str, Callable[[Family, Config, int], list[str]]] = {
    "t5": lambda *of: [_t5_table(*of)],
    "mpnet": lambda *of: [MPNET_TABLE],
    "deberta": _deberta_tensors,
    "deberta-v2": _deberta_v2_tensors,
    "beit": _beit_tensors,
}
"""The tensors that each of them reads for a layer."""
