"""Kernels that start at a time have no port or socket in common."""

from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from book.publish import kernels, run

LISTENS = "from ipykernel.kernelapp import IPKernelApp; print(IPKernelApp.instance().transport)"


def test_no_two_managers_have_a_socket_in_common():
    first, second = (kernels.KernelManager() for _ in range(2))
    assert (first.transport, second.transport) == ("ipc", "ipc")
    assert first.ip != second.ip
    assert Path(first.ip).parent == Path(kernels.folder_of_sockets().name)
    assert len(f"{first.ip}-5") < 104


@pytest.mark.slow
def test_a_chapter_that_is_run_apart_is_reached_through_files():
    notebook = new_notebook(cells=[new_code_cell(LISTENS)])
    run.execute(notebook, "tiny")
    assert notebook.cells[0].outputs[0].text == "ipc\n"
