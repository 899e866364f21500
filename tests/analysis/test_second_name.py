"""``attention_taken_apart`` has the names of ``analysis``, and says so where another ``analysis`` hides it."""

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
def test_both_names_give_the_same(tmp_path):
    done = run(
        "import attention_taken_apart as a; assert 'torch' not in sys.modules; import analysis; "
        "from attention_taken_apart import attend, core; assert attend is analysis.attend and core is analysis.core; "
        "assert set(dir(analysis)) == set(dir(a)); space = {}; exec('from attention_taken_apart import *', space); "
        "assert space['load'] is analysis.load",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr


def test_a_name_that_is_not_there_is_refused(tmp_path):
    done = run("import attention_taken_apart; attention_taken_apart.no_such", tmp_path)
    assert "module 'analysis' has no attribute 'no_such'" in done.stderr


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
