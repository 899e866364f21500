"""Tests in a process of their own, forked from one that has imported torch but nothing that is mutated.

In such a process the source of one module can be replaced as it is read.
"""

import contextlib
import math
import os
import resource
import signal
import sys
import time
from importlib.machinery import SourceFileLoader
from pathlib import Path

import jaxtyping
import pytest

from tools.rooms import ROOT

FOLDER = ROOT / ".mutants"
OPTIONS = [
    "-q",
    "-x",
    "--confcutdir=tests",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:nbval",
    "-p",
    "no:xdist",
    "--tb=no",
    "--doctest-modules",
    "--assert=plain",
]  # pytest's own loader, which rewrites asserts, would read the file


def run_tests(groups: list[list[str]], path: str = "", source: str = "", plugins=()) -> int:
    """Run groups of tests in this process until one fails, with another source in place of the one at ``path``."""
    read = SourceFileLoader.get_data
    place, served = ROOT / path, []

    def get_data(loader, file):
        if Path(file) == place:
            served.append(file)
            return source.encode()
        if Path(file).parent == place.parent / "__pycache__" and Path(file).name.startswith(f"{place.stem}.cpython"):
            raise OSError("compile anew")
        return read(loader, file)

    if path:
        sys.dont_write_bytecode = True
        SourceFileLoader.get_data = get_data
    jaxtyping.install_import_hook(["analysis", "book.lab"], "beartype.beartype")  # doctests alone load no conftest
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        codes = (int(pytest.main([*OPTIONS, *names], plugins=list(plugins))) for names in groups)
        code = next(filter(None, codes), 0)
    return code if served or not path else 99


def fork(work, limit: float) -> int | None:
    """Do ``work`` in a child and return what it returns, 99 if it breaks, nothing if it takes too long.

    The limit is in seconds of the processor, however busy it is; a child that waits is given twenty times as long.
    """
    pid, end = os.fork(), time.monotonic() + 20 * limit
    if not pid:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), math.ceil(limit) + 5))
        try:
            os._exit(work())
        finally:
            os._exit(99)
    while time.monotonic() < end:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return None if code == -signal.SIGXCPU else code
        time.sleep(0.02)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None
