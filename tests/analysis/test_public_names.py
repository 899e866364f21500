"""The public names: what `from analysis import ...` offers, and that it costs nothing before it is used."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import analysis
from analysis.core.public_names import all_names, listed_names, read_groups

ROOT = Path(__file__).parents[2]
NAMES = sorted(all_names())


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_found_where_the_list_says_and_is_documented(name):
    module, _, there = all_names()[name].rpartition(".")
    found = getattr(analysis, name)
    assert inspect.getdoc(found)
    if not inspect.ismodule(found):
        assert (found.__module__, found.__name__) == (module, there) or found.__module__.startswith(f"{module}.")


def test_some_seventy_names_are_listed_and_the_others_stand_one_level_down():
    listed = [name for names in read_groups().values() for name in names]
    assert sorted(listed) == sorted(set(listed)) == [name for name in dir(analysis) if not name.startswith("_")]
    assert len(listed) < 85
    assert "stable_rank" not in listed
    assert analysis.stable_rank is analysis.matrices.stable_rank


def test_a_star_imports_the_listed_names():
    space = {}
    exec("from analysis import *", space)
    assert space.keys() - {"__builtins__"} == set(listed_names())


def test_an_unknown_name_is_refused_and_a_package_is_found():
    with pytest.raises(AttributeError, match="module 'analysis' has no attribute 'scoreterms'"):
        analysis.scoreterms  # noqa: B018
    with pytest.raises(ImportError, match="scoreterms"):
        exec("from analysis import scoreterms")
    assert analysis.decomposition.__name__ == "analysis.decomposition"


def test_importing_the_package_imports_no_torch():
    code = (
        "import sys, time; start = time.perf_counter(); import analysis; seconds = time.perf_counter() - start; "
        "print(seconds, 'torch' in sys.modules)"
    )
    runs = [subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True).split() for _ in range(3)]
    assert {torch for _, torch in runs} == {"False"}
    assert min(float(seconds) for seconds, _ in runs) < 0.05, "some ten milliseconds on a machine that is not busy"


@pytest.mark.parametrize("page", ["README.md", "book/api.md"])
def test_the_examples_run_as_they_stand_and_print_what_the_page_says(page, capsys):
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {})
    assert [line for line in capsys.readouterr().out.splitlines() if f"`{line}`" not in text] == []


def test_no_module_of_the_mathematics_bears_the_name_of_its_function():
    for path in (ROOT / "analysis").rglob("*.py"):
        defined = [n.name for n in ast.parse(path.read_text(encoding="utf-8")).body if hasattr(n, "name")]
        assert path.stem not in defined, path


def test_sources_are_cited_by_name_and_not_by_the_number_of_a_claim():
    cited = [
        (path.name, match[0])
        for path in (ROOT / "analysis").rglob("*.py*")
        if path.suffix != ".pyc"
        for match in re.finditer(r"\b[KMPIB]-\d+\b", path.read_text(encoding="utf-8"))
    ]
    assert not cited, "a stranger cannot resolve it: name the paper and its section or equation"


def test_no_test_of_the_library_needs_the_book():
    needs = re.compile(r"^\s*(?:from|import) book\b", re.MULTILINE)
    tests = [path for path in (ROOT / "tests" / "analysis").rglob("*.py") if needs.search(path.read_text("utf-8"))]
    assert not tests


@pytest.mark.parametrize(
    ("guess", "told"),
    [
        ("lilliefors_test", r"; did you mean lilliefors\?"),
        ("ov_circuit", r"; did you mean circuits, ov_matrix\?"),
        ("plot_attention", "draw_maps"),
        ("compute_attention", "attend"),
        ("shapley_values", "shapley, "),
        ("token_score", r"; did you mean .*previous_token_score"),
        ("xyzzy", r"'xyzzy'$"),
    ],
)
def test_a_guess_gets_suggestions(guess, told):
    with pytest.raises(AttributeError, match=told):
        getattr(analysis, guess)
    assert not hasattr(analysis, guess)


WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {missing}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
import importlib.util
installed = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {missing} else installed(name, package)
import analysis
from analysis.core.public_names import listed_names

listed, failed = set(listed_names()), set()
for name in listed:
    try:
        getattr(analysis, name)
    except ImportError as error:
        failed.add(name)
        assert "is not installed: pip install" in str(error), error
assert failed == listed - set(dir(analysis)), failed
print(len(failed), "draw_maps" in failed, "census" in failed)
import pydoc
text = pydoc.plain(pydoc.render_doc(analysis))
assert "semi_bias(y" in text and "draw_maps(maps" not in text
"""
FIGURES = ("matplotlib", "seaborn")
MODELS = ("transformers", "safetensors", "tokenizers", "huggingface_hub", "tqdm")


@pytest.mark.slow
@pytest.mark.parametrize(("missing", "said"), [(FIGURES, "9 True False"), (FIGURES + MODELS, "10 True True")])
def test_without_a_library_its_names_say_what_installs_it_and_help_lists_the_others(missing, said):
    code = WITHOUT.format(missing=missing)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == (said, 0), done.stderr
