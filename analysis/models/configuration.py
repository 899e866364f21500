"""What config.json says of a model, each value checked that a layer or a library's model depends on.

For the families whose models the book runs, GPT-2 and BERT, :data:`WORDS` lists what is read, with the values that a
file may leave out, and nothing else of the folder reaches a model: what to run it with (dropout, caches, which
attention) is the caller's to choose. No library is imported for these. For other families the library's own
configuration checks and completes what the file says.
"""

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import SimpleNamespace
from typing import Any

from analysis.models.checkpoints import ADAPTER, Checkpoint
from analysis.models.families.checks import MOST_LAYERS
from analysis.models.families.expected import attention_layers
from analysis.models.families.row import Config, Family
from analysis.models.families.table import FAMILIES, REFUSED
from analysis.models.files import raw_config

CALLERS = (
    *("attn_implementation", "experts_implementation", "kernel_config", "auto_map", "transformers_weights"),
    *("dtype", "torch_dtype", "return_dict", "output_attentions", "output_hidden_states"),
)
"""What a config.json may hold that is for the caller to choose, never for the folder."""
MOST_LABELS = 100_000
"""Classes of a classifier."""
_COUNTS_LAYERS = re.compile("layers?$|depth|hidden_groups|inner_group")
"""What a config.json calls numbers of which the library makes as long a list."""


@dataclass(frozen=True)
class Words:
    """What a family's config.json calls its sizes, and what it is that the file does not say.

    ``sizes`` are by their names in other families, which layers are read by; ``flags`` by their defaults.
    """

    sizes: Mapping[str, str]
    defaults: Mapping[str, int | float | str]
    eps: str
    activation: str
    flags: Mapping[str, bool] = field(default_factory=dict)


_SIZES = (
    *("num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size"),
    *("max_position_embeddings", "vocab_size"),
)
WORDS = {
    "gpt2": Words(
        dict(zip(_SIZES, ("n_layer", "n_head", "n_embd", "n_inner", "n_positions", "vocab_size"), strict=True)),
        {"n_positions": 1024, "vocab_size": 50257, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"},
        "layer_norm_epsilon",
        "activation_function",
        {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False},
    ),
    "bert": Words(
        {word: word for word in (*_SIZES, "type_vocab_size")},
        {"max_position_embeddings": 512, "vocab_size": 30522, "type_vocab_size": 2}
        | {"layer_norm_eps": 1e-12, "hidden_act": "gelu"},
        "layer_norm_eps",
        "hidden_act",
        {"is_decoder": False},
    ),
}
"""By ``model_type``."""
_OWN_CLASSES = {"gpt2": "GPT2", "bert": "Bert"}
"""What the library's classes of a family of :data:`WORDS` begin with."""
_TASKS = (
    "(Model|LMHeadModel|DoubleHeadsModel|For(CausalLM|PreTraining|MaskedLM|NextSentencePrediction|MultipleChoice"
    "|QuestionAnswering|(Sequence|Token)Classification))"
)
OF_TEXTS = ("AutoTokenizer", "AutoProcessor", "AutoImageProcessor", "AutoFeatureExtractor", "AutoVideoProcessor")
"""What ``auto_map`` may name that makes inputs and no model."""
EVERYWHERE = {"quantization_config": (None,), "pruned_heads": ({}, [], None)}
"""Options that change what any attention computes, with the values under which they do not."""
WIDTHS = ("head_dim", "d_kv")
"""Widths of a head, which a file may leave out."""
OPTIONAL = ("n_inner",)
"""Widths of MLPs that are four times the stream's where a file does not give them."""


def families_of(model_type: object) -> tuple[Family, ...]:
    """Return the rows for a ``model_type``, one for each stack of such a model.

    >>> [row.name for row in families_of("mistral")]
    ['Llama, Mistral, Mixtral']
    >>> [row.stack for row in families_of("whisper")]
    ['encoder', 'decoder']
    """
    return tuple(row for row in FAMILIES if model_type in row.model_types)


def refuse_unknown(model_type: object, name: str, parts: Mapping[str, str] | None = None) -> None:
    """Refuse a ``model_type`` that is not in the table, with the reason where it is known and the parts that are."""
    if families_of(model_type):
        return
    reason = REFUSED.get(model_type) if isinstance(model_type, str) else None
    known = list(dict.fromkeys(kind for row in FAMILIES for kind in row.model_types))
    near = get_close_matches(str(model_type), known) or known[:3]
    raise ValueError(
        f"{name} is of the family {model_type!r}, which is not read"
        + (f": {reason}" if reason else f"; {len(known)} are, among them {', '.join(near)}")
        + "".join(f"; load(model.{path}) reads its part, a {kind}" for path, kind in (parts or {}).items())
    )


def read_configuration(checkpoint: Checkpoint) -> Config:
    """Return the configuration of a checkpoint: attributes under the names that the table of families asks for.

    Raises
    ------
    ValueError
        If the folder holds an adapter of another model, the family is not read, or config.json describes no model of
        it, or one with modelling code of its own.
    """
    if (checkpoint.folder / "adapter_config.json").exists():
        raise ValueError(f"{checkpoint.name} is an {ADAPTER}")
    settings, source = raw_config(checkpoint), str(checkpoint.folder / "config.json")
    refuse_many_layers(settings, source)
    refuse_own_code(settings, source)
    model_type = settings.get("model_type")
    if isinstance(model_type, str) and model_type in WORDS:
        return read_settings(settings, source)
    from transformers import CONFIG_MAPPING

    if not isinstance(model_type, str) or model_type not in CONFIG_MAPPING:
        raise ValueError(f"{source} has model_type {model_type!r}, which transformers does not know")
    refuse_unknown(model_type, checkpoint.name)
    try:
        kept = {key: value for key, value in _public(settings).items() if key not in CALLERS}
        return CONFIG_MAPPING[model_type].from_dict(kept)
    except Exception as error:  # the library's validators raise what they like
        raise ValueError(f"{source} describes no {model_type}: {' '.join(str(error).split())[:300]}") from None


def _public(settings: Any) -> Any:
    """Leave out, at any depth, what begins with an underscore: some of it names code that the library would run.

    >>> _public({"_code": "x", "limits": [0.0, {"__float__": "Infinity"}]})
    {'limits': [0.0, inf]}
    """
    if isinstance(settings, list):
        return [_public(each) for each in settings]
    if not isinstance(settings, dict):
        return settings
    if settings.keys() == {"__float__"}:  # as the library writes what JSON has no number for
        return float(settings["__float__"])
    return {key: _public(value) for key, value in settings.items() if not key.startswith("_")}


@contextmanager
def as_described(what: str) -> Iterator[None]:
    """Say in a sentence what a configuration makes code stumble over that takes it as it is.

    >>> with as_described("a model of 0 heads"):
    ...     1 // 0
    Traceback (most recent call last):
    ValueError: a model of 0 heads cannot be made: ZeroDivisionError: integer division or modulo by zero
    """
    try:
        yield
    except (RuntimeError, TypeError, AttributeError, ArithmeticError, AssertionError, KeyError, IndexError) as error:
        said = " ".join(str(error).split())[:300]
        raise ValueError(f"{what} cannot be made: {type(error).__name__}: {said}") from error


def refuse_many_layers(settings: Mapping, source: str = "config.json") -> None:
    """Refuse a number of layers beyond any model, in any part of a config.json: the library makes lists as long.

    >>> refuse_many_layers({"text_config": {"num_hidden_layers": 2_000_000_000}})
    Traceback (most recent call last):
    ValueError: config.json must have at most 1000 layers, got num_hidden_layers = 2000000000
    """
    parts = [settings]
    while parts:
        part = parts.pop()
        for key, value in part.items():
            if isinstance(value, Mapping):
                parts.append(value)
            elif isinstance(value, int | float) and value > MOST_LAYERS and _COUNTS_LAYERS.search(key):
                raise ValueError(f"{source} must have at most {MOST_LAYERS} layers, got {key} = {value}")


def refuse_own_code(settings: Mapping, source: str = "config.json") -> None:
    """Refuse a model that is made by code of its own: it is not run, and the library's may compute something else.

    >>> refuse_own_code({"model_type": "llama", "architectures": ["LlamaEncoderModel"]})
    Traceback (most recent call last):
    ValueError: config.json names LlamaEncoderModel, modelling code that transformers does not have and that is not \
run here: the llama of transformers may be another model; if it is the same, take architectures out of a copy
    """
    named = settings.get("auto_map")
    code = [str(one)[:100] for key, one in named.items() if key not in OF_TEXTS] if isinstance(named, Mapping) else []
    classes = settings.get("architectures")
    others = [
        name
        for name in (classes if isinstance(classes, list) else [])
        if isinstance(name, str) and not _is_of_the_library(name, settings.get("model_type"))
    ]
    if code or others:
        entries = " and ".join(["auto_map"] * bool(code) + ["architectures"] * bool(others))
        raise ValueError(
            f"{source} names {', '.join(dict.fromkeys(code + others))}, modelling code that "
            f"{'is its own' if code else 'transformers does not have'} and that is not run here: the "
            f"{settings.get('model_type')} of transformers may be another model; if it is the same, take {entries} out "
            "of a copy"
        )


def _is_of_the_library(name: str, model_type: object) -> bool:
    name = re.sub("^(TF|Flax)", "", name)
    if isinstance(model_type, str) and model_type in _OWN_CLASSES:  # without importing the library
        return bool(re.fullmatch(_OWN_CLASSES[model_type] + _TASKS, name))
    import transformers

    return name in vars(transformers)["__all__"]  # ``dir`` takes a third of a second


def read_settings(settings: Mapping, source: str = "config.json") -> Config:
    """Read what a config.json of a family of :data:`WORDS` holds; every number is checked.

    Raises
    ------
    ValueError
        If a size is not a positive whole number (text is not a number), heads do not divide the width, or a number is
        none that a model can have.

    Examples
    --------
    >>> read_settings({"model_type": "gpt2", "n_layer": 2, "n_head": 3,
    ...                "n_embd": 12}).intermediate_size
    48
    >>> read_settings({"model_type": "gpt2", "n_layer": "2", "n_head": 3, "n_embd": 12})
    Traceback (most recent call last):
    ValueError: config.json must give n_layer as a positive whole number, got '2'
    """
    words = WORDS[settings["model_type"]]
    sizes = {key: settings.get(key) for key in words.sizes.values()}
    sizes = {key: words.defaults.get(key) if size is None else size for key, size in sizes.items()}
    hidden = words.sizes["intermediate_size"]
    if by_width := sizes[hidden] is None and hidden in OPTIONAL:
        sizes.pop(hidden)
    if wrong := [key for key, size in sizes.items() if not _is_whole(size)]:
        raise ValueError(
            f"{source} must give {', '.join(wrong)} as a positive whole number, "
            f"got {', '.join(repr(sizes[key]) for key in wrong)}"
        )
    width, heads = (words.sizes[word] for word in ("hidden_size", "num_attention_heads"))
    if sizes[width] % sizes[heads]:
        raise ValueError(f"{source}: {width} {sizes[width]} is not a multiple of {heads} {sizes[heads]}")
    if by_width:
        sizes[hidden] = 4 * sizes[width]
    activation = settings.get(words.activation, words.defaults[words.activation])
    if not isinstance(activation, str):
        raise ValueError(f"{source} must name {words.activation}, got {activation!r}")
    own = sizes | {
        words.eps: _number(settings, words.eps, words.defaults[words.eps], source),
        words.activation: activation,
        "initializer_range": _number(settings, "initializer_range", 0.02, source),
        **{key: _flag(settings, key, default, source) for key, default in words.flags.items()},
    }
    common = {word: sizes[key] for word, key in words.sizes.items()}
    options = {key for row in families_of(settings["model_type"]) for key in (*row.only, *EVERYWHERE)}
    given = {key: settings[key] for key in options if key in settings}
    return SimpleNamespace(**given, **common | own, model_type=settings["model_type"])


def check_options(row: Family, config: Config, name: str) -> None:
    """Refuse an option that changes what the attention computes to something that the row does not say.

    A quantization is one, unless it says that it leaves the attention as it is.
    """
    for option, values in {**EVERYWHERE, **row.only}.items():
        value = getattr(config, option, values[0])
        if value not in values and not (option == "quantization_config" and _spares_attention(row, value)):
            raise ValueError(
                f"{name} has {option} = {value!r}, which changes what a layer computes; read here "
                f"are models with {' or '.join(map(repr, values[:1]))}"
            )
    for option in (row.layers, row.heads, "hidden_size", *WIDTHS):
        size = getattr(config, option, None)
        if not (_is_whole(size) or (size is None and option in WIDTHS)):
            raise ValueError(f"{name} must give {option} as a positive whole number, got {size!r}")
    if row.hybrid and not attention_layers(row, config):
        raise ValueError(f"{name} has no layer with attention: its layer_types are {', '.join(config.layer_types)}")
    for norm in filter(None, (*row.norms, row.qk_norm)):
        if isinstance(norm.eps, str) and not _is_small(eps := getattr(config, norm.eps, 0.0)):
            raise ValueError(f"{name} must give {norm.eps} as a finite number, not negative, got {eps!r}")


def _spares_attention(row: Family, quantization: object) -> bool:
    """Whether a quantization leaves the attention of all layers as it is, as that of gpt-oss does."""
    spared = quantization.get("modules_to_not_convert") if isinstance(quantization, dict) else None
    attention = f"{row.layer}.{row.output}".rpartition(".")[0].format("*")
    return any(module == attention or module.endswith(f".{attention}") for module in spared or ())


def library_configuration(checkpoint: Checkpoint):
    """Return the library's configuration, from which it builds a model.

    Raises
    ------
    ValueError
        As `read_configuration`; or if the library has no such activation, or the padding, the classes or the tied table
        are not what they must be.
    """
    config, settings = read_configuration(checkpoint), raw_config(checkpoint)
    if config.model_type not in WORDS:
        return config
    return complete(config, settings, str(checkpoint.folder / "config.json"))


def complete(config: Config, settings: Mapping, source: str = "config.json"):
    """Make the library's configuration of what `read_settings` made of ``settings``.

    Examples
    --------
    >>> settings = {"model_type": "gpt2", "n_layer": 2, "n_head": 3, "n_embd": 12,
    ...             "attn_pdrop": "none"}
    >>> complete(read_settings(settings), settings).n_inner
    48
    """
    from transformers import CONFIG_MAPPING
    from transformers.activations import ACT2FN

    words = WORDS[config.model_type]
    if getattr(config, words.activation) not in ACT2FN:
        raise ValueError(
            f"{source} must name in {words.activation} an activation that transformers has, got "
            f"{getattr(config, words.activation)!r}"
        )
    read = (*words.sizes.values(), words.eps, words.activation, *words.flags, "initializer_range")
    chosen = {key: getattr(config, key) for key in read}
    chosen |= {"bos_token_id": None, "eos_token_id": None}  # the library's own may lie beyond this vocabulary
    if hasattr(config, "is_causal"):  # else the library's own masks would be others than those that are read
        chosen["is_causal"] = config.is_causal
    if "pad_token_id" in settings:
        chosen["pad_token_id"] = token = settings["pad_token_id"]
        if token is not None and not (_is_whole(token, 0) and token < config.vocab_size):
            due = f"a token, 0..{config.vocab_size - 1}, or null"
            raise ValueError(f"{source} must give pad_token_id as {due}, got {token!r}")
    names = class_names(settings, source)
    return CONFIG_MAPPING[config.model_type](
        **chosen,
        tie_word_embeddings=_flag(settings, "tie_word_embeddings", True, source),
        id2label=dict(enumerate(names)),
        label2id={name: number for number, name in enumerate(names)},
    )


def class_names(settings: Mapping, source: str = "config.json") -> list[str]:
    """Return the names of a classifier's classes: of ``id2label``, else as many as ``num_labels``, the library's 2.

    Raises
    ------
    ValueError
        If they are not numbered from 0, a name is not printable or given twice, or there are too many.

    Examples
    --------
    >>> class_names({"num_labels": 3}), class_names({"id2label": {"1": "Beta",
    ...                                                           "0": "Alpha"}})
    (['LABEL_0', 'LABEL_1', 'LABEL_2'], ['Alpha', 'Beta'])
    >>> class_names({"id2label": {"0": "Alpha", "1": "Alpha"}})
    Traceback (most recent call last):
    ValueError: config.json names 2 classes in id2label and only 1 of the names differ
    """
    table, count = settings.get("id2label"), settings.get("num_labels")
    if count is not None and not (_is_whole(count) and count <= MOST_LABELS):
        raise ValueError(
            f"{source} must give num_labels as a positive whole number, at most {MOST_LABELS}, got {count!r}"
        )
    if table is None:
        return [f"LABEL_{number}" for number in range(2 if count is None else count)]
    size = len(table) if isinstance(table, Mapping) else 0
    if (
        not size
        or set(table) != {str(number) for number in range(size)}
        or not all(isinstance(name, str) and name and name.isprintable() for name in table.values())
    ):
        raise ValueError(
            f'{source} must give id2label as an object that names each class, counted from "0", in '
            f"printable letters, got {str(table)[:80]!r}"
        )
    if count not in (None, size):
        raise ValueError(f"{source} gives num_labels as {count}, and names {size} classes in id2label")
    if (names := len(set(table.values()))) < size:
        raise ValueError(f"{source} names {size} classes in id2label and only {names} of the names differ")
    return [table[str(number)] for number in range(size)]


def _is_whole(size: object, least: int = 1) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size >= least


def _is_small(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number < math.inf


def _number(settings: Mapping, key: str, default: float, source: str) -> float:
    number = default if settings.get(key) is None else settings[key]
    if not _is_small(number):
        raise ValueError(f"{source} must give {key} as a finite number, not negative, got {number!r}")
    return float(number)


def _flag(settings: Mapping, key: str, default: bool, source: str) -> bool:
    flag = settings.get(key, default)
    if not isinstance(flag, bool):
        raise ValueError(f"{source} must give {key} as true or false, got {flag!r}")
    return flag
