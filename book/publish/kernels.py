"""Kernels that are reached through sockets which are files, and not through ports; forks of a process with libraries.

The ports of a kernel are chosen before it starts, and are free until it has: of two kernels that start at a time, one
may take a port of the other, which then dies or is never reached. No two of these sockets have one name.

A chapter's kernel took seven seconds to import torch and the like, nearly half of what all chapters cost. A fork of a
process that has imported them begins at once. Nothing of the book's own is imported before the fork.
"""

import multiprocessing
import os
import signal
import tempfile
import uuid
from functools import cache
from pathlib import Path

from jupyter_client import manager
from jupyter_client.connect import ConnectionFileMixin
from traitlets import default

LIBRARIES = [
    "ipykernel.kernelapp",
    "matplotlib.pyplot",
    "pandas",
    "scipy.stats",
    "torch",
    "transformers",
    "transformers.models.bert.modeling_bert",
    "transformers.models.gpt2.modeling_gpt2",
]


class _AtFiles(ConnectionFileMixin):
    """Lets a kernel be reached through a folder of this process; through ports on a system without ``/tmp``."""

    @default("transport")
    def _transport(self) -> str:
        return "ipc" if folder_of_sockets() else "tcp"

    @default("connection_file")
    def _connection_file(self) -> str:
        return str(Path(folder_of_sockets().name, f"{uuid.uuid4().hex}.json")) if folder_of_sockets() else ""


class KernelManager(_AtFiles, manager.KernelManager):
    """Starts a kernel that is reached through files."""


class ForkedKernelManager(KernelManager):
    """Starts a kernel as a fork of a process that has the libraries loaded; it ends with this process."""

    def start_kernel(self, *, cwd: str, **_):
        """Start the kernel in a folder; what it writes outside of its cells is dropped."""
        os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")  # as ipykernel sets it
        forks = multiprocessing.get_context("forkserver")
        forks.set_forkserver_preload(LIBRARIES)
        self.write_connection_file()
        self.process = forks.Process(target=serve, args=(self.connection_file, cwd), daemon=True)
        self.process.start()

    def is_alive(self) -> bool:
        """Say whether the kernel's process is there."""
        return self.process.is_alive()

    def interrupt_kernel(self):
        """Stop the cell that is running."""
        os.kill(self.process.pid, signal.SIGINT)

    def shutdown_kernel(self, **_):
        """End the kernel at once."""
        self.process.kill()
        self.process.join()
        self.cleanup_connection_file()


def serve(connection_file: str, folder: str):
    """Be a kernel, in the process that was forked for it."""
    from ipykernel.kernelapp import IPKernelApp

    os.chdir(folder)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    IPKernelApp.launch_instance(["-f", connection_file], parent_handle=os.getppid())


class AsyncKernelManager(_AtFiles, manager.AsyncKernelManager):
    """Starts a kernel that is reached through files, for what awaits it."""


@cache
def folder_of_sockets() -> tempfile.TemporaryDirectory | None:
    """Return the folder, which goes with the process. Its path is short: on macOS a socket's has at most 104 bytes."""
    return tempfile.TemporaryDirectory(prefix="kernels-", dir="/tmp") if Path("/tmp").is_dir() else None
