"""Errors, and rewritings held to the modules of transformers."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer, Mask
from analysis.core.axes import Residual
from analysis.data import texts
from analysis.decomposition import folding, qk_ov
from analysis.decomposition.folding import fold_value_bias
from analysis.maps import entropy
from analysis.models import pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.transformer.attention import attend, softmax
from book.lab.reference_modules import attention_module

# ---- How far a computed tensor is from the exact one


def largest(difference: Tensor) -> float:
    """Return the largest absolute entry.

    >>> from torch import tensor
    >>> largest(tensor([1.0, -2.0]))
    2.0
    """
    return difference.abs().max().item()


# ---- What the chapters on weighted means and on patterns share: rewritings held to the modules of transformers


def random_layer(head: int, model: int, channel: int, seed: int = 0) -> AttentionLayer:
    """Draw a layer with standard normal weights and biases, float64; scores of order ``model``, so nothing is small."""
    g = torch.Generator().manual_seed(seed)
    shapes = [(head, model, channel)] * 3 + [(head, channel, model)] + [(head, channel)] * 3 + [(model,)]
    drawn = (torch.randn(s, generator=g, dtype=torch.float64) for s in shapes)
    return AttentionLayer(*(t / t[0].numel() ** 0.25 if t.ndim == 3 else t for t in drawn))


def draw(*shape: int, seed: int = 1, device: torch.device | str = "cpu") -> torch.Tensor:
    """Draw standard normal numbers in float64, the same on every device."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(device)


def relative_gap(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the largest difference of two tensors as a share of the largest entry of the second.

    >>> relative_gap(torch.tensor([1.0, 3.0]), torch.tensor([1.0, -4.0]))
    1.75
    """
    return ((one - other).abs().max() / other.abs().max()).item()


def gaps(family: str, layer: AttentionLayer, x: Residual) -> dict[str, float]:
    """Return the largest difference of each form to the module's output, as a share of its largest entry.

    The first five are rewritings and should be rounding; the others leave something out and should not.
    """
    causal = family != "bert"
    layer, other = (replace(layer, mask=Mask(causal=either)) for either in (causal, not causal))
    module = attention_module(family, layer)
    output, attention = module(x)
    P, M = qk_ov.patterns(x, layer), qk_ov.messages(x, layer)
    zero = {name: torch.zeros_like(getattr(layer, name)) for name in ("b_Q", "b_K", "b_V")}
    wrong_root = softmax(qk_ov.match(P, x, layer.model, causal=causal))
    forms = {
        "sum over heads": attend(x, layer).output,
        "patterns and messages": qk_ov.attend_by_patterns(x, layer).output,
        "weighted inputs, folded": folding.apply_folded(attention, x, folding.fold_values(layer)),
        "module with b_V moved": attention_module(family, fold_value_bias(layer))(x)[0],
        "module without b_K": attention_module(family, replace(layer, b_K=zero["b_K"]))(x)[0],
        "no constant pattern": qk_ov.attend_by_patterns(x, replace(layer, b_Q=zero["b_Q"])).output,
        "no b_V W_O": qk_ov.attend_by_patterns(x, replace(layer, b_V=zero["b_V"])).output,
        "root of the stream's width": qk_ov.deliver(wrong_root, M).sum(-3) + qk_ov.update_bias(layer),
        "as printed": qk_ov.deliver(
            softmax(qk_ov.match(P - qk_ov.constant_pattern(layer)[:, None], x, layer.channel)), M
        ).sum(-3),
        "no mask" if causal else "future masked": attend(x, other).output,
        "one mean attention for all heads": folding.apply_folded(
            attention.mean(-3, keepdim=True).expand_as(attention), x, folding.fold_values(layer)
        ),
    }
    return {name: relative_gap(form, output) for name, form in forms.items()}


def log_maps(
    checkpoint: Checkpoint,
    *,
    control_seed: int | None = None,
    passages: int = 16,
    tokens: int = 64,
    source: str | None = None,
    device: torch.device | str = "cpu",
    network: torch.nn.Module | None = None,
) -> Iterator[torch.Tensor]:
    """Run a whole model on passages, cut after ``tokens`` tokens or its own most; yield ``(layer, head, query, key)``.

    Logarithms of attention are scores less a constant of the row, which no softmax sees. In float64, so that no weight
    vanishes. ``source`` is a text file or a folder of them to read in place of the bundled passages; ``network`` is run
    in place of the checkpoint's.
    """
    model = network or pretrained.load(checkpoint, control_seed=control_seed, dtype=torch.float64, device=device)
    tokenizer = pretrained.tokenizer(checkpoint)
    longest = min(tokens, model.config.max_position_embeddings)
    for text in texts.passages(count=passages, source=source):
        ids = torch.tensor([tokenizer(text, truncation=True, max_length=longest)["input_ids"]], device=device)
        yield torch.stack(model(ids, output_attentions=True).attentions)[:, 0].log()


def entropy_shares(checkpoint: Checkpoint, dials: tuple[float, ...] = (1.0,), **which) -> torch.Tensor:
    """Return ``(dial, layer, head)``: mean entropy of the rows over the logarithm of their keys, scores times a dial.

    Rows that see one key only are left out. ``which`` goes to :func:`log_maps`.
    """
    total, rows = 0, 0
    for scores in log_maps(checkpoint, **which):
        seen = entropy.count_visible_keys(scores)
        shares = entropy.entropy_at(scores, torch.tensor(dials, dtype=torch.float64, device=scores.device)) / seen.log()
        kept = shares[..., seen[0, 0] > 1]
        total, rows = total + kept.sum(-1), rows + kept.shape[-1]
    return total / rows
