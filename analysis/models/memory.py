"""The memory that a model needs and the memory that there is, compared before anything is built."""

import os
from pathlib import Path

import torch

GROUPS = Path("/sys/fs/cgroup")
"""Where Linux says how much memory a container may take."""


def available_memory(device: torch.device | str = "cpu") -> int | None:
    """Return the bytes that can still be had on a device; ``None`` where the system does not say.

    On a CPU the least of what the system calls available and of what the container and the process may still take.
    """
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    limits = [_of_system(), _of_container(), _of_process()]
    return min((limit for limit in limits if limit is not None), default=None)


def _of_system() -> int | None:
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _of_container() -> int | None:
    try:
        most, held = (int((GROUPS / name).read_text(encoding="utf-8")) for name in ("memory.max", "memory.current"))
        return most - held
    except (OSError, ValueError):  # no container, or one without a limit ("max")
        return None


def _of_process() -> int | None:
    try:
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        held = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError):
        return None
    return None if most == resource.RLIM_INFINITY else most - held


def check_memory(needed: int, what: str, device: torch.device | str = "cpu") -> None:
    """Refuse what does not fit, naming the memory needed and the memory there.

    Raises
    ------
    MemoryError
        If more bytes are needed than can be had on the device.

    Examples
    --------
    >>> check_memory(10**18, "gpt2 with 100000 layers")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    MemoryError: gpt2 with 100000 layers needs 1,000,000,000.0 GB of memory, on cpu there are ... GB
    """
    there = available_memory(device)
    if there is not None and needed > there:
        raise MemoryError(
            f"{what} needs {needed / 1e9:,.1f} GB of memory, on {torch.device(device).type} there are "
            f"{there / 1e9:,.1f} GB"
        )
