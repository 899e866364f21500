"""pytest plugin: nbval on the book's MyST chapters.

Each ``book/*.md`` notebook is collected as an nbval notebook and executed in its own kernel. With ``--nbval`` its text
outputs and glued values are compared with ``tests/recorded/<chapter>.json`` (text only; ``--record`` writes them).
On a GPU, which adds in another order, a number may differ by one unit of its last printed digit or by a thousandth.
With ``--nbval-lax`` only errors count, because another machine may round a last digit differently. Either way a
chapter whose cells all ran is stored, and the book build renders that very run; a chapter whose stored run is up to
date is not executed again (``--again`` forces it). With ``--book-device`` chapters are executed with that device as
their parameter, held to the same record, and not stored.
"""

import json
import os
import re
from collections import defaultdict
from functools import cache

import nbformat
import nbval.kernel
from nbval.plugin import IPyNbCell, IPyNbFile, coalesce_streams, find_metadata_tags

from analysis.core.files import write_json
from book.publish import costs, execution, kernels, numbers, parameters

BOOK = execution.ROOT / "book"
INJECTED = "injected-parameters"
DISPLAYED = ("display_data", "execute_result")
NUMBER = re.compile(r"-?\d+(?:\.(\d+))?(?:[eE]([-+]?\d+))?")
ON_A_GPU = 1e-3  # the share by which a number computed on a GPU may differ from the recorded one


def pytest_addoption(parser):
    """Add ``--record``, ``--again`` and ``--book-device``."""
    group = parser.getgroup("book")
    group.addoption("--record", action="store_true", help="write tests/recorded/*.json from this run")
    group.addoption("--again", action="store_true", help="execute chapters even if their stored run is up to date")
    group.addoption("--book-device", default="", help="execute the chapters on this device; nothing is stored")


def pytest_configure(config):
    """Prepare the kernels' environment."""
    option = config.option
    if _by_nbval(option):
        execution.environment()
        nbval.kernel.KernelManager = kernels.KernelManager  # two chapters may start at a time
        option.nbval_current_env = True


def _by_nbval(option) -> bool:
    """Say whether the chapters run; without nbval (``-p no:nbval``) there are no such options."""
    return bool(getattr(option, "nbval", False) or getattr(option, "nbval_lax", False))


def pytest_collect_file(file_path, parent):
    """Collect a MyST file of the book if it has code cells."""
    option = parent.config.option
    if not _by_nbval(option) or file_path.suffix != ".md" or file_path.parent != BOOK:
        return None
    from myst_nb.core.read import is_myst_markdown_notebook

    with file_path.open(encoding="utf-8") as file:
        if not is_myst_markdown_notebook(file):
            return None
    return MystFile.from_parent(parent, path=file_path)


@cache
def on_a_gpu(device: str) -> bool:
    """Say whether the kernels will choose a GPU, as ``analysis.core.device`` does."""
    if device not in ("", "auto"):
        return device != "cpu"
    import torch

    return torch.cuda.is_available()


def settle(text: str, recorded: str) -> str:
    """Return the text with those of its numbers as recorded that a GPU may have made otherwise."""
    numbers, targets = list(NUMBER.finditer(text)), list(NUMBER.finditer(recorded))
    if NUMBER.sub("#", text) != NUMBER.sub("#", recorded):
        return text
    pieces, at = [], 0
    for mine, theirs in zip(numbers, targets, strict=True):
        pieces += [text[at : mine.start()], theirs[0] if near(mine[0], theirs) else mine[0]]
        at = mine.end()
    return "".join([*pieces, text[at:]])


def near(mine: str, recorded: re.Match) -> bool:
    """Say whether a number may stand for the recorded one; a whole number, which is a count, never may."""
    target, decimals, power = recorded[0], recorded[1], recorded[2]
    if decimals is None and power is None:
        return False
    unit = 10.0 ** (int(power or 0) - len(decimals or ""))
    return abs(float(mine) - float(target)) <= max(1.001 * unit, ON_A_GPU * abs(float(target)))


def textual(outputs) -> list[dict]:
    """Keep the comparable part of a cell's outputs: streams, text displays, glued values, verdicts; no pixels."""
    outputs_of_text = []
    for out in coalesce_streams([nbformat.from_dict(dict(o)) for o in outputs]):
        if out.output_type == "stream":
            outputs_of_text.append({"output_type": "stream", "name": out.name, "text": out.text})
        elif out.output_type in DISPLAYED:
            data = {k: v for k, v in out.data.items() if k in execution.TEXTUAL}
            outputs_of_text.append({"output_type": out.output_type, "data": data})
    return outputs_of_text


def as_node(out: dict) -> nbformat.NotebookNode:
    """Make a notebook output of a recorded one."""
    return nbformat.from_dict(out if out["output_type"] == "stream" else {"metadata": {}, **out})


class MystFile(IPyNbFile):
    """A chapter: its cells, its record, and its stored run if that is up to date."""

    cost: dict | None = None

    def collect(self):
        """Yield one item per code cell, read with the reader of the book build: same cells, same cache key."""
        from myst_nb.core.read import read_myst_markdown_notebook

        self.nb = read_myst_markdown_notebook(self.path.read_text(encoding="utf-8"), path=str(self.path))
        self.digest = execution.digest(self.path.stem)
        device = self.config.option.book_device
        if device and "DEVICE" in parameters.names(self.nb):
            self.nb = parameters.inject(self.nb, {"DEVICE": device})
        self.record_path = execution.RECORDED / f"{self.path.stem}.json"
        recorded = execution.read_cells(self.record_path)
        code = [cell for cell in self.nb.cells if cell.cell_type == "code"]
        injected = [cell for cell in code if INJECTED in cell.metadata.get("tags", [])]
        again = self.config.option.again or device
        self.stored = None if again else self.stored_run([cell.source for cell in code])
        known_cells = iter(recorded)
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
        self.left_over = len(recorded) - len(code) + len(injected)
        yield from self.items

    def stored_run(self, sources: list[str]) -> list[dict] | None:
        """Return the text outputs of an earlier run of these very cells with the present sources, if there is one."""
        cells = execution.executed_cells(self.path.stem, self.digest)
        return cells if cells and [cell["source"] for cell in cells] == sources else None

    def setup(self):
        """Start a kernel, unless the run is already stored."""
        if self.stored is None:
            measured = execution.unfinished_measurement(self.path.stem)
            measured.unlink(missing_ok=True)
            os.environ[numbers.MEASURED] = str(measured)  # where the page leaves what its study measured
            super().setup()
        else:
            self.setup_sanitize_files()

    def teardown(self):
        """Stop the kernel at once (holding torch, it takes seconds to stop politely); store a run that is whole."""
        whole = bool(self.items) and all(item.ran for item in self.items)
        if self.kernel is not None and self.kernel.is_alive():
            if whole:  # one that was interrupted is still busy, and would not answer
                self.cost = costs.of_kernel(self.kernel.kc, self.kernel.km.provisioner.pid)
            self.kernel.kc.stop_channels()
            self.kernel.km.shutdown_kernel(now=True)
        if whole:
            if self.config.option.record:
                write_json(self.record_path, [item.as_record() for item in self.items if not item.options["injected"]])
            if self.stored is None:
                self.store()
        execution.unfinished_measurement(self.path.stem).unlink(missing_ok=True)

    def store(self):
        """Hand the run to the book's cache, as nbclient would have left it."""
        cells = [{"source": item.cell.source, "outputs": textual(item.test_outputs)} for item in self.items]
        for n, item in enumerate(self.items, 1):
            outputs = [nbformat.from_dict(dict(out)) for out in item.test_outputs]
            for out in outputs:
                if out.output_type in DISPLAYED:
                    out.setdefault("metadata", {})
            item.cell.outputs, item.cell.execution_count = outputs, n
        # myst-nb takes the lexer from here
        self.nb.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
        if not self.config.option.book_device:
            execution.store(self.nb, self.path, cells, self.digest)
        if self.cost:
            write_json(costs.path(self.path.stem), self.cost)


class MystCell(IPyNbCell):
    """A code cell: executed or taken from the stored run, then compared with its record."""

    ran = False

    def as_record(self) -> dict:
        """Return what ``--record`` writes: outputs exempt from comparison are left out."""
        exempt = not self.options["check"]
        return {"source": self.cell.source, "outputs": [] if exempt else textual(self.test_outputs)}

    def runtest(self):
        """Run the cell; fail on an error and, with ``--nbval``, where source or outputs differ from the record."""
        compare = self.options["check"] and not self.options["injected"] and not self.config.option.record
        if self.parent.stored is None:
            self.output_timeout = 60  # seconds; nbval's 5 are too few on a busy machine
            wanted, self.options["check"] = self.options["check"], False
            try:
                super().runtest()
            finally:
                self.options["check"] = wanted
        else:
            self.test_outputs = [as_node(out) for out in self.parent.stored[self.cell_num]["outputs"]]
        self.ran = True
        if not self.config.option.nbval or self.config.option.record:
            return
        record = f"tests/recorded/{self.parent.record_path.name}"
        remedy = f"read the difference, then run: python -m pytest --nbval --record book/{self.parent.path.name}"
        if self.options["unrecorded"]:
            self.raise_cell_error(f"The cell is not the one in {record}; {remedy}")
        if self.parent.left_over > 0 and self is self.parent.items[-1]:
            self.raise_cell_error(f"{record} has {self.parent.left_over} cells more than the chapter; {remedy}")
        if compare and not self.compare_outputs(self.test_outputs, self.cell.outputs):
            self.raise_cell_error(f"The outputs differ from {record}; {remedy}", "\n".join(self.comparison_traceback))

    def compare_outputs(self, test, ref, skip_compare=None):
        """Compare the textual part only."""
        test, ref = textual(test), textual(ref)
        if test != ref and len(test) == len(ref) and on_a_gpu(self.config.option.book_device):
            test = [
                json.loads(settle(json.dumps(mine, sort_keys=True), json.dumps(recorded, sort_keys=True)))
                for mine, recorded in zip(test, ref, strict=True)
            ]
        return super().compare_outputs([as_node(o) for o in test], [as_node(o) for o in ref], skip_compare)

    def sanitize(self, s):
        """Sanitise strings; bring the data of a verdict to one written form."""
        return super().sanitize(s if isinstance(s, str) else json.dumps(s, sort_keys=True, ensure_ascii=False))
