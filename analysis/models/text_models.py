"""Running any model of transformers that reads text, whatever its family; no code from its folder runs.

What belongs here: loading a whole model whose family need not be one that a chapter is about. What does not: the BERTs
and GPT-2s of the chapters (:mod:`analysis.models.pretrained`), weights alone (:mod:`analysis.models.families`).
"""

import torch

from analysis.models.checkpoints import Checkpoint, NotFound
from analysis.models.files import raw_config
from analysis.models.memory import check_memory
from analysis.models.pretrained import read_tokenizer

_CALLERS = ("attn_implementation", "experts_implementation", "auto_map", "dtype", "torch_dtype", "return_dict",
            "output_attentions", "output_hidden_states", "kernel_config")
"""What a config.json may hold that is for the caller to choose."""


class NotRunnable(NotFound):
    """The files hold no whole model that reads text alone; the message says what is in the way."""


def load_text_model(checkpoint: Checkpoint, *, device: torch.device | str = "cpu",
                    dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    """Load a whole model in evaluation mode.

    Raises
    ------
    NotRunnable
        If files lack tensors, or the model reads images, sound or two texts.
    MemoryError
        If the model does not fit; the message says how much it needs.

    Examples
    --------
    >>> from analysis.models.checkpoints import find
    >>> type(load_text_model(find("gpt2-mini"))).__name__
    'GPT2Model'
    """
    import transformers
    configuration = read_configuration(checkpoint)
    if type(configuration) not in transformers.MODEL_MAPPING or getattr(configuration, "is_encoder_decoder", False):
        raise NotRunnable(f"a {configuration.model_type} reads two texts, or none, so that there are no maps of one")
    _check_size(configuration, checkpoint, dtype, device)
    quiet = transformers.utils.logging
    verbosity = quiet.get_verbosity()
    quiet.set_verbosity_error()
    quiet.disable_progress_bar()
    try:
        model, report = transformers.AutoModel.from_pretrained(
            checkpoint.folder, config=configuration, local_files_only=True, use_safetensors=True,
            trust_remote_code=False, attn_implementation="eager", dtype=dtype, output_loading_info=True)
    finally:
        quiet.set_verbosity(verbosity)
    if model.main_input_name != "input_ids":
        raise NotRunnable(f"a {configuration.model_type} reads {model.main_input_name.replace('_', ' ')}, not text")
    missing = sorted(key for key in report["missing_keys"] if "pooler" not in key)
    if missing:
        raise NotRunnable(f"its files lack {len(missing)} tensors of the whole model, among them {missing[0]!r}")
    return model.eval().requires_grad_(False).to(device)


def read_configuration(checkpoint: Checkpoint):
    """Make the library's configuration of config.json, without what is not for the folder to choose.

    Raises
    ------
    ValueError
        If the folder holds an adapter of another model, or the library cannot make a configuration of it.
    """
    from transformers import CONFIG_MAPPING
    if (checkpoint.folder / "adapter_config.json").exists():
        raise ValueError(f"{checkpoint.name} is an adapter of another model (adapter_config.json): merge the two first")
    settings = {key: value for key, value in raw_config(checkpoint).items()
                if key not in _CALLERS and not key.startswith("_")}
    try:
        return CONFIG_MAPPING[settings["model_type"]].from_dict(settings)
    except Exception as error:  # the library's validators raise what they like
        raise ValueError(f"{checkpoint.folder / 'config.json'} describes no model that the library knows: "
                         f"{' '.join(str(error).split())}") from None


def load_tokenizer(checkpoint: Checkpoint):
    """Load the tokenizer that lies in the model's folder; refusals as `pretrained.tokenizer`.

    Examples
    --------
    >>> from analysis.models.checkpoints import find
    >>> len(load_tokenizer(find("gpt2-mini")))
    2048
    """
    configuration = read_configuration(checkpoint)
    if not isinstance(getattr(configuration, "vocab_size", None), int):
        raise NotRunnable(f"a {configuration.model_type} has no table of tokens: it does not read text")
    return read_tokenizer(checkpoint, configuration, configuration.vocab_size)


def _check_size(configuration, checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device | str) -> None:
    """Refuse a model that does not fit, by counting the parameters of one that has shapes and no numbers."""
    from transformers import AutoModel
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in AutoModel.from_config(configuration).parameters())
    for place in dict.fromkeys(("cpu", torch.device(device).type)):
        check_memory(count * dtype.itemsize, f"{checkpoint.name} with {count:,} parameters",
                     device if place != "cpu" else "cpu")
