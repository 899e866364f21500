"""The conformance suite: its golden values can be made again, it passes what is right and reports what is wrong."""

import ast
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "conformance"
sys.path.append(str(SUITE))
suite = importlib.import_module("attention_conformance")
comparison = importlib.import_module("attention_conformance.comparison")
ours = importlib.import_module("attention_conformance.adapters.analysis")
MEGABYTES, LINES = 5, 40
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("name", ["gpt2", "gemma3", "deberta-v2"])
def test_a_model_and_its_golden_values_are_made_again(name):
    """The formulas are held to the model's own module while they are made."""
    model, golden, entry = importlib.import_module("generate").make(name)
    folder = suite.cases(name)[0].folder
    stored, weights = (suite.read_safetensors(folder / f"{file}.safetensors") for file in ("golden", "model"))
    assert golden.keys() == stored.keys()
    for key, value in golden.items():
        assert np.abs(value - stored[key]).max() <= 1e-12 * max(1, np.abs(value).max()), key
    state = model.state_dict()
    assert weights.keys() <= state.keys()
    assert all(np.array_equal(weights[key], state[key].numpy()) for key in weights)
    listed = json.loads((SUITE / "attention_conformance/models.json").read_text("utf-8"))["models"][name]
    assert entry == listed


def test_a_module_that_differs_from_the_formulas_stops_the_generator(monkeypatch):
    generate = importlib.import_module("generate")
    monkeypatch.setattr(generate.FAMILIES["gpt2"][0], "scale", 0.36)
    with pytest.raises(SystemExit, match="gpt2, layers"):
        generate.make("gpt2")


@pytest.fixture(scope="module")
def results():
    """What the package gives for every model."""
    return list(suite.run(ours.Adapter()))


def test_the_package_is_exact_on_every_model(results):
    assert len({one.case.model for one in results}) == 40
    assert {str(one.case) for one in results if one.off is None} == {"mpnet-layers.0"}  # refused, with a reason
    assert [one for one in results if one.off is not None and not one.exact] == []


@pytest.mark.parametrize(("kind", "refused"), [("Eager", set()), ("Sdpa", {"gpt-oss", "gemma2", "deberta-v2"})])
def test_transformers_is_exact_in_what_it_offers(kind, refused):
    adapter = getattr(importlib.import_module("attention_conformance.adapters.transformers"), kind)()
    models = "gpt2", "gpt-oss", "gemma2", "deberta-v2", "whisper"
    results = [one for one in suite.run(adapter, models) if one.quantity in ("weighted_values", "output")]
    assert {one.case.model for one in results if one.off is None} == refused
    assert all(one.exact for one in results if one.off is not None)


CHANGES = {
    "semi_bias": lambda found: {"semi_bias": -found["semi_bias"]},
    "scores": lambda found: {"scores": found["scores"] * 1.001},
    "keys": lambda found: {"keys": found["keys"].flip(-1)},
    "folded_b_O": lambda found: {"folded_b_O": found["folded_b_O"] * 2},
    "attention": lambda found: {"attention": found["attention"].where(found["attention"] > 0, 1e-3)},
    "output": lambda found: {"output": found["output"] * float("nan")},
}


@pytest.mark.parametrize("changed", CHANGES)
def test_one_wrong_sign_or_scale_is_reported_and_nothing_else(changed):
    class Wrong(ours.Adapter):
        def compute(self, case):
            found = super().compute(case)
            return found | CHANGES[changed](found)

    results = list(suite.run(Wrong(), ["gpt2", "bart"]))
    assert {one.quantity for one in results if not one.exact} == {changed}
    (entry,) = [one for one in suite.results_by_quantity(results, Wrong()) if one["quantity"] == changed]
    assert not entry["exact"]
    assert entry["off"] > 1e-4
    assert not entry["not_offered"]


def test_float32_is_allowed_less_and_a_wrong_shape_is_an_error():
    (case,) = suite.cases("gpt2")
    golden = case.golden["scores"]
    assert comparison.difference(case, "scores", golden.astype(np.float32)) < comparison.LIMITS["float32"]
    assert comparison.difference(case, "scores", golden.astype(np.float32)) > comparison.LIMITS["float64"]
    with pytest.raises(ValueError, match="keys has shape"):
        comparison.difference(case, "keys", case.golden["keys"][:, :3])


def test_what_is_not_offered_is_neither_exact_nor_off(tmp_path):
    class Refuses:
        library, version = "none", "0"

        def compute(self, case):
            raise suite.NotOffered("takes no models")

    results = list(suite.run(Refuses(), ["gpt2"]))
    assert {one.note for one in results} == {"takes no models"}
    comparison.write_results(tmp_path / "out.json", suite.results_by_quantity(results, Refuses()))
    assert all(one["not_offered"] and one["off"] is None for one in json.loads((tmp_path / "out.json").read_text()))


def code_lines(path: Path) -> int:
    """Count the lines of a module that hold code: no docstrings, no comments, no empty lines."""
    text = path.read_text(encoding="utf-8")
    strings = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr) and _is_text(node.value)]
    documented = {line for node in strings for line in range(node.lineno, node.end_lineno + 1)}
    lines = enumerate((line.strip() for line in text.splitlines()), 1)
    return sum(bool(line) and line[0] != "#" and number not in documented for number, line in lines)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


@pytest.mark.parametrize("path", sorted(SUITE.glob("attention_conformance/adapters/*.py")), ids=lambda p: p.stem)
def test_an_adapter_has_at_most_forty_lines_of_code(path):
    assert code_lines(path) <= LINES


def test_the_models_and_golden_values_are_small_and_complete():
    models = SUITE / "attention_conformance" / "models.zip"
    assert models.stat().st_size <= MEGABYTES * 2**20
    with zipfile.ZipFile(models) as archive:
        assert {name.partition("/")[0] for name in archive.namelist()} == {case.model for case in suite.cases()}
    for case in suite.cases():
        assert all(np.isfinite(value).all() for value in case.golden.values())
        assert len(case.x) <= 8


def test_the_results_on_the_page_are_those_of_this_suite(results):
    entries = json.loads((ROOT / "book" / "_data" / "conformance.json").read_text("utf-8"))
    assert {entry["quantity"] for entry in entries} == set(suite.QUANTITIES)
    own = [entry for entry in entries if entry["library"] == "analysis"]
    now = suite.results_by_quantity(results, ours.Adapter())
    assert [entry | {"version": ""} for entry in own] == [entry | {"version": ""} for entry in now]


@pytest.mark.slow
def test_installed_in_an_empty_place_it_runs_with_torch_and_numpy_alone(tmp_path):
    """With the example of its README: first as a program that may import nothing else, then under pytest."""
    shutil.copytree(SUITE, tmp_path / "source", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    build = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(tmp_path / "source")], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    (tmp_path / "my_adapter.py").write_text(EXAMPLE.findall((SUITE / "README.md").read_text("utf-8"))[0], "utf-8")
    refused = "transformers", "safetensors", "tokenizers", "analysis", "pytest", "scipy", "einops"
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({refused!r})); sys.argv[1:] = ['my_adapter:Adapter', 'gpt2']\n"
        "from attention_conformance.__main__ import main; sys.exit(main())"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(tmp_path)])}
    options = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, "-c", program], check=False, **options)
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.search(r"gpt2-layers.0 .*exact", done.stdout)
    given = ("--conformance-adapter", "my_adapter:Adapter", "--conformance-models", "gpt2,opt", "--conformance-json")
    pytest_ = (sys.executable, "-m", "pytest", "-q", "--pyargs", "attention_conformance")
    done = subprocess.run([*pytest_, *given, "out.json"], check=False, **options)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "conformance of" in done.stdout
    assert any(entry["exact"] for entry in json.loads((tmp_path / "out.json").read_text("utf-8")))
