"""``attention_taken_apart`` is ``analysis``, and says so where another ``analysis`` hides it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(code: str, folder: Path) -> subprocess.CompletedProcess:
    """Run code as from a script in a folder, with the package after it on the path."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.path.insert(0, {str(folder)!r}); {code}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=False)


@pytest.mark.slow
def test_both_names_give_the_same_modules(tmp_path):
    done = run(
        "import attention_taken_apart as a; assert 'torch' not in sys.modules; "
        "import attention_taken_apart.core.checks as checks, analysis; "
        "from attention_taken_apart.core import files; "
        "assert a is analysis and checks is analysis.core.checks and files is analysis.core.files; "
        "assert checks.__name__ == checks.__spec__.name == 'analysis.core.checks'; "
        "from attention_taken_apart import attend; assert attend is analysis.attend",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr


def test_a_name_that_is_not_there_is_refused(tmp_path):
    done = run("import attention_taken_apart.no_such_module", tmp_path)
    assert "No module named 'analysis.no_such_module'" in done.stderr


def test_an_analysis_of_ones_own_is_named(tmp_path):
    own = tmp_path / "analysis" / "__init__.py"
    own.parent.mkdir()
    own.write_text("raise SystemExit('executed')")
    done = run("import attention_taken_apart", tmp_path)
    assert done.returncode == 1
    assert f"ImportError: {own.resolve()} was found as 'analysis'" in done.stderr
    assert str(ROOT / "analysis") in done.stderr


def test_a_folder_that_is_no_package_hides_nothing(tmp_path):
    (tmp_path / "analysis").mkdir()
    done = run("import attention_taken_apart as a; a.__version__", tmp_path)
    assert done.returncode == 0, done.stderr
