"""Which packages are mathematics, read from the library's imports: they use torch and never reach for the door.

The door is what imports a library for models, and whatever imports the door; no list of names is kept.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOR_MODELS = {"transformers", "tokenizers", "safetensors", "huggingface_hub", "matplotlib"}


def imports(package: Path) -> set[str]:
    """Return what the modules of a package import: libraries by name, packages of ``analysis`` by dotted name."""
    names: set[str] = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                parts = node.module.split(".")
                names |= {".".join(parts[:2])} if len(parts) > 1 else {f"{parts[0]}.{a.name}" for a in node.names}
                names.add(parts[0])
    return names


def mathematics(root: Path = ROOT) -> list[str]:
    """Return the packages that compute on tensors and never reach for the door, by dotted name, and the book's own."""
    packages = {f"analysis.{p.parent.name}": imports(p.parent) for p in (root / "analysis").glob("*/__init__.py")}
    door: set[str] = set()
    while grown := {name for name, reached in packages.items() if name not in door and reached & (FOR_MODELS | door)}:
        door |= grown
    library = sorted(name for name, reached in packages.items() if name not in door and "torch" in reached)
    return [*library, "book.lab.mathematics"]


def modules(package: str, root: Path = ROOT) -> list[tuple[str, Path]]:
    """Return the modules of a package with their files, packages inside it too, but no ``__init__``."""
    folder = root.joinpath(*package.split("."))
    return [(".".join(path.relative_to(root).with_suffix("").parts), path) for path in sorted(folder.rglob("[!_]*.py"))]
