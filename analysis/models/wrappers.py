"""What libraries put around a module of transformers: taken off, merged on request, or refused with what to do."""

from copy import deepcopy
from inspect import ismethod

import torch
from torch import Tensor

from analysis.models.configuration import families_of

DOWNLOADED = "transformers_modules."
"""Where transformers puts the code of a model's folder."""
LINEAR = ("torch.nn.modules.", "transformers.models.")
"""Where the `forward` of a Linear is from that multiplies by its weight as it is."""


def unwrap(source: torch.nn.Module, *, merge: bool = False) -> torch.nn.Module:
    """Return the module whose tensors are read, as `analysis.models.reading.load` describes it.

    Raises
    ------
    ValueError
        If what its layers compute is not what their matrices say, with a line that helps.
    """
    # Wrappers that change nothing are taken off.
    if isinstance(source, torch.nn.DataParallel | torch.nn.parallel.DistributedDataParallel):
        source = source.module
    source = getattr(source, "_orig_mod", source)  # of torch.compile: hooks are on what was compiled
    if not hasattr(config := getattr(source, "config", None), "to_dict"):
        raise ValueError(f"source must be a model of transformers with a configuration, got {type(source).__name__}")
    # The others change what is computed, each with what helps.
    if own := [type(part).__name__ for part in source.modules() if type(part).__module__.startswith(DOWNLOADED)]:
        raise ValueError(
            f"source has {own[0]}, modelling code of its own folder, and not what transformers has for a "
            f"{config.model_type}: load it with trust_remote_code=False, if it is the same"
        )
    if inside := [path for path, _ in source.named_modules() if path.endswith("_orig_mod")]:
        raise ValueError(
            f"source has a compiled part inside ({inside[0].removesuffix('._orig_mod')}): give the model as it was "
            "before torch.compile, or compile the whole of it"
        )
    if hasattr(source, "prompt_encoder"):
        raise ValueError(
            "source puts keys of its own before each text (prefix or prompt tuning), which are no tokens: "
            "model.get_base_model() is the model without them"
        )
    source = _merged(source) if merge else source
    if inside := [path for path, _ in source.named_modules() if path.endswith((".base_layer", ".lora_A"))]:
        raise ValueError(
            f"source has an adapter inside ({inside[0]}), which changes what its layers compute: "
            "load(model, merge=True) reads a copy that has it merged"
        )
    if inside := [path for path, part in source.named_modules() if _is_quantised(part)]:
        raise ValueError(
            f"source has quantised modules inside ({inside[0]}), of which there are no matrices to read: "
            "dequantise it first, model = model.dequantize(), or give the model as it was before"
        )
    return source


def readable_parts(source: torch.nn.Module) -> dict[str, str]:
    """Return what the models inside a module are that the table knows, the first of each kind under its path."""
    parts = {}
    for path, part in source.named_modules():
        kind = getattr(getattr(part, "config", None), "model_type", None)
        if path and hasattr(part, "main_input_name") and families_of(kind):
            parts.setdefault(kind, path)
    return {path: kind for kind, path in parts.items()}


def _merged(source: torch.nn.Module) -> torch.nn.Module:
    """Return a copy that has its adapter merged into the weights, as peft does it."""
    if not hasattr(source, "merge_and_unload"):
        raise ValueError(
            f"source has no adapter that can be merged: it is a {type(source).__name__}, and peft's own model is "
            "needed, peft.PeftModel.from_pretrained(model, FOLDER)"
        )
    return deepcopy(source).merge_and_unload()


def _is_quantised(part: torch.nn.Module) -> bool:
    """Return whether a module holds no plain matrix, or stands for a Linear with code that may compute with another."""
    weight = getattr(part, "weight", None)
    if ismethod(weight) or (isinstance(weight, Tensor) and not weight.is_floating_point()):
        return True
    if type(weight).__module__.startswith("torchao."):  # a tensor that says it is a float, of whole numbers
        return True
    return isinstance(part, torch.nn.Linear) and not type(part).forward.__module__.startswith(LINEAR)
