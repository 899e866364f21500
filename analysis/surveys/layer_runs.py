"""What each attention layer of a running model reads, does and writes; and its scores in parts, model in, parts out."""

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.overrides import TorchFunctionMode

from analysis.core.attention_layer import NOWHERE, AttentionLayer
from analysis.core.positions import Alibi
from analysis.core.precision import default_dtype
from analysis.decomposition.terms import ScoreTerms, score_terms
from analysis.models.inputs import input_device, places, read_inputs, real_rows, running_part, takes
from analysis.models.memory import available_memory, check_memory
from analysis.models.reading import AnyModel, Model, load
from analysis.transformer.attention import (
    added_by_positions,
    arrange,
    cap,
    compute_scores,
    project,
    queries_and_keys,
    visible_keys,
    weigh,
)

MAPS, MAPS_BESIDE = 3.3, 7.0
"""How many tensors as large as all maps of a layer live at once in a model: scores, the same where keys are hidden,
weights. Measured are 2.3 to 3.0 with all that a census takes, at 1,024 to 4,096 tokens; a tenth is margin. And how many
more of one text where positions are added to scores: 1.6 in a BLOOM, 5.4 in a DeBERTa."""
ROWS, CELLS = 256, 2**18
"""How many queries of a map, and scores in all, are looked at together: on the CPU they stay in its cache."""
CELLS_ON_GPU = 2**26
HALF = (torch.float16, torch.bfloat16)


class InDouble(TorchFunctionMode):
    """Lets a model that asks for float32 compute in float64: its softmax, its angles, its norms.

    A table of whole numbers, such as T5's distances, stays in float32, where the borders of its buckets are drawn.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = {name: _doubled(value) for name, value in (kwargs or {}).items()}
        if func is Tensor.float and (args[0].is_floating_point() or args[0].ndim != 2):
            func = Tensor.double
        return func(*map(_doubled, args), **kwargs)


def _doubled(value):
    return torch.float64 if value is torch.float32 else value


@dataclass(frozen=True)
class LayerRun:
    """What one attention layer of a model read, its own attention, and what it wrote before any norm.

    ``norms`` holds what went into each of its norms and came out, in the order of `AttentionLayer.norms`.
    """

    read: Tensor
    attention: Tensor
    written: Tensor
    norms: tuple[tuple[Tensor, Tensor], ...]


@dataclass
class Seen:
    """What passed by, by path of a module, in the order in which it did: layers may share their modules."""

    into: dict[str, list[Tensor]] = field(default_factory=lambda: defaultdict(list))
    out: dict[str, list[Tensor]] = field(default_factory=lambda: defaultdict(list))


def run_layers(
    model: torch.nn.Module, read: Model, inputs: Mapping[str, Tensor], *, in_double: bool = False
) -> list[LayerRun]:
    """Run a model and return what each attention layer of a stack read, did and wrote.

    Parameters
    ----------
    model
        In evaluation mode, with eager attention.
    in_double
        Whether the model computes in float64 what it would compute in float32 of its own accord, such as its softmax
        or the angles of rotary positions. Its parameters should be in float64 then.

    Raises
    ------
    ValueError
        If the model returns no attention.
    """
    seen = Seen()
    every = [path for into, out, norms in layer_paths(read) for path in (into, out, *norms)]
    mode = InDouble() if in_double else nullcontext()
    with torch.no_grad(), default_dtype(next(model.parameters()).dtype), watch(model, seen, every), mode:
        result = model(**inputs, output_attentions=True)
    result = getattr(result, f"{read.family.stack}_model_output", result)  # a model that joins two
    names = [f"{read.family.stack}_attentions", "attentions"]
    maps = next((getattr(result, name) for name in names if getattr(result, name, None)), None)
    if maps is None or any(each is None for each in maps):
        raise ValueError(f"{type(model).__name__} returns no attention: build it with attn_implementation='eager'")
    if len(maps) == read.depth:  # of a MiniMax with what its other layers have in their place
        maps = [maps[number] for number in read.layers.numbers]
    return [
        LayerRun(
            seen.into[into].pop(0),
            maps[i],
            seen.out[out].pop(0),
            tuple((seen.into[norm].pop(0), seen.out[norm].pop(0)) for norm in norms),
        )
        for i, (into, out, norms) in enumerate(layer_paths(read))
    ]


def layer_paths(read: Model) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Name the modules of each layer with attention: the values' map, which reads nothing else, the output's, norms."""
    for layer in read.layers.numbers:
        path, maps = read.path(layer), read.family.maps
        yield f"{path}.{maps.names[-1]}", f"{path}.{read.family.output}", read.norm_paths(layer)


@contextmanager
def watch(model: torch.nn.Module, seen: Seen, paths: Sequence[str]) -> Iterator[None]:
    """Look at what goes into modules and what comes out."""
    modules = dict(model.named_modules())

    def note(path: str, _module: torch.nn.Module, args: tuple, output: Tensor) -> None:
        seen.into[path].append(args[0])
        seen.out[path].append(output)

    with ExitStack() as stack:
        for path in dict.fromkeys(paths):
            stack.callback(modules[path].register_forward_hook(functools.partial(note, path)).remove)
        yield


@dataclass(frozen=True)
class ScoreBlock:
    """Scores of some heads and neighbouring queries as the softmax reads them, up to the last key that one sees.

    ``heads`` are places among those that were asked for, ``first`` is the position of the first query, ``seen`` says
    how many keys each sees, and ``sinks`` are the scores that every query meets beside the keys, if the layer has any.
    """

    heads: slice
    first: int
    seen: Int[Tensor, " query"]
    scores: Float[Tensor, "head query key"]
    sinks: Float[Tensor, " head"] | None = None


@dataclass(frozen=True)
class LayerOnText:
    """One attention layer and what it reads of one text, padding left out: all that its heads do follows from it.

    ``x`` is ``(position, model)``; nothing is computed before it is asked for, and in float32 at least.
    """

    number: int
    text: int
    layer: AttentionLayer
    x: Float[Tensor, "position model"]

    @functools.cached_property
    def attention(self) -> Float[Tensor, "head query key"]:
        """The weights of every head."""
        return weigh(compute_scores(self.x, self.layer), self.layer)[1]

    def value_norms(self) -> Float[Tensor, "head key"]:
        """Return the lengths of the values, those of a group once for each head."""
        return self.layer.per_head(project(self.x, self.layer.W_V, self.layer.b_V).norm(dim=-1), -2)

    def blocks(self, heads: list[int] | slice, queries: range) -> Iterator[ScoreBlock]:
        """Yield the scores of these heads and queries block by block; only what positions add to them is whole."""
        layer, n, device = self.layer, len(self.x), self.x.device
        q, k = queries_and_keys(self.x, layer)
        added = added_by_positions(q, k, layer)
        added = None if added is None else added[heads]
        q, k = layer.scale * q[heads], layer.per_head(k, -3)[heads].mT
        sinks = None if layer.sinks is None else layer.sinks[heads]
        cells = CELLS if device.type == "cpu" else CELLS_ON_GPU
        for start in range(queries.start, queries.stop, ROWS):
            rows = slice(start, min(start + ROWS, queries.stop))
            keys = slice(rows.stop if layer.mask.causal else n)
            visible = visible_keys(layer.mask, keys.stop, device, rows)
            seen, hide = visible.sum(-1), torch.zeros_like(visible, dtype=q.dtype).masked_fill_(~visible, -math.inf)
            size = max(1, cells // visible.numel())
            for few in (slice(head, head + size) for head in range(0, len(q), size)):
                scores = q[few, rows] @ k[few, :, keys]
                scores = cap(scores if added is None else scores + added[few, rows, keys], layer)
                yield ScoreBlock(few, start, seen, scores.add_(hide), None if sinks is None else sinks[few])

    def queries_and_keys(self, *, turned: bool = True) -> tuple[Tensor, Tensor]:
        """Return queries and keys, ``(head, position, channel)``, as they meet, or before they are turned."""
        layer = self.layer if turned else replace(self.layer, positions=NOWHERE)
        queries = arrange(project(self.x, layer.W_Q, layer.b_Q), layer, "query")
        return queries, layer.per_head(arrange(project(self.x, layer.W_K, layer.b_K), layer, "key"), -3)


def visit_layers(
    model: AnyModel,
    inputs: Tensor | Mapping[str, Tensor],
    visit: Callable[[LayerOnText], None],
    *,
    lengths: Sequence[int] | None = None,
    only: Container[int] | None = None,
    **options: Any,
) -> Any:
    """Run a model and show each layer on each text to ``visit``; return what the model returns.

    Whatever `load` reads is shown as it is: windows, soft caps, sinks, positions inside the attention. The model runs
    with its own code, and nothing is kept. An encoder, or one half of a CLIP, runs alone unless the inputs are for more
    (`models.inputs.running_part`).

    Parameters
    ----------
    model
        A model as `load` takes it; a module of transformers in evaluation mode.
    inputs
        Ids, ``(batch, position)``, from each text's first token on, of a decoder's text and its encoder's; or
        arguments of the model by name.
    lengths
        How many tokens of each text are real, padding on the right; default: all.
    only
        The layers to show; default: all.

    Raises
    ------
    ValueError
        If the model is in training mode, or a layer did not run.
    MemoryError
        If the maps of a layer do not fit.

    Examples
    --------
    >>> sums = []
    >>> _ = visit_layers("gpt2-mini", torch.arange(9)[None],
    ...                  lambda seen: sums.append(seen.attention.sum().item()))
    >>> [round(total) for total in sums]  # 8 heads of 9 rows in each of 2 layers
    [72, 72]
    """
    given = load(model)
    module = given.module
    running = given.running
    in_files = any(parameter.is_meta for parameter in module.parameters())
    layers = (given if in_files else running).layers
    paths = {number: into for number, (into, _, _) in zip(layers.numbers, layer_paths(running), strict=True)}
    if module.training:
        raise ValueError("model is in training mode: call model.eval() first, dropout changes what a layer reads")
    ids = inputs if isinstance(inputs, Tensor) else inputs.get("input_ids")
    if ids is not None and not ids.is_floating_point():
        row, first = given.family, layers.numbers[0]
        added = row.learned or isinstance(row.positions(given.config, first, given.channel), Alibi)
        check_maps(given.heads, len(ids), ids.shape[-1], input_device(module), MAPS_BESIDE * bool(added))
    turns: dict[str, list[int]] = {}  # some layers share their modules
    for number, into in paths.items():
        turns.setdefault(into, []).append(number)

    def show(path: str, _module: torch.nn.Module, args: tuple, _output: Tensor) -> None:
        number = turns[path].pop(0)
        if only is not None and number not in only:
            return
        layer = computable(layers[number])
        rows = args[0].to(layer.W_Q.dtype)
        if layer.W_Q.device != rows.device:  # a copy is checked anew
            layer = layer.to(rows.device)
        with torch.autocast(rows.device.type, enabled=False):
            for text, n in enumerate(lengths or [rows.shape[-2]] * len(rows)):
                visit(LayerOnText(number, text, layer, rows[text, :n]))

    named = dict(module.named_modules())
    args, options = ((inputs,), options) if isinstance(inputs, Tensor) else ((), {**inputs, **options})
    runs = running_part(running, () if args else inputs)
    if args and running.family.stack == "decoder" and takes(module, "decoder_input_ids"):
        options["decoder_input_ids"] = inputs
    with torch.no_grad(), ExitStack() as stack:
        for path in turns:
            stack.callback(named[path].register_forward_hook(functools.partial(show, path)).remove)
        output = runs(*args, **options)
    if left := sorted(number for numbers in turns.values() for number in numbers):
        raise ValueError(f"layer {left[0]} of {type(module).__name__} did not run on these inputs")
    return output


def check_maps(heads: int, texts: int, positions: int, where: torch.device | str = "cpu", beside: float = 0.0) -> None:
    """Refuse texts of whose maps one layer's do not fit: those of the model itself; ours are made before it makes them.

    ``beside`` is how many maps more of one text there are.

    Raises
    ------
    MemoryError
        Saying how many tokens would.
    """
    each = (MAPS * texts + beside) * heads * 4  # bytes, for every pair of positions
    try:
        check_memory(round(each * positions**2), f"one layer's {heads} maps of {texts} x {positions:,} tokens", where)
    except MemoryError as error:
        fits = math.isqrt(int(0.9 * (available_memory(where) or 0) / each))
        raise MemoryError(f"{error}: read at most {fits:,} tokens (longest), or fewer texts at once (batch)") from None


def layer_inputs(
    model: AnyModel, inputs: Any, layer: int = 0, *, stack: str | None = None
) -> Float[Tensor, "batch position model"]:
    """Run a model and return what one of its attention layers reads: after the norm, where there is one before it.

    `attend`, `score_terms` and the other functions of a layer take it as ``x``, with ``load(model).layers[layer]``.

    Parameters
    ----------
    model
        A model as `load` takes it; a module of transformers in evaluation mode.
    inputs
        A text or a list of texts; or what the tokenizer returns, or ids alone, ``(batch, position)``; lists and arrays
        are taken as tensors. Followed are ids or embeddings, token types, a mask with two axes, ``position_ids``,
        images and sounds (`models.inputs.FOLLOWED`); anything else is refused. Padding may be on either side where it
        is not counted as positions, or ``position_ids`` leave it out.
    layer
        Counted from the end if it is negative.
    stack
        Stack to read, as in `load`, for models with more than one.

    Returns
    -------
    Tensor
        In float32 where the model computes in half precision; rows at padding are 0.

    Raises
    ------
    IndexError
        If there is no such layer.
    ValueError
        If the model is in training mode, the layer did not run, or an argument is not followed (`models.inputs`).

    Examples
    --------
    >>> from analysis.models.families.tiny import tiny_inputs, tiny_model
    >>> model = tiny_model("gpt2")
    >>> x = layer_inputs(model, tiny_inputs(model), layer=1)
    >>> x.ndim, x.shape[-1] == model.config.n_embd
    (3, True)
    """
    return _read_by(*_open(model, inputs, stack), layer)[0]


def score_parts(
    model: AnyModel,
    inputs: Any,
    layer: int = 0,
    *,
    stack: str | None = None,
    origin: Float[Tensor, " model"] | None = None,
) -> ScoreTerms:
    """Run a model and take the scores of one of its attention layers apart: `score_terms` of what the layer reads.

    The parts add up to the scores of the model's own queries and keys where its ``position_ids`` have them, before any
    soft cap and mask, and have a first axis for the texts of a batch. Padded rows are 0. See `layer_inputs` for the
    parameters and `score_terms` for the errors.

    Examples
    --------
    >>> parts = score_parts("gpt2-mini", "To be or not to be", layer=1)
    >>> parts.semi_bias.shape[-2], torch.equal(parts.total(), sum(parts.stack()))
    (1, True)
    """
    module, read, inputs = _open(model, inputs, stack)
    x, named = _read_by(module, read, inputs, layer)
    own = computable(read.layers[layer])
    return score_terms(x, own, origin, positions=places(read, own.positions, named))


def _open(model: AnyModel, inputs: Any, stack: str | None) -> tuple[torch.nn.Module, Model, Any]:
    """Return the module that runs, what `load` reads of it, and its inputs, those of a text too."""
    given = load(model, stack=stack)
    return given.module, given.running, given.encode(inputs)


def _read_by(model: torch.nn.Module, read: Model, inputs: Any, layer: int) -> tuple[Tensor, dict[str, Tensor]]:
    """Return what a layer reads, and the arguments of the model by name."""
    if model.training:
        raise ValueError("model is in training mode: call model.eval() first, dropout changes what a layer reads")
    layer = read.number(layer)
    paths = [into for into, _, _ in layer_paths(read)]
    number = list(read.layers.numbers).index(layer)
    runs = running_part(read, inputs if isinstance(inputs, Mapping) else ())
    seen, named = Seen(), read_inputs(runs, read, inputs)
    with torch.no_grad(), watch(model, seen, [paths[number]]):
        runs(**named)
    passed = seen.into[paths[number]]
    place = paths[:number].count(paths[number])  # layers may share their modules
    if len(passed) <= place:
        raise ValueError(f"layer {layer} of {type(model).__name__} did not run on these inputs")
    x, keep = computable(passed[place]), real_rows(read, named)
    return x if keep is None else x.masked_fill(~keep[..., None], 0), named  # which may be nan where no key was seen


def computable(value: Any) -> Any:
    """Return a tensor or a layer in a dtype in which formulas are computed: half precision becomes float32."""
    dtype = value.dtype if isinstance(value, Tensor) else value.W_Q.dtype
    return value.to(torch.float32) if dtype in HALF else value
