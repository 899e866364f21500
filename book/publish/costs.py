"""What executing a chapter costs: measured whenever it runs, shown by the directive ``chapter-costs``.

Each stored run has its cost beside it, and the page shows those of the very runs that the book shows, so that they
agree with the chapters' stamps. ``make costs`` executes every chapter anew and keeps what it measures in
``book/costs.json``, for chapters without a stored run and for the GPU (``make costs DEVICE=cuda``). The kernel is
asked which device it computed on and what it held there. Nothing is estimated: what was not measured is said not to be.
"""

import ast
import json
import os
import platform
import sys
import time
from importlib import metadata
from pathlib import Path

from analysis.core.files import write_json
from book.publish import execution

FILE = execution.ROOT / "book" / "costs.json"
MIB = 2**20
DEVICE = (
    "(lambda i: (i.devices.describe(i.chosen().device), i.devices.peak_memory(i.chosen().device)) if i "
    "else ('cpu', 0))(__import__('sys').modules.get('book.publish.inputs'))"
)


def of_process(pid: int) -> dict | None:
    """Return the processor seconds and the peak memory of a running process; ``None`` where it cannot be read."""
    import psutil

    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        peak = process.memory_info().rss
        status = Path(f"/proc/{pid}/status")
        if status.exists():  # Linux keeps the highest
            line = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM"))
            peak = int(line.split()[1]) * 1024
        wall = time.time() - process.create_time()
    except (OSError, StopIteration, ValueError, psutil.Error):
        return None
    return {
        "seconds": round(wall, 1),
        "cpu_seconds": round(times.user + times.system, 1),
        "peak_mib": round(peak / MIB),
    }


def of_kernel(client, pid: int) -> dict | None:
    """Return :func:`of_process` of a kernel, with its device, and the memory of its GPU where it has one."""
    cost = of_process(pid)
    answer = (
        client.execute(
            "", silent=True, store_history=False, user_expressions={"device": DEVICE}, reply=True, timeout=30
        )["content"]
        .get("user_expressions", {})
        .get("device", {})
    )
    if cost is None or answer.get("status") != "ok":
        return None
    cost["device"], held = ast.literal_eval(answer["data"]["text/plain"])
    return cost if cost["device"] == "cpu" else cost | {"gpu_mib": round(held / MIB)}


def path(chapter: str) -> Path:
    """Return where the cost of a chapter's stored run stands."""
    return execution.BUILD / "costs" / f"{chapter}.json"


def read() -> dict:
    """Read what was recorded: ``{"cpu": {"machine": ..., "chapters": {...}}, "gpu": {...}}``."""
    if not FILE.exists():
        return {}
    try:
        kinds = json.loads(FILE.read_text(encoding="utf-8"))
        for kind in kinds.values():
            for cost in kind["chapters"].values():
                if not all(cost[name] >= 0 for name in ("cpu_seconds", "peak_mib")):
                    raise ValueError("a cost is negative")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{FILE} is no whole file of costs ({error!r}); run: make costs") from None
    return kinds


def record() -> list[str]:
    """Write the costs of the present runs; return the chapters that have any.

    Where runs were on a GPU only theirs are written: on that machine a chapter that computes on the processor alone
    says nothing about the machine of the other column.
    """
    kinds, new = read(), _of_stored_runs()
    by_device = _by_device(new)
    for device in sorted(set(by_device) - {"cpu"}) or by_device:
        kinds = _together(kinds, by_device[device], device)
    write_json(FILE, kinds)
    return list(new)


def present() -> dict:
    """Return what :func:`read` does, and in its place, where a chapter has a stored run, what that run cost."""
    kinds = read()
    for device, runs in sorted(_by_device(_of_stored_runs()).items()):
        kinds = _together(kinds, runs, device)
    return kinds


def _by_device(costs: dict[str, dict]) -> dict[str, dict[str, dict]]:
    """Part the costs by the device that each names, and leave its name out of them."""
    parted: dict[str, dict[str, dict]] = {}
    for name, cost in costs.items():
        parted.setdefault(cost["device"], {})[name] = {key: value for key, value in cost.items() if key != "device"}
    return parted


def _of_stored_runs() -> dict[str, dict]:
    folder = path("x").parent
    found = sorted(folder.rglob("*.json"))
    return {execution.page_name(p, folder): json.loads(p.read_text(encoding="utf-8")) for p in found}


def _together(kinds: dict, new: dict[str, dict], device: str) -> dict:
    """Put new costs on a device of this machine in the place of the old ones."""
    kind, machine = ("cpu", f"{os.cpu_count()} cores") if device == "cpu" else ("gpu", device)
    old = kinds.get(kind, {}).get("chapters", {})
    there = execution.pages()
    versions = ", ".join(f"{p} {metadata.version(p)}" for p in ("torch", "transformers"))
    name = f"{machine}, {platform.machine()}, {sys.platform}, Python {platform.python_version()}, {versions}"
    every = {chapter: cost for chapter, cost in sorted((old | new).items()) if chapter in there}
    return kinds | {kind: {"machine": name, "chapters": every}}


def chapters() -> list[str]:
    """Return the pages of the table of contents that have cells, in order."""
    return [
        page.removeprefix("book/")
        for page in execution.listed(execution.ROOT)
        if execution.is_notebook(execution.ROOT / f"{page}.md")
    ]
