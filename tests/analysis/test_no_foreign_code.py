"""What no part of the project does: read pickles, or run code that a model's folder brings."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICKLERS = {"pickle", "joblib", "dill", "cloudpickle", "shelve", "marshal"}


def test_no_pickle_is_read_and_no_code_of_a_model_folder_is_trusted():
    """``torch.load``, ``pickle`` and their kin are nowhere in the package or the build; ``np.load`` refuses pickles."""
    for path in [*(ROOT / "analysis").rglob("*.py"), *(ROOT / "book").rglob("*.py")]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            named = [a.name for a in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "")]
            assert not PICKLERS & {str(n) for n in named}, path
            if isinstance(node, ast.Call):
                called, given = ast.unparse(node.func), {k.arg: ast.unparse(k.value) for k in node.keywords}
                assert called not in ("torch.load", "pickle.load", "pickle.loads"), path
                assert given.get("trust_remote_code", "False") == "False", path
                assert called not in ("np.load", "numpy.load") or given.get("allow_pickle") == "False"
