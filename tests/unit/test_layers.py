"""Every module of the package has its place in the import contracts."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_module_is_named_in_the_layers():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    placed = {name.strip() for line in contracts[0]["layers"] for name in line.split(":")}
    modules = {f"analysis.{p.stem}" for p in (ROOT / "analysis").iterdir()
               if (p.suffix == ".py" and p.stem != "__init__") or (p / "__init__.py").exists()}
    assert modules <= placed
    columns = set(contracts[1]["source_modules"]) | set(contracts[2]["source_modules"])
    lines = contracts[0]["layers"][4:-1]  # between book-keeping and vocabulary
    assert {name.strip() for line in lines for name in line.split(":")} == columns
