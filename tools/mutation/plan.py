"""Draw mutants of modules with mutmut's operators; ``make mutants`` runs this in an environment of its own.

A mutant is one change of one expression or statement. Left out, since no test of behaviour could tell: strings and
whatever stands in a ``raise`` (the wording of messages), ``device=`` arguments (one device here), type aliases.
Left out too, since it would flatter the score: ``None`` in place of a value, at which nearly every call stops.
Added: a call made for what it does (a check, a write in place) is dropped, and the condition of an ``if`` is never met.
"""

import json
import math
import random
import sys
import tomllib
from pathlib import Path

import libcst as cst
import libcst.matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.file_mutation import MutationVisitor
from mutmut.mutation.mutators import mutation_operators, operator_arg_removal, operator_assignment, operator_lambda
from mutmut.mutation.pragma_handling import IgnoredCode

SHARE = 25
DEVICE = m.Arg(keyword=m.Name("device"))


def drop_argument(node: cst.Call):
    """Leave out each argument of a call in turn."""
    return [mutant for mutant in operator_arg_removal(node) if len(mutant.args) < len(node.args)]


def drop_call(node: cst.Expr):
    """Leave out a statement that is a call."""
    return [cst.Expr(cst.Ellipsis())] if isinstance(node.value, cst.Call) else []


def drop_case(node: cst.If):
    """Let the condition of an ``if`` never be met: a refusal that never comes."""
    return [node.with_changes(test=cst.Name("False"), whitespace_before_test=cst.SimpleWhitespace(" "))]


OPERATORS = [pair for pair in mutation_operators
             if pair[1] not in (operator_assignment, operator_arg_removal, operator_lambda)]
OPERATORS += [(cst.Call, drop_argument), (cst.Expr, drop_call), (cst.If, drop_case)]


class Unspoken(MutationVisitor):
    """mutmut's visitor, kept away from what a program says rather than does, and led into decorated functions."""

    def _skip_node_and_children(self, node):
        if isinstance(node, cst.FunctionDef):  # mutmut cannot wrap one that is decorated; here the source is replaced
            return False
        return (isinstance(node, (cst.Raise, cst.SimpleString, cst.FormattedString, cst.ConcatenatedString))
                or m.matches(node, DEVICE) or super()._skip_node_and_children(node))


def counts(mutation) -> bool:
    """Say whether a test could tell: no alias of a type, no argument ``device=`` dropped or emptied."""
    before, after = mutation.original_node, mutation.mutated_node
    if mutation.contained_by_top_level_function is None and isinstance(before, cst.Assign):
        return False
    if not (isinstance(before, cst.Call) and isinstance(after, cst.Call)):
        return True
    kept = {id(arg) for arg in after.args}
    gone = [arg for arg in before.args if id(arg) not in kept]
    return not gone or not all(m.matches(arg, DEVICE) for arg in gone)


def words(module: cst.Module, node: cst.CSTNode) -> str:
    """Return a node's code on one line; of an ``if``, its condition."""
    if isinstance(node, cst.If):
        return "if " + " ".join(module.code_for_node(node.test).split())
    return " ".join(module.code_for_node(node).split())


def functions(body, prefix: str = ""):
    """Yield the qualified name and the node of each function of a module and of its classes."""
    for node in body:
        if isinstance(node, cst.FunctionDef):
            yield prefix + node.name.value, node
        elif isinstance(node, cst.ClassDef):
            yield from functions(node.body.body, f"{prefix}{node.name.value}.")


def draw(path: Path, least: int, seed: int) -> dict:
    """Return a module's count of mutants, and a sample that depends on the seed and this module alone.

    At least so many are drawn, and one in ``SHARE``, so that large modules count for what they hold.

    A mutant says its line and function, what was there, what is, and the whole new source.
    """
    wrapper = MetadataWrapper(cst.parse_module(path.read_text(encoding="utf-8")))
    visitor = Unspoken(OPERATORS, IgnoredCode(set(), set(), set()))
    module = wrapper.visit(visitor)
    places = wrapper.resolve(PositionProvider)
    every = [mutation for mutation in visitor.mutations if counts(mutation)]
    random.Random(f"{seed}:{path.as_posix()}").shuffle(every)
    names = {function: name for name, function in functions(module.body)}
    drawn = []
    for mutation in every[:max(least, math.ceil(len(every) / SHARE))]:  # a larger sample begins with the smaller one
        drawn.append({
            "line": places[mutation.original_node].start.line,
            "within": names.get(mutation.contained_by_top_level_function),
            "before": words(module, mutation.original_node),
            "after": words(module, mutation.mutated_node),
            "source": module.deep_replace(mutation.original_node, mutation.mutated_node).code,
        })
    return {"mutants": len(every), "drawn": drawn}


def mathematics() -> list[str]:
    """List the files of the modules that pyproject.toml calls mathematics."""
    contracts = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    names = next(c["source_modules"] for c in contracts if "transformers" in c.get("forbidden_modules", ()))
    paths = [Path(name.replace(".", "/")) for name in [*names, "analysis.core.axes"]]
    return [file.as_posix() for path in paths
            for file in (sorted(path.glob("[!_]*.py")) if path.is_dir() else [path.with_suffix(".py")])]


if __name__ == "__main__":
    least, seed, *modules = sys.argv[1:]
    modules = modules or mathematics()
    drawn = {module: draw(Path(module), int(least), int(seed)) for module in modules}
    json.dump({"seed": int(seed), "modules": drawn}, sys.stdout)
