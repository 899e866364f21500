"""What the benchmarks promise: each ratio as it was measured, the worst of many times less a tenth.

``promises.json`` holds the worst and the typical (median) value of each ratio, and of how many measurements.
``make bench TIMES=10`` measures each ten times as the machine is and ten times beside one busy process, and writes that
file; read the difference then.
"""

import json
import math
import os
import statistics
from dataclasses import dataclass, field
from pathlib import Path

FILE = Path(__file__).with_name("promises.json")
SPARE = 0.1
WORST = {"at least": min, "at most": max}


@dataclass(frozen=True)
class Promise:
    """The worst and the typical of many values of a ratio that should be ``at least`` or ``at most`` something."""

    kind: str
    worst: float
    typical: float
    times: int

    @property
    def limit(self) -> float:
        """What is promised: a tenth below the worst of what should be large, above the worst of what should be small.

        >>> Promise("at least", 20.0, 30.0, 9).limit, Promise("at most", 2.0, 1.0, 9).limit
        (18.0, 2.2)
        """
        return round(self.worst * (1 - SPARE if self.kind == "at least" else 1 + SPARE), 9)

    def holds(self, ratio: float) -> bool:
        """Return whether a measured ratio keeps the promise."""
        return ratio >= self.limit if self.kind == "at least" else ratio <= self.limit

    def means_something(self) -> bool:
        """Return whether what should be faster is: a promise of less than 1 time would be none."""
        return self.kind == "at most" or self.limit > 1

    def __str__(self):
        return f"promised {self.kind} {self.limit:.3g}, typical {self.typical:.3g} of {self.times}"


@dataclass(frozen=True)
class Promises:
    """Holds ratios to what the file promises, or only collects them, to promise anew."""

    file: Path = FILE
    collecting: bool = False
    say: object = print
    found: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def at_least(self, name: str, ratio: float):
        """Hold a ratio that should be large: how many times as long the other way takes."""
        self._hold(name, "at least", ratio)

    def at_most(self, name: str, ratio: float):
        """Hold a ratio that should be small: how many times as long this takes as what it stands beside."""
        self._hold(name, "at most", ratio)

    def _hold(self, name, kind, ratio):
        load = f"load average {os.getloadavg()[0]:.1f}"
        if self.collecting:
            self.found.setdefault((name, kind), []).append(ratio)
            self.say(f"  {name}: {ratio:.3g}; {load}")
            return
        held = self.read().get(name)
        assert held, f"nothing is promised of {name!r}: measure it with TIMES=10"
        promise = Promise(kind, **held)
        self.say(f"  {name}: {ratio:.3g}; {promise}; {load}")
        assert promise.means_something(), f"{name}: {promise} promises nothing"
        assert promise.holds(ratio), f"{name}: {ratio:.3g}, but {promise}"

    def read(self) -> dict[str, dict[str, float]]:
        """Return the worst and the typical value of each ratio, and how many there were."""
        return json.loads(self.file.read_text(encoding="utf-8")) if self.file.exists() else {}

    def write(self, times: int) -> list[str]:
        """Enter each ratio that was found so many times; return a line for each ratio that was found."""
        entries, lines = self.read(), []
        for (name, kind), ratios in self.found.items():
            if len(ratios) != times:
                lines.append(f"{name}: found {len(ratios)} of {times} times, not entered")
                continue
            promise = Promise(kind, *map(_three_digits, (WORST[kind](ratios), statistics.median(ratios))), times)
            entries[name] = {"worst": promise.worst, "typical": promise.typical, "times": times}
            empty = "" if promise.means_something() else ": THIS PROMISES NOTHING"
            lines.append(f"{name}: worst {promise.worst:g}; {promise}{empty}")
        self.file.write_text(json.dumps(dict(sorted(entries.items())), indent=1) + "\n", encoding="utf-8")
        return lines


def _three_digits(value: float) -> float:
    return round(value, 2 - math.floor(math.log10(value)))
