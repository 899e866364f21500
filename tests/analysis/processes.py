"""Two processes that count together, as ``torchrun`` starts them, without the seconds of importing torch in each."""

import multiprocessing
import os
import socket
from collections.abc import Callable

import torch


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run_together(work: Callable, processes: int, *arguments) -> None:
    """Call a function in so many processes forked from here, in the environment that ``torchrun`` gives to each.

    Raises
    ------
    RuntimeError
        If one of them ends otherwise than by returning 0 or nothing.
    """
    context, port = multiprocessing.get_context("fork"), free_port()

    def start(rank):
        torch.set_num_threads(1)  # sums of float32 differ by threads, and a forked pool of them may hang
        os.environ.update(
            {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(processes),
                "LOCAL_WORLD_SIZE": str(processes),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            }
        )
        raise SystemExit(work(*arguments) or 0)

    children = [context.Process(target=start, args=(rank,)) for rank in range(processes)]
    for child in children:
        child.start()
    for child in children:
        child.join(240)
    if codes := [child.exitcode for child in children if child.exitcode != 0]:
        for child in children:
            child.kill()
        raise RuntimeError(f"of {processes} processes, {len(codes)} ended with {codes}")
