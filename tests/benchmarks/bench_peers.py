"""This package beside its peers: prints the table that the page shows, and holds the ways to each other's numbers.

``make bench`` runs it in the environment that ``make peers`` makes, and leaves it out where there is none.
"""

import re
import subprocess

import pytest

from book.experiments import peers_packages as packages

pytestmark = pytest.mark.slow
OURS = "ours"


@pytest.fixture(autouse=True)
def _peers():
    if absent := packages.EXPERIMENT.missing():
        pytest.skip(f"the comparison with peers needs {', '.join(absent)}")


def test_peers_agree_and_what_each_costs(capsys):
    with capsys.disabled():
        print()
        measured, versions = packages.measure(print)
        print(", ".join(f"{name} {version}" for name, version in versions.items()))
    assert set(measured) == {(task, way) for task, ways in packages.TASKS.items() for way in ways}
    for task in ("spectra", "semi_bias", "lilliefors"):
        seconds = {way: measured[task, way]["seconds"] for way in packages.TASKS[task]}
        assert min(seconds, key=seconds.get) == OURS, seconds
    assert measured["maps", OURS]["megabytes"] < measured["maps", "transformers"]["megabytes"]
    assert measured["viewer", OURS]["hosts"] == 0
    assert measured["viewer", OURS]["megabytes"] < measured["viewer", "bertviz"]["megabytes"]


CACHE = """
import torch, transformers
from analysis import find
folder = find("gpt2-mini").folder
model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
tokenizer, ids = transformers.AutoTokenizer.from_pretrained(folder), torch.arange(12)[None]
{page}
seen = torch.ones(12, 12).tril().bool()
ours = parts.total().masked_fill(~seen, -torch.inf).softmax(-1)
assert (ours - cache["blocks.1.attn.hook_pattern"]).abs().max() < 1e-6
"""


def test_a_cache_of_transformer_lens_is_taken_apart_as_the_page_says():
    page = (packages.ROOT / "book" / "how-do-i.md").read_text(encoding="utf-8")
    (cell,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    command, told = [packages.python(), "-c", CACHE.format(page=cell)], {"capture_output": True, "text": True}
    ran = subprocess.run(command, cwd=packages.ROOT, check=False, **told)
    assert ran.returncode == 0, ran.stderr[-2000:]
