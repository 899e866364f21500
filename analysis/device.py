"""The one place that chooses where to compute: CUDA where there is one, else the CPU."""

import os

import torch


def choose(name: str | None = None) -> torch.device:
    """Choose the device: the argument, else ``ANALYSIS_DEVICE``, else CUDA where there is one, else the CPU.

    Parameters
    ----------
    name
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ...; ``None`` or ``"auto"`` to let the order above decide.

    Raises
    ------
    ValueError
        If the name is no device, or names a GPU that this machine does not have.

    Examples
    --------
    >>> choose("cpu")
    device(type='cpu')
    """
    name = name or os.environ.get("ANALYSIS_DEVICE") or "auto"
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got {name!r}") from None
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got {name!r}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device {name!r} was asked for, but torch sees {torch.cuda.device_count()} CUDA devices")
    return device


def describe(device: torch.device) -> str:
    """Name the device in words, for a page's stamp: ``cpu`` or the GPU's name."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
