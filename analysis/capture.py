"""Running a Hugging Face model with one's own attention, layer by layer: maps and states go by and are not kept.

The library's registry of attention functions does the work, so the model's code is untouched and its output is the
same. What to do with queries, keys and values is the caller's: ``stream.MapStatistics.attend`` counts,
``stream.visit_maps`` shows maps.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor

NAME = "analysis-capture"
Attend = Callable[..., Tensor]
_active: list[Attend] = []


@contextmanager
def through(model: torch.nn.Module, attend: Attend | None = None,
            hidden: Callable[[int, Tensor], None] | None = None) -> Iterator[torch.nn.Module]:
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
        If the model is in training mode (dropout would be skipped), or is padded on the left.
    """
    if model.training:
        raise ValueError("model is in training mode: call model.eval() first, dropout is not applied here")
    with ExitStack() as stack:
        if attend is not None:
            _register()
            before = model.config._attn_implementation
            stack.callback(model.set_attn_implementation, before)
            model.set_attn_implementation(NAME)
            _active.append(attend)
            stack.callback(_active.pop)
        if hidden is not None:
            for index, layer in enumerate(layers(model)):
                handle = layer.register_forward_hook(
                    lambda _, __, out, index=index: hidden(index, out[0] if isinstance(out, tuple) else out))
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


def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

    AttentionInterface.register(NAME, _attention)
    # without its own mask function the mask is None and padding is attended to
    AttentionMaskInterface.register(NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])


def _attention(module, query, key, value, attention_mask, scaling=None, **_):  # noqa: PLR0917, the library's order
    if key.shape[1] != query.shape[1]:  # grouped keys and values
        repeat = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(repeat, 1), value.repeat_interleave(repeat, 1)
    causal = bool(getattr(module, "is_causal", False))
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    output = _active[-1](module.layer_idx, query, key, value, scale=float(scale), causal=causal,
                         lengths=_lengths(attention_mask))
    return output.transpose(1, 2), None


def _lengths(mask: Tensor | None) -> list[int] | None:
    if mask is None:
        return None
    seen = (mask if mask.dtype == torch.bool else mask == 0)[:, 0].any(-2)
    lengths = seen.sum(-1)
    if not (seen == (torch.arange(seen.shape[-1], device=seen.device) < lengths[:, None])).all():
        raise ValueError("padding must stand on the right of each sequence (tokenizer.padding_side = 'right')")
    return None if (lengths == seen.shape[-1]).all() else lengths.tolist()
