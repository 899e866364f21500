"""Running any model of transformers that reads text, whatever its family; no code from its folder runs.

What belongs here: loading a whole model whose family need not be one that a chapter is about. What does not: the BERTs
and GPT-2s of the chapters (:mod:`analysis.models.pretrained`), weights alone (:mod:`analysis.models.reading`).
"""

from collections.abc import Mapping
from pathlib import Path

import torch

from analysis.core.checks import all_finite
from analysis.models.checkpoints import Checkpoint, NotFound
from analysis.models.configuration import library_configuration
from analysis.models.files import FLOATING, TensorFiles
from analysis.models.memory import check_memory
from analysis.models.pretrained import check_run, quiet_library, read_tokenizer, refuse_infinite


class NotRunnable(NotFound):
    """The files hold no whole model that reads text alone; the message says what is in the way."""


def load_text_model(
    checkpoint: Checkpoint,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    controls: int = 0,
    device_map: str | Mapping[str, int | str | torch.device] | None = None,
    offload: str | Path | None = None,
) -> torch.nn.Module:
    """Load a whole model in evaluation mode; of a T5 its encoder, which reads one text.

    Parameters
    ----------
    dtype
        Default: bfloat16 where all tensors are in it, else float32. (In float16, in which
        other models are stored, a processor computes slowly and large scores overflow.)
    controls
        How many networks of the same size are to stand beside it: what they need must fit as well.
    device_map
        Where its parts go, as accelerate has it: ``"auto"`` fills the GPUs first, then memory, and leaves the rest in
        files; or a device, or ``"disk"``, for each part by name. Then ``device`` is not used.
    offload
        The folder for what is left in files and is not stored there as it is used.

    Raises
    ------
    NotRunnable
        If files lack tensors, or the model reads images, sound or two texts.
    MemoryError
        If the model does not fit; the message says how much it needs.
    ModuleNotFoundError
        If there is a device map and accelerate is not installed.
    ValueError
        If a tensor has another shape than config.json implies, a number is not finite, or config.json is refused
        (`configuration.read_configuration`).

    Examples
    --------
    >>> from analysis.models.checkpoints import find
    >>> type(load_text_model(find("gpt2-mini"))).__name__
    'GPT2Model'
    """
    import transformers

    configuration = library_configuration(checkpoint)
    encoder = getattr(configuration, "is_encoder_decoder", False)
    kind = transformers.AutoModelForTextEncoding if encoder else transformers.AutoModel
    if type(configuration) not in kind._model_mapping:
        raise NotRunnable(f"a {configuration.model_type} reads two texts, or none, so that there are no maps of one")
    placed = {}
    if device_map is not None:
        import accelerate  # noqa: F401, to say that it is missing before anything is read

        placed = {"device_map": device_map, "offload_folder": offload}
    model = read_whole(
        checkpoint, kind, configuration, dtype, "input_ids", device=device, controls=controls, placed=placed
    )
    model = model.eval().requires_grad_(False)
    model = model if placed else model.to(device)
    with quiet_library(checkpoint):
        check_run(checkpoint, model)
    return model


def read_whole(
    checkpoint: Checkpoint,
    kind,
    configuration,
    dtype: torch.dtype | None = None,
    reads: str = "input_features",
    *,
    device: torch.device | str = "cpu",
    controls: int = 0,
    placed: Mapping[str, object] | None = None,
) -> torch.nn.Module:
    """Read a whole model of a kind that the library has, with every tensor of it; refusals as `load_text_model`.

    Parameters
    ----------
    kind
        A class of the library that chooses a model by its configuration.
    reads
        What the model must call its input.
    placed
        Where its parts go; default: memory.
    """
    files = TensorFiles(checkpoint)  # refuses an index that leads elsewhere
    kinds = {kind for _, kind in files.headers.values()}
    dtype = dtype or (torch.bfloat16 if kinds == {"BF16"} else torch.float32)
    placed = dict(placed or {})
    with quiet_library(checkpoint):
        if not placed:
            _check_size(kind, configuration, checkpoint, dtype, device=device, controls=controls)
        model, report = kind.from_pretrained(
            checkpoint.folder,
            config=configuration,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            attn_implementation="eager",
            dtype=dtype,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **placed,
        )
    for name, own, implied in sorted(report["mismatched_keys"]):
        raise ValueError(
            f"tensor {name!r} of {checkpoint.name} ({checkpoint.folder}) must be {tuple(implied)} as its configuration "
            f"has it, got {tuple(own)}"
        )
    if model.main_input_name != reads:
        raise NotRunnable(
            f"a {configuration.model_type} reads {model.main_input_name.replace('_', ' ')}, not "
            f"{'text' if reads == 'input_ids' else reads.replace('_', ' ')}"
        )
    missing = sorted(key for key in report["missing_keys"] if "pooler" not in key)
    if missing:
        raise NotRunnable(f"its files lack {len(missing)} tensors of the whole model, among them {missing[0]!r}")
    if placed:  # what stays in files has no numbers in the model
        _refuse_infinite_files(checkpoint, files)
    else:
        refuse_infinite(checkpoint, model)
    return model


def _refuse_infinite_files(checkpoint: Checkpoint, files: TensorFiles) -> None:
    for name, (_, kind) in files.headers.items():
        if kind in FLOATING and not all_finite(files.read(name)):
            raise ValueError(f"tensor {name!r} of {checkpoint.name} holds entries that are not finite")


def load_tokenizer(checkpoint: Checkpoint):
    """Load the tokenizer that lies in the model's folder; refusals as `pretrained.tokenizer`.

    Examples
    --------
    >>> from analysis.models.checkpoints import find
    >>> len(load_tokenizer(find("gpt2-mini")))
    2048
    """
    configuration = library_configuration(checkpoint)
    if not isinstance(getattr(configuration, "vocab_size", None), int):
        raise NotRunnable(f"a {configuration.model_type} has no table of tokens: it does not read text")
    return read_tokenizer(checkpoint, configuration, configuration.vocab_size)


def _check_size(
    kind, configuration, checkpoint: Checkpoint, dtype: torch.dtype, *, device: torch.device | str, controls: int
) -> None:
    """Refuse a model that does not fit, by counting the parameters of one that has shapes and no numbers.

    Networks are made on the CPU, one at a time, and stay on the device; a control needs the order of its largest matrix
    beside them.
    """
    with torch.device("meta"):
        sizes = [parameter.numel() for parameter in kind.from_config(configuration).parameters()]
    what = f"{checkpoint.name} with {sum(sizes):,} parameters" + (", and a control beside it," if controls else "")
    order = 4 * max(sizes) if controls else 0
    networks = {"cpu": 1} | {torch.device(device).type: 1 + controls}
    for place, count in networks.items():
        check_memory(sum(sizes) * dtype.itemsize * count + order, what, device if place != "cpu" else "cpu")
