"""What a chapter is executed with: the book's own model and texts, or a reader's; and the line that says what ran."""

import platform
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import torch

from analysis.core import device as devices
from analysis.models import pretrained
from analysis.models.checkpoints import Checkpoint

_chosen: list["Inputs"] = []  # by this process, the last one last


@dataclass(frozen=True)
class Inputs:
    """The model (a name or a folder), the texts and the device of one execution of a chapter.

    ``own_model`` is the model that the book itself shows; ``texts`` is ``None`` for the book's own texts.
    """

    model: str = ""
    own_model: str = ""
    texts: str | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def other_model(self) -> bool:
        """Say whether the model is not the book's own."""
        return self.model != self.own_model

    @property
    def departs(self) -> bool:
        """Say whether anything but the device differs from the book: another model, or other texts."""
        return self.other_model or self.texts is not None

    def describe(self) -> str:
        """Name what differs from the book, for a sentence.

        >>> Inputs("models/my-bert", "minilm").describe()
        'the model my-bert'
        >>> Inputs("minilm", "minilm").describe()
        "the book's own inputs"
        """
        parts = [
            f"the model {Path(self.model).name}" if self.other_model else "",
            f"the texts of {Path(self.texts).name}" if self.texts else "",
        ]
        return " and ".join(filter(None, parts)) or "the book's own inputs"


def choose_inputs(
    model: str = "",
    *,
    own: str = "",
    texts: str | None = None,
    device: str = "auto",
    families: Sequence[str] | None = None,
    whole: bool = True,
) -> Inputs:
    """Check what a chapter is to be executed with, before anything is computed.

    Parameters
    ----------
    model, own
        The model to show, and the one that the book itself shows; empty for a chapter without a model.
    texts
        A text file, or a folder of them, in place of the book's texts.
    device
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
    families
        The families that the chapter is about, such as ``("bert",)``; default: that of ``own``.
    whole
        Whether the chapter runs the model, so that its attention parameters alone are not enough.
    """
    where = devices.choose(device)
    if model != own:
        pretrained.check_choice(model, own, families, whole=whole)
    _chosen.append(Inputs(model, own, str(texts) if texts else None, where))
    return _chosen[-1]


def chosen() -> Inputs:
    """Return the inputs that were chosen last; before any were, the book's own."""
    return _chosen[-1] if _chosen else Inputs(device=devices.choose())


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
        f"Executed with commit {commit()}; {versions}; {devices.describe(where or chosen().device)}; {labels}; "
        f"{time.process_time():.0f} s of the processor."
    )
