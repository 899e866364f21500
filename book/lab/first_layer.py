"""The first layer of a GPT-2 that reads token plus position, in float64: its weights, its rewriting, its locality."""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from analysis.core.attention_layer import AttentionLayer, Norm
from analysis.decomposition.folding import fold_norm, fold_value_bias
from analysis.decomposition.qk_ov import update_bias
from analysis.decomposition.terms import score_terms, semi_bias, six_terms
from analysis.maps.locality import PositionOnly, causal_attention, position_only, position_scores
from analysis.models import pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.models.controls import random_attention_layer
from analysis.models.reading import load
from analysis.transformer.attention import attend, compute_scores, project, softmax
from analysis.transformer.layernorm import apply_norm, sigma
from analysis.transformer.layernorm_scale import inverse_sigma
from book.lab.reference_modules import attention_module, gpt2_attention

NEAREST = 3, 16  # reaches in gpt2-mini, whose context is an eighth of GPT-2's


@dataclass(frozen=True)
class FirstLayer:
    """A pre-LN first layer and what it reads, in float64; ``tokens`` is ``None`` where the checkpoint has no table."""

    weights: AttentionLayer
    ln: Norm
    positions: Float[Tensor, "position model"]
    tokens: Float[Tensor, "vocab model"] | None

    @property
    def folded(self) -> AttentionLayer:
        """The layer with its LayerNorm folded in."""
        return fold_norm(self.weights, self.ln)

    @property
    def sigma_p(self) -> Float[Tensor, " position"]:
        """``sigma`` of the positions alone."""
        return sigma(self.positions, self.ln.eps)


def read(checkpoint: Checkpoint, layer: int = 0, *, device: torch.device | str = "cpu") -> FirstLayer:
    """Read the first layer of a GPT-2, or a deeper one with the same positions and tokens."""
    model = load(checkpoint, dtype=torch.float64)
    tokens = model.tokens
    return FirstLayer(
        model.layers[layer].plain().to(device),
        model.norm("attention", layer).to(device),
        model.positions.to(device),
        None if tokens is None else tokens.to(device),
    )


def control(checkpoint: Checkpoint, seed: int = 0, *, device: torch.device | str = "cpu") -> FirstLayer:
    """Draw the control: the same configuration, initialised at random and never trained."""
    model = pretrained.load(checkpoint, control_seed=seed, dtype=torch.float64, device=device)
    drawn = random_attention_layer(load(checkpoint), 0, seed, torch.float64).to(device)
    ones = torch.ones_like(drawn.b_O)
    ln = Norm(ones, 0 * ones, load(checkpoint).config.layer_norm_epsilon)
    return FirstLayer(drawn, ln, model.wpe.weight.data, model.wte.weight.data)


def rewriting_errors(e: Tensor, p: Tensor, layer: AttentionLayer, ln: Norm) -> dict[str, float]:
    """Hold the rewriting of a layer that reads ``LN(e + p)`` to transformers' module; errors relative to the scale.

    Beside the identities: what the module gives without ``b_K`` or ``b_Q``, and what the printed lines of the
    document would compute if taken at their word.
    """
    x = apply_norm(e + p, ln)
    ours = attend(x, layer)
    output, attention = _run_module(x, layer)
    due, terms = compute_scores(x, layer), score_terms(x, layer)
    two = (terms.content + terms.semi_bias).masked_fill(ours.attention == 0, -math.inf)
    pairs = {
        "attention": (ours.attention, attention),
        "output": (ours.output, output),
        "four_terms": (terms.total(), due),
        "two_terms": (softmax(two), attention),
        "two_terms_unscaled": (softmax(math.sqrt(layer.channel) * two), attention),
        "six_terms": (six_terms(e, p, layer, ln).total(), due),
        "value_folded": (_run_module(x, fold_value_bias(layer))[0], output),
    }
    no_key_bias = replace(layer, b_K=torch.zeros_like(layer.b_K))
    pairs["no_key_bias"] = (_run_module(x, no_key_bias)[0], output)
    pairs["no_query_bias"] = (_run_module(x, replace(no_key_bias, b_Q=torch.zeros_like(layer.b_Q)))[0], output)
    pairs |= {name: (wrong, output) for name, wrong in _misprints(x, layer, ours.attention).items()}
    return {name: float((found - due).abs().max() / due.abs().max()) for name, (found, due) in pairs.items()}


def _run_module(x: Tensor, layer: AttentionLayer) -> tuple[Tensor, Tensor]:
    """Return output and attention of transformers' GPT-2 attention with these weights on one sequence."""
    output, attention = attention_module("gpt2", layer)(x[None])
    return output[0], attention[0]


def _misprints(x: Tensor, layer: AttentionLayer, attention: Tensor) -> dict[str, Tensor]:
    """Return what the printed lines compute: ``v_h(x_i)``, ``b_V`` inside a sum over keys, ``b_VO`` over heads."""
    values = project(x, layer.W_V, layer.b_V)

    def out(heads):
        return torch.einsum("hqc,hcm->qm", heads, layer.W_O) + layer.b_O

    plain = attention @ (values - layer.b_V[:, None])
    keys = torch.arange(1, len(x) + 1, dtype=x.dtype, device=x.device)[None, :, None]
    bias = update_bias(layer)
    bare = replace(layer, b_V=torch.zeros_like(layer.b_V), b_O=torch.zeros_like(layer.b_O))
    content = attend(x, bare).output
    return {
        "value_at_query": out(attention.sum(-1, keepdim=True) * values),
        "bias_in_sum_over_keys": out(plain + keys * layer.b_V[:, None]),
        "bias_in_sum_over_heads": content + layer.heads * bias,
        "bias_outside": content + bias,
    }


def map_error(positions: Float[Tensor, "position model"], layer: AttentionLayer) -> float:
    """Hold the semi-bias of positions to transformers' module, which forms every key; relative to the largest value.

    The module's query of a row of zeros is ``b_Q``, and its key of a position less that of zeros is ``p W_K``.
    """
    project_all = gpt2_attention(layer).c_attn
    query, key_of_zeros, _ = project_all(torch.zeros_like(positions[:1])).chunk(3, dim=-1)
    keys = project_all(positions).chunk(3, dim=-1)[1] - key_of_zeros
    by_head = (query * keys).unflatten(-1, (layer.heads, layer.channel)).sum(-1).T / math.sqrt(layer.channel)
    return float((semi_bias(positions, layer) - by_head).abs().max() / by_head.abs().max())


def loss_without(
    model: nn.Module, windows: Int[Tensor, "window position"], part: str | None = None, layers: tuple[int, ...] = (0,)
) -> float:
    """Return a GPT-2 language model's loss in nats per token once ``b_Q``, ``b_K`` or ``b_V`` of some layers is 0."""
    from copy import deepcopy

    model = deepcopy(model)
    for layer in layers if part else ():
        bias = model.transformer.h[layer].attn.c_attn.bias
        bias.chunk(3)[("b_Q", "b_K", "b_V").index(part)].zero_()
    scores = model(windows[:, :-1], use_cache=False).logits
    return float(nn.functional.cross_entropy(scores.flatten(0, 1), windows[:, 1:].flatten()))


def overlap_with_text(
    layer: FirstLayer, tokens: Int[Tensor, "text position"]
) -> tuple[Float[Tensor, " head"], Float[Tensor, " head"]]:
    """Return how much of the attention on text lies where positions alone put it, and where equal weights do.

    One less the total variation of the two, mean over texts and over queries from the larger reach on.
    """
    width = 1 / inverse_sigma(layer.tokens, layer.positions, layer.ln.eps).mean
    own, both = position_scores(layer.positions, width, layer.folded)
    expected = causal_attention(own[:, None] + both)[:, NEAREST[1] :]
    uniform = causal_attention(torch.zeros_like(both))[:, NEAREST[1] :]
    x = apply_norm(layer.tokens[tokens] + layer.positions, layer.ln)
    maps = attend(x, layer.weights).attention[:, :, NEAREST[1] :]
    return tuple(1 - (maps - other).abs().sum(-1).mean((0, -1)) / 2 for other in (expected, uniform))


def attention_of_positions(layer: FirstLayer) -> tuple[Float[Tensor, "head position"], PositionOnly]:
    """Return T^p and how near the attention of positions alone lies."""
    width = 1 / inverse_sigma(layer.tokens, layer.positions, layer.ln.eps).mean
    own, both = position_scores(layer.positions, width, layer.folded)
    return own, position_only(own, both, NEAREST, first=NEAREST[1])


def along_axes(
    p: Float[Tensor, "position model"], count: int
) -> tuple[Float[Tensor, "position first"], Float[Tensor, " axis"]]:
    """Return the positions along their first principal axes, turned so that they end positive, and all axes' sizes.

    Of positions whose last hundred sum to nothing along an axis, which way it is turned does not matter.
    """
    U, S, _ = torch.linalg.svd(p - p.mean(0), full_matrices=False)
    scores = U[:, :count] * S[:count]
    return torch.where(scores[-100:].sum(0) < 0, -scores, scores), S
