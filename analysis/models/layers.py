"""The attention of one layer, made of a model's tensors as a row of the table of families says."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Norm, QueryKeyNorm
from analysis.core.checks import all_finite
from analysis.core.positions import Positions, moved
from analysis.models.families import expected, learned
from analysis.models.families.projections import read_maps, read_projections
from analysis.models.families.row import Config, Family, NormName, QueryKeyNames
from analysis.models.families.tensors import Tensors


@dataclass(frozen=True)
class QueriesAndKeys:
    """What makes queries and keys of one layer, before they are turned.

    Attributes
    ----------
    scale, positions, sinks
        As in `AttentionLayer`; positions that the attention learns are left out (``None``).
    norm
        The norm through which the layer reads its input, where it stands before the layer.
    normalised
        Whether queries and keys are normalised.
    """

    W_Q: Float[Tensor, "head model channel"]
    b_Q: Float[Tensor, "head channel"]
    W_K: Float[Tensor, "group model channel"]
    b_K: Float[Tensor, "group channel"]
    biases: str
    scale: float
    norm: Norm | None
    positions: Positions | None
    normalised: bool
    sinks: Float[Tensor, " head"] | None


def read_layer(family: Family, config: Config, tensors: Tensors, layer: int) -> AttentionLayer:
    """Read one attention layer, counted from 0."""
    # The matrices, in our order of axes; then what the positions do.
    path = expected.layer_path(family, config, layer)
    fields = read_projections(family, config, tensors, path)
    channel = fields["W_Q"].shape[2]
    if family.learned:
        positions = learned.READERS[family.learned](family, config, layer, tensors, fields)
        if not all(all_finite(value) for value in vars(positions).values() if isinstance(value, Tensor)):
            raise ValueError("its positions hold entries that are not finite (nan or inf)")
    else:
        positions = family.positions(config, layer, channel)
    # The rest is what the configuration says of scale, mask, norms, sinks and soft cap.
    names = expected.query_key_norm(family, config, layer)
    return AttentionLayer(
        **fields,
        scale=family.scale(config, layer, channel),
        mask=family.mask(config, layer, channel),
        positions=moved(positions, fields["W_Q"].device),  # what a configuration says has no device of its own
        norms=tuple(_read_norms(family, config, tensors, layer, fields["W_Q"])),
        qk_norm=_read_query_key_norm(config, tensors, names, path, fields["W_Q"]) if names else None,
        sinks=tensors.need(f"{path}.{family.sinks}") if family.sinks else None,
        soft_cap=getattr(config, family.soft_cap, None) if family.soft_cap else None,
    )


def read_queries_and_keys(family: Family, config: Config, tensors: Tensors, layer: int) -> QueriesAndKeys:
    """Read of a layer, counted from 0, only what makes queries and keys before they are turned."""
    path = expected.layer_path(family, config, layer)
    maps = read_maps(family, config, tensors, path, "QK")
    for letter, tensor in maps.items():
        if isinstance(tensor, Tensor) and not all_finite(tensor):
            raise ValueError(f"{letter} holds entries that are not finite (nan or inf)")
    channel = maps["W_Q"].shape[2]
    positions = None if family.learned else family.positions(config, layer, channel)
    return QueriesAndKeys(
        **maps,
        scale=family.scale(config, layer, channel),
        norm=next((n for n in _read_norms(family, config, tensors, layer, maps["W_Q"]) if n.place == "input"), None),
        positions=None if positions is None else moved(positions, maps["W_Q"].device),
        normalised=expected.query_key_norm(family, config, layer) is not None,
        sinks=tensors.need(f"{path}.{family.sinks}") if family.sinks else None,
    )


def _read_norms(family: Family, config: Config, tensors: Tensors, layer: int, like: Tensor) -> Iterator[Norm]:
    for name, path in expected.norms_of(family, config, layer):
        bare = like.new_ones(like.shape[1]) if name.bare else None
        yield _read_norm(config, tensors, path, name, bare=bare, place=name.place)


def _read_norm(
    config: Config,
    tensors: Tensors,
    path: str,
    name: NormName | QueryKeyNames,
    *,
    bare: Tensor | None,
    place: str = "input",
) -> Norm:
    gain = tensors.need(f"{path}.weight").flatten() if bare is None else bare
    has_bias = bare is None and expected.has_bias(name, config)
    return Norm(
        1 + gain if name.plus_one else gain,
        tensors.need(f"{path}.bias").flatten() if has_bias else torch.zeros_like(gain),
        float(name.eps if isinstance(name.eps, float) else getattr(config, name.eps)),
        name.kind,
        place,
        has_bias,
    )


def _read_query_key_norm(config: Config, tensors: Tensors, of: QueryKeyNames, path: str, W_Q: Tensor) -> QueryKeyNorm:
    bare = W_Q.new_ones(W_Q.shape[2]) if of.bare else None
    query, key = (_read_norm(config, tensors, f"{path}.{name}", of, bare=bare) for name in (of.query, of.key))
    return QueryKeyNorm(query, key, of.whole, of.after_rotation)
