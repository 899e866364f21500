"""Sphinx directive ``package-modules <column>``: the modules of a column of the package, from their docstrings.

The columns are the ones that import-linter enforces, read from ``pyproject.toml``, so a new module appears by itself.
"""

import ast
import re
import tomllib
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from book.publish import execution

COLUMNS = ("mathematics", "door", "vocabulary", "books")
TYPE = re.compile(r"\s*:(?:rtype|(?:var)?type [\w, ]+):.*Tensor")
HIDDEN = ("analysis.__main__", "analysis.commands", "analysis.experiments")


def columns(root: Path = execution.ROOT) -> dict[str, list[str]]:
    """Sort the package's modules into columns: mathematics, door, vocabulary, and what keeps the books."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    forbidden = {("mathematics" if "transformers" in c["forbidden_modules"] else "door"): c["source_modules"]
                 for c in contracts if c["type"] == "forbidden"}
    layers = next(c["layers"] for c in contracts if c["type"] == "layers")
    sorted_ = {name: sorted(forbidden[name]) for name in ("mathematics", "door")}
    sorted_["vocabulary"] = [name.strip() for name in layers[-1].split(":")]
    placed = {*(m for column in sorted_.values() for m in column), *HIDDEN}
    listed = [name.strip() for layer in layers for name in layer.split(":")]
    sorted_["books"] = sorted(set(listed) - placed)
    return sorted_


def with_parts(module: str, root: Path = execution.ROOT) -> list[str]:
    """Return a module, or a package and its public modules."""
    folder = root / module.replace(".", "/")
    if not folder.is_dir():
        return [module]
    return [module, *(f"{module}.{p.stem}" for p in sorted(folder.glob("*.py")) if not p.stem.startswith("_"))]


def summary(module: str, root: Path = execution.ROOT) -> str:
    """Return the first line of a module's docstring."""
    path = root / f"{module.replace('.', '/')}.py"
    path = path if path.exists() else path.with_suffix("") / "__init__.py"
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n", 1)[0]


class Modules(SphinxDirective):
    """``package-modules door`` documents every module of a column; with ``:summary:``, only lists them."""

    required_arguments = 1
    option_spec = {"summary": lambda _: True}  # noqa: RUF012

    def run(self):
        """Write the directives that autodoc understands."""
        column, = self.arguments
        if column not in COLUMNS:
            raise self.error(f"the columns are {', '.join(COLUMNS)}; got {column!r}")
        self.env.note_dependency(str(execution.ROOT / "pyproject.toml"))
        modules = [part for module in columns()[column] for part in with_parts(module)]
        if "summary" in self.options:
            lines = [f"{{py:mod}}`{m.removeprefix('analysis.')} <{m}>`\n: {summary(m)}\n" for m in modules]
            return self.parse("\n".join(lines).splitlines())
        return [self.section(module) for module in modules]

    def section(self, module: str) -> nodes.section:
        """Make a section of one module."""
        name = module.removeprefix("analysis.")
        section = nodes.section(ids=[f"module-section-{name.replace('.', '-')}"], names=[name])
        section += nodes.title(name, "", nodes.literal(text=name))
        section += self.parse(["```{eval-rst}", f".. automodule:: {module}", "   :members:",
                               "   :exclude-members: set", "```"])
        return section

    def parse(self, lines: list[str]) -> list[nodes.Node]:
        """Parse lines of MyST."""
        holder = nodes.Element()
        self.state.nested_parse(StringList(lines, self.env.docname), 0, holder)
        return holder.children


def escape_axes(app, what, name, obj, options, lines):  # noqa: PLR0917
    """Keep the star of ``Float[Tensor, "*batch head"]`` from opening an emphasis where a type becomes text."""
    lines[:] = [line.replace("*", r"\*") if TYPE.match(line) else line for line in lines]


def setup(app):
    """Register the directive."""
    app.add_directive("package-modules", Modules)
    app.connect("autodoc-process-docstring", escape_axes, priority=900)  # after napoleon
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
