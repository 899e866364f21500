"""Draw mutants of modules with mutmut's operators; ``make mutants`` runs this in an environment of its own.

``python -m tools.mutation.plan mathematics 5 2031`` draws at least five mutants of each module of the mathematics with
the seed 2031, ``studies`` in place of ``mathematics`` those of the code behind the pages. Which modules these are is
read from the folders (``tools/rooms.py``); files named after the seed are drawn from in their place.

A mutant is one change of one expression or statement. Left out, since no test of behaviour could tell: strings and
whatever stands in a ``raise`` (the wording of messages), ``device=`` arguments (one device here), type aliases.
Left out too, since it would flatter the score: ``None`` in place of a value, at which nearly every call stops.
Added: a call made for what it does (a check, a write in place) is dropped, and the condition of an ``if`` is never met.
"""

import argparse
import json
import math
import random
import sys
from pathlib import Path

import libcst as cst
import libcst.matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.file_mutation import MutationVisitor
from mutmut.mutation.mutators import mutation_operators, operator_arg_removal, operator_assignment, operator_lambda
from mutmut.mutation.pragma_handling import IgnoredCode

from tools import rooms

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


OPERATORS = [
    pair for pair in mutation_operators if pair[1] not in (operator_assignment, operator_arg_removal, operator_lambda)
]
OPERATORS += [(cst.Call, drop_argument), (cst.Expr, drop_call), (cst.If, drop_case)]


class BehaviourVisitor(MutationVisitor):
    """mutmut's visitor, kept away from what a program says rather than does, and led into decorated functions."""

    def _skip_node_and_children(self, node):
        if isinstance(node, cst.FunctionDef):  # mutmut cannot wrap one that is decorated; here the source is replaced
            return False
        return (
            isinstance(node, (cst.Raise, cst.SimpleString, cst.FormattedString, cst.ConcatenatedString))
            or m.matches(node, DEVICE)
            or super()._skip_node_and_children(node)
        )


def counts(mutation) -> bool:
    """Say whether a test could tell: no alias of a type, no argument ``device=`` dropped or emptied."""
    before, after = mutation.original_node, mutation.mutated_node
    if mutation.contained_by_top_level_function is None and isinstance(before, cst.Assign):
        return False
    if not (isinstance(before, cst.Call) and isinstance(after, cst.Call)):
        return True
    after_ids = {id(arg) for arg in after.args}
    missing = [arg for arg in before.args if id(arg) not in after_ids]
    return not missing or not all(m.matches(arg, DEVICE) for arg in missing)


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
    visitor = BehaviourVisitor(OPERATORS, IgnoredCode(set(), set(), set()))
    module = wrapper.visit(visitor)
    places = wrapper.resolve(PositionProvider)
    every = [mutation for mutation in visitor.mutations if counts(mutation)]
    random.Random(f"{seed}:{path.relative_to(rooms.ROOT).as_posix()}").shuffle(every)
    names = {function: name for name, function in functions(module.body)}
    sample = []
    for mutation in every[: max(least, math.ceil(len(every) / SHARE))]:  # a larger sample begins with the smaller one
        sample.append(
            {
                "line": places[mutation.original_node].start.line,
                "within": names.get(mutation.contained_by_top_level_function),
                "before": words(module, mutation.original_node),
                "after": words(module, mutation.mutated_node),
                "source": module.deep_replace(mutation.original_node, mutation.mutated_node).code,
            }
        )
    return {"mutants": len(every), "sample": sample}


def mathematics() -> list[Path]:
    """Return the files of the modules of the mathematics."""
    return [path for package in rooms.mathematics() for _, path in rooms.modules(package)]


def is_experiment(path: Path) -> bool:
    """Say whether a module is a recorded experiment: whether it defines ``EXPERIMENT`` or ``EXPERIMENTS``."""
    assignments = m.findall(cst.parse_module(path.read_text(encoding="utf-8")), m.Assign() | m.AnnAssign())
    targets = [target for a in assignments for target in ([a] if isinstance(a, cst.AnnAssign) else a.targets)]
    return any(m.matches(target.target, m.Name("EXPERIMENT") | m.Name("EXPERIMENTS")) for target in targets)


def studies() -> list[Path]:
    """Return the files behind the pages: what is measured and judged, but no figures and no recorded experiments."""
    return [path for _, path in rooms.modules("book.studies") if path.stem != "figures" and not is_experiment(path)]


SAMPLES = {"mathematics": mathematics, "studies": studies}


def main():
    """Write the sample to the standard output."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sample", choices=SAMPLES)
    parser.add_argument("least", type=int, help="mutants of each module, at least")
    parser.add_argument("seed", type=int)
    parser.add_argument("files", nargs="*", type=Path, help="modules to draw from in place of all")
    args = parser.parse_args()
    files = [path.resolve().relative_to(rooms.ROOT) for path in args.files or SAMPLES[args.sample]()]
    modules = {path.as_posix(): draw(rooms.ROOT / path, args.least, args.seed) for path in files}
    json.dump({"name": f"{args.sample}, seed {args.seed}", "modules": modules}, sys.stdout)


if __name__ == "__main__":
    main()
