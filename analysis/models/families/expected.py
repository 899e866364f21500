"""Which tensors a model must have, by its row of the table and its configuration, and of which shapes."""

from collections.abc import Container, Iterator, Sequence

from analysis.models.families.learned import NEEDED
from analysis.models.families.positions import layer_type
from analysis.models.families.row import Config, Family, NormName, QueryKeyNames, Rest
from analysis.models.families.tensors import Shapes

ATTENTION = ("full_attention", "sliding_attention")
"""What ``layer_types`` of a configuration call layers whose attention has a softmax."""


def count_layers(row: Family, config: Config) -> int:
    """Return how many layers a stack has."""
    return getattr(config, row.layers)


def attention_layers(row: Family, config: Config) -> Sequence[int]:
    """Return the numbers of the layers that have attention: of all, but in a hybrid."""
    every = range(count_layers(row, config))
    return [layer for layer in every if layer_type(config, layer) in ATTENTION] if row.hybrid else every


def count_groups(row: Family, config: Config) -> int:
    """Return how many sets of keys and values a layer has: as many as heads, where nothing says otherwise."""
    groups = row.groups(config) if callable(row.groups) else getattr(config, row.groups or "", None)
    return groups or getattr(config, row.heads)


def head_width(row: Family, config: Config) -> int:
    """Return the width of a head."""
    own = getattr(config, "head_dim", None) or getattr(config, "d_kv", None)
    return own or config.hidden_size // getattr(config, row.heads)


def say_width(row: Family, config: Config) -> str:
    """Name the option that gives heads another width than their share of the stream: some classes ignore it."""
    given = ((option, getattr(config, option, None)) for option in ("head_dim", "d_kv"))
    option, width = next((one for one in given if one[1]), ("", 0))
    return f" ({option} = {width})" if width and width * getattr(config, row.heads) != config.hidden_size else ""


def layer_path(row: Family, config: Config, layer: int) -> str:
    """Return the name of a layer."""
    return row.layer.format(row.number(config, layer))


def has_biases(row: Family, config: Config) -> str:
    """Return which of ``QKVO`` have a bias."""
    return row.biases if isinstance(row.biases, str) else row.biases(config)


def has_bias(name: NormName | QueryKeyNames, config: Config) -> bool:
    """Return whether a norm has a bias."""
    if name.bias is None:
        return name.kind == "layer"
    return bool(getattr(config, name.bias)) if isinstance(name.bias, str) else name.bias


def norms_of(row: Family, config: Config, layer: int) -> Iterator[tuple[NormName, str]]:
    """Yield the norms of a layer with their paths."""
    for norm in row.norms:
        if norm.when is None or norm.when(config, layer):
            outside = norm.path.startswith("/")
            path = norm.path[1:].format(row.number(config, layer))
            yield norm, path if outside else f"{layer_path(row, config, layer)}.{norm.path}"


def query_key_norm(row: Family, config: Config, layer: int) -> QueryKeyNames | None:
    """Return the names of the norms of queries and keys, where a layer has them."""
    names = row.qk_norm
    return names if names and (names.when is None or names.when(config, layer)) else None


def places_of(row: Family, config: Config) -> str | None:
    """Return the table of learned positions, where a model has one."""
    return row.places if row.places and row.has_places(config) else None


def _map(row: Family, name: str, outputs: int | None, inputs: int | None) -> Shapes:
    return {f"{name}.weight": (inputs, outputs) if row.maps.inputs_first else (outputs, inputs)}


def _maps(row: Family, config: Config, path: str) -> Shapes:
    """List what makes queries, keys, values and outputs."""
    heads, groups, channel = getattr(config, row.heads), count_groups(row, config), head_width(row, config)
    names, biases, width = row.maps.names, has_biases(row, config), config.hidden_size
    rows = [channel * count for count in (heads, groups, groups)]
    shapes: Shapes = {}
    for name, outputs in zip(names, rows if len(names) == 3 else [sum(rows)], strict=True):
        shapes |= _map(row, f"{path}.{name}", outputs, width)
    own = row.maps.biases or tuple(f"{name}.bias" for name in names)
    letters, sizes = ("QKV", rows) if len(own) == 3 else ("Q", [sum(rows)])
    shapes |= {
        f"{path}.{name}": (size,)
        for letter, name, size in zip(letters, own, sizes, strict=True)
        if name and letter in biases
    }
    shapes |= _map(row, f"{path}.{row.output}", width, rows[0])
    return shapes | ({f"{path}.{row.output}.bias": (width,)} if "O" in biases else {})


def _norm(path: str, name: NormName | QueryKeyNames, config: Config, width: int | None) -> Shapes:
    parts = () if name.bare else ("weight", "bias") if has_bias(name, config) else ("weight",)
    return {f"{path}.{part}": (width,) for part in parts}


def layer_tensors(row: Family, config: Config, layer: int) -> Shapes:
    """List what the attention of one layer needs, by name, with the shapes that the configuration implies."""
    path = layer_path(row, config, layer)
    shapes = _maps(row, config, path)
    for norm, place in norms_of(row, config, layer):
        shapes |= _norm(place, norm, config, config.hidden_size)
    if names := query_key_norm(row, config, layer):
        for name in (names.query, names.key):
            shapes |= _norm(f"{path}.{name}", names, config, None if names.whole else head_width(row, config))
    if row.sinks:
        shapes[f"{path}.{row.sinks}"] = (getattr(config, row.heads),)
    if row.learned:
        shapes |= dict.fromkeys(NEEDED[row.learned](row, config, layer))
    return shapes


def table_tensors(row: Family, config: Config, there: Container[str]) -> Shapes:
    """List the tables of tokens and of positions; the latter may be a parameter without ``.weight`` if it is there."""
    shapes: Shapes = {}
    if row.tokens:
        shapes[f"{row.tokens}.weight"] = (getattr(config, "vocab_size", None), None)
    if places := places_of(row, config):
        known = (config.max_position_embeddings, None) if rest_of(row, config) else None
        shapes[places if places in there else f"{places}.weight"] = known
    return shapes


def rest_of(row: Family, config: Config) -> Rest | None:
    """Return what the layers have beside attention, where it is known."""
    return row.rest if row.rest and config.model_type in row.rest.model_types else None


def rest_tensors(row: Family, config: Config, layer: int | None = None) -> Shapes:
    """List what a layer has beside attention, or with ``None`` what stands outside the layers, where it is known."""
    rest = rest_of(row, config)
    if rest is None:
        return {}
    width, hidden = config.hidden_size, hidden_width(config)
    if layer is None:
        paths = [path for which, path in rest.norms.items() if which != "mlp"]
        types = {f"{rest.token_types}.weight": (config.type_vocab_size, width)} if rest.token_types else {}
        return types | {f"{path}.{part}": (width,) for path in paths for part in ("weight", "bias")}
    path = layer_path(row, config, layer)
    into, out = (f"{path}.{name}" for name in rest.mlp)
    shapes = _map(row, into, hidden, width) | {f"{into}.bias": (hidden,)}
    shapes |= _map(row, out, width, hidden) | {f"{out}.bias": (width,)}
    return shapes | {f"{path}.{rest.norms['mlp']}.{part}": (width,) for part in ("weight", "bias")}


def hidden_width(config: Config) -> int:
    """Return the width of the MLPs: four times the stream's, where a GPT-2 does not say."""
    return getattr(config, "intermediate_size", None) or getattr(config, "n_inner", None) or 4 * config.hidden_size
