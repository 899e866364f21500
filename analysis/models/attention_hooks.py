"""Running a Hugging Face model with one's own attention, layer by layer: maps and states go by and are not kept.

The library's registry of attention functions does the work, so the model's code is untouched and its output is the
same. What to do with queries, keys and values is the caller's: ``streaming.MapStatistics.attend`` counts,
``streaming.visit_maps`` shows maps. Attention that is more than full or causal with padding on the right (sliding
windows, packed sequences, position biases, sinks) is refused and never run as something else. What only looks at maps
needs none of this, and reads every family (:func:`analysis.surveys.layer_runs.visit_layers`).
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor

NAME = "analysis-capture"
Attend = Callable[..., Tensor]
ADDITIONS = ("softcap", "s_aux", "position_bias")
"""What a model may hand to its attention that would change the scores; none of it is computed here."""
_active: list[Attend] = []


@contextmanager
def with_attention(
    model: torch.nn.Module, attend: Attend | None = None, hidden: Callable[[int, Tensor], None] | None = None
) -> Iterator[torch.nn.Module]:
    """Let a model run with ``attend`` as its attention, and show what each layer wrote to ``hidden``.

    Parameters
    ----------
    model
        A model of ``transformers`` in evaluation mode.
    attend
        Called as ``attend(layer, query, key, value, scale=..., causal=..., lengths=...)`` with tensors
        ``(batch, head, position, channel)``; returns the output in that shape. ``lengths`` is ``None`` where nothing is
        padded. Without it the model keeps its own attention.
    hidden
        Called as ``hidden(layer, states)`` after each layer, with ``states`` of shape ``(batch, position, model)``.

    Raises
    ------
    ValueError
        If the model is in training mode (dropout would be skipped), or its attention does not use the library's
        registry. While it runs: if a mask is neither full nor causal, with padding on the right at most, or if the
        attention adds something to the scores.

    Notes
    -----
    A model whose layers are local, such as ModernBERT, is refused for sequences longer than its window.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

    if model.training:
        raise ValueError("model is in training mode: call model.eval() first, dropout is not applied here")
    with ExitStack() as stack:
        if attend is not None:
            AttentionInterface.register(NAME, _attention)
            # without its own mask function the mask is None and padding is attended to
            AttentionMaskInterface.register(NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
            before = model.config._attn_implementation
            stack.callback(model.set_attn_implementation, before)
            model.set_attn_implementation(NAME)
            if model.config._attn_implementation != NAME:
                raise ValueError(
                    f"{type(model).__name__} computes attention by itself, not through the library's "
                    "registry of attention functions: it cannot be captured"
                )
            _active.append(attend)
            stack.callback(_active.pop)
        if hidden is not None:
            for index, layer in enumerate(layers(model)):
                handle = layer.register_forward_hook(
                    lambda _, __, out, index=index: hidden(index, out[0] if isinstance(out, tuple) else out)
                )
                stack.callback(handle.remove)
        yield model


def layers(model: torch.nn.Module) -> torch.nn.ModuleList:
    """Return the model's list of layers.

    Raises
    ------
    ValueError
        If there is no list of ``config.num_hidden_layers`` modules in it.
    """
    for module in model.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == model.config.num_hidden_layers:
            return module
    raise ValueError(f"{type(model).__name__} has no list of {model.config.num_hidden_layers} layers")


def keep_heap_whole(threshold: int = 2**21) -> bool:
    """Ask glibc to give large blocks back at once: sequences of many lengths otherwise fragment the heap.

    Returns whether it worked; elsewhere than with glibc nothing happens.
    """
    try:
        return ctypes.CDLL("libc.so.6").mallopt(-3, threshold) == 1  # M_MMAP_THRESHOLD
    except (OSError, AttributeError):
        return False


def _attention(module, query, key, value, attention_mask, scaling=None, **options):  # noqa: PLR0917, the library's order
    unknown = [name for name in ADDITIONS if options.get(name) is not None]
    if unknown:
        raise ValueError(f"{type(module).__name__} changes its scores by {', '.join(unknown)}: not computed here")
    if not isinstance(getattr(module, "layer_idx", None), int):
        raise ValueError(f"{type(module).__name__} does not say which layer it is (layer_idx)")
    if key.shape[2] != query.shape[2]:
        raise ValueError(
            f"{type(module).__name__} has {key.shape[2]} keys for {query.shape[2]} queries: of a cache "
            "(past_key_values) or of other rows, which is not computed here: give the whole text at once"
        )
    if key.shape[1] != query.shape[1]:  # grouped keys and values
        repeat = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(repeat, 1), value.repeat_interleave(repeat, 1)
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    if attention_mask is None:
        causal, lengths = options.get("is_causal"), None
        causal = getattr(module, "is_causal", True) if causal is None else causal  # as the library's sdpa has it
    else:
        causal, lengths = read_mask(attention_mask)
    sight = {"scale": float(scale), "causal": bool(causal), "lengths": lengths}
    output = _active[-1](module.layer_idx, query, key, value, **sight)
    return output.transpose(1, 2), None


def read_mask(mask: Tensor) -> tuple[bool, list[int] | None]:
    """Read an attention mask as what it must be: full or causal, with padding on the right at most.

    Parameters
    ----------
    mask
        ``(batch, 1 or head, query, key)``: ``True`` where a query sees a key; or a number that is added to the scores,
        0 where it sees and at most -10,000 where it does not. What padded queries see does not matter.

    Returns
    -------
    tuple[bool, list[int] | None]
        Whether it is causal, and the number of real tokens of each sequence (``None`` where nothing is padded).

    Raises
    ------
    ValueError
        If the mask is of another kind: padding on the left, a sliding window, packed sequences, biases.

    Examples
    --------
    >>> full = torch.ones(1, 1, 3, 3, dtype=torch.bool)
    >>> read_mask(full), read_mask(full.tril()), read_mask(full & (torch.arange(3) < 2))
    ((False, None), (True, None), (False, [2]))
    """
    if mask.ndim != 4 or mask.shape[-1] != mask.shape[-2]:
        raise ValueError(
            f"mask must be (batch, 1 or head, query, key) with as many queries as keys, got {tuple(mask.shape)}"
        )
    if mask.dtype == torch.bool:
        visible = mask
    else:
        visible = mask == 0
        if not (visible | (mask <= -1e4)).all():
            raise ValueError(
                "mask adds numbers other than 0 and minus infinity to the scores (a bias): such attention "
                "is not computed here"
            )
    n = visible.shape[-1]
    place = torch.arange(n, device=visible.device)
    # A position is real if some query sees it; the real ones must come first.
    some = visible.any(1).any(-2)
    lengths = some.sum(-1)
    real = place < lengths[:, None]
    if not (some == real).all() or not lengths.all():
        raise ValueError(
            "padding must stand on the right of each sequence (tokenizer.padding_side = 'right'), and "
            "every sequence must have a token"
        )
    # Compare with the two masks that are computed, except in the rows of padding.
    padded, keys = ~real[:, None, :, None], real[:, None, None, :]
    for causal, pattern in ((False, keys), (True, keys & (place <= place[:, None]))):
        if ((visible == pattern) | padded).all():
            return causal, None if (lengths == n).all() else lengths.tolist()
    raise ValueError(
        "mask is neither full nor causal with padding on the right: sliding windows, packed sequences and "
        "other masks are not computed here"
    )
