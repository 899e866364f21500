"""The line at the end of a chapter that says what ran: commit, versions, device, models, processor seconds."""

import platform
import subprocess
import time
from importlib import metadata
from pathlib import Path

import torch

from analysis.core import device
from analysis.models.checkpoints import Checkpoint
from book.publish.inputs import chosen


def commit() -> str:
    """Return the short commit of the checkout, with ``+`` where files differ from it; ``unknown`` outside one."""
    root = Path(__file__).parents[2]
    try:
        head = subprocess.run(
            ["git", "-C", root, "describe", "--always", "--dirty=+", "--abbrev=9"],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return head.stdout.strip()


def stamp(*models: Checkpoint, where: torch.device | None = None) -> str:
    """Say what this chapter was executed with, by default on the device of its inputs.

    The seconds are those of the processor, from the start of the process, so that they do not depend on what else the
    machine does. Put it in the last cell, exempt from comparison.
    """
    versions = ", ".join(
        [f"Python {platform.python_version()}", *(f"{p} {metadata.version(p)}" for p in ("torch", "numpy"))]
    )
    labels = ", ".join(m.label() for m in models) or "no model"
    return (
        f"Executed with commit {commit()}; {versions}; {device.describe(where or chosen().device)}; {labels}; "
        f"{time.process_time():.0f} s of the processor."
    )
