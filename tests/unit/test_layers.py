"""Every module of the package has its place in the import contracts."""

import ast
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


def test_no_pickle_is_read_and_no_code_of_a_model_folder_is_trusted():
    """``torch.load``, ``pickle`` and their kin are nowhere in the package or the build; ``np.load`` refuses pickles."""
    for path in [*(ROOT / "analysis").rglob("*.py"), *(ROOT / "book").rglob("*.py")]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            named = [a.name for a in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "")]
            assert not {"pickle", "joblib", "dill", "cloudpickle", "shelve", "marshal"} & {str(n) for n in named}, path
            if isinstance(node, ast.Call):
                called, given = ast.unparse(node.func), {k.arg: ast.unparse(k.value) for k in node.keywords}
                assert called != "torch.load", path
                assert given.get("trust_remote_code", "False") == "False", path
                assert called not in ("np.load", "numpy.load") or given.get("allow_pickle") == "False"
