"""Sphinx directives for the pages of the package: ``public-names``, ``packages``, and the ``package-modules`` of one.

They read the folders of ``analysis`` and its stub, so a new module, package or name appears by itself.
"""

import ast
import re
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

from analysis.core.public_names import STUB, package_names, read_groups
from book.publish import execution

LIBRARY = execution.ROOT / "analysis"
FIELDS = re.compile(r"^:ivar ([\w]+(?:, [\w]+)+):")
TYPE = re.compile(r"\s*:(?:rtype|(?:var)?type [\w, ]+):.*Tensor")


def packages(library: Path = LIBRARY) -> list[str]:
    """Return the names of the packages that have public modules."""
    return sorted(path.parent.name for path in library.glob("*/__init__.py") if any(path.parent.glob("[!_]*.py")))


def modules(package: str, library: Path = LIBRARY) -> list[str]:
    """Return the public modules of a package, and the packages inside it before theirs, by dotted name."""
    paths = [path.relative_to(library) for path in library.joinpath(package).rglob("*.py")]
    names = [path.parent.parts if path.name == "__init__.py" else path.with_suffix("").parts for path in paths]
    return [
        ".".join(name) for name in sorted(names) if len(name) > 1 and not any(part.startswith("_") for part in name)
    ]


def source(name: str, library: Path = LIBRARY) -> Path:
    """Return the file of a package or of a module, given by its dotted name."""
    path = library.joinpath(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def summary(name: str, library: Path = LIBRARY) -> str:
    """Return the first line of the docstring of a package or of a module, given by its dotted name."""
    return (ast.get_docstring(ast.parse(source(name, library).read_text(encoding="utf-8"))) or "").split("\n", 1)[0]


def section_id(module: str) -> str:
    """Return the anchor of a module's section."""
    return f"module-section-{module.replace('.', '-')}"


class Directive(SphinxDirective):
    """What both directives share: the folders that a page was made of are noted, and text is parsed."""

    def note(self, **read: list[str]) -> None:
        """Remember with the page what was read of the folders; see :func:`outdated`."""
        self.env.metadata[self.env.docname]["api"] = read

    def parse(self, lines: list[str]) -> list[nodes.Node]:
        """Parse lines of MyST."""
        holder = nodes.Element()
        self.state.nested_parse(StringList(lines, self.env.docname), 0, holder)
        return holder.children


def links(names: dict[str, str]) -> str:
    """Write names with links to where they are documented, given their dotted places."""
    return ", ".join(f"{{py:obj}}`{name} <{place}>`" for name, place in names.items())


class Packages(Directive):
    """``packages`` lists the packages of ``analysis``, each with what it is about and the names that it lists."""

    def run(self):
        """Write a definition list whose terms lead to the packages' pages."""
        names = packages()
        self.note(packages=names)
        for name in names:
            self.env.note_dependency(str(LIBRARY / name / "__init__.py"))
        entries = [
            f"{{doc}}`{name} <api-{name}>`\n: {summary(name)} {links(package_names(name))}".rstrip() + "\n"
            for name in names
        ]
        return self.parse("\n".join(entries).splitlines())


class PublicNames(Directive):
    """``public-names`` lists what ``from analysis import ...`` offers, in its groups, each name with a link."""

    def run(self):
        """Write a definition list: a group, and its names."""
        self.env.note_dependency(str(STUB))
        entries = [f"{title}\n: {links(names)}\n" for title, names in read_groups().items()]
        return self.parse("\n".join(entries).splitlines())


class PackageModules(Directive):
    """``package-modules maps`` documents every module of a package."""

    required_arguments = 1

    def run(self):
        """Write the directives that autodoc understands."""
        (package,) = self.arguments
        if package not in packages():
            raise self.error(f"the packages are {', '.join(packages())}; got {package!r}")
        names = modules(package)
        self.note(**{package: names})
        return [
            *self.document(package, members=False),
            self.contents(names, package),
            *(self.section(name, package) for name in names),
        ]

    def contents(self, names: list[str], package: str) -> nodes.definition_list:
        """List the modules of a package with what each is about, as links to their sections."""
        entries = nodes.definition_list(classes=["api-contents"])
        for name in names:
            self.env.note_dependency(str(source(name)))
            title = name.removeprefix(f"{package}.")
            link = nodes.reference("", "", nodes.literal(text=title), refid=section_id(name), internal=True)
            about = nodes.definition("", *self.parse([summary(name)]))
            entries += nodes.definition_list_item("", nodes.term("", "", link), about)
        return entries

    def section(self, module: str, package: str) -> nodes.section:
        """Make a section of one module; of a package inside the package, only what its docstring says."""
        title = f"analysis.{module}"  # what one imports from
        section = nodes.section(ids=[section_id(module)], names=[title])
        section += nodes.title(title, "", nodes.literal(text=title))
        section += self.document(module, members=not LIBRARY.joinpath(*module.split(".")).is_dir())
        return section

    def document(self, module: str, *, members: bool) -> list[nodes.Node]:
        """Document a module or a package, with its functions and classes or without."""
        options = ["   :members:", "   :exclude-members: set"] if members else []
        return self.parse(["```{eval-rst}", f".. automodule:: analysis.{module}", *options, "```"])


def outdated(app, env, added, changed, removed) -> list[str]:
    """Return the pages that were made of other modules than there are now."""

    def present(read: dict[str, list[str]]) -> dict[str, list[str]]:
        return {name: packages() if name == "packages" else modules(name) for name in read}

    return [page for page, data in env.metadata.items() if "api" in data and data["api"] != present(data["api"])]


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
    app.connect("env-get-outdated", outdated)
    app.connect("autodoc-process-docstring", escape_axes, priority=900)  # after napoleon
    app.connect("autodoc-process-docstring", whole_sentences, priority=800)
    app.connect("autodoc-process-docstring", join_names, priority=850)
    app.connect("autodoc-skip-member", skip_aliases)
    app.connect("object-description-transform", say_fields_once, priority=600)  # after autodoc has added the types
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
