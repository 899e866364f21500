"""How far a long computation is: a bar on a terminal, and elsewhere lines, which a log keeps."""

import sys
import time

from tqdm import tqdm

SECONDS = 1.0
"""Between two lines, at least; the last step always has its line."""


class _Lines(tqdm):
    """A count that prints a line where there is no terminal to draw a bar on."""

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        """Draw nothing: lines are written by `update`."""
        return True

    def update(self, n: int | float | None = 1) -> bool | None:
        """Count, and say how far it is."""
        self.n += n or 0
        now = time.monotonic()
        if n and (self.n == self.total or now - getattr(self, "said", -SECONDS) >= SECONDS):
            self.said = now
            print(f"{self.desc}: {self.n} of {self.total}", file=sys.stderr, flush=True)
        return True

    def close(self) -> None:
        """Leave no trace of a bar."""
        self.disable = True


def count_steps(total: int, what: str, unit: str, *, start: int = 0, show: bool = True) -> tqdm:
    """Return a counter of ``total`` steps, of which ``start`` are done; its ``update`` shows that one more is.

    >>> counter = count_steps(2, "texts", "text", show=False)
    >>> counter.update()
    >>> counter.close()
    """
    kind = tqdm if not show or sys.stderr.isatty() else _Lines
    return kind(total=total, initial=start, desc=what, unit=unit, disable=not show)
