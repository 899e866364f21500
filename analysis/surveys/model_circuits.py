"""The circuits of one attention layer of a model, given as every function of a whole model takes it."""

from analysis.core.attention_layer import AttentionLayer
from analysis.decomposition import qk_ov
from analysis.decomposition.qk_ov import Circuits
from analysis.models.reading import AnyModel, load


def circuits(model: AnyModel | AttentionLayer, layer: int = 0, *, distance: float | int | None = None) -> Circuits:
    """Return the circuits ``QK`` and ``OV`` of each head of one attention layer, as factors with their spectra.

    Parameters
    ----------
    model
        A model as `load` takes it, or an attention layer.
    layer
        Layer of the model, counted from the end if negative.
    distance
        Query position minus key position: needed with rotary positions (`analysis.decomposition.qk_ov`).

    Examples
    --------
    >>> circuits("gpt2-mini", layer=1).OV.S.shape
    torch.Size([8, 16])
    """
    layers = [model] if isinstance(model, AttentionLayer) else load(model).layers
    return qk_ov.circuits(layers[layer], distance=distance)
