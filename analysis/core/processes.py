"""Processes that end in good order: SIGTERM does what Ctrl-C does, and a child is not left behind.

A command that is ended, by a person or because its machine goes down, removes its temporary folders and ends its
children.
"""

import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

GRACE = 10.0
"""Seconds that a child has to end by itself before it is killed."""


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, which interrupts what runs as Ctrl-C does; ``number`` is the signal's."""

    def __init__(self, number: int):
        """Keep the signal's number."""
        super().__init__(signal.Signals(number).name)
        self.number = number


def _interrupt(number: int, _frame) -> None:
    raise Terminated(number)


@contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Raise :class:`Terminated` on SIGTERM and SIGHUP in the main thread, unless the signal is ignored already."""
    names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]  # Windows has no SIGHUP
    before = {number: signal.getsignal(number) for number in numbers}
    before = {number: handler for number, handler in before.items() if handler is signal.SIG_DFL}
    for number in before:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_child(command: Sequence[str], grace: float = GRACE, **options) -> subprocess.CompletedProcess:
    """Run a program as ``subprocess.run(command, text=True, **options)`` does; where this is interrupted, end it.

    Ctrl-C reaches the child by itself; another signal to this process does not, so the child gets SIGINT. It is killed
    if it has not ended after ``grace`` seconds.
    """
    with subprocess.Popen(command, text=True, **options) as child:
        try:
            output, errors = child.communicate()
        except BaseException as error:
            if not isinstance(error, KeyboardInterrupt) or isinstance(error, Terminated):
                child.send_signal(signal.SIGINT)
            try:
                child.wait(grace)
            except subprocess.TimeoutExpired:
                child.kill()
            raise
    return subprocess.CompletedProcess(command, child.returncode, output, errors)
