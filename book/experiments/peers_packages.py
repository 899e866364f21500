"""What this package does beside its peers: seconds, memory and agreement, in one run on one machine.

The peers live in an environment of their own (``make peers``; ``ANALYSIS_PEERS`` names another), never in the book's;
there both sides are measured, with the same torch, each way in processes of its own (``peers_ways``). Seconds are
processor seconds on one thread, the least of several calls; memory is what one call adds at most. They differ from
machine to machine, so their tolerance holds anything; agreement and versions do not.
"""

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from book.publish.records import Experiment, Result, Value

ROOT = Path(__file__).parents[2]
WAYS = ROOT / "tests" / "benchmarks" / "peers_ways.py"
ANYTHING = 1e12
TASKS = {
    "spectra": ("ours", "transformer_lens", "torch"),
    "semi_bias": ("ours", "keys_first"),
    "maps": ("ours", "transformer_lens", "transformers", "none"),
    "lilliefors": ("ours", "statsmodels"),
    "viewer": ("ours", "bertviz"),
    "import": ("ours", "transformers", "transformer_lens", "bertviz", "statsmodels"),
}
"""What is measured, and in which ways; the first is ours."""
AGREE = {"spectra": 1e-4, "semi_bias": 1e-4, "maps": 1e-4, "lilliefors": 1e-5}
"""How far two ways may differ, as a share of the largest number: float32 on both sides."""
UNITS = {"seconds": "s", "megabytes": "MB", "bytes": "B"}


def python() -> Path:
    """Return the interpreter of the peers' environment, whether it exists or not."""
    return Path(os.environ.get("ANALYSIS_PEERS") or ROOT / ".peers") / "bin" / "python"


def measure_way(task: str, way: str, what: str, out: Path) -> dict:
    """Measure one way in a process of the peers' environment, on one thread and without a network."""
    settings = {
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "WANDB_MODE": "offline",
        "TOKENIZERS_PARALLELISM": "false",
    }
    if what == "memory":  # give blocks back as soon as they are free, so that only what is held counts
        settings["MALLOC_MMAP_THRESHOLD_"] = "65536"
    ran = subprocess.run(
        [python(), "-P", WAYS, task, way, what, out],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | settings,
    )
    if ran.returncode:
        raise RuntimeError(f"{task} in the way of {way} failed: {ran.stderr.strip()[-2000:]}")
    return json.loads(ran.stdout.splitlines()[-1])


def agreement(task: str, way: str, folder: Path) -> float:
    """Return how far a way's numbers lie from ours, as a share of the largest; it may have computed fewer rows."""
    ours, theirs = (np.load(folder / f"{task}-{name}.npy", allow_pickle=False) for name in (TASKS[task][0], way))
    gap = float(np.abs(theirs - ours[: len(theirs)]).max() / np.abs(ours).max())
    if gap > AGREE[task]:
        raise AssertionError(f"{task}: {way} differs from ours by {gap:.1e} of the largest number: one is wrong")
    return gap


def measure(say=lambda line: None) -> tuple[dict[tuple[str, str], dict], dict[str, str]]:
    """Measure every way; return the numbers by task and way, and the versions of the peers."""
    found, versions = {}, {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for task, ways in TASKS.items():
            for way in ways:
                out = folder / f"{task}-{way}.npy"
                numbers = measure_way(task, way, "time", out)
                if task != "import":  # that measures both at once, in a fresh process
                    numbers |= measure_way(task, way, "memory", out)
                if task in AGREE and way not in (ways[0], "none"):
                    numbers["difference"] = agreement(task, way, folder)
                versions = numbers.pop("versions")
                found[task, way] = numbers
                say(
                    f"{task:10} {way:17} "
                    + "  ".join(f"{name} {value:.3g}" for name, value in numbers.items() if name != "versions")
                )
    return found, versions


def compute(device) -> Result:
    """Measure on the CPU, whatever the device."""
    found, versions = measure()
    values = {
        f"{task}/{way}/{name}": Value(
            digits(value), AGREE[task] if name == "difference" else ANYTHING, unit=UNITS.get(name, "")
        )
        for (task, way), numbers in found.items()
        for name, value in numbers.items()
    }
    return Result(values | {f"version/{name}": Value(version) for name, version in versions.items()})


def digits(value: float | int) -> float | int:
    """Keep three digits: more would be noise."""
    return value if isinstance(value, int) else float(f"{value:.3g}")


@dataclass(frozen=True)
class PeerExperiment(Experiment):
    """An experiment that needs the peers' environment."""

    def missing(self) -> list[str]:
        """Name what is not on this machine."""
        absent = [] if python().exists() else ["the environment of the peers, which `make peers` makes"]
        return super().missing() + absent


EXPERIMENT = PeerExperiment(
    compute,
    "Time, memory and agreement beside TransformerLens, the approach of lm-detokenization, "
    "BertViz, statsmodels and plain transformers",
    minutes=5,
    seed=0,
)
