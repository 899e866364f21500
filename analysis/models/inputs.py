"""What a running model is given: the arguments that are followed, where their rows stand, and what is refused by name.

A model of the library computes with whatever it gets, so what is not followed here would be left out of the formulas
without a word.
"""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from analysis.core.checks import check_floating, check_tokens
from analysis.core.positions import Alibi, Positions, Rotary
from analysis.models.families import expected
from analysis.models.reading import Model

MASKS = {
    "attention_mask": ("input_ids", "inputs_embeds"),
    "decoder_attention_mask": ("decoder_input_ids", "decoder_inputs_embeds"),
}
"""Of a mask, what names the rows that it is of."""
TOKENS = ("input_ids", "decoder_input_ids", "token_type_ids", "position_ids")
ROWS = ("pixel_values", "input_features", "input_values", "bbox", "langs")
"""What else only makes the rows that the layers read."""
FOLLOWED = (*TOKENS, "inputs_embeds", "decoder_inputs_embeds", *MASKS, *ROWS)
"""Every argument that is followed."""
INSTEAD = {
    "past_key_values": "give the whole text at once",
    "decoder_position_ids": "give the decoder's text from its first token on",
}
"""What to do in the place of some arguments that are not; others are to be left out."""
BY_MASK, BY_IDS = "mask", "ids"
SKIPS_PADDING = {
    **dict.fromkeys(("opt", "bloom"), BY_MASK),
    **dict.fromkeys(
        ("roberta", "xlm-roberta", "camembert", "data2vec-text", "roberta-prelayernorm", "esm", "mpnet", "m2m_100"),
        BY_IDS,
    ),
}
"""What a ``model_type`` tells padding by, where it does not count it as positions."""
RECURRENT = ("recurrent_gemma",)
"""Hybrids whose recurrent layers know no mask, so that a text is another one behind padding."""


def read_inputs(model: torch.nn.Module, read: Model, inputs: Any) -> dict[str, Tensor]:
    """Return the arguments of a model by name, as tensors on its device; refuse what is not followed.

    Parameters
    ----------
    inputs
        What its tokenizer or processor returns, or alone what it mainly reads: ids, ``(batch, position)``, images or
        sounds. Lists and arrays are taken as tensors.

    Raises
    ------
    ValueError
        Naming the argument, if it is none of :data:`FOLLOWED` or none of the model's; if ids, masks or positions have
        another form; if there is padding on the left that the model counts as positions; or if a text has more tokens
        than the model has learned positions for.
    """
    named = inputs if isinstance(inputs, Mapping) else {main_input(model): inputs}
    where = input_device(model)
    found = {}
    for name, value in named.items():
        if value is None:
            continue
        if name not in FOLLOWED:
            raise ValueError(
                f"{name} is not followed here: {INSTEAD.get(name, 'leave it out')} (followed are {', '.join(FOLLOWED)})"
            )
        if not takes(model, name):
            raise ValueError(f"{type(model).__name__} takes no {name}: leave it out")
        found[name] = _as_tensor(name, value).to(where)
    for name, value in found.items():
        if name in TOKENS:
            check_tokens(name, value, "batch", "position", exact=True)
        elif name.endswith("inputs_embeds"):
            check_floating(name, value.float(), "batch", "position", "model", exact=True)
    for mask, names in MASKS.items():
        rows = next((name for name in names if name in found), "")
        if mask in found:
            _check_mask(mask, found[mask], rows, found.get(rows))
            _refuse_counted_padding(model, read, found, mask, rows)
        if mask == "attention_mask" and "position_ids" in found:
            found["position_ids"] = _of_each_text(found["position_ids"], found.get(rows))
    _refuse_longer_than_table(model, read, found)
    return found


def _refuse_longer_than_table(model: torch.nn.Module, read: Model, found: Mapping[str, Tensor]) -> None:
    """Refuse a text with more tokens than the model has learned positions for, where it counts them itself."""
    mask = "decoder_attention_mask" if read.family.stack == "decoder" else "attention_mask"
    rows = next((name for name in MASKS[mask] if name in found), None)
    if rows is None or read.family.stack == "vision" or "position_ids" in found or read.room is None:
        return
    if found[rows].shape[1] > read.room and expected.places_of(read.family, read.config):
        raise ValueError(
            f"{rows} has {found[rows].shape[1]} tokens, and a {type(model).__name__} has positions for {read.room}: "
            "give a shorter text"
        )


def _as_tensor(name: str, value: Any) -> Tensor:
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"{name} must be a tensor, or what can be made one, got {type(value).__name__}: give what the model's "
            "tokenizer returns, tokenizer(texts, return_tensors='pt')"
        ) from None


def input_device(model: torch.nn.Module) -> torch.device:
    """Return where a model takes its inputs: one whose first parameters are left in files takes them from memory."""
    where = next(model.parameters()).device
    return torch.device("cpu") if where.type == "meta" else where


def main_input(model: torch.nn.Module) -> str:
    """Name what a model mainly reads: ids, unless it says otherwise."""
    return getattr(model, "main_input_name", "input_ids")


def running_part(read: Model, names: Iterable[str] = ()) -> torch.nn.Module:
    """Return what runs to show a stack: an encoder, or one half of a CLIP, alone; the whole for all else.

    The whole runs too where ``names`` has arguments that the part doesn't take.
    """
    module, stack = read.module, read.family.stack
    if not (stack in ("text", "vision") or (stack == "encoder" and takes(module, "decoder_input_ids"))):
        return module
    part = module.get_submodule(read.tensors.prefix + read.family.layer.partition(".")[0])
    return part if all(takes(part, name) for name in names) else module


def takes(model: torch.nn.Module, name: str) -> bool:
    """Say whether a model has an argument of this name; many take others without a word and drop them."""
    modules = (model, getattr(model, "base_model", model))
    return any(name in inspect.signature(module.forward).parameters for module in modules)


def _check_mask(name: str, mask: Tensor, rows: str, of: Tensor | None) -> None:
    if of is None:
        raise ValueError(f"{name} is followed of tokens alone: leave it out, and give sounds or images of one size")
    if mask.shape != of.shape[:2] or not bool(((mask == 0) | (mask == 1)).all()):
        raise ValueError(
            f"{name} must be 1 for a token and 0 for padding, {tuple(of.shape[:2])} as {rows} has them, got "
            f"{tuple(mask.shape)} of {mask.dtype}: masks of another form are not followed"
        )


def _of_each_text(positions: Tensor, rows: Tensor | None) -> Tensor:
    fits = rows is not None and positions.shape[-1] == rows.shape[1] and len(positions) in (1, len(rows))
    if not fits or positions.min() < 0:
        due = "" if rows is None else f", {tuple(rows.shape[:2])} or (1, {rows.shape[1]}) here"
        raise ValueError(
            f"position_ids must be whole numbers from 0 on, one for each token{due}, got {tuple(positions.shape)} from "
            f"{positions.min()} on"
        )
    return positions.expand(len(rows), -1)


def _refuse_counted_padding(
    model: torch.nn.Module, read: Model, found: Mapping[str, Tensor], mask: str, rows: str
) -> None:
    """Refuse padding before a text where the scores of the text would be other ones than without it."""
    before = found[mask].cumsum(-1) == 0
    skips, padding = SKIPS_PADDING.get(read.config.model_type), getattr(read.config, "pad_token_id", None)
    told = skips == BY_MASK or (skips == BY_IDS and rows.endswith("ids") and (found[rows] == padding)[before].all())
    if told or not before.any() or not (kinds := _absolute(read)):
        return
    way_out = mask == "attention_mask" and takes(model, "position_ids") and not kinds & {"temperature", "recurrence"}
    if not (way_out and "position_ids" in found):
        also = f", or give position_ids as well: ({mask}.cumsum(-1) - 1).clamp(min=0)" if way_out else ""
        raise ValueError(
            f"{mask} has padding on the left, which a {type(model).__name__} "
            f"{'reads like a text' if 'recurrence' in kinds else 'counts as positions'}: pad on the right "
            f"(tokenizer.padding_side = 'right'){also}"
        )


def _absolute(read: Model) -> set[str]:
    """Return what makes scores depend on where a whole text stands; nothing where only distances count."""
    family, config = read.family, read.config
    if config.model_type in RECURRENT:
        return {"recurrence"}
    if expected.places_of(family, config):
        return {"learned"}
    layers = () if family.learned else read.layers.numbers
    kinds = {family.positions(config, layer, read.channel).kind for layer in layers} & {"sinusoidal", "temperature"}
    norm = family.qk_norm
    return kinds | ({"norm"} if norm and norm.after_rotation and not norm.bare else set())


def real_rows(read: Model, named: Mapping[str, Tensor]) -> Bool[Tensor, "batch position"] | None:
    """Return which rows of a stack are tokens; ``None`` where all are."""
    name = {"decoder": "decoder_attention_mask", "vision": ""}.get(read.family.stack, "attention_mask")
    return named[name] != 0 if name in named else None


def places(read: Model, positions: Positions, named: Mapping[str, Tensor]) -> Int[Tensor, "batch position"] | None:
    """Return where the attention of a layer has its rows; ``None``: at 0, 1, 2, ...

    That is where ``position_ids`` say if it turns queries and keys, and among the tokens of the mask if it adds to the
    scores what the library counts along them (BLOOM).
    """
    if isinstance(positions, Rotary):
        return named.get("position_ids")
    if isinstance(positions, Alibi) and SKIPS_PADDING.get(read.config.model_type) == BY_MASK:
        mask = named.get("attention_mask")
        return None if mask is None else (mask.long().cumsum(-1) - 1) * mask.long()
    return None
