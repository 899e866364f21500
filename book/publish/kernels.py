"""Kernels that are reached through sockets which are files, and not through ports.

The ports of a kernel are chosen before it starts, and are free until it has: of two kernels that start at a time, one
may take a port of the other, which then dies or is never reached. No two of these sockets have one name.
"""

import tempfile
import uuid
from functools import cache
from pathlib import Path

from jupyter_client import manager
from jupyter_client.connect import ConnectionFileMixin
from traitlets import default


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


class AsyncKernelManager(_AtFiles, manager.AsyncKernelManager):
    """Starts a kernel that is reached through files, for what awaits it."""


@cache
def folder_of_sockets() -> tempfile.TemporaryDirectory | None:
    """Return the folder, which goes with the process. Its path is short: on macOS a socket's has at most 104 bytes."""
    return tempfile.TemporaryDirectory(prefix="kernels-", dir="/tmp") if Path("/tmp").is_dir() else None
