"""What executing a chapter costs: measured as it runs, kept in ``book/costs.json``, shown by ``chapter-costs``.

``make costs`` executes every chapter anew, measures its process, and writes the file. The kernel is asked which device
it computed on and what it held there; runs on a GPU (``make costs DEVICE=cuda``) are kept beside those on the CPU.
Nothing is estimated: what was not measured is said not to be.
"""

import ast
import json
import os
import platform
import re
import sys
import time
from importlib import metadata
from pathlib import Path

import execution

from analysis.core.files import write_json

FILE = execution.ROOT / "book" / "costs.json"
MIB = 2**20
DEVICE = ("(lambda d: (d.describe(d.choose()), d.peak_memory(d.choose())) if d else ('cpu', 0))"
          "(__import__('sys').modules.get('analysis.core.device'))")


def of_process(pid: int) -> dict | None:
    """Return the processor seconds and the peak memory of a running process; ``None`` where it cannot be read."""
    import psutil

    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        peak = process.memory_info().rss
        status = Path(f"/proc/{pid}/status")
        if status.exists():  # Linux keeps the highest
            line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
            peak = int(line.split()[1]) * 1024
        wall = time.time() - process.create_time()
    except (OSError, StopIteration, ValueError, psutil.Error):
        return None
    return {"seconds": round(wall, 1), "cpu_seconds": round(times.user + times.system, 1),
            "peak_mib": round(peak / MIB)}


def of_kernel(client, pid: int) -> dict | None:
    """Return :func:`of_process` of a kernel, with its device, and the memory of its GPU where it has one."""
    cost = of_process(pid)
    answer = client.execute("", silent=True, store_history=False, user_expressions={"device": DEVICE}, reply=True,
                            timeout=30)["content"].get("user_expressions", {}).get("device", {})
    if cost is None or answer.get("status") != "ok":
        return None
    cost["device"], held = ast.literal_eval(answer["data"]["text/plain"])
    return cost if cost["device"] == "cpu" else cost | {"gpu_mib": round(held / MIB)}


def path(chapter: str, key: str | None = None) -> Path:
    """Return where the cost of a chapter's stored run stands."""
    return execution.executed_path(key) / "costs" / f"{chapter}.json"


def read() -> dict:
    """Read what was recorded: ``{"cpu": {"machine": ..., "chapters": {...}}, "gpu": {...}}``."""
    if not FILE.exists():
        return {}
    try:
        found = json.loads(FILE.read_text(encoding="utf-8"))
        for kind in found.values():
            for cost in kind["chapters"].values():
                if not all(cost[name] >= 0 for name in ("cpu_seconds", "peak_mib")):
                    raise ValueError("a cost is negative")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{FILE} is no whole file of costs ({error!r}); run: make costs") from None
    return found


def record() -> list[str]:
    """Write the costs of the present runs, which were all on one device; return the chapters that have any."""
    new = {p.stem: json.loads(p.read_text()) for p in sorted(path("x").parent.glob("*.json"))}
    device = {cost.pop("device") for cost in new.values()}.pop() if new else "cpu"
    kind, machine = ("cpu", f"{os.cpu_count()} cores") if device == "cpu" else ("gpu", device)
    found = read()
    old = found.get(kind, {}).get("chapters", {})
    there = {p.stem for p in (execution.ROOT / "book").glob("*.md")}
    versions = ", ".join(f"{p} {metadata.version(p)}" for p in ("torch", "transformers"))
    found[kind] = {"machine": f"{machine}, {platform.machine()}, {sys.platform}, "
                              f"Python {platform.python_version()}, {versions}",
                   "chapters": {name: cost for name, cost in sorted((old | new).items()) if name in there}}
    write_json(FILE, found)
    return list(new)


def chapters() -> list[str]:
    """Return the pages of the table of contents that have cells, in order."""
    toc = (execution.ROOT / "_toc.yml").read_text(encoding="utf-8")
    return [name for name in re.findall(r"^\s*(?:root|- file): book/(\S+)", toc, re.MULTILINE)
            if "```{code-cell}" in (execution.ROOT / "book" / f"{name}.md").read_text(encoding="utf-8")]


def setup(app):
    """Register the directive ``chapter-costs``."""
    from docutils import nodes
    from sphinx.addnodes import pending_xref
    from sphinx.util.docutils import SphinxDirective

    class Costs(SphinxDirective):
        """The table: one row a chapter, in the order of the book."""

        def run(self):
            """Read the file; say of what is missing that it was not measured."""
            self.env.note_dependency(str(FILE))
            try:
                found = read()
            except ValueError as error:
                raise self.error(str(error)) from error
            cpu, gpu = (found.get(kind, {}).get("chapters", {}) for kind in ("cpu", "gpu"))
            if not cpu:
                return [nodes.paragraph(text="Nothing was measured yet; make costs does it.")]
            header = ["Chapter", "Processor seconds", "Peak memory, MiB", "With a GPU, seconds", "GPU memory, MiB"]
            rows = [self.row(name, cpu.get(name), gpu.get(name)) for name in chapters()]
            total = ["All that was measured", f"{sum(c['cpu_seconds'] for c in cpu.values()):.0f}", "", "", ""]
            rows.append(nodes.row("", *(nodes.entry("", nodes.paragraph(text=t)) for t in total), classes=["total"]))
            group = nodes.tgroup("", *(nodes.colspec(colwidth=w) for w in (40, 15, 15, 15, 15)), cols=5)
            group += nodes.thead("", nodes.row("", *(nodes.entry("", nodes.paragraph(text=t)) for t in header)))
            group += nodes.tbody("", *rows)
            said = "; ".join(f"{kind.upper()}: {found[kind]['machine']}" for kind in ("cpu", "gpu") if kind in found)
            return [nodes.table("", group, classes=["claims-counts"]), nodes.paragraph(text=f"Measured on: {said}.")]

        def row(self, name: str, cost: dict | None, on_gpu: dict | None) -> nodes.row:
            page = f"book/{name}"
            here = page in self.env.found_docs
            first = pending_xref("", nodes.inline(text=name), refdomain="std", reftype="doc", reftarget=f"/{page}",
                                 refexplicit=False, refwarn=True, refdoc=self.env.docname) if here else nodes.Text(name)
            words = [*([f"{cost['cpu_seconds']:.0f}", f"{cost['peak_mib']:,}"] if cost else ["not measured"] * 2),
                     *([f"{on_gpu['seconds']:.0f}", f"{on_gpu['gpu_mib']:,}"] if on_gpu else ["not measured"] * 2)]
            return nodes.row("", nodes.entry("", nodes.paragraph("", "", first)),
                             *(nodes.entry("", nodes.paragraph(text=t)) for t in words))

    app.add_directive("chapter-costs", Costs)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
