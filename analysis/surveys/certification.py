"""A model compared with its own parts: in each head its scores, its attention and its output beside what is read of it.

The model runs as the library runs it, its parameters in their files (:mod:`analysis.models.offloading`), on one text
and on rows drawn for each layer.
"""

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.overrides import TorchFunctionMode

from analysis.core.attention_layer import AttentionLayer
from analysis.core.positions import Alibi
from analysis.core.precision import default_dtype
from analysis.decomposition.folding import fold_norm, fold_value_bias
from analysis.decomposition.terms import score_terms
from analysis.models.attention_hooks import keep_heap_whole
from analysis.models.checkpoints import Checkpoint
from analysis.models.configuration import families_of
from analysis.models.families import expected
from analysis.models.families.checks import MOST_LAYERS
from analysis.models.files import MissingTensor, raw_config
from analysis.models.offloading import Offloaded
from analysis.models.reading import Model, load
from analysis.surveys.layer_runs import HALF, InDouble, layer_paths
from analysis.transformer.attention import attend, hide_keys, project, queries_and_keys
from analysis.transformer.layernorm import apply_norm

SEED = 0
PER_HEAD, PER_LAYER = ("scores", "attention", "output"), ("sum", "folds")
"""What is compared of each head, and of a layer as a whole."""
READ = ("text", "random")
"""The two texts of a batch: the first as it is, in the place of the second rows of unit variance at each layer."""
Errors = dict[str, Float[Tensor, "text head"]]


@dataclass(frozen=True)
class Passed:
    """What one attention layer read, its softmax in and out, its heads' rows before the output map, and what it wrote.

    ``by_head`` is what the output map makes of the last row of each head alone; ``before`` what its norm read, if one
    stands before it.
    """

    read: Float[Tensor, "text position model"]
    scores: Float[Tensor, "text head query key"]
    attention: Float[Tensor, "text head query key"]
    mixed: Float[Tensor, "text head query value"]
    by_head: Float[Tensor, "text head model"]
    written: Float[Tensor, "text query model"]
    before: Float[Tensor, "text position model"] | None


@dataclass(frozen=True)
class Certified:
    """The errors of one stack in one dtype, in parts of what the compared number could be.

    Attributes
    ----------
    errors
        By what is compared; ``(layer, text, head)``, of a layer as a whole with one head.
    limit
        The largest error allowed of each layer.
    layers
        The numbers of the layers, in a hybrid of those with attention; default: from 0 on.
    """

    stack: str
    dtype: str
    errors: Mapping[str, Float[Tensor, "layer text head"]]
    limit: Sequence[float]
    layers: Sequence[int] = range(MOST_LAYERS)

    def worst(self, name: str, text: int) -> tuple[float, int, int]:
        """Return the error that is largest beside its limit, with its layer and head."""
        errors = self.errors[name][:, text]
        ratio = (errors / torch.tensor(self.limit)[:, None]).nan_to_num(math.inf)
        layer, head = divmod(int(ratio.argmax()), errors.shape[1])
        return float(errors[layer, head]), self.layers[layer], head

    def largest(self) -> Float[Tensor, "layer head"]:
        """Return the largest error of each head, of what is compared by head; nan in layers without attention."""
        found = torch.stack([self.errors[name].amax(1) for name in PER_HEAD]).amax(0)
        layers = list(self.layers[: len(found)])
        every = found.new_full((1 + layers[-1], found.shape[1]), math.nan)
        every[layers] = found
        return every

    def failures(self) -> list[dict[str, Any]]:
        """List what is not within its limit, nan too; of a layer as a whole the head is ``None``."""
        return [
            {
                "stack": self.stack,
                "dtype": self.dtype,
                "comparison": name,
                "input": READ[text],
                "layer": self.layers[layer],
                "head": head if name in PER_HEAD else None,
                "error": (error := float(errors[layer, text, head])),
                "times its limit": error / self.limit[layer] if math.isfinite(error) else math.inf,
            }
            for name, errors in self.errors.items()
            for layer, text, head in (~(errors <= torch.tensor(self.limit)[:, None, None])).nonzero().tolist()
        ]


def largest_error(dtype: torch.dtype) -> float:
    """Return the largest error allowed, in parts of what a number could be: half of the digits of the dtype.

    A wrong sign, weight or option changes the first digits of some number. Rounding changes the last ones: summing
    ``n`` terms moves a sum by about ``sqrt(n)`` units of ``eps`` (Higham and Mary, 2019), and ``sqrt(eps)`` is 2,900
    such units in float32 and 67 million in float64. In half precision, which leaves 11 (bfloat16) or 32 (float16), the
    library sums in float32, and only the few numbers that it stores on the way are rounded.

    >>> f"{largest_error(torch.float64):.1e}, {largest_error(torch.bfloat16):.1e}"
    '1.5e-08, 8.8e-02'
    """
    return math.sqrt(torch.finfo(dtype).eps)


class _LastSoftmax(TorchFunctionMode):
    """Keeps what the last softmax read and returned: the scores of an attention module, and its attention."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") == "softmax":
            self.scores, self.attention = args[0], result
        return result


@dataclass
class _Watch:
    """Looks at the layers of a running stack in turn, and compares each as soon as it has written."""

    offloaded: Offloaded
    read: Model
    checkpoint: Checkpoint
    dtype: torch.dtype
    softmax: _LastSoftmax = field(default_factory=_LastSoftmax)
    errors: list[Errors] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)

    def __post_init__(self):
        self.seen: dict[str, Tensor] = {}
        self.generator = torch.Generator().manual_seed(SEED)

    @contextmanager
    def on(self) -> Iterator[None]:
        """Hook into the layers, the rows that they read, and the maps by which they write."""
        modules, paths = dict(self.offloaded.model.named_modules()), list(layer_paths(self.read))
        with ExitStack() as stack:
            for path in set(map(self.read.path, self.read.layers.numbers)):
                stack.callback(modules[path].register_forward_pre_hook(self.draw, with_kwargs=True).remove)
            for path in {into for into, _, _ in paths} | {norm for _, _, norms in paths for norm in norms[:1]}:
                stack.callback(modules[path].register_forward_hook(functools.partial(self.note, path)).remove)
            for into, out, norms in dict.fromkeys(paths):
                hook = functools.partial(self.wrote, into, norms)
                stack.callback(modules[out].register_forward_hook(hook).remove)
            yield

    def draw(self, module, args, kwargs):
        """Put rows of unit variance in the place of the second text, as a layer begins."""
        for values in (args, kwargs.values()):
            for value in values:
                if isinstance(value, Tensor) and value.is_floating_point() and value.ndim == 3:
                    value[1] = torch.randn(value[1].shape, generator=self.generator).to(value)
                    return

    def note(self, path, module, args, output):
        self.seen[path] = args[0]

    def wrote(self, into, norms, module, args, output):
        """Compare a layer whose output map has just run."""
        number, heads, x = self.read.layers.numbers[len(self.errors)], self.read.heads, self.seen[into]
        texts, n = x.shape[:2]
        mixed = args[0].reshape(texts, n, heads, -1)
        alone = torch.diag_embed(mixed[:, -1].mT).movedim(-1, 1).transpose(2, 3)  # a row for each head, all else zero
        alone = alone.reshape(texts, heads, -1)
        by_head = module.forward(alone) - module.forward(torch.zeros_like(alone))
        scores, attention = (x.reshape(texts, heads, n, -1) for x in (self.softmax.scores, self.softmax.attention))
        with torch._C.DisableTorchFunction():  # from here on nothing is the model's
            computed_in = torch.float32 if self.dtype in HALF else self.dtype
            read = load(self.checkpoint, stack=self.read.family.stack, dtype=computed_in)
            layer = read.layers[number]
            before = self.seen[norms[0]] if layer.norm() and norms else None
            passed = Passed(x, scores, attention, mixed.transpose(1, 2), by_head, output, before)
            passed = Passed(*(each if each is None else each.to(layer.W_Q.dtype) for each in vars(passed).values()))
            self.seen.clear()
            self.errors.append(layer_errors(passed, layer))
            angles = torch.float32 if read.family.rounded else self.dtype  # which some models keep in float32
            self.limits.append(max(largest_error(self.dtype), largest_error(angles)))


def layer_errors(passed: Passed, layer: AttentionLayer) -> Errors:
    """Compare one layer with what its own module did, each error in parts of the largest that its number could be.

    A score could be as large as its query and key are long, or as its largest part. Where the library leaves out of the
    scores what is constant along a row (sinks, ALiBi), it is left out here.
    """
    # How large a score could be: its query times its key, or the largest of its parts.
    x, n = passed.read, passed.read.shape[-2]
    terms = score_terms(x, layer)
    queries, keys = (each.norm(dim=-1).amax(-1) for each in queries_and_keys(x, layer))
    reach = (abs(layer.scale) * queries * layer.per_head(keys, -1)).maximum(_largest(terms.stack().movedim(0, -1)))
    # The parts' sum beside the module's scores, where a query sees a key.
    total = terms.total().expand(*x.shape[:-2], layer.heads, n, n)
    if layer.soft_cap is not None:
        total = layer.soft_cap * torch.tanh(total / layer.soft_cap)
    seen = hide_keys(total, layer.mask).isfinite()
    gap = torch.where(seen, total - passed.scores[..., :n], 0)
    if layer.sinks is not None or isinstance(layer.positions, Alibi):
        gap = gap - torch.where(seen, gap, math.nan).nanmedian(-1, keepdim=True).values
    # The same for the output: messages weighted by the module's attention, summed over heads.
    theirs = passed.attention[..., :n]
    values = layer.per_head(project(x, layer.W_V, layer.b_V), -3)
    mixed = theirs @ values
    updates = mixed @ layer.W_O
    last = torch.einsum("thv,hvm->thm", passed.mixed[:, :, -1], layer.W_O)
    longest = passed.mixed[:, :, -1].norm(dim=-1) * layer.W_O.norm(dim=1).amax(-1)
    size = updates.abs().sum(-3).amax((-1, -2)) + layer.b_O.abs().amax()
    return {
        "scores": _part(_largest(torch.where(seen, gap, 0)), reach),
        "attention": _part(_largest(attend(x, layer).attention - theirs), reach.clamp(min=1)),
        "output": _part(_largest(mixed - passed.mixed), _largest(values)).maximum(
            _part((last - passed.by_head).abs().amax(-1), longest)
        ),
        "sum": _part((updates.sum(-3) + layer.b_O - passed.written).abs().amax((-1, -2)), size)[:, None],
        "folds": _part((_folded(passed, layer) - passed.written).abs().amax((-1, -2)), size)[:, None],
    }


def _part(error: Tensor, whole: Tensor) -> Tensor:
    """Divide; a head that is zero throughout has no error where its module is zero as well."""
    return error / whole.clamp(min=torch.finfo(whole.dtype).tiny)


def _largest(values: Tensor) -> Tensor:
    """Return the largest entry of each head: of all axes behind those of texts and heads."""
    return values.abs().flatten(2).amax(-1)


def _folded(passed: Passed, layer: AttentionLayer) -> Tensor:
    """Return what the layer writes with its norm and its value bias folded into other weights."""
    x = passed.read
    if passed.before is not None:
        layer = fold_norm(layer)
        x = apply_norm(passed.before, layer.norm())
    return attend(x, layer if layer.sinks is not None else fold_value_bias(layer)).output


def stacks_of(checkpoint: Checkpoint) -> list[str]:
    """Name the stacks of layers of a model: one without a name, or an encoder and a decoder, ..."""
    return list(dict.fromkeys(row.stack for row in families_of(raw_config(checkpoint).get("model_type"))))


def certify_stack(
    checkpoint: Checkpoint, offloaded: Offloaded, inputs: Mapping[str, Tensor], stack: str = ""
) -> Certified:
    """Run a model once and compare every layer of one of its stacks with what is read of it, a layer at a time.

    Parameters
    ----------
    inputs
        Arguments of the model: two texts without padding, of which the second gives way to random rows.

    Raises
    ------
    MissingTensor
        If the library renames tensors of the attention as it loads them, so that its own modules stay empty.

    Examples
    --------
    >>> from analysis.models.checkpoints import find
    >>> checkpoint = find("gpt2-mini")
    >>> offloaded = Offloaded(checkpoint, torch.float64)
    >>> inputs = {"input_ids": torch.arange(20).view(2, 10)}
    >>> certified = certify_stack(checkpoint, offloaded, inputs)
    >>> certified.failures(), certified.worst("scores", 0)[0] < 1e-12
    ([], True)
    """
    read = load(offloaded.model, stack=stack)
    for layer in read.layers.numbers:
        names = expected.layer_tensors(read.family, read.config, layer)
        if lost := {read.tensors.prefix + name for name in names} & set(offloaded.absent):
            raise MissingTensor(
                f"{checkpoint.name} has no {min(lost)!r}: the library renames it as it loads the model, so that "
                "its own module cannot be filled here"
            )
    keep_heap_whole()
    dtype = offloaded.dtype
    watch = _Watch(offloaded, read, checkpoint, dtype)
    double = InDouble() if dtype == torch.float64 else nullcontext()
    with torch.no_grad(), default_dtype(dtype), watch.on(), offloaded, double, watch.softmax:
        offloaded.model(**{name: v.to(dtype) if v.is_floating_point() else v for name, v in inputs.items()})
    if len(watch.errors) != len(read.layers):
        raise ValueError(f"{checkpoint.name} has {len(read.layers)} layers, of which {len(watch.errors)} ran")
    errors = {name: torch.stack([each[name].double() for each in watch.errors]) for name in PER_HEAD + PER_LAYER}
    return Certified(stack, str(dtype).removeprefix("torch."), errors, watch.limits, read.layers.numbers)
