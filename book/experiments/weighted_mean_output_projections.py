"""How many attention modules of the installed transformers library have an output projection.

Static: the source of every ``modeling_*.py`` is parsed, nothing is imported or run. A module counts where its
``__init__`` makes linear maps for queries, keys and values, separate or fused.
"""

import ast
import importlib.util
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from book.publish.records import Experiment, Result, Value

LINEAR = re.compile(r"\b(\w*Linear\w*|Conv1D|Conv[12]d|Parameter|ConvDropoutLayerNorm)\(")
FUSED = re.compile(r"qkv|query_key_value|c_attn|^in_proj|^Wqkv$|^W_pack$|^att_proj$", re.I)
QUERY = re.compile(r"^(q|wq|w_q|to_q|.*query.*|q_.*|.*_q|.*q_proj.*|.*q_lin.*)$", re.I)
VALUE = re.compile(r"^(v|wv|w_v|to_v|.*value.*|v_.*|.*_v|kv_.*|.*_kv|.*v_proj.*|.*v_lin.*)$", re.I)
OUT = re.compile(
    r"^(o|wo|to_out|dense|proj|post(_proj)?|(final_)?linear|.*out.*|o_.*|.*_o|c_proj|.*projection.*)$", re.I
)
HOLDABLE = re.compile(r"Attention|Projection")


def made(class_: ast.ClassDef, lines: list[str]) -> dict[str, str]:
    """Return what a class assigns to ``self`` in ``__init__``: attribute to source lines."""
    init = next((n for n in class_.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    assigned = [n for n in ast.walk(init) if isinstance(n, ast.Assign)] if init else []
    parts: dict[str, str] = {}
    for node in assigned:
        source = " ".join(lines[node.lineno - 1 : node.end_lineno])
        for t in node.targets:
            if isinstance(t, ast.Attribute) and isinstance(t.value, ast.Name) and t.value.id == "self":
                parts[t.attr] = f"{parts.get(t.attr, '')} {source}"
    return parts


def judge(source: str) -> Iterator[tuple[str, str]]:
    """Yield each attention class of a file with where its output projection is: ``own``, ``beside`` or ``none``.

    ``beside``: in an ``...Output`` class of the same file, as BERT has it, in a class that holds this one, or in
    an attention class that this one holds.
    """
    tree = ast.parse(source)
    lines = source.splitlines()
    classes = {n.name: made(n, lines) for n in tree.body if isinstance(n, ast.ClassDef)}
    outputs = [name for name, parts in classes.items() if "Output" in name and _linear(parts, re.compile(""))]
    taken = re.compile("|".join([FUSED.pattern, QUERY.pattern, VALUE.pattern]), re.I)
    own = {n: [p for p in _linear(parts, OUT) if not taken.search(p)] for n, parts in classes.items()}
    for name, parts in classes.items():
        fused = _linear(parts, FUSED)
        if "Attention" not in name or not (fused or (_linear(parts, QUERY) and _linear(parts, VALUE))):
            continue
        holders = [n for n, p in classes.items() if _makes(p, name)]
        held = [n for n in own if HOLDABLE.search(n) and _makes(parts, n)]
        if own[name]:
            yield name, "own"
        elif outputs or any(own[n] for n in holders + held):
            yield name, "beside"
        else:
            yield name, "none"


def _makes(parts: dict[str, str], name: str) -> bool:
    return any(re.search(rf"\b{name}\(", s) for s in parts.values() if name in s)


def _linear(parts: dict[str, str], names: re.Pattern) -> list[str]:
    return [p for p, made_by in parts.items() if names.search(p) and LINEAR.search(made_by)]


def compute(device) -> Result:
    """Which attention modules of transformers have an output projection."""
    root = Path(importlib.util.find_spec("transformers").submodule_search_locations[0]) / "models"
    files = sorted(root.rglob("modeling_*.py"))
    found = [(f.parent.name, name, where) for f in files for name, where in judge(f.read_text(encoding="utf-8"))]
    without = sorted(f"{folder}.{name}" for folder, name, where in found if where == "none")
    counts = {w: Value(sum(where == w for *_, where in found), n=len(found)) for w in ("own", "beside", "none")}
    return Result(
        {
            **counts,
            "modules": Value(len(found)),
            "files": Value(len(files)),
            "without": Value(", ".join(without)),
            "transformers": Value(metadata.version("transformers")),
        }
    )


EXPERIMENT = Experiment(compute, minutes=0.6)
