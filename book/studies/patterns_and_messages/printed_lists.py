"""The two lists of formulas that the post ends with, run line by line as they are printed."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Residual
from analysis.decomposition import qk_ov
from analysis.transformer.attention import softmax
from book.lab.reference_modules import attention_module
from book.studies.shared.equality import relative_gap

# The post's names, with root for the root of d_k; in the order in which the lines can be computed.
RESULT = "MultiHead"
FIRST_LIST = {
    "patterns": "X @ W_P",
    "messages": "X @ W_M",
    "scores": "softmax(P @ X.mT / root)",
    RESULT: "(scores @ messages).sum(1)",
}
SECOND_LIST = {"P": "X @ W_P", "M": "X @ W_M", "scores": "softmax(P @ X.mT / root)", RESULT: "(scores @ M).sum(1)"}


@dataclass(frozen=True)
class PrintedLists:
    """What the first list leaves undefined and unused, and how far both are from ``BertSelfAttention``.

    ``stand_ins`` are the errors of the first list, as shares of the largest output, with one of the matrices that it
    does have in the place of the name that it does not define; ``second`` is that of the second list as printed.
    """

    undefined: tuple[str, ...]
    unused: tuple[str, ...]
    stand_ins: Mapping[str, float]
    second: float


def run_printed_lists(layer: AttentionLayer, x: Residual) -> PrintedLists:
    """Run both lists on a layer without biases; the first with each of its matrices for the name that it lacks."""
    names = {
        "X": x[:, None],
        "W_P": qk_ov.qk_matrix(layer),
        "W_M": qk_ov.ov_matrix(layer),
        "softmax": softmax,
        "root": layer.channel**0.5,
    }
    output = attention_module("bert", layer)(x)[0]
    used = {node.id for line in FIRST_LIST.values() for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Name)}
    undefined = tuple(sorted(used - set(FIRST_LIST) - set(names)))
    unused = tuple(name for name in FIRST_LIST if name not in used | {RESULT})
    matrices = {name: FIRST_LIST[name] for name in ("patterns", "messages")}
    stand_ins = {
        name: run({**matrices, **dict.fromkeys(undefined, name), **FIRST_LIST}, names) for name in (*matrices, "X")
    }
    return PrintedLists(
        undefined,
        unused,
        {name: relative_gap(result, output) for name, result in stand_ins.items()},
        relative_gap(run(SECOND_LIST, names), output),
    )


def run(lines: Mapping[str, str], names: Mapping[str, object]) -> Tensor:
    """Compute a list line by line and return its result."""
    values = dict(names)
    for name, line in lines.items():
        values[name] = eval(line, {}, values)
    return values[RESULT]
