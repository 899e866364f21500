"""The one place that chooses where to compute: CUDA where there is one, else the CPU."""

import platform
import re
from importlib import metadata

import torch

_VERSIONED = ("torch", "transformers", "numpy", "scipy")


def choose(name: str | None = None) -> torch.device:
    """Choose the device: the one that is named, else CUDA where there is one, else the CPU.

    Parameters
    ----------
    name
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ...; ``None`` or ``"auto"`` for CUDA where there is one.

    Raises
    ------
    ValueError
        If the name is not a device, or names a GPU that this machine does not have.

    Examples
    --------
    >>> choose("cpu")
    device(type='cpu')
    """
    if name in (None, "", "auto"):
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    named = re.fullmatch(r"cpu|cuda(?::(0|[1-9]\d{0,8}))?", name)
    if not named:
        raise ValueError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got {name!r}")
    if name != "cpu" and int(named[1] or 0) >= torch.cuda.device_count():  # torch itself reads cuda:256 as cuda:0
        raise ValueError(f"device {name!r} was chosen, but torch sees {torch.cuda.device_count()} CUDA devices")
    return torch.device(name)


def describe(device: torch.device) -> str:
    """Name the device in words, for a page's stamp: ``cpu`` or the GPU's name."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def peak_memory(device: torch.device) -> int:
    """Return the most bytes that this process has held on a GPU at a time; 0 for the CPU, which counts otherwise.

    Examples
    --------
    >>> peak_memory(torch.device("cpu"))
    0
    """
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0


def versions() -> dict[str, str]:
    """Return the version of Python and of each library that computes."""
    return {"python": platform.python_version(), **{p: metadata.version(p) for p in _VERSIONED}}


def describe_run(where: torch.device, seconds: float, command: str) -> dict[str, object]:
    """Say for a provenance what computed: the versions, the device, the seconds, and the command that repeats it."""
    return {"versions": versions(), "device": describe(where), "seconds": round(seconds, 2), "command": command}
