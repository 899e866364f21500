"""Kernels that start at a time have no port or socket in common."""

from pathlib import Path

from book.publish import kernels


def test_no_two_managers_have_a_socket_in_common():
    first, second = (kernels.KernelManager() for _ in range(2))
    assert (first.transport, second.transport) == ("ipc", "ipc")
    assert first.ip != second.ip
    assert Path(first.ip).parent == Path(kernels.folder_of_sockets().name)
    assert len(f"{first.ip}-5") < 104
