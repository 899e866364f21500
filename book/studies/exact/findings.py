"""What the page on families holds the adapter to; the conditions can fail."""

from analysis.core.attention_layer import AttentionLayer
from analysis.core.positions import Disentangled, Rotary
from book.studies.exact.measure import Measured

EXACT, ROUNDED, SINGLE = 1e-12, 1e-6, 1e-5
"""In float64; where the model keeps its angles in float32; where it computes its softmax in float32."""


def attention_is_the_models_own(m: Measured) -> bool:
    """The attention computed from the adapter's tensors is that of the modules of transformers, in every family."""
    return all(
        max(row.in_double, row.padded or 0.0) < (ROUNDED if row.rounded else EXACT) and row.as_it_is < SINGLE
        for row in m.rows
    )


def key_bias_cancels_where_it_should(m: Measured) -> bool:
    """A key bias has no effect where nothing turns, scales, caps or competes with the scores, and has one elsewhere.

    Of partial rotary positions the coordinates that are not turned have none either, unless something else is there.
    """
    for row in m.rows:
        for layer, biases in zip(row.layers, row.biases, strict=True):
            if (biases.key < EXACT) != (not _turned(layer) and not _seen(layer)):
                return False
            if biases.unturned is not None and (biases.unturned < EXACT) == _seen(layer):
                return False
    return True


def _turned(layer: AttentionLayer) -> bool:
    """Say whether a key bias meets the distance to the query."""
    return isinstance(layer.positions, Rotary | Disentangled)


def _seen(layer: AttentionLayer) -> bool:
    """Say whether a constant along a row of scores is seen by what comes after it, or is no constant."""
    return bool(layer.qk_norm or layer.soft_cap or layer.sinks is not None)
