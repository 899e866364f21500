"""Which model types are read, measured by `census` and certified: each as a tiny random model beside the library's own.

Types that fail a step have the reason in its place, a word or two for those that are known.
"""

import tempfile
from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.models.auto import modeling_auto

from analysis import census, load
from analysis.models.checkpoints import find
from analysis.models.families import FAMILIES, REFUSED
from analysis.models.families.tiny import TOKENS, tiny_inputs, tiny_model
from analysis.models.inputs import main_input, running_part, takes
from analysis.models.offloading import Offloaded
from analysis.surveys.certification import certify_stack, stacks_of
from analysis.surveys.family_agreement import agreement
from analysis.surveys.layer_runs import run_layers, visit_layers
from book.publish.records import Experiment, Result, Value

TYPES = tuple(dict.fromkeys(chain.from_iterable(row.model_types for row in FAMILIES)))
REASONS = {
    "the library renames it": "the library renames its tensors as it loads them",
    "the library builds no whole": "the library has no whole model of it",
}
"""What a refusal says, and the words for it in a table."""
WORDS = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(models.WordLevel({str(i): i for i in range(TOKENS)}, unk_token="0")), pad_token="1"
)
WORDS.backend_tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
TEXTS = [" ".join(str(2 + step * i % (TOKENS - 2)) for i in range(20)) for step in (3, 7)]


def compute(device: torch.device) -> Result:
    """Which model types are read, measured by a census and certified, each as a tiny random model.

    Try every type on the CPU, whatever the device, and count the types that the library has for language models.
    """
    mappings = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    known = set(chain(*mappings))
    counts = {"known": known, "known and read": known & set(TYPES), "known and refused": known & set(REFUSED)}
    tried = try_types(TYPES)
    values = {name: Value(len(types)) for name, types in counts.items()}
    return Result({**tried.values, **values}, tried.arrays, tried.tolerances)


def try_types(types: Sequence[str]) -> Result:
    """Return the errors of each step by type, nan where it refuses the type, and the reasons under ``step/type``."""
    steps = {"read": read_error, "measured": measured_error, "certified": certified_error}
    errors, reasons = {step: np.full(len(types), np.nan) for step in steps}, {}
    for number, kind in enumerate(types):
        for step, error_of in steps.items():
            try:
                errors[step][number] = error_of(kind)
            except Exception as error:  # of any kind: it is what the record says of the type
                reasons[f"{step}/{kind}"] = Value(in_words(f"{type(error).__name__}: {error}"))
    return Result(reasons, errors, {"read": 1e-6, "measured": 1e-5, "certified": 0.05})


def in_words(refusal: str) -> str:
    """Say why a type is refused, in the words of :data:`REASONS`; what is not known stands as it is.

    >>> in_words("ValueError: my-model has no 'W': the library renames it as it loads the model")
    'the library renames its tensors as it loads them'
    """
    return next((words for part, words in REASONS.items() if part in refusal), refusal[:200])


def read_error(kind: str) -> float:
    """Return how far attention, outputs and norms are from the model's own, in float64, over all its stacks."""
    model = tiny_model(kind)
    found = [agreement(model, load(model, stack=of), tiny_inputs(model), in_double=True) for of in stacks(kind)]
    return max(max(each.attention, each.output, each.norm) for each in found)


def stacks(kind: str) -> list[str]:
    """Name the stacks that a type has.

    >>> stacks("t5"), stacks("clip"), stacks("llama")
    (['encoder', 'decoder'], ['vision', 'text'], [''])
    """
    return [row.stack for row in FAMILIES if kind in row.model_types and not row.files_only]


def measured_error(kind: str) -> float:
    """Take a census of each stack, and return how far the maps that it measures are from the model's own, in float32.

    An encoder, or one half of a model that joins two, is given its own inputs alone; the model has run on all of them.
    """
    model, errors = tiny_model(kind).float(), []
    inputs = {name: of.float() if of.is_floating_point() else of for name, of in tiny_inputs(model).items()}
    for stack in stacks(kind):
        read, maps = load(model, stack=stack, tokenizer=WORDS), []
        part = running_part(read)
        given = {name: of for name, of in inputs.items() if takes(part, name)}
        census(read, given)
        if main_input(part) == "input_ids":
            census(read, TEXTS)
        torch.manual_seed(0)  # a ViT-MAE shuffles the patches
        visit_layers(read, given, lambda seen, maps=maps: maps.append(seen.attention))  # both inputs of a layer in turn
        torch.manual_seed(0)
        own = torch.cat([run.attention for run in run_layers(model, read, inputs)])
        errors.append((torch.stack(maps) - own).abs().max().item())
    return max(errors)


def certified_error(kind: str) -> float:
    """Return the largest error of a certificate in float32 and float64, in parts of what is allowed."""
    model = tiny_model(kind).float()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        checkpoint, errors = find(folder), []
        for dtype in (torch.float32, torch.float64):
            offloaded = Offloaded(checkpoint, dtype)
            for stack in stacks_of(checkpoint):
                found = certify_stack(checkpoint, offloaded, tiny_inputs(model), stack)
                limit = torch.tensor(found.limit)[:, None, None]
                errors += [(error / limit).max().item() for error in found.errors.values()]
    return max(errors)


EXPERIMENT = Experiment(compute, minutes=12, seed=0)
