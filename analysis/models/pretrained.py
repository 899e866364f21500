"""Running a whole model with ``transformers``: the trained one, or the same architecture with random weights.

Weight-only chapters do not need this: see :mod:`analysis.models.parameters`. No code from a model folder ever runs.
"""

from collections.abc import Sequence

import torch

from analysis.models import checkpoints
from analysis.models.checkpoints import Checkpoint, NotFound
from analysis.models.parameters import MissingTensor, check_whole, config, has

_AUTO = {"base": "AutoModel", "lm": "AutoModelForCausalLM", "masked": "AutoModelForMaskedLM",
         "classifier": "AutoModelForSequenceClassification"}
_BEYOND_ATTENTION = {"gpt2": ("wte.weight", "h.0.mlp.c_fc.weight"),
                     "bert": ("embeddings.word_embeddings.weight", "encoder.layer.0.intermediate.dense.weight")}


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
        If a whole model is needed and the files hold no token table or no perceptron.
    NotFound
        If the model that was asked for is not here; nothing stands in for it.
    WrongFamily
        If it is of another family than the chapter is about.

    Examples
    --------
    >>> check_choice("minilm", "minilm")
    """
    found = checkpoints.find(name)
    if found.stands_in_for:
        raise NotFound(f"the model {name!r} was asked for and is not here (the book itself would show {found.name} in "
                       f"its place): give its folder, or allow the hub with ANALYSIS_DOWNLOAD=1 HF_HUB_OFFLINE=0")
    families = tuple(families or (config(checkpoints.find(own))["model_type"],))
    if (family := config(found)["model_type"]) not in families:
        raise WrongFamily(f"this chapter is about models of the family {' or '.join(families)}, and {name!r} is a "
                          f"{family}: its layers are built otherwise, so the chapter's formulas are not its own")
    if whole and (absent := [tensor for tensor in _BEYOND_ATTENTION.get(family, ()) if not has(found, tensor)]):
        raise MissingTensor(f"this chapter runs the whole model on text, and {name!r} lacks {' and '.join(absent)}")


def load(checkpoint: Checkpoint, *, control_seed: int | None = None, task: str = "base", attention: str = "eager",
         dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> torch.nn.Module:
    """Load a model in evaluation mode.

    Parameters
    ----------
    control_seed
        An integer gives the control: the same configuration, randomly initialised with this seed.
    task
        ``"base"`` (hidden states), ``"lm"``, ``"masked"`` or ``"classifier"``.
    attention
        The implementation: ``"eager"`` where attention maps are wanted, ``"sdpa"`` where speed is, or a registered one.

    Raises
    ------
    MissingTensor
        If the folder holds only part of the model; nothing is silently initialised.
    Tampered
        If a file is not a whole safetensors file.
    """
    import transformers
    if task not in _AUTO:
        raise ValueError(f"task must be one of {', '.join(_AUTO)}, got {task!r}")
    auto = getattr(transformers, _AUTO[task])
    quiet = transformers.utils.logging
    verbosity = quiet.get_verbosity()
    quiet.set_verbosity_error()
    quiet.disable_progress_bar()
    try:
        if control_seed is not None:
            settings = transformers.AutoConfig.from_pretrained(checkpoint.folder, local_files_only=True,
                                                               trust_remote_code=False)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(control_seed)
                model = auto.from_config(settings, attn_implementation=attention, dtype=dtype)
        else:
            check_whole(checkpoint)
            model, report = auto.from_pretrained(
                checkpoint.folder, local_files_only=True, use_safetensors=True, trust_remote_code=False,
                attn_implementation=attention, dtype=dtype, output_loading_info=True)
            _refuse_partial(checkpoint, report, task)
    finally:
        quiet.set_verbosity(verbosity)
    return model.eval().requires_grad_(False).to(device)


def _refuse_partial(checkpoint: Checkpoint, report: dict, task: str) -> None:
    """Refuse a model that lacks tensors; only the classifier needs the pooler."""
    missing = sorted(k for k in report["missing_keys"] if "pooler" not in k or task == "classifier")
    if missing:
        raise MissingTensor(f"{checkpoint.name} ({checkpoint.folder}) lacks {len(missing)} tensors of the whole model, "
                            f"among them {missing[0]!r}: weight-only functions still work, running it does not")


def tokenizer(checkpoint: Checkpoint):
    """Load the tokenizer that lies in the model's folder."""
    import transformers
    if not any((checkpoint.folder / name).exists() for name in ("tokenizer.json", "vocab.txt", "vocab.json")):
        raise NotFound(f"{checkpoint.name} has no tokenizer in {checkpoint.folder}")
    return transformers.AutoTokenizer.from_pretrained(checkpoint.folder, local_files_only=True,
                                                      trust_remote_code=False)
