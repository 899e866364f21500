"""Which options of a configuration may change what an attention computes, found in the library's own source."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from types import FunctionType

from torch import nn
from transformers import PreTrainedConfig, masking_utils, modeling_rope_utils
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS, RotaryEmbeddingConfigMixin

from analysis.models.reading import Model

CONFIGURATIONS = ("config", "text_config", "vision_config", "effective_config")
"""What the library calls a configuration."""
CALLERS = ("output_attentions", "output_hidden_states", "use_cache", "return_dict", "dtype")
"""Options that are the caller's."""
ELSEWHERE = ("drop", "initializer", "token_id")
"""Parts of names of options that say nothing of a trained attention: what is left out in training, how that begins."""
ATTENTION = ("rotary", "attention", "mask", "alibi")
"""Words in names of classes that a model or a layer uses and that are about its attention."""
ABSENT = "(left out)"
"""In the place of a value: the option does not stand in config.json."""
LENGTHS = {
    "factor": 4.0,
    "original_max_position_embeddings": 8,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "attention_factor": 0.7,
    "beta_fast": 16.0,
    "beta_slow": 2.0,
    "mscale": 0.7,
    "mscale_all_dim": 0.5,
    "truncate": False,
    "short_factor": [1.0, 2.0, 3.0, 4.0],
    "long_factor": [2.0, 3.0, 4.0, 5.0],
}
"""What kinds of rotary positions for longer texts read, with a value each."""


@dataclass
class Reads:
    """What source reads of configurations.

    ``defaults`` holds by option the defaults of ``getattr``, ``texts`` what the option is compared with.
    """

    defaults: dict[str, list] = field(default_factory=dict)
    texts: dict[str, set[str]] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)
    """Words that may stand in ``layer_types``."""

    def join(self, other: "Reads") -> None:
        for option, defaults in other.defaults.items():
            self.defaults.setdefault(option, []).extend(defaults)
        for option, texts in other.texts.items():
            self.texts.setdefault(option, set()).update(texts)
        self.kinds |= other.kinds


def is_configuration(node: ast.AST, own: bool) -> bool:
    """Say whether an expression is one: ``config``, ``self.config``, ``config.get_text_config()``; its own ``self``."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and is_configuration(node.func.value, own)
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)
    return name in CONFIGURATIONS or (own and name == "self")


def option_read(node: ast.AST, own: bool) -> tuple[str, list] | None:
    """Return the option that an expression reads, and the default that it gives.

    >>> option_read(ast.parse('getattr(self.config, "is_causal", True)', mode="eval").body, own=False)
    ('is_causal', [True])
    """
    if isinstance(node, ast.Attribute) and is_configuration(node.value, own):
        return node.attr, []
    if not isinstance(node, ast.Call) or len(node.args) < 1:
        return None
    called, arguments = node.func, node.args
    if getattr(called, "id", None) in ("getattr", "hasattr") and is_configuration(arguments[0], own):
        arguments = arguments[1:]
    elif not (own and getattr(called, "attr", None) in ("pop", "get") and getattr(called.value, "id", "") == "kwargs"):
        return None
    values = [argument.value for argument in arguments if isinstance(argument, ast.Constant)]
    return (values[0], values[1:]) if values and isinstance(values[0], str) else None


def option_compared(node: ast.AST, own: bool) -> str | None:
    """Return the option that an expression holds; an attribute of a module may be one under its name."""
    if read := option_read(node, own):
        return read[0]
    return node.attr if isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == "self" else None


def texts_in(node: ast.AST) -> set[str]:
    return {part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)}


@cache
def parse(thing: type | FunctionType) -> ast.AST:
    return ast.parse(textwrap.dedent(inspect.getsource(thing)))


@cache
def reads_of(thing: type | FunctionType) -> Reads:
    """Return what a class or a function reads."""
    reads, tree = Reads(), parse(thing)
    own = isinstance(thing, type) and issubclass(thing, PreTrainedConfig | RotaryEmbeddingConfigMixin)
    for node in ast.walk(tree):
        if read := option_read(node, own):
            reads.defaults.setdefault(read[0], []).extend(read[1])
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for name in filter(None, (option_compared(part, own) for side in sides for part in ast.walk(side))):
                reads.texts.setdefault(name, set()).update(*map(texts_in, sides))
    if thing.__module__.startswith("transformers.models."):
        reads.kinds = {text for text in texts_in(tree) if text.endswith("_attention")}
    return reads


def is_library(thing: object) -> bool:
    module = getattr(thing, "__module__", "")
    shared = (masking_utils.__name__, modeling_rope_utils.__name__)
    return isinstance(thing, type | FunctionType) and (module.startswith("transformers.models.") or module in shared)


def reached(things: list, *, everything: bool) -> list:
    """Return classes and functions, and those that their source names: all, or what is about attention."""
    found, queue = [], things
    while queue:
        thing = queue.pop()
        if thing in found or not is_library(thing):
            continue
        found.append(thing)
        queue += thing.__mro__[1:] if isinstance(thing, type) else []
        space = vars(inspect.getmodule(thing))
        named = [space.get(node.id) for node in ast.walk(parse(thing)) if isinstance(node, ast.Name)]
        for each in [part for one in named for part in (one.values() if isinstance(one, dict) else [one])]:
            if is_library(each):
                about = isinstance(each, FunctionType) or any(word in each.__name__.lower() for word in ATTENTION)
                queue += [each] if everything or about else []
    return [thing for thing in found if thing is not RotaryEmbeddingConfigMixin]


def attention_path(read: Model) -> str:
    """Return where the attention of the first layer lies in a model."""
    row = read.family
    paths = [f"{read.path(read.layers.numbers[0])}.{name}".split(".")[:-1] for name in (*row.maps.names, row.output)]
    return ".".join(parts[0] for parts in zip(*paths, strict=False) if len(set(parts)) == 1)


def find_options(model: nn.Module, read: Model) -> tuple[Reads, list[str]]:
    """Return what the attention of a model reads, and the options among it, in the configuration's own spelling.

    Read are the attention with all that lies inside it; the modules around it, with what they name that is about
    attention; every function that makes masks; the configuration's own methods.
    """
    path, kind = attention_path(read), type(read.config)
    parts = path.split(".")
    around = [type(model.get_submodule(".".join(parts[:end]))) for end in range(len(parts))]
    inside = [type(module) for module in model.get_submodule(path).modules()]
    reads = Reads()
    for thing in (*reached([*around, *masks()], everything=False), *reached(inside, everything=True), kind):
        reads.join(reads_of(thing))
    if "rope_parameters" in reads.defaults:
        reads.join(reads_of(RotaryEmbeddingConfigMixin))
    alias = getattr(kind, "attribute_map", {})
    names = {alias.get(name, name) for name in reads.defaults}
    return reads, sorted(name for name in names if name not in CALLERS and _can_be_set(kind, name))


def _can_be_set(kind: type, name: str) -> bool:
    own = getattr(kind, name, None)
    elsewhere = any(part in name for part in ELSEWHERE)
    return not (name.startswith("_") or elsewhere or callable(own) or (isinstance(own, property) and own.fset is None))


def masks() -> list[FunctionType]:
    """Return the functions that make masks."""
    return [make for name, make in vars(masking_utils).items() if name.startswith("create_") and name.endswith("_mask")]


def rotary_settings() -> Iterator[dict]:
    """Yield settings of every kind of rotary positions that the library knows, with what its function reads."""
    base = {"rope_theta": 100.0}
    yield {"rope_type": "default", **base}
    for kind in ("default", "linear", "yarn"):
        yield {"rope_type": kind, **base, "factor": 4.0, "partial_rotary_factor": 0.5}
    yield {"type": "linear", "factor": 4.0}  # as older files have it
    for kind, function in ROPE_INIT_FUNCTIONS.items():
        texts = texts_in(parse(function))
        settings = {key: value for key, value in LENGTHS.items() if key in texts}
        yield {"rope_type": kind, **base, **settings}
        if settings.pop("attention_factor", None):
            yield {"rope_type": kind, **base, **settings}


@cache
def fields(kind: type) -> dict[str, str]:
    """Return the annotations of what a configuration declares."""
    return {
        name: str(annotation)
        for parent in reversed(kind.__mro__)
        for name, annotation in getattr(parent, "__annotations__", {}).items()
    }


def values(reads: Reads, config: object, option: str, *, set_here: bool = False) -> list:
    """Return values of an option other than the one that it has; ``set_here``: it can be left out as well."""
    now, annotation = getattr(config, option, None), fields(type(config)).get(option, "")
    kinds = {type(value) for value in (now, *reads.defaults.get(option, ())) if value is not None}
    tried = _values(reads, now, option, {kind.__name__ for kind in kinds} or set(annotation.split(" | ")))
    tried += [None] * ("None" in annotation) + [ABSENT] * set_here
    distinct = {repr(value): value for value in tried if repr(value) != repr(now)}
    return list(distinct.values())


def _values(reads: Reads, now: object, option: str, kinds: set[str]) -> list:
    texts = sorted(reads.texts.get(option, ()))
    tried: list = [] if now is not None else [0.5, 4, 3, True]
    if option in ("rope_parameters", "rope_scaling"):
        tried = list(rotary_settings())
    elif option == "layer_types":
        words = sorted(reads.kinds | {"full_attention", "sliding_attention"})
        tried = [list(pair) for pair in product(words, repeat=2)]
    elif isinstance(now, PreTrainedConfig):
        tried = [{name: value} for name in type(now).__annotations__ for value in values(reads, now, name)]
    elif isinstance(now, list | tuple):
        if all(isinstance(value, str) for value in now):
            tried = [[], *([text] for text in texts), texts, texts + texts[:1]]
        elif all(isinstance(value, int) for value in now):
            tried = [[0] * len(now), [1] * len(now), [1 - bool(value) for value in now]]
    elif "bool" in kinds:
        tried = [True, False]
    elif "int" in kinds:
        tried = [2 * now, now // 2, 3] if now else [4, 3, 16]
    elif "float" in kinds:
        tried = [2.0 * now, 0.5 * now] if now else [0.5, 3.0]
    elif "str" in kinds:
        tried = texts
    return tried
