"""Tensors by the names of the table, out of a module or out of files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from analysis.models.checkpoints import Checkpoint
from analysis.models.files import MissingTensor, TensorFiles, check_dtype

Shape = tuple[int | None, ...] | None
"""``None`` stands for any width, and alone for any shape."""
Shapes = dict[str, Shape]


@dataclass(frozen=True)
class Source:
    """The tensors of one model under its own names: shape and dtype of each, and how to get one."""

    where: str
    headers: Mapping[str, tuple[tuple[int, ...], str | None]]
    read: Callable[[str], Tensor]


def module_source(module: torch.nn.Module) -> Source:
    """Return the parameters of a loaded model, shared ones under each of their names."""
    tensors = dict(module.named_parameters(remove_duplicate=False))
    headers = {name: (tuple(tensor.shape), None) for name, tensor in tensors.items()}

    def read(name: str) -> Tensor:
        tensor = tensors[name].detach()
        if tensor.is_meta and type(tensor) is Tensor:  # a subclass may hold its values elsewhere
            raise MissingTensor(
                f"{name} of {type(module).__name__} is not in memory but on meta, as accelerate leaves what it reads "
                "from files: give the folder that the model came from, or a model that was loaded whole"
            )
        return tensor

    return Source(type(module).__name__, headers, read)


def file_source(checkpoint: Checkpoint, dtype: torch.dtype | None) -> Source:
    """Return the tensors in a checkpoint's files; each is read on use, and no other."""
    files = TensorFiles(checkpoint)
    where = f"{checkpoint.name} ({checkpoint.folder})"
    return Source(where, files.headers, lambda name: files.read(name, dtype))


@dataclass(frozen=True)
class Tensors:
    """The tensors of a model under the names of its family, whatever stands before them, in whichever spelling.

    Attributes
    ----------
    prefix
        What stands before all names of the family in this model (``"transformer."``).
    spelled
        What the model calls each.
    """

    source: Source
    prefix: str
    spelled: Mapping[str, str]

    def __contains__(self, name: str) -> bool:
        return name in self.spelled

    def need(self, name: str) -> Tensor:
        """Return a tensor that must be there."""
        if name not in self.spelled:
            raise MissingTensor(f"{self.source.where} has no {self.prefix + name!r}")
        return self.source.read(self.spelled[name])

    def get(self, name: str) -> Tensor | None:
        """Return a tensor, or ``None`` where the model has none of this name."""
        return self.source.read(self.spelled[name]) if name in self.spelled else None

    def check(self, shapes: Shapes, option: str = "") -> list[str]:
        """Return the names that are not there; refuse another shape, and what holds no floating numbers.

        ``option`` is what the configuration says that some shapes follow from.
        """
        missing = []
        for name, shape in shapes.items():
            if name not in self.spelled:
                missing.append(self.prefix + name)
                continue
            own, dtype = self.source.headers[self.spelled[name]]
            if not _fits(own, shape):
                due = str(tuple(shape or ())).replace("None", "any")
                raise ValueError(
                    f"tensor {name!r} of {self.source.where} must be {due} as its configuration has it"
                    f"{option}, got {own}"
                )
            if dtype is not None:
                check_dtype(self.spelled[name], dtype, self.source.where)
        return missing


def _fits(own: tuple[int, ...], shape: Shape) -> bool:
    return shape is None or (len(own) == len(shape) and all(a in (None, b) for a, b in zip(shape, own, strict=True)))
