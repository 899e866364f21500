"""A probe of a language model that is being trained: the positional semi-bias of every head."""

import numpy as np
import torch
from torch import nn

from analysis.core.weights import AttentionWeights, LayerNormWeights
from analysis.decomposition.folding import fold_layer_norm
from analysis.decomposition.score_terms import semi_bias
from analysis.statistics.correlation import recency
from analysis.transformer.layernorm import sigma


def live_layer(block: nn.Module, heads: int) -> tuple[AttentionWeights, LayerNormWeights]:
    """Read the attention and the LayerNorm before it out of a live GPT-2 block, in float64."""
    W, b = block.attn.c_attn.weight.detach().double(), block.attn.c_attn.bias.detach().double()
    W_O, b_O = block.attn.c_proj.weight.detach().double(), block.attn.c_proj.bias.detach().double()
    split = [part.unflatten(-1, (heads, -1)).movedim(-2, 0) for part in (*W.chunk(3, dim=1), *b.chunk(3))]
    norm = LayerNormWeights(block.ln_1.weight.detach().double(), block.ln_1.bias.detach().double(), block.ln_1.eps)
    return AttentionWeights(*split[:3], W_O.unflatten(0, (heads, -1)), *split[3:], b_O), norm


def semi_bias_probe(step: int, model: nn.Module) -> dict[str, np.ndarray]:
    """Measure the positional semi-bias of every head of a GPT-2 language model.

    Raw as the document has it, ``b_Q W_K^T p / sqrt(channel)``; and folded, what layer 0 makes of a position alone:
    ``LN`` folded into the layer, ``p`` divided by ``sigma(p)``. Ledger K-18 to K-23, K-29.

    Returns
    -------
    dict
        ``rank_correlation``, ``size`` and the same ``_folded``, each ``(layer, head)``: Spearman's correlation with
        the position (nan where the semi-bias is 0 everywhere, as before training) and standard deviation over
        positions in nats; ``semi_bias`` and ``semi_bias_folded``, ``(head, position)``, of layer 0 in nats.
    """
    p = model.transformer.wpe.weight.detach().double()
    both = [live_layer(block, model.config.n_head) for block in model.transformer.h]
    raw = torch.stack([semi_bias(p, layer) for layer, _ in both])
    folded = torch.stack([semi_bias(p / sigma(p, norm.eps)[:, None], fold_layer_norm(layer, norm))
                          for layer, norm in both])
    measured = {"rank_correlation": recency(raw), "size": raw.std(-1), "semi_bias": raw[0],
             "rank_correlation_folded": recency(folded), "size_folded": folded.std(-1), "semi_bias_folded": folded[0]}
    return {name: value.cpu().numpy() for name, value in measured.items()}
