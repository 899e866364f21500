"""Running a whole model with ``transformers``: the trained one, or the same architecture with random weights.

Weight-only chapters do not need this: see :mod:`analysis.models.reading`. No code from a model folder ever runs.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import torch

from analysis.core.checks import all_finite
from analysis.core.files import read_json_object
from analysis.models import checkpoints, reading
from analysis.models.checkpoints import Checkpoint, NotFound
from analysis.models.configuration import (
    WORDS,
    as_described,
    check_options,
    families_of,
    library_configuration,
    read_configuration,
)
from analysis.models.families.row import Config
from analysis.models.files import MissingTensor, raw_config
from analysis.models.memory import check_memory
from analysis.models.tokenizer_files import check_expansion

_AUTO = {
    "base": "AutoModel",
    "lm": "AutoModelForCausalLM",
    "masked": "AutoModelForMaskedLM",
    "classifier": "AutoModelForSequenceClassification",
}
IMPLEMENTATIONS = ("eager", "sdpa")
"""Of attention; :mod:`analysis.models.attention_hooks` sets its own. The folder has no say in it."""

ONLY = {"is_decoder": (False, None), "add_cross_attention": (False, None), "is_encoder_decoder": (False, None)}
"""Options that change a whole model, with the values under which it is the one that a chapter is about."""
_OF_TOKENIZERS = (
    "tokenizer.json",
    "vocab.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
_UNKNOWN = "\u0378 \U000e0001"
"""Characters of no language: a tokenizer must be able to read them."""


class WrongFamily(ValueError):
    """A model was given that the chapter's formulas are not about."""


def check_choice(name: str, own: str, families: Sequence[str] | None = None, *, whole: bool = True) -> None:
    """Refuse a model that cannot take the place of a chapter's own.

    Parameters
    ----------
    name
        The model that was asked for, a name or a folder.
    own
        The chapter's own model.
    families
        Which families the chapter is about, such as ``("bert",)``; default: that of its own model.
    whole
        Whether the chapter runs the model, so that its attention alone is not enough.

    Raises
    ------
    MissingTensor
        If a whole model is needed and the files hold no token table or no MLP.
    NotFound
        If the model that was asked for is not here; nothing stands in for it.
    WrongFamily
        If it is of another family than the chapter is about.

    Examples
    --------
    >>> check_choice("minilm", "minilm")
    """
    checkpoint = checkpoints.find(name)
    if checkpoint.stands_in_for:
        raise NotFound(
            f"the model {name!r} was asked for and is not here (the book itself would show "
            f"{checkpoint.name} in its place): give its folder, or allow the hub with "
            "ANALYSIS_DOWNLOAD=1 HF_HUB_OFFLINE=0"
        )
    families = tuple(families or (_read_config(checkpoints.find(own)).model_type,))
    if (family := _read_config(checkpoint).model_type) not in families:
        raise WrongFamily(
            f"this chapter is about models of the family {' or '.join(families)}, and {name!r} is a "
            f"{family}: its layers are built otherwise, so the chapter's formulas are not its own"
        )
    if whole and (absent := reading.load(checkpoint).missing):
        raise MissingTensor(f"this chapter runs the whole model on text, and {name!r} lacks {' and '.join(absent[:2])}")


def load(
    checkpoint: Checkpoint,
    *,
    control_seed: int | None = None,
    task: str = "base",
    attention: str = "eager",
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> torch.nn.Module:
    """Load a model in evaluation mode.

    Parameters
    ----------
    control_seed
        An integer gives the control: the same configuration, randomly initialised with this seed.
    task
        ``"base"`` (hidden states), ``"lm"``, ``"masked"`` or ``"classifier"``.
    attention
        The implementation: ``"eager"`` where attention maps are wanted, ``"sdpa"`` where speed is. What the folder
        names is not looked at.

    Raises
    ------
    MemoryError
        If the model that config.json describes does not fit.
    MissingTensor
        If the folder holds only part of the model; nothing is silently initialised. For a control, if it does not hold
        the attention of every layer.
    Tampered
        If a file is not a whole safetensors file.
    ValueError
        If config.json describes no model that is read here, or a tensor has another shape than it says or holds nan or
        infinity.
    """
    import transformers

    for name, value, allowed in (("task", task, tuple(_AUTO)), ("attention", attention, IMPLEMENTATIONS)):
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
    settings = _read_config(checkpoint)
    _check_size(settings, checkpoint.name, dtype, device)
    read = reading.load(checkpoint)
    if control_seed is None:
        _refuse_missing(checkpoint, read.missing)
    auto, configuration = getattr(transformers, _AUTO[task]), library_configuration(checkpoint)
    with quiet_library(checkpoint):
        if control_seed is not None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(control_seed)
                model = auto.from_config(configuration, attn_implementation=attention, dtype=dtype)
        else:
            _check_skeleton(read, auto, configuration)
            model, report = auto.from_pretrained(
                checkpoint.folder,
                config=configuration,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                attn_implementation=attention,
                dtype=dtype,
                output_loading_info=True,
            )
            keys = (key for key in report["missing_keys"] if "pooler" not in key or task == "classifier")
            _refuse_missing(checkpoint, sorted(keys))
            refuse_infinite(checkpoint, model)
        model = model.eval().requires_grad_(False).to(device)
        check_run(checkpoint, model)
    return model


@contextmanager
def quiet_library(checkpoint: Checkpoint | None = None) -> Iterator[None]:
    """Let the library load a model without a word: what is missing is said here.

    Raises
    ------
    ValueError
        In the place of whatever the library stumbles over, naming the checkpoint.
    """
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    named = (
        as_described(f"{checkpoint.name} as {checkpoint.folder / 'config.json'} describes it") if checkpoint else None
    )
    try:
        with named or nullcontext():
            yield
    finally:
        logging.set_verbosity(verbosity)


def _read_config(checkpoint: Checkpoint) -> Config:
    """Return the configuration of a GPT-2 or BERT; refuse other families, and options that change the whole model."""
    model_type, source = raw_config(checkpoint).get("model_type"), checkpoint.folder / "config.json"
    if not isinstance(model_type, str) or model_type not in WORDS:
        raise ValueError(
            f"{checkpoint.name} is of the family {model_type!r}; whole models are run of these: {', '.join(WORDS)}"
        )
    for option, values in ONLY.items():
        if (value := raw_config(checkpoint).get(option)) not in values:
            raise ValueError(
                f"{source} has {option} = {value!r}, which changes what a layer computes; read here are models with "
                f"{values[0]!r}, or without the option"
            )
    config = read_configuration(checkpoint)
    check_options(families_of(model_type)[0], config, str(source))
    return config


def _check_size(config: Config, name: str, dtype: torch.dtype, device: torch.device | str) -> None:
    """Refuse a model that does not fit where it is built, the CPU, or where it is to run."""
    count = reading.count_parameters(families_of(config.model_type)[0], config)
    what = f"{name} with {config.num_hidden_layers} layers of width {config.hidden_size}, {config.vocab_size} tokens"
    for place in dict.fromkeys(("cpu", torch.device(device).type)):
        check_memory(count * dtype.itemsize, what, device if place != "cpu" else "cpu")


def _check_skeleton(read: reading.Model, auto, configuration) -> None:
    """Refuse tensors of a task's own head that do not fit it: the model is built without numbers to see its shapes."""
    with torch.device("meta"):
        skeleton = auto.from_config(configuration)
    named = replace(
        read.tensors, spelled={**{name: name for name in read.tensors.source.headers}, **read.tensors.spelled}
    )
    base = f"{skeleton.base_model_prefix}."
    named.check({name.removeprefix(base): tuple(tensor.shape) for name, tensor in skeleton.named_parameters()})


def _refuse_missing(checkpoint: Checkpoint, missing: Sequence[str]) -> None:
    if missing:
        raise MissingTensor(
            f"{checkpoint.name} ({checkpoint.folder}) lacks {len(missing)} tensors of the whole model, "
            f"among them {missing[0]!r}: it can be read from, not run"
        )


def refuse_infinite(checkpoint: Checkpoint, model: torch.nn.Module) -> None:
    """Refuse a parameter that is not finite: with an infinite one, a softmax may still give likely numbers."""
    for name, parameter in model.named_parameters():
        if not all_finite(parameter):
            raise ValueError(f"tensor {name!r} of {checkpoint.name} holds entries that are not finite")


def input_device(model: torch.nn.Module) -> torch.device:
    """Return where a model takes its inputs: one whose first parameters are left in files takes them from memory."""
    in_files = hasattr(model, "hf_device_map") and model.device.type == "meta"
    return torch.device("cpu") if in_files else model.device


@torch.no_grad()
def check_run(checkpoint: Checkpoint, model: torch.nn.Module) -> None:
    """Refuse a model that does not read two tokens, or makes of finite parameters what is not finite."""
    output = model(input_ids=torch.zeros(1, 2, dtype=torch.long, device=input_device(model)))[0]
    if not all_finite(output):
        raise ValueError(
            f"{checkpoint.name} makes rows of the first token that are not finite: is "
            f"{checkpoint.folder / 'config.json'} its own?"
        )


def tokenizer(checkpoint: Checkpoint):
    """Load the tokenizer that lies in the model's folder.

    Raises
    ------
    NotFound
        If the folder has none.
    ValueError
        If its files cannot be read, or give a number to a word for which the model has no row.
    """
    return read_tokenizer(checkpoint, library_configuration(checkpoint), _read_config(checkpoint).vocab_size)


def read_tokenizer(checkpoint: Checkpoint, configuration, rows: int):
    """Load the tokenizer of a model with the library's configuration and so many rows of tokens; as `tokenizer`."""
    import transformers

    folder = checkpoint.folder
    if not any((folder / name).exists() for name in ("tokenizer.json", "vocab.txt", "vocab.json")):
        raise NotFound(f"{checkpoint.name} has no tokenizer in {folder}")
    for name in filter(lambda name: (folder / name).exists(), _OF_TOKENIZERS):
        read_json_object(folder / name)
    if (folder / "tokenizer.json").exists():
        check_expansion(folder / "tokenizer.json")
    try:
        words = transformers.AutoTokenizer.from_pretrained(
            folder, config=configuration, local_files_only=True, trust_remote_code=False
        )
        largest = max(words.get_vocab().values(), default=-1)
        words(_UNKNOWN, truncation=True)
        words(_UNKNOWN)  # which leaves it without truncation, as it was
    except Exception as error:  # of any kind: each tokenizer meets what it cannot read with what comes up
        raise ValueError(f"the tokenizer in {folder} cannot be read: {' '.join(str(error).split())[:300]}") from error
    if not 0 <= largest < rows:
        raise ValueError(
            f"the tokenizer in {folder} numbers its words up to {largest}, and the model has {rows} rows for them"
        )
    return words
