"""Attention of a decoder to an encoder's rows: the layers, and their scores in parts.

Queries come from the decoder's text, keys and values from what the encoder made of its own input. The
attention of each stack to itself is what `load` reads with ``stack="encoder"`` or ``stack="decoder"``.
"""

from dataclasses import replace
from typing import Any

import torch

from analysis.core.attention_layer import AttentionLayer
from analysis.decomposition.terms import ScoreTerms, score_terms
from analysis.models.families.expected import layer_path, layer_tensors
from analysis.models.families.row import Family, stream
from analysis.models.inputs import read_inputs
from analysis.models.layers import read_layer
from analysis.models.reading import AnyModel, Model, load
from analysis.surveys.layer_runs import Seen, computable, watch

CALLED = (("self_attn", "encoder_attn"), ("layer.0.SelfAttention", "layer.1.EncDecAttention"), ("layer.0", "layer.1"))
"""Parts of names inside a decoder's layer, and what they are in its attention to the encoder."""


def cross_layer(model: AnyModel, layer: int = 0) -> AttentionLayer:
    """Read the attention of one decoder layer to the encoder's rows, counted from the end if it is negative.

    Raises
    ------
    ValueError
        If the model has no decoder beside an encoder.

    Examples
    --------
    >>> from analysis.models.families.tiny import tiny_model
    >>> layer = cross_layer(tiny_model("bart"))
    >>> layer.heads, layer.mask.causal
    (4, False)
    """
    return _read(load(model, stack="decoder"), layer)[0]


def cross_parts(model: AnyModel, inputs: Any, layer: int = 0) -> ScoreTerms:
    """Run an encoder-decoder and take the scores of a decoder layer with the encoder's rows apart.

    A row is a token of the decoder, a column one of the encoder. Where no token of the encoder is padding,
    ``cross_parts(...).total().softmax(-1)`` is what the model returns among its ``cross_attentions``.

    Parameters
    ----------
    inputs
        What the model takes, by name: ids, embeddings, images or sounds of the encoder, ``decoder_input_ids``.
    layer
        Of the decoder, counted from the end if it is negative.

    Raises
    ------
    ValueError
        If the model has no decoder, is in training mode, or an argument is not followed (`layer_inputs`).

    Examples
    --------
    >>> from analysis.models.families.tiny import tiny_inputs, tiny_model
    >>> model = tiny_model("bart")
    >>> maps = cross_parts(model, tiny_inputs(model), layer=-1).total().softmax(-1)
    >>> maps.shape  # of two texts with 12 tokens on either side
    torch.Size([2, 4, 12, 12])
    """
    read = load(model, stack="decoder").running
    module = read.module
    if module.training:
        raise ValueError("model is in training mode: call model.eval() first, dropout changes what a layer reads")
    own, (query, key) = _read(read, layer)
    seen = Seen()
    with torch.no_grad(), watch(module, seen, [query, key]):
        module(**read_inputs(module, read, inputs))
    rows, keys = (computable(seen.into[path][0]) for path in (query, key))
    return score_terms(keys, computable(own), queries=rows)


def _read(read: Model, layer: int) -> tuple[AttentionLayer, list[str]]:
    """Read the layer, and name the modules that make its queries and its keys."""
    row, number = _cross_row(read.family), read.number(layer)
    read.tensors.check(layer_tensors(row, read.config, number))
    path = read.tensors.prefix + layer_path(row, read.config, number)
    return read_layer(row, read.config, read.tensors, number), [f"{path}.{name}" for name in row.maps.names[:2]]


def _cross_row(row: Family) -> Family:
    """Return the row of a decoder's attention to the encoder: every key is seen, and no position is added."""
    maps = replace(row.maps, names=tuple(map(_cross_name, row.maps.names)))
    norms = tuple(replace(norm, path=_cross_name(norm.path)) for norm in row.norms)
    own = {"maps": maps, "output": _cross_name(row.output), "norms": norms, "learned": None, "places": None}
    return replace(row, **own, positions=stream("none"), mask=Family.mask)


def _cross_name(name: str) -> str:
    before, after = next(pair for pair in CALLED if name.startswith(pair[0]))
    return after + name.removeprefix(before)
