"""Running a whole model of any family with ``transformers``: the trained one, or the same with random weights.

No code from a model folder ever runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch
from torch import Tensor

from analysis.core.checks import all_finite
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
from analysis.models.files import FLOATING, MissingTensor, TensorFiles, raw_config
from analysis.models.gguf_files import find_gguf
from analysis.models.inputs import input_device, main_input, running_part, takes
from analysis.models.memory import check_memory
from analysis.models.tokenizer_files import check_tokenizer_files

_AUTO = {
    "base": "AutoModel",
    "whole": "AutoModel",
    "lm": "AutoModelForCausalLM",
    "masked": "AutoModelForMaskedLM",
    "classifier": "AutoModelForSequenceClassification",
}
IMPLEMENTATIONS = ("eager", "sdpa")
"""Of attention; :mod:`analysis.models.attention_hooks` sets its own. The folder has no say in it."""

BEYOND = 0.01
"""Of a model's rows, how many words of a tokenizer may be numbered beyond them: with more it is another model's."""
WHOLE = ("add_cross_attention", "is_encoder_decoder")
"""Options that make another whole model of a GPT-2 or a BERT than the one that is run here."""
CHAPTERS = ("is_decoder", *WHOLE)
"""Options that make another model of it than the one that a chapter is about."""
_UNKNOWN = "\u0378 \U000e0001"
"""Characters of no language: a tokenizer must be able to read them."""


class NotRunnable(NotFound):
    """No model runs on this: the library has none, or it reads something else; the message says which."""


class WrongFamily(ValueError):
    """A model was given that the chapter's formulas are not about."""


def check_choice(name: str, own: str, families: Sequence[str] | None = None, *, whole: bool = True) -> None:
    """Refuse a model that cannot take the place of a chapter's own.

    Parameters
    ----------
    families
        Which families the chapter is about, such as ``("bert",)``; default: that of its own model.
    whole
        Whether the chapter runs the model, so that its attention alone is not enough.

    Raises
    ------
    MissingTensor
        If a whole model is needed and the files hold no token table or no MLP.
    NotFound
        If the requested model is not found; nothing stands in for it.
    WrongFamily
        If it is of another family than the chapter is about.

    Examples
    --------
    >>> check_choice("minilm", "minilm")
    """
    checkpoint = checkpoints.find(name)
    families = tuple(families or (read_configuration(checkpoints.find(own, stand_in=True)).model_type,))
    _check_only(checkpoint, CHAPTERS)
    config = read_configuration(checkpoint)
    check_options(families_of(config.model_type)[0], config, str(checkpoint.folder / "config.json"))
    if (family := config.model_type) not in families:
        raise WrongFamily(
            f"this chapter is about models of the family {' or '.join(families)}, and {name!r} is a "
            f"{family}: its layers are built otherwise, so the chapter's formulas are not its own"
        )
    if whole and (absent := reading.load(checkpoint).missing):
        raise MissingTensor(f"this chapter runs the whole model on text, and {name!r} lacks {' and '.join(absent[:2])}")


def load(
    checkpoint: str | Path | Checkpoint,
    *,
    control_seed: int | None = None,
    task: str = "base",
    attention: str = "eager",
    dtype: torch.dtype | None = torch.float32,
    device: torch.device | str = "cpu",
    controls: int = 0,
    device_map: str | Mapping[str, int | str | torch.device] | None = None,
    offload: str | Path | None = None,
) -> torch.nn.Module:
    """Load a model of any family that is read, in evaluation mode; of a T5 its encoder, which runs alone.

    Parameters
    ----------
    checkpoint
        A name or folder as `checkpoints.find` takes it, or what that found.
    control_seed
        An integer gives the control: the same configuration, randomly initialised with this seed.
    task
        ``"base"`` (hidden states), ``"whole"`` (the same with a T5's decoder), ``"lm"``, ``"masked"`` or
        ``"classifier"``.
    attention
        The implementation: ``"eager"`` where attention maps are wanted, ``"sdpa"`` where speed is. What the folder
        names is not looked at.
    dtype
        ``None``: bfloat16 where all tensors are in it, else float32. (In float16, in which other models are stored, a
        processor computes slowly and large scores overflow.)
    controls
        How many networks of the same size are to stand beside it: what they need must fit as well.
    device_map
        Where its parts go, as accelerate has it: ``"auto"`` fills the GPUs first, then memory, and leaves the rest in
        files; or a device, or ``"disk"``, for each part by name. Then ``device`` is not used.
    offload
        The folder for what is left in files and is not stored there as it is used.

    Raises
    ------
    MemoryError
        If the model that config.json describes does not fit; the message says how much it needs.
    MissingTensor
        If the folder holds only part of the model; nothing is silently initialised. For a control, if it does not hold
        the attention of every layer.
    ModuleNotFoundError
        If there is a device map and accelerate is not installed.
    NotRunnable
        If the library has no model of this family for the task.
    Tampered
        If a file is not a whole safetensors file.
    ValueError
        If config.json describes no model that is read here, or a tensor has another shape than it says or holds nan or
        infinity.

    Examples
    --------
    >>> type(load("gpt2-mini", task="lm")).__name__
    'GPT2LMHeadModel'
    """
    checkpoint = checkpoints.resolve(checkpoint)
    for name, value, allowed in (("task", task, tuple(_AUTO)), ("attention", attention, IMPLEMENTATIONS)):
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
    _check_only(checkpoint, WHOLE)
    read = reading.load(checkpoint)
    if control_seed is None:
        _refuse_missing(checkpoint, read.missing)
    configuration = library_configuration(checkpoint)
    kind = _kind(configuration, task)
    dtype, placed = dtype or _stored_dtype(checkpoint), {}
    if device_map is None:
        check_size(kind, configuration, checkpoint, dtype, device=device, controls=controls)
    else:
        import accelerate  # noqa: F401, to say that it is missing before anything is read

        placed = {"device_map": device_map, "offload_folder": offload}
    with quiet_library(checkpoint):
        if control_seed is not None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(control_seed)
                model = kind.from_config(configuration, attn_implementation=attention, dtype=dtype)
        else:
            model = read_model(checkpoint, kind, configuration, attention=attention, dtype=dtype, **placed)
        model = model.eval().requires_grad_(False)
        model = model if placed else model.to(device)
        check_run(checkpoint, model)
    return model


def _kind(configuration, task: str):
    """Return the library's class for a task; of a model with a decoder, that of its encoder where there is one."""
    import transformers

    encoders = transformers.AutoModelForTextEncoding
    encoder = task == "base" and getattr(configuration, "is_encoder_decoder", False)
    alone = encoder and type(configuration) in encoders._model_mapping
    kind = encoders if alone else getattr(transformers, _AUTO[task])
    if type(configuration) not in kind._model_mapping:
        raise NotRunnable(f"the library has no {configuration.model_type} for the task {task!r}")
    return kind


def _stored_dtype(checkpoint: Checkpoint) -> torch.dtype:
    kinds = {kind for _, kind in TensorFiles(checkpoint).headers.values()}
    return torch.bfloat16 if kinds == {"BF16"} else torch.float32


def check_size(
    kind,
    configuration,
    checkpoint: Checkpoint,
    dtype: torch.dtype | None = None,
    *,
    device: torch.device | str = "cpu",
    controls: int = 0,
) -> None:
    """Refuse a model that does not fit, by counting the parameters of one that has shapes and no numbers.

    Networks are made on the CPU, one at a time, and stay on the device; a control needs the order of its largest matrix
    beside them.
    """
    with quiet_library(checkpoint), torch.device("meta"):
        sizes = [parameter.numel() for parameter in kind.from_config(configuration).parameters()]
    dtype = dtype or _stored_dtype(checkpoint)
    what = f"{checkpoint.name} with {sum(sizes):,} parameters" + (", and a control beside it," if controls else "")
    order = 4 * max(sizes) if controls else 0
    networks = {"cpu": 1} | {torch.device(device).type: 1 + controls}
    for place, count in networks.items():
        check_memory(sum(sizes) * dtype.itemsize * count + order, what, device if place != "cpu" else "cpu")


def read_model(
    checkpoint: Checkpoint, kind, configuration, *, attention: str = "eager", dtype: torch.dtype | None = None, **placed
) -> torch.nn.Module:
    """Let the library read a whole model; what is missing, of another shape or not finite is an error, as in `load`.

    Parameters
    ----------
    kind
        A class of the library that chooses a model by its configuration.
    placed
        Where its parts go, as the library takes it; default: memory.
    """
    # From the files, or handed over where this package has read them.
    files = TensorFiles(checkpoint)  # refuses an index that leads elsewhere
    dtype, folder = dtype or _stored_dtype(checkpoint), checkpoint.folder
    if find_gguf(folder):  # what is read here is handed over: one reading, and nothing written anew
        kind, folder = kind._model_mapping[type(configuration)], None
        kind = kind[0] if isinstance(kind, tuple) else kind
        placed["state_dict"] = {name: files.read(name) for name in files.headers}
    model, report = kind.from_pretrained(
        folder,
        config=configuration,
        local_files_only=True,
        use_safetensors=True,
        trust_remote_code=False,
        attn_implementation=attention,
        dtype=dtype,
        output_loading_info=True,
        ignore_mismatched_sizes=True,
        **placed,
    )
    # What the files lack, or have in another shape, or that isn't finite, is an error.
    for name, own, implied in sorted(report["mismatched_keys"]):
        raise ValueError(
            f"tensor {name!r} of {checkpoint.name} ({checkpoint.folder}) must be {tuple(implied)} as its configuration "
            f"has it, got {tuple(own)}"
        )
    classifies = "Classification" in type(model).__name__
    _refuse_missing(checkpoint, sorted(key for key in report["missing_keys"] if classifies or "pooler" not in key))
    numbers = model.named_parameters()
    if "device_map" in placed:  # some may stay in the files
        numbers = ((name, files.read(name)) for name, (_, kind) in files.headers.items() if kind in FLOATING)
    for name, tensor in numbers:  # with an infinite one, a softmax may still give likely numbers
        if not all_finite(tensor):
            raise ValueError(f"tensor {name!r} of {checkpoint.name} holds entries that are not finite")
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
    what = checkpoint and f"{checkpoint.name} as {checkpoint.folder / 'config.json'} describes it"
    try:
        with as_described(what) if what else nullcontext():
            yield
    finally:
        logging.set_verbosity(verbosity)


def _check_only(checkpoint: Checkpoint, options: Sequence[str]) -> None:
    """Refuse a GPT-2 or BERT with an option that makes another whole model of it."""
    settings = raw_config(checkpoint)
    if settings.get("model_type") not in tuple(WORDS):
        return
    for option in options:
        if (value := settings.get(option)) not in (False, None):
            raise ValueError(
                f"{checkpoint.folder / 'config.json'} has {option} = {value!r}, which changes what a layer computes; "
                "read here are models with False, or without the option"
            )


def _refuse_missing(checkpoint: Checkpoint, missing: Sequence[str]) -> None:
    if missing:
        raise MissingTensor(
            f"{checkpoint.name} ({checkpoint.folder}) lacks {len(missing)} tensors of the whole model, "
            f"among them {missing[0]!r}: it can be read from, not run"
        )


def check_reads_text(read: reading.Model) -> None:
    """Refuse a model in memory, or the stack of it that was chosen, that reads images or sounds.

    Raises
    ------
    NotRunnable
        Saying what to give in their place.
    """
    part = running_part(read.running)
    if (reads := main_input(part)) != "input_ids":
        also = "; load(model, stack='text') is the half that reads texts" if read.family.stack == "vision" else ""
        raise NotRunnable(
            f"{type(part).__name__} reads {reads.replace('_', ' ')}, not text: give {{{reads!r}: ...}}, as its "
            f"processor returns it{also}"
        )


@torch.no_grad()
def check_run(checkpoint: Checkpoint, model: torch.nn.Module) -> None:
    """Refuse a model of texts that does not read two tokens, or makes of finite parameters what is not finite."""
    if main_input(model) != "input_ids" or takes(model, "pixel_values"):
        return
    ids = torch.zeros(1, 2, dtype=torch.long, device=input_device(model))
    output = model(**{name: ids for name in ("input_ids", "decoder_input_ids") if takes(model, name)})[0]
    if not all_finite(output):
        raise ValueError(
            f"{checkpoint.name} makes rows of the first token that are not finite: is "
            f"{checkpoint.folder / 'config.json'} its own?"
        )


def tokenizer(checkpoint: str | Path | Checkpoint):
    """Load the tokenizer that lies in the model's folder.

    Parameters
    ----------
    checkpoint
        A name or folder as `checkpoints.find` takes it, or what that found.

    Raises
    ------
    NotFound
        If the folder has none.
    NotRunnable
        If the model has no table of tokens.
    ValueError
        If its files cannot be read, name code of their own, or number more than a few words beyond the model's rows.

    Examples
    --------
    >>> len(tokenizer("gpt2-mini"))
    2048
    """
    checkpoint = checkpoints.resolve(checkpoint)
    configuration = library_configuration(checkpoint)
    rows = getattr(configuration, "vocab_size", None)
    if not isinstance(rows, int):
        kind = configuration.model_type
        raise NotRunnable(f"a {kind} has no table of tokens: it reads no text, but what its processor returns")
    import transformers

    folder = checkpoint.folder
    gguf = find_gguf(folder)
    if not (gguf or any((folder / name).exists() for name in ("tokenizer.json", "vocab.txt", "vocab.json"))):
        if pieces := sorted(path.name for pattern in ("*.model", "*.spm") for path in folder.glob(pattern)):
            raise NotFound(
                f"{checkpoint.name} has only {pieces[0]} in {folder}, of which a tokenizer.json must be made first: "
                "transformers.AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
            )
        raise NotFound(f"{checkpoint.name} has no tokenizer in {folder}")
    check_tokenizer_files(folder)
    try:
        words = transformers.AutoTokenizer.from_pretrained(
            folder,
            config=configuration,
            local_files_only=True,
            trust_remote_code=False,
            **({"gguf_file": gguf.name} if gguf else {}),
        )
        # Try it once: some fail only when they meet a character that they don't have.
        largest = max(words.get_vocab().values(), default=-1)
        words(_UNKNOWN, truncation=True)
        words(_UNKNOWN)  # which leaves it without truncation, as it was
    except Exception as error:  # of any kind: each tokenizer meets what it cannot read with what comes up
        raise ValueError(f"the tokenizer in {folder} cannot be read: {' '.join(str(error).split())[:300]}") from error
    if not 0 <= largest < rows * (1 + BEYOND):
        raise ValueError(
            f"the tokenizer in {folder} numbers its words up to {largest}, and the model has {rows} rows for them"
        )
    return words


def check_rows_of(tokenizer, ids: Tensor, rows: int) -> None:
    """Refuse tokens for which a model has no row, as some tokenizers have a few that no text should use.

    >>> check_rows_of(tokenizer("gpt2-mini"), torch.tensor([[5, 2047]]), 2047)
    Traceback (most recent call last):
    ValueError: a text has the token 'ather' (2047), and the model has 2047 rows for tokens: leave the text out
    """
    if (largest := int(ids.max())) >= rows:
        raise ValueError(
            f"a text has the token {tokenizer.decode([largest])!r} ({largest}), and the model has {rows} rows for "
            "tokens: leave the text out"
        )
