"""What the live cells of stories use of torch and of this book's package, in plain Python, for the Python in a page.

That Python has no numpy: an array is a flat list of doubles and a shape, and the loops over entries are JavaScript.
What is written into a slice is written into the whole, as in torch, but not the reverse. What is not here raises
:class:`NeedsPackage`. Tests hold it to torch, to the package's figures and to the records.
"""

import ast
import contextlib
import json
import linecache
import math
import operator
import sys
import traceback
import types
from array import array
from collections import namedtuple
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

kernels = None  # of JavaScript, the loops over entries: each, take, put and multiply
check = None  # the module live_check
files = {}  # what the page has read: by name a pair of shape and 32-bit floats
outputs = []  # of the cell that runs: texts, and figures as dictionaries
Pair = namedtuple("Pair", "values indices")


class NeedsPackage(ImportError):
    def __init__(self, name):
        super().__init__(f"{name}: this one needs the package")


class Missing(BaseException):
    """A file that the page has not read yet; it reads the file and runs the cell again."""


def lacking(owner):
    def absent(*arguments):
        raise (AttributeError if arguments[-1].startswith("__") else NeedsPackage)(f"{owner}.{arguments[-1]}")

    return absent


class Packages:
    @staticmethod
    def find_spec(name, *rest):
        raise NeedsPackage(name)


# ---- entries: one by one, line by line, and by their places ----
def filled(size, compute, *arguments):
    out = array("d", bytes(8 * size))
    compute(out, *arguments)
    return out


def strides(shape):
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def fitting(*shapes):
    size = max(map(len, shapes))
    pairs = zip(*((1,) * (size - len(shape)) + tuple(shape) for shape in shapes), strict=True)
    fit = tuple(next((n for n in pair if n != 1), 1) for pair in pairs)
    if any(n not in (1, due) for shape in shapes for n, due in zip(reversed(shape), reversed(fit), strict=False)):
        raise RuntimeError(f"the shapes {' and '.join(map(str, shapes))} don't fit each other")
    return fit


def binary(op, kind=None, swap=False):
    def method(self, other):
        if not isinstance(other, Tensor | int | float):
            return NotImplemented
        both = self, tensor(other)
        shape, kinds = fitting(*(x.shape for x in both)), {x.kind for x in both}
        if op in {"and", "or"} and kinds != {bool}:
            raise NeedsPackage(f"{op} of numbers")
        columns = [x.expand(*shape).data if x.shape else x.data[0] for x in (reversed(both) if swap else both)]
        of_both = float if float in kinds or op == "truediv" else int
        return Tensor(filled(math.prod(shape), kernels.each, op, *columns), shape, kind or of_both)

    return method


def in_place(op):
    def method(self, other):
        self[...] = binary(op)(self, other)
        return self

    return method


def unary(op, kind=None):
    return lambda self: Tensor(filled(len(self.data), kernels.each, op, self.data), self.shape, kind or self.kind)


def reduced(op, kind=None):
    def method(self, dim=None, keepdim=False):
        x = self.reshape(-1) if dim is None else self
        axis = range(max(1, len(x.shape)))[dim or 0]
        size, step = (x.shape or (1,))[axis], math.prod(x.shape[axis + 1 :])
        shape = () if dim is None else (*x.shape[:axis], *[1] * keepdim, *x.shape[axis + 1 :])
        found = filled(len(x.data) // max(1, size), kernels.reduce, op, x.data, size, step)
        return Tensor(found, shape, kind or (int if x.kind is bool else x.kind))

    return method


def extreme(op):
    def method(self, dim=None, keepdim=False):
        if dim is None:
            return reduced(op)(self)
        return Pair(reduced(op)(self, dim, keepdim), reduced(f"arg{op}", int)(self, dim, keepdim))

    return method


def softmax(x, dim):
    powers = (x - x.amax(dim, True)).exp()
    return powers / powers.sum(dim, True)


def ahead(x):
    rows, columns = (tensor(range(size)) for size in x.shape[-2:])
    return columns - rows[:, None]


def sizes(shape):
    return tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape


class Tensor:
    """An array: its entries row by row, its shape, and whether they are float, int or bool."""

    __getattr__, __hash__, owner = lacking("Tensor"), object.__hash__, None

    def __init__(self, data, shape, kind=float):
        self.data, self.shape, self.kind = data, tuple(shape), kind

    def take(self, axes, start, shape):
        taken = filled(math.prod(shape), kernels.take, self.data, json.dumps(axes), start)
        made = Tensor(taken, shape, self.kind)
        if not any(isinstance(axis, dict) for axis in axes):
            made.owner = self, json.dumps(axes), start
        return made

    def expand(self, *shape):  # an axis is where it begins, how far apart its entries are and how many there are
        if (shape := sizes(shape)) == self.shape:
            return self
        own = (1,) * (len(shape) - len(self.shape)) + self.shape
        steps = [0 if size == 1 else step for size, step in zip(own, strides(own), strict=True)]
        return self.take([(0, step, size) for step, size in zip(steps, shape, strict=True)], 0, shape)

    def permute(self, *order):
        step, shape = strides(self.shape), [self.shape[axis] for axis in order]
        return self.take([(0, step[axis], self.shape[axis]) for axis in order], 0, shape)

    def transpose(self, one, other):
        order = list(range(len(self.shape)))
        order[one], order[other] = order[other], order[one]
        return self.permute(*order)

    def reshape(self, *shape):
        shape, count = sizes(shape), len(self.data)
        if -1 in shape:
            shape = tuple(count // -math.prod(shape) if size == -1 else size for size in shape)
        if math.prod(shape) != count:
            raise RuntimeError(f"{count} entries don't make the shape {shape}")
        made = Tensor(self.data, shape, self.kind)
        made.owner = self.owner
        return made

    def at(self, key):
        keys, steps = (
            list(key) if isinstance(key, tuple) else [key],
            list(zip(self.shape, strides(self.shape), strict=True)),
        )
        rest = [slice(None)] * (len(steps) - sum(k is not None and k is not Ellipsis for k in keys))
        where = next((n for n, k in enumerate(keys) if k is Ellipsis), len(keys))
        if len([*rest, *keys]) - keys.count(None) - (where < len(keys)) > len(steps):
            raise IndexError(f"too many indices for the shape {self.shape}")
        axes, start = [], 0
        for k in keys[:where] + rest + keys[where + 1 :]:
            size, step = (1, 0) if k is None else steps.pop(0)
            if k is None or isinstance(k, slice):
                chosen = range(*(k or slice(None)).indices(size))
                axes.append((chosen.start * step, chosen.step * step, len(chosen)))
            elif isinstance(k, list | range) or (isinstance(k, Tensor) and k.shape):
                axes.append({"places": [range(size)[int(n)] * step for n in k]})
            else:
                start += range(size)[operator.index(k)] * step
        return axes, start, [len(axis["places"]) if isinstance(axis, dict) else axis[2] for axis in axes]

    def __getitem__(self, key):
        if isinstance(key, Tensor) and key.kind is bool:
            key = [n for n, kept in enumerate(key.data) if kept]
            return (self if len(self.shape) == 1 else self.reshape(-1))[key]
        return self.take(*self.at(key))

    def __setitem__(self, key, value):
        axes, start, shape = self.at(key)
        kernels.put(self.data, tensor(value).expand(*shape).data, json.dumps(axes), start)
        whole = self
        while whole.owner:  # torch has a view, so what it is a part of changes as well
            owner, axes, start = whole.owner
            kernels.put(owner.data, whole.data, axes, start)
            whole = owner

    def __matmul__(self, other):
        one, two = self if len(self.shape) > 1 else self[None], other if len(other.shape) > 1 else other[:, None]
        (n, m), (due, p) = one.shape[-2:], two.shape[-2:]
        if m != due:
            raise RuntimeError(f"the shapes {self.shape} and {other.shape} can't be multiplied")
        batch = fitting(one.shape[:-2], two.shape[:-2])
        one, two = one.expand(*batch, n, m).data, two.expand(*batch, m, p).data
        out = filled(math.prod(batch) * n * p, kernels.multiply, one, two, n, m, p)
        return Tensor(out, (*batch, *[n] * (len(self.shape) > 1), *[p] * (len(other.shape) > 1)))

    def masked_fill(self, mask, value):
        shape = fitting(self.shape, mask.shape)
        parts = mask.expand(*shape).data, self.expand(*shape).data, float(value)
        return Tensor(filled(math.prod(shape), kernels.each, "where", *parts), shape)

    def tolist(self):
        flat = list(map(self.kind, self.data))
        for size in reversed(self.shape[1:]):
            flat = [flat[n : n + size] for n in range(0, len(flat), size)]
        return flat if self.shape else flat[0]

    def item(self):
        if len(self.data) != 1:
            raise RuntimeError(f"{len(self.data)} entries are not one number")
        return self.kind(self.data[0])

    def __repr__(self):
        return f"tensor({written(self)})"


METHODS = {
    **{f"__{n}__": binary(n) for n in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")},
    **{f"__r{n}__": binary(n, swap=True) for n in ("add", "sub", "mul", "truediv", "pow")},
    **{f"__i{n}__": in_place(n) for n in ("add", "sub", "mul", "truediv")},
    **{f"__{n}__": binary(n, bool) for n in ("lt", "le", "gt", "ge", "eq", "ne", "and", "or")},
    **{n: unary(n, float) for n in ("exp", "log", "sqrt", "sin", "cos", "tanh")},
    **{n: reduced(n) for n in ("sum", "amax", "amin")},
    "argmax": reduced("argmax", int),
    **{n: reduced(n, float) for n in ("mean", "std", "median")},
    **{n: extreme(n) for n in ("max", "min")},
    **{n: unary("pos") for n in ("double", "contiguous", "detach", "clone")},
    **{"__neg__": unary("neg"), "abs": unary("abs"), "round": unary("round"), "int": unary("trunc", int)},
    **{"bool": unary("bool", bool), "float": unary("pos", float), "softmax": softmax},
    "square": lambda self: self * self,
    "norm": lambda self, *, dim=None, keepdim=False: (self * self).sum(dim, keepdim).sqrt(),
    "tril": lambda self, diagonal=0: self.masked_fill(ahead(self) > diagonal, 0),
    "triu": lambda self, diagonal=0: self.masked_fill(ahead(self) < diagonal, 0),
    **{"flatten": lambda self: self.reshape(-1), "view": Tensor.reshape},
    **{f"__{n.__name__}__": lambda self, n=n: n(self.item()) for n in (float, int, bool)},
    **{"__len__": lambda self: self.shape[0], "__iter__": lambda self: (self[n] for n in range(self.shape[0]))},
    "__index__": lambda self: operator.index(self.item()),
    "__format__": lambda self, form: format(str(self) if self.shape else self.item(), form),
    **{"mT": property(lambda self: self.transpose(-1, -2)), "ndim": property(lambda self: len(self.shape))},
    "T": property(lambda self: self.permute(*reversed(range(len(self.shape))))),
}
for name, method in METHODS.items():
    setattr(Tensor, name, method)


class Later(Tensor):
    """An array that is computed when its entries are first read."""

    def __init__(self, compute, shape):
        self.compute, self.shape, self.kind = compute, tuple(shape), float

    @cached_property
    def data(self):
        return self.compute().data


def written(x):
    """Write the entries as torch prints them; of many only their shape."""
    if len(x.data) > 1000:
        return f"of shape {x.shape}"
    finite = [abs(v) for v in x.data if math.isfinite(v) and v]
    whole = all(v == int(v) for v in finite) and max(finite, default=0) < 1e8
    powers = finite and not whole and (max(finite) > 1000 * min(finite) or max(finite) > 1e8 or min(finite) < 1e-4)
    form = "{:.0f}." if whole else "{:.4e}" if powers else "{:.4f}"
    words = [form.format(v) if x.kind is float and math.isfinite(v) else str(v) for v in map(x.kind, x.data)]
    parts = [word.rjust(max(map(len, words))) for word in words]
    for axis in reversed(range(len(x.shape))):
        between = ", " if axis == len(x.shape) - 1 else "," + "\n" * (len(x.shape) - axis - 1) + " " * (8 + axis)
        size = x.shape[axis]
        parts = ["[" + between.join(parts[n : n + size]) + "]" for n in range(0, len(parts), size)]
    return parts[0]


# ---- torch: how arrays are made ----
def tensor(value):
    if isinstance(value, Tensor):
        return value
    if not isinstance(value, list | tuple | range):
        return Tensor(array("d", [value]), (), type(value))
    if not value:
        return Tensor(array("d"), (0,))
    parts = [tensor(part) for part in value]
    return cat([part[None] for part in parts])


def cat(parts, dim=0):
    first, *rest = parts = [part.transpose(0, dim) for part in parts]
    if any(part.shape[1:] != first.shape[1:] for part in rest):
        raise ValueError(f"the parts have different shapes: {[part.shape for part in parts]}")
    kinds, data = {part.kind for part in parts}, array("d")
    for part in parts:
        data += part.data
    kind = next(kind for kind in (float, int, bool) if kind in kinds)
    return Tensor(data, (sum(part.shape[0] for part in parts), *first.shape[1:]), kind).transpose(0, dim)


def full(shape, value):
    return Tensor(array("d", [value]) * math.prod(shape), shape, type(value))


def diag(x, diagonal=0):
    size = len(x) + abs(diagonal)
    made = full((size, size), 0.0)
    for n, value in enumerate(x.data):
        made[n - min(diagonal, 0), n + max(diagonal, 0)] = value
    return made


def module(name, **known):
    made = sys.modules[name] = types.ModuleType(name)
    made.__path__, made.__getattr__ = [], lacking(name)
    vars(made).update(known)
    return made


TORCH = {
    **{"tensor": tensor, "cat": cat, "full": full, "diag": diag, "Tensor": Tensor},
    **{n: getattr(Tensor, n) for n in ("softmax", "exp", "log", "sqrt", "tril", "triu", "abs")},
    **{"zeros": lambda *shape: full(sizes(shape), 0.0), "ones": lambda *shape: full(sizes(shape), 1.0)},
    **{"zeros_like": lambda x: full(x.shape, 0.0), "ones_like": lambda x: full(x.shape, 1.0)},
    **{"eye": lambda n: diag(full((n,), 1.0)), "stack": lambda parts: cat([part[None] for part in parts])},
    "arange": lambda *ends: tensor(list(map(type(ends[0]), range(*map(int, ends))))),
    **{"inf": math.inf, "nan": math.nan, "pi": math.pi},
}


# ---- the package: models, layers and their scores ----
@dataclass(frozen=True)
class Norm:
    gain: Tensor
    bias: Tensor
    eps: float = 1e-5


@dataclass(frozen=True)
class Layer:
    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor
    W_O: Tensor
    b_Q: Tensor
    b_K: Tensor
    b_V: Tensor
    b_O: Tensor
    before: Norm

    __getattr__ = lacking("layer")

    def norm(self, place="input"):
        return self.before if place == "input" else None


class Record(types.SimpleNamespace):
    __getattr__ = lacking("this")


def stored(name, key):
    if f"{name}.{key}" not in files:
        raise Missing(f"{name}.{key}")
    return array("f", files[f"{name}.{key}"].to_bytes())


def load(name, stand_in=False):
    if name not in SIZES:
        raise NeedsPackage(f"load({name!r})")
    heads, d, layers, positions, tokens = SIZES[name]

    def read(key, *shape):
        return Later(lambda: Tensor(array("d", stored(name, key)), shape), shape)

    def layer(n):
        W, c = read(f"h.{n}.attn.c_attn.weight", d, 3 * d), d // heads
        b, parts = read(f"h.{n}.attn.c_attn.bias", 3, heads, c), {}
        for k, x in enumerate("QKV"):
            own = Later(lambda k=k: W[:, k * d : k * d + d], (d, d))
            parts[f"W_{x}"] = Later(lambda W=own: W.reshape(d, heads, c).transpose(0, 1), (heads, d, c))
            parts[f"b_{x}"] = Later(lambda k=k: b[k], (heads, c))
        out = {"W_O": read(f"h.{n}.attn.c_proj.weight", heads, c, d), "b_O": read(f"h.{n}.attn.c_proj.bias", d)}
        return Layer(**parts, **out, before=Norm(read(f"h.{n}.ln_1.weight", d), read(f"h.{n}.ln_1.bias", d)))

    made = Record(layers=[layer(n) for n in range(layers)], positions=read("wpe.weight", positions, d))
    if tokens:
        made.tokens = read("wte.weight", tokens, d)

    def norm(which="attention", layer=0):
        if which != "attention":
            raise NeedsPackage(f"norm({which!r})")
        return made.layers[layer].before

    made.norm = norm
    return made


def sigma(y, eps=1e-5):
    return ((y - y.mean(-1, True)).square().mean(-1) + eps).sqrt()


def apply_norm(rows, norm):
    return (rows - rows.mean(-1, True)) / sigma(rows, norm.eps)[..., None] * norm.gain + norm.bias


def fold_norm(layer):
    norm, folded = layer.before, {}
    for x in "QKV":
        W, b = getattr(layer, f"W_{x}"), getattr(layer, f"b_{x}")
        scaled = Later(lambda W=W: W * norm.gain[:, None], W.shape)
        folded[f"W_{x}"] = Later(lambda W=scaled: W - W.mean(1, True), W.shape)
        folded[f"b_{x}"] = Later(lambda W=W, b=b: norm.bias @ W + b, b.shape)
    return replace(layer, **folded, before=Norm(norm.gain * 0 + 1, norm.bias * 0))


def project(x, W, b):
    return x[..., None, :, :] @ W + b[:, None]


def compute_scores(x, layer):
    return project(x, layer.W_Q, layer.b_Q) @ project(x, layer.W_K, layer.b_K).mT / layer.b_Q.shape[-1] ** 0.5


def mask_future(scores):
    return scores.masked_fill(full(scores.shape[-2:], 1.0).triu(1).bool(), -math.inf)


def attend(x, layer):
    scores = mask_future(compute_scores(x, layer))
    attention = scores.softmax(-1)
    updates = Later(lambda: attention @ project(x, layer.W_V, layer.b_V) @ layer.W_O, (*scores.shape[:-1], x.shape[-1]))
    return Record(
        scores=scores, attention=attention, updates=updates, output=Later(lambda: updates.sum(-3) + layer.b_O, x.shape)
    )


def score_terms(x, layer):
    q, k = project(x, layer.W_Q, layer.b_Q * 0), project(x, layer.W_K, layer.b_K * 0).mT / layer.b_Q.shape[-1] ** 0.5
    b_Q, b_K = layer.b_Q[:, None], layer.b_K[:, None].mT / layer.b_Q.shape[-1] ** 0.5
    parts = {"content": q @ k, "semi_bias": b_Q @ k, "query_side": q @ b_K, "kernel": b_Q @ b_K}
    whole = parts["content"].shape
    return Record(
        **parts,
        total=lambda: sum(parts.values()),
        stack=lambda *names: cat([parts[n].expand(*whole)[None] for n in names or parts]),
    )


def semi_bias(y, layer):
    return (layer.W_K @ layer.b_Q[..., None])[..., 0] @ y.mT / layer.b_Q.shape[-1] ** 0.5


# ---- figures: what is painted, on what scale ----
def fraction(value):
    near = Fraction(value).limit_denominator(100)
    text = str(near) if abs(float(near) - value) < 1e-6 * max(1.0, abs(value)) else f"{value:.2f}"
    return text.replace("-", "\N{MINUS SIGN}")


def draw(tables, titles, kind, limit, power=1, rows="", columns=(), **more):
    panels = []
    for n, (table, title) in enumerate(zip(tables, titles, strict=True)):
        below = list(columns[n]) if columns else []
        if len(table.shape) != 2 or not all(map(math.isfinite, table.data)):
            raise ValueError(f"{title!r} must be a matrix of finite entries, got the shape {table.shape}")
        for names, size in ((rows if n == 0 else "", table.shape[0]), (below, table.shape[1])):
            if len(names) not in {0, size}:
                raise ValueError(f"{len(names)} names don't fit {title!r} of shape {table.shape}")
        small = more.get("signs") and max(table.shape) <= 8
        panels.append({"title": title, "values": table.tolist(), "columns": below})
        panels[-1]["texts"] = [fraction(v) for v in table.data] if small else []
    outputs.append({"panels": panels, "kind": kind, "limit": limit, "power": power, "rows": list(rows), **more})


def draw_equation(matrices, signs, titles, kind="weights", rows="", columns=()):
    if kind not in {"weights", "scores"} or len(signs) != len(matrices) - 1:
        raise ValueError(f"{len(matrices)} matrices need a sign between two, and a kind: weights or scores")
    highest = max(abs(v) for table in matrices for v in table.data)
    draw(matrices, titles, kind, 1 if kind == "weights" else highest or 1, rows=rows, columns=columns, signs=signs)


def draw_maps(maps, tokens):
    named = maps if isinstance(maps, dict) else {f"head {n}": each for n, each in enumerate(maps)}
    highest = max(max(table.data) for table in named.values())
    draw(named.values(), named, "weights", highest, 0.5, tokens, [tokens] * len(named), masked=True)


def draw_scores(scores, title, label="nats"):
    ordered = sorted(map(abs, scores.data))
    where = 0.9 * (len(ordered) - 1)
    low, high = ordered[int(where)], ordered[math.ceil(where)]
    draw([scores], [title], "scores", low + (high - low) * (where % 1) or 1, label=label)


PACKAGE = (load, sigma, apply_norm, fold_norm, project, compute_scores, mask_future, attend, score_terms, semi_bias)
PACKAGE += (draw_equation, draw_maps, draw_scores)
SIZES = {"gpt2": (12, 768, 1, 1024, 0), "gpt2-mini": (8, 128, 2, 128, 2048)}
"""Heads, width, layers, positions and tokens of the models that pages bring along."""


# ---- running a cell ----
def begin():
    """Put the modules where a cell finds them; return the names that cells share."""
    for name in ("torch", "analysis"):
        module(name, **(TORCH if name == "torch" else {f.__name__: f for f in PACKAGE}))
    sys.meta_path.append(Packages)
    return {"__name__": "__main__"}


def run(source, space, name, block=None):
    """Run a cell, or judge an answer; return what it wrote and drew, its error, and the file that it lacks."""
    space = {} if block else space
    before = dict(space)
    outputs.clear()
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    said = {"outputs": outputs, "error": "", "missing": "", "solution": block and check.solution(block)}
    out = Record(write=outputs.append, flush=lambda: None)
    try:
        with contextlib.redirect_stdout(out):
            body = ast.parse(source, name)
            last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
            exec(compile(body, name, "exec"), space)
            value = eval(compile(ast.Expression(last.value), name, "eval"), space) if last else None
            if value is not None:
                print(repr(value))
            if block:
                said["right"], said["verdict"] = check.judge(space, block)
    except Missing as missing:
        said["missing"] = str(missing)
        space.clear()  # it runs again from where it began
        space.update(before)
    except BaseException as error:
        own = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename.startswith(("cell ", "your "))
        ]
        lines = traceback.format_list(own) + traceback.format_exception_only(error)
        said["error"] = "".join(lines)
    return json.dumps(said)
