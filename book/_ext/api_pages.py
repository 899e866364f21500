"""Sphinx directives for the pages of the package: ``public-names``, ``packages``, and the ``package-modules`` of one.

They read the folders of ``analysis`` and its stub, so a new module, package or name appears by itself.
"""

import ast
import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

from analysis.core.public_names import STUB, package_names, read_groups
from book._ext.shared import Directive
from book.publish import execution

LIBRARY = execution.ROOT / "analysis"
FIELDS = re.compile(r"^:ivar ([\w]+(?:, [\w]+)+):")
TYPE = re.compile(r"\s*:(?:rtype|(?:var)?type [\w, ]+):.*Tensor")


def packages() -> list[str]:
    """Return the names of the packages that have public modules."""
    return sorted(path.parent.name for path in LIBRARY.glob("*/__init__.py") if any(path.parent.glob("[!_]*.py")))


def modules(package: str) -> list[str]:
    """Return the public modules of a package, and the packages inside it before theirs, by dotted name."""
    paths = [path.relative_to(LIBRARY) for path in LIBRARY.joinpath(package).rglob("*.py")]
    names = [path.parent.parts if path.name == "__init__.py" else path.with_suffix("").parts for path in paths]
    return [
        ".".join(name) for name in sorted(names) if len(name) > 1 and not any(part.startswith("_") for part in name)
    ]


def source(name: str) -> Path:
    """Return the file of a package or of a module, given by its dotted name."""
    path = LIBRARY.joinpath(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def links(names: dict[str, str]) -> str:
    """Write names with links to where they are documented, given their dotted places."""
    return ", ".join(f"{{py:obj}}`{name} <{place}>`" for name, place in names.items())


class Library(Directive):
    """What the directives share."""

    def summary(self, name: str) -> str:
        """Return the first line of the docstring of a package or of a module, given by its dotted name."""
        self.env.note_dependency(str(source(name)))
        return (ast.get_docstring(ast.parse(source(name).read_text(encoding="utf-8"))) or "").split("\n", 1)[0]

    def listed(self, entries: dict[str, str]) -> list[nodes.Node]:
        """Write a definition list in MyST: a term, and what it is about."""
        lines = "\n".join(f"{term}\n: {about}\n" for term, about in entries.items())
        return self.parse(lines.splitlines()).children


class Packages(Library):
    """``packages`` lists the packages of ``analysis``, each with what it is about and the names that it lists."""

    def run(self):
        """Write a definition list whose terms lead to the packages' pages."""
        return self.listed(
            {
                f"{{doc}}`{name} <api-{name}>`": f"{self.summary(name)} {links(package_names(name))}".rstrip()
                for name in packages()
            }
        )


class PublicNames(Library):
    """``public-names`` lists what ``from analysis import ...`` offers, in its groups, each name with a link."""

    def run(self):
        """Write a definition list: a group, and its names."""
        self.env.note_dependency(str(STUB))
        return self.listed({title: links(names) for title, names in read_groups().items()})


class PackageModules(Library):
    """``package-modules maps`` documents every module of a package."""

    required_arguments = 1

    def run(self):
        """Write the directives that autodoc understands, below a list of the modules."""
        (package,) = self.arguments
        if package not in packages():
            raise self.error(f"the packages are {', '.join(packages())}; got {package!r}")
        contents, sections = nodes.definition_list(classes=["api-contents"]), []
        for name in modules(package):
            place, title = f"module-section-{name.replace('.', '-')}", f"analysis.{name}"  # what one imports from
            short = nodes.literal(text=name.removeprefix(f"{package}."))
            term = nodes.term("", "", nodes.reference("", "", short, refid=place, internal=True))
            about = nodes.definition("", *self.parse([self.summary(name)]).children)
            contents += nodes.definition_list_item("", term, about)
            section = nodes.section("", nodes.title(title, "", nodes.literal(text=title)), ids=[place], names=[title])
            section += self.document(name, members=not LIBRARY.joinpath(*name.split(".")).is_dir())
            sections.append(section)
        return [*self.document(package, members=False), contents, *sections]

    def document(self, module: str, *, members: bool) -> list[nodes.Node]:
        """Document a module or a package, with its functions and classes or, of a package, only what it says."""
        options = ["   :members:", "   :exclude-members: set"] if members else []
        return self.parse(["```{eval-rst}", f".. automodule:: analysis.{module}", *options, "```"]).children


def note_modules(app, config):
    """Have every page read again where there are other modules than there were."""
    config.api_modules = " ".join(name for package in packages() for name in [package, *modules(package)])


def escape_axes(app, what, name, obj, options, lines):  # noqa: PLR0917
    """Keep the star of ``Float[Tensor, "*batch head"]`` from opening an emphasis where a type becomes text."""
    lines[:] = [line.replace("*", r"\*") if TYPE.match(line) else line for line in lines]


def whole_sentences(app, what, name, obj, *rest):
    """Put the docstring of a constant together again: of "Where a norm stands: ..." napoleon makes a type."""
    lines = rest[-1]
    types = [i for i, line in enumerate(lines) if line.startswith(":type: ")]
    if what in ("data", "attribute") and types and " " in lines[types[0]].removeprefix(":type: "):
        lines[0] = f"{lines.pop(types[0]).removeprefix(':type: ')}: {lines[0]}"


def join_names(app, what, name, obj, options, lines):  # noqa: PLR0917
    """Keep two fields that a docstring describes together in one name; of ``W_Q, b_Q`` Sphinx makes a type."""
    lines[:] = [FIELDS.sub(lambda names: f":ivar {names[1].replace(', ', ',')}:", line) for line in lines]


def say_fields_once(app, domain, objtype, content):
    """Drop from a class's parameters the fields that its docstring describes, or that have their own below."""
    own = {
        signature.get("fullname", "").split(".")[-1]
        for member in content.findall(addnodes.desc)
        if member["objtype"] in ("attribute", "property")
        for signature in member.findall(addnodes.desc_signature)
    }
    for fields in content.findall(nodes.field_list):
        described = own | {name for field in fields for name in _named(field, "ivar", "vartype")}
        for field in list(fields):
            if objtype == "class" and set(_named(field, "param", "type")) & described:
                fields.remove(field)


def skip_aliases(app, what, name, obj, skip, options):  # noqa: PLR0917
    """Leave out the fields of a named tuple that have no docstring: Python calls each an alias of its number."""
    return True if str(getattr(obj, "__doc__", "")).startswith("Alias for field number") else None


def _named(field: nodes.field, *kinds: str) -> list[str]:
    kind, _, names = field[0].astext().partition(" ")
    return names.split()[-1].split(",") if kind in kinds and names else []


def setup(app):
    """Register the directives."""
    app.add_directive("public-names", PublicNames)
    app.add_directive("packages", Packages)
    app.add_directive("package-modules", PackageModules)
    app.add_config_value("api_modules", "", "env")
    app.connect("config-inited", note_modules)
    app.connect("autodoc-process-docstring", escape_axes, priority=900)  # after napoleon
    app.connect("autodoc-process-docstring", whole_sentences, priority=800)
    app.connect("autodoc-process-docstring", join_names, priority=850)
    app.connect("autodoc-skip-member", skip_aliases)
    app.connect("object-description-transform", say_fields_once, priority=600)  # after autodoc has added the types
