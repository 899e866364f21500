"""What the book's code takes from a module is there: an experiment that runs once a year would tell too late."""

import ast
import importlib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
PARTS = [ROOT / "book" / part for part in ("lab", "experiments", "viewers", "publish", "cli")]
FILES = sorted(path for part in PARTS for path in part.rglob("*.py"))


def taken_from_modules(path: Path):
    """Yield each name that a file takes from a module of this project under the module's own name, with the module."""
    own = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    hidden = {node.arg for node in nodes if isinstance(node, ast.arg)}
    hidden |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id not in hidden:
            module = vars(own).get(node.value.id)
            if isinstance(module, ModuleType) and module.__name__.split(".")[0] in ("analysis", "book"):
                yield node.attr, module


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_name_that_is_taken_from_a_module_is_there(path):
    missing = [f"{module.__name__}.{name}" for name, module in taken_from_modules(path) if not hasattr(module, name)]
    assert not missing


def test_the_search_finds_names():
    found = list(taken_from_modules(ROOT / "book" / "lab" / "score_survey.py"))
    assert ("load", importlib.import_module("analysis.models.pretrained")) in found
