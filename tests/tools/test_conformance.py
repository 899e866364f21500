"""The conformance suite: its numbers can be made again, our own adapter gives them, and a wrong one is found out."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2] / "conformance"
TABLE = ROOT.parent / "book" / "_data" / "conformance.json"


@pytest.fixture
def suite(monkeypatch):
    """The suite, as it is imported where it is installed."""
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("attention_conformance")


def load(name: str, path: Path):
    """Import a file that belongs to no package."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def adapter(suite):
    return load("analysis_adapter", ROOT / "adapters" / "analysis_adapter.py").Analysis()


def worst(suite, adapter, case) -> dict[str, float]:
    """Return the largest error of each quantity over the layers of a case."""
    errors = {}
    for number, found in enumerate(adapter.layers(case)):
        for name, error in suite.compare(found, case.layer(number)).items():
            errors[name] = max(error, errors.get(name, 0.0))
    return errors


def test_there_are_forty_cases_in_five_megabytes(suite):
    assert len(suite.cases()) >= 40
    assert sum(path.stat().st_size for path in suite.CASES.rglob("*")) < 5e6


def test_adapters_are_short():
    for path in (ROOT / "adapters").glob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 40, path.name


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "t5"])
def test_a_case_is_made_again(suite, tmp_path, name):
    pytest.importorskip("transformers")
    generate = load("generate", ROOT / "generate.py")
    made, there = tmp_path / name, suite.CASES / name
    generate.make(name, generate.KINDS[name], made, list(generate.KINDS).index(name))
    assert (made / "model.safetensors").read_bytes() == (there / "model.safetensors").read_bytes()
    new, old = suite.Case(made).golden, suite.Case(there).golden
    assert new.keys() == old.keys()
    for key in new:
        torch.testing.assert_close(new[key], old[key], rtol=1e-12, atol=1e-13)


def test_our_own_adapter_offers_everything_and_is_exact(suite, adapter):
    known = set()
    for case in suite.cases():
        errors = worst(suite, adapter, case)
        layers = range(len(case.about["layers"]))
        assert errors.keys() == set(suite.QUANTITIES) & set().union(*map(case.layer, layers)), case.name
        assert max(errors.values()) <= suite.TOLERANCE[torch.float64], (case.name, errors)
        known |= errors.keys()
    assert known == set(suite.QUANTITIES)


@pytest.mark.parametrize("name", ["gpt2", "llama-biases", "gemma2", "bloom"])
def test_a_wrong_sign_scale_or_shape_is_found_out(suite, adapter, name):
    case = suite.Case(suite.CASES / name)
    found, known = adapter.layers(case)[0], case.layer(0)
    for quantity, value in found.items():
        if not value.any():
            continue
        for wrong in (-value, 1.001 * value, value[..., :-1], value.float() + torch.nan):
            assert suite.compare({quantity: wrong}, known)[quantity] > suite.TOLERANCE[torch.float32], quantity
    with pytest.raises(ValueError, match="an adapter may offer"):
        suite.compare({"query": found["queries"]}, known)


def test_scores_may_differ_by_a_constant_of_a_row_and_where_no_key_is_seen(suite, adapter):
    case = suite.Case(suite.CASES / "gpt2")
    scores, known = adapter.layers(case)[0]["scores"], case.layer(0)
    scores = (scores + torch.arange(len(known["rows"]))[:, None]).masked_fill(~known["visible"], -torch.inf)
    assert suite.compare({"scores": scores}, known)["scores"] < 1e-12


def test_the_book_shows_what_our_adapter_gives():
    lines = json.loads(TABLE.read_text(encoding="utf-8"))
    libraries = {line["library"] for line in lines}
    assert libraries == {"analysis", "transformers (eager)", "transformers (sdpa)", "TransformerLens", "nnsight"}
    assert all(line["exact"] for line in lines if line["library"] == "analysis")


@pytest.mark.slow
def test_the_plugin_runs_where_only_torch_and_numpy_are(tmp_path):
    """Installed into a folder of its own; an adapter that returns what is known, and one with a wrong sign."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target"]
    shutil.copytree(ROOT, tmp_path / "source")  # pip leaves its work there
    subprocess.run([*pip, str(tmp_path / "site"), str(tmp_path / "source")], check=True, capture_output=True)
    (tmp_path / "known.py").write_text(
        "import sys, torch\n"
        "class Block:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name.split('.')[0] in ('analysis', 'transformers', 'safetensors'): raise ImportError(name)\n"
        "sys.meta_path.insert(0, Block())\n"
        "class Known:\n"
        "    library, version, dtype, notes, sign = 'known', '1', torch.float64, {}, 1\n"
        "    def layers(self, case):\n"
        "        return [{'queries': self.sign * case.layer(n)['queries']} for n in range(len(case.about['layers']))]\n"
        "class Wrong(Known):\n"
        "    sign = -1\n",
        encoding="utf-8",
    )
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:nbval", "-p", "no:cacheprovider", "-c", "/dev/null"]
    run += ["--rootdir", str(tmp_path), "--pyargs", "attention_conformance"]
    for name, status, said in (("Known", 0, "exact"), ("Wrong", 1, "off by 2.0e+00")):
        command = [*run, "--conformance-adapter", f"known:{name}", "--conformance-json", str(tmp_path / "table.json")]
        path = f"{tmp_path / 'site'}"
        done = subprocess.run(
            command, cwd=tmp_path, env={"PATH": "", "PYTHONPATH": path}, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stdout
        assert f"queries{'':18}{said}" in done.stdout
    (line,) = [one for one in json.loads((tmp_path / "table.json").read_text()) if one["quantity"] == "queries"]
    assert not line["exact"]
