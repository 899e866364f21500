"""Layers made of tensors by name, wherever these come from: a file, or a module that is loaded.

What belongs here: which tensor becomes which weight, by the table of :mod:`analysis.models.configuration`. What does
not: opening files (:mod:`analysis.models.parameters`), modules (:mod:`analysis.models.extraction`).
"""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Mask, Norm
from analysis.core.weights import EncoderLayer, MlpWeights
from analysis.models.configuration import ModelConfig, Shapes

Fetch = Callable[[Shapes], list[Tensor]]
"""Returns tensors by name, in this order, each of the shape given."""


def read_attention(config: ModelConfig, layer: int, fetch: Fetch) -> AttentionLayer:
    r"""Make one attention layer, its mask that of the family.

    Where a model divides its scores by something else than ``sqrt(channel)``, ``W_Q`` and ``b_Q`` carry the factor
    (`ModelConfig.score_factor`), so that the layer's scores are the model's.

    Raises
    ------
    ValueError
        If there is no such layer.
    """
    config.check_layer(layer)
    *projections, W_O, b_O = fetch(config.projection_shapes(layer) | config.output_shapes(layer))
    matrices, biases = _split_projections(config, projections)
    heads, factor = config.heads, config.score_factor(layer)
    W_Q, W_K, W_V = (W.reshape(config.model, heads, -1).transpose(0, 1).contiguous() for W in matrices)
    b_Q, b_K, b_V = (b.reshape(heads, -1).contiguous() for b in biases)
    if factor != 1:
        W_Q, b_Q = W_Q * factor, b_Q * factor
    return AttentionLayer(
        W_Q,
        W_K,
        W_V,
        _inputs_first(config, W_O).reshape(heads, -1, config.model).contiguous(),
        b_Q,
        b_K,
        b_V,
        b_O,
        mask=Mask(causal=config.causal),
    )


def read_query_bias(config: ModelConfig, layer: int, fetch: Fetch) -> Float[Tensor, "head channel"]:
    """Return ``b_Q`` as the model adds it to its queries, before any factor of the scores."""
    config.check_layer(layer)
    _, (b_Q, _, _) = _split_projections(config, fetch(config.projection_shapes(layer)))
    return b_Q.reshape(config.heads, -1).contiguous()


def read_layer_norm(config: ModelConfig, which: str, layer: int, fetch: Fetch) -> Norm:
    """Make one LayerNorm; ``which`` is a key of the family's ``norms``.

    Raises
    ------
    ValueError
        If the family has no such LayerNorm, or there is no such layer.
    """
    if which not in config.family.norms:
        raise ValueError(
            f"which must be one of {', '.join(config.family.norms)} for {config.family.name}, got {which!r}"
        )
    config.check_layer(layer)
    gain, bias = fetch(config.norm_shapes(which, layer))
    return Norm(gain, bias, config.eps)


def read_mlp(config: ModelConfig, layer: int, fetch: Fetch) -> MlpWeights:
    """Make one MLP, its matrices ``(model, hidden)`` and ``(hidden, model)``."""
    config.check_layer(layer)
    W_in, b_in, W_out, b_out = fetch(config.mlp_shapes(layer))
    return MlpWeights(_inputs_first(config, W_in).contiguous(), b_in, _inputs_first(config, W_out).contiguous(), b_out)


def read_encoder_layer(config: ModelConfig, layer: int, fetch: Fetch) -> EncoderLayer:
    """Make a whole layer: attention, its LayerNorm, the MLP, its LayerNorm."""
    return EncoderLayer(
        read_attention(config, layer, fetch),
        read_layer_norm(config, "attention", layer, fetch),
        read_mlp(config, layer, fetch),
        read_layer_norm(config, "mlp", layer, fetch),
    )


def _split_projections(config: ModelConfig, tensors: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Return the three matrices ``(model, head channel)`` and the three biases of queries, keys and values."""
    matrices, biases = [_inputs_first(config, W) for W in tensors[::2]], tensors[1::2]
    if len(matrices) == 1:
        return list(matrices[0].chunk(3, dim=1)), list(biases[0].chunk(3))
    return matrices, biases


def _inputs_first(config: ModelConfig, W: Tensor) -> Tensor:
    return W if config.family.inputs_first else W.T
