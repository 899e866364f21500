"""pytest plugin: nbval on the book's MyST chapters.

Each notebook of ``book`` and ``book/evidence`` is collected as an nbval notebook and executed in its own kernel. With
``--nbval`` its text outputs and the numbers of its text are compared with ``book/recorded/<page>.json`` (``--record``
writes them), by the rule of :mod:`book.publish.recorded`. With ``--nbval-lax`` only errors count. Either way a
chapter whose cells all ran is stored, and the book build renders that very run; a chapter whose stored run is up to
date is not executed again (``--again`` forces it). With ``--book-device`` chapters are executed with that device as
their parameter, held to the same record, and not stored.
"""

import json
import os
import sys
from collections import defaultdict

import nbformat
import nbval.kernel
from nbval.plugin import IPyNbCell, IPyNbFile, coalesce_streams, find_metadata_tags

from book.publish import execution, kernels, recorded, run

FOLDERS = (execution.ROOT / "book", execution.ROOT / "book" / "evidence")
DISPLAYED = ("display_data", "execute_result")
GLUED = "glued"
OTHER_MACHINE = os.environ.get("OTHER_MACHINE")  # a seed for tools/other_machine.py; 0 changes nothing


def pytest_addoption(parser):
    """Add ``--record``, ``--again`` and ``--book-device``."""
    group = parser.getgroup("book")
    group.addoption("--record", action="store_true", help="write book/recorded from this run")
    group.addoption("--again", action="store_true", help="execute chapters even if their stored run is up to date")
    group.addoption("--book-device", default="", help="execute the chapters on this device; nothing is stored")


def pytest_configure(config):
    """Prepare the kernels' environment."""
    option = config.option
    if _by_nbval(option):
        execution.environment()
        several = "PYTEST_XDIST_WORKER" in os.environ  # a single kernel would gain nothing
        forks = several and sys.platform == "linux"  # elsewhere a process with such libraries may not be forked
        nbval.kernel.KernelManager = kernels.ForkedKernelManager if forks else kernels.KernelManager
        option.nbval_current_env = True


def _by_nbval(option) -> bool:
    """Say whether the chapters run; without nbval (``-p no:nbval``) there are no such options."""
    return bool(getattr(option, "nbval", False) or getattr(option, "nbval_lax", False))


def pytest_collect_file(file_path, parent):
    """Collect a MyST file of the book if it has code cells."""
    option = parent.config.option
    if not _by_nbval(option) or file_path.suffix != ".md" or file_path.parent not in FOLDERS:
        return None
    from myst_nb.core.read import is_myst_markdown_notebook

    with file_path.open(encoding="utf-8") as file:
        if not is_myst_markdown_notebook(file):
            return None
    return MystFile.from_parent(parent, path=file_path)


def textual(outputs) -> list[dict]:
    """Keep the comparable part of outputs: streams, text displays, glued values by name, verdicts; no pixels."""
    outputs_of_text = []
    for out in coalesce_streams([nbformat.from_dict(dict(o)) for o in outputs]):
        if out.output_type == "stream":
            outputs_of_text.append({"output_type": "stream", "name": out.name, "text": out.text})
        elif out.output_type in DISPLAYED:
            data = {k: v for k, v in out.data.items() if k in execution.TEXTUAL}
            name = out.get("metadata", {}).get("scrapbook", {}).get("name")
            glued = {"name": name, "value": recorded.value(next(iter(data.values())))} if name else {"data": data}
            outputs_of_text.append({"output_type": GLUED if name else out.output_type, **glued})
    return outputs_of_text


def printed(outputs: list[dict]) -> list[dict]:
    """Return the textual outputs that a reader sees at the cell: all but glued values."""
    return [out for out in outputs if out["output_type"] != GLUED]


def as_node(out: dict) -> nbformat.NotebookNode:
    """Make a notebook output of a textual one."""
    return nbformat.from_dict(out if out["output_type"] == "stream" else {"metadata": {}, **out})


class MystFile(IPyNbFile):
    """A chapter: its cells, its record, and its stored run if that is up to date."""

    def collect(self):
        """Yield one item per code cell, read with the reader of the book build: same cells, same cache key."""
        from myst_nb.core.read import read_myst_markdown_notebook

        self.nb = read_myst_markdown_notebook(self.path.read_text(encoding="utf-8"), path=str(self.path))
        self.page = execution.page_name(self.path)
        self.digest = execution.digest(self.page)
        device = self.config.option.book_device
        if device and "DEVICE" in run.parameters(self.nb):
            self.nb = run.inject(self.nb, {"DEVICE": device})
        self.record_path = execution.RECORDED / f"{self.page}.json"
        self.recorded = recorded.read(self.record_path)
        self.shown = recorded.shown(self.path)
        code = [cell for cell in self.nb.cells if cell.cell_type == "code"]
        injected = [cell for cell in code if run.INJECTED in cell.metadata.get("tags", [])]
        again = self.config.option.again or device or OTHER_MACHINE
        self.stored = None if again else self.stored_run([cell.source for cell in code])
        known_cells = iter(self.recorded["cells"])
        self.items = []
        for n, cell in enumerate(code):
            options = defaultdict(bool, find_metadata_tags(cell.metadata))
            options.setdefault("check", self.compare_outputs)
            known = None if cell in injected else next(known_cells, None)
            cell.execution_count = 1  # nbval: this cell has a reference
            cell.outputs = [as_node(out) for out in (known["outputs"] if known else [])]
            options["injected"] = cell in injected
            options["unrecorded"] = cell not in injected and (known is None or known["source"] != cell.source)
            self.items.append(MystCell.from_parent(self, name=f"Cell {n}", cell_num=n, cell=cell, options=options))
        self.left_over = len(self.recorded["cells"]) - len(code) + len(injected)
        yield from self.items

    def stored_run(self, sources: list[str]) -> list[dict] | None:
        """Return the text outputs of an earlier run of these very cells with the present sources, if there is one."""
        cells = execution.executed_cells(self.page, self.digest)
        return cells if cells and [cell["source"] for cell in cells] == sources else None

    def setup(self):
        """Start a kernel, unless the run is already stored."""
        if self.stored is None:
            super().setup()
            if OTHER_MACHINE:
                entered = self.kernel.execute_cell_input("__import__('tools.other_machine').other_machine.enter()")
                self.kernel.await_reply(entered, timeout=180)
        else:
            self.setup_sanitize_files()

    def teardown(self):
        """Stop the kernel at once (holding torch, it takes seconds to stop politely); store a run that is whole."""
        whole = bool(self.items) and all(item.ran for item in self.items)
        if self.kernel is not None and self.kernel.is_alive():
            self.kernel.kc.stop_channels()
            self.kernel.km.shutdown_kernel(now=True)
        if whole:
            if self.config.option.record:
                held = [item for item in self.items if not item.options["injected"]]
                values = {name: value for item in held for name, value in item.glued().items()}
                recorded.write(self.record_path, values, [item.as_record() for item in held], self.shown)
            if self.stored is None:
                self.store()

    def store(self):
        """Hand the run to the book's cache, as nbclient would have left it."""
        cells = [{"source": item.cell.source, "outputs": item.found} for item in self.items]
        for n, item in enumerate(self.items, 1):
            outputs = [nbformat.from_dict(dict(out)) for out in item.test_outputs]
            for out in outputs:
                if out.output_type in DISPLAYED:
                    out.setdefault("metadata", {})
            item.cell.outputs, item.cell.execution_count = outputs, n
        # myst-nb takes the lexer from here
        self.nb.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
        if not self.config.option.book_device and not OTHER_MACHINE:
            execution.store(self.nb, self.path, cells, self.digest)


class MystCell(IPyNbCell):
    """A code cell: executed or taken from the stored run, then compared with its record."""

    ran, found = False, ()

    def glued(self) -> dict[str, object]:
        """Return the values that the cell handed to the page and that count, by name."""
        outputs = self.found if self.options["check"] else []
        return {out["name"]: out["value"] for out in outputs if out["output_type"] == GLUED}

    def as_record(self) -> dict:
        """Return what ``--record`` writes: outputs exempt from comparison are left out."""
        return {"source": self.cell.source, "outputs": printed(self.found) if self.options["check"] else []}

    def runtest(self):
        """Run the cell; fail on an error and, with ``--nbval``, where source or outputs differ from the record."""
        if self.parent.stored is None:
            self.output_timeout = 60  # seconds; nbval's 5 are too few on a busy machine
            wanted, self.options["check"] = self.options["check"], False
            try:
                super().runtest()
            finally:
                self.options["check"] = wanted
            self.found = textual(self.test_outputs)
        else:
            self.found = self.parent.stored[self.cell_num]["outputs"]
        held = self.options["check"] and not self.options["injected"]
        if self.config.option.record and held and (errors := recorded.noise(json.dumps(self.found))):
            self.raise_cell_error(f"{errors[0]} is a rounding error, another one on another machine: print a bound")
        self.ran = True
        if self.config.option.nbval and not self.config.option.record:
            self.hold_to_record(held)

    def hold_to_record(self, held: bool) -> None:
        """Fail where the cell or what it shows is not what was recorded; name each number."""
        record = f"book/recorded/{self.parent.page}.json"
        remedy = f"read the difference, then run: python -m pytest --nbval --record book/{self.parent.page}.md"
        if self.options["unrecorded"]:
            self.raise_cell_error(f"The cell is not the one in {record}; {remedy}")
        if self is self.parent.items[-1]:
            if self.parent.left_over > 0:
                self.raise_cell_error(f"{record} has {self.parent.left_over} cells more than the chapter; {remedy}")
            glued = {name for item in self.parent.items for name in item.glued()}
            if lost := sorted(set(self.parent.recorded["numbers"]) - glued):
                self.raise_cell_error(f"{record} has numbers that the page does not show: {', '.join(lost)}; {remedy}")
        wrong = recorded.differences(self.glued(), self.parent.recorded["numbers"], self.parent.shown)
        if wrong:
            lines = "".join(f"\n  {self.parent.page}, {line}" for line in wrong)
            self.raise_cell_error(f"The numbers differ from {record}:{lines}\n{remedy}", lines)
        if held and not self.compare_outputs(printed(self.found), self.cell.outputs):
            self.raise_cell_error(f"The outputs differ from {record}; {remedy}", "\n".join(self.comparison_traceback))

    def compare_outputs(self, test, ref, skip_compare=None):
        """Compare the textual part only, numbers as numbers."""
        ref = textual(ref)
        if len(test) == len(ref):
            mine, theirs = ([json.dumps(out, sort_keys=True) for out in side] for side in (test, ref))
            tags, scale = self.cell.metadata.get("tags", ()), recorded.largest(theirs)
            pairs = zip(mine, theirs, strict=True)
            test = [json.loads(recorded.settle(found, target, tags, scale)) for found, target in pairs]
        return super().compare_outputs([as_node(o) for o in test], [as_node(o) for o in ref], skip_compare)

    def sanitize(self, s):
        """Sanitise strings; bring the data of a verdict to one written form."""
        return super().sanitize(s if isinstance(s, str) else json.dumps(s, sort_keys=True, ensure_ascii=False))
