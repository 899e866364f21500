"""Parameters by name, out of a module or out of files, whatever stands before their names.

What belongs here: one way to look a tensor up for both. What does not: what becomes of it
(:mod:`analysis.models.families.reader`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from analysis.models.checkpoints import Checkpoint
from analysis.models.families.row import Family
from analysis.models.files import MissingTensor, read_tensor, tensor_files


@dataclass
class Tensors:
    """The parameters of one model: names that are there, and how to get one.

    ``prefix`` stands before all names of the family in this model (``"transformer."``).
    """

    names: frozenset[str]
    fetch: Callable[[str], Tensor]
    where: str
    older: tuple[tuple[str, str], ...] = ()
    prefix: str = ""
    spelling: dict[str, str] = field(default_factory=dict)

    def find(self, name: str) -> str | None:
        """Return what the model calls a parameter of the family; ``None`` where it has none."""
        if name not in self.spelling:
            for spelled in self.spellings(name):
                if self.prefix + spelled in self.names:
                    self.spelling[name] = self.prefix + spelled
                    break
        return self.spelling.get(name)

    def spellings(self, name: str) -> Iterable[str]:
        """List how files may write a name: as it is, and with all of the family's older parts."""
        older = name
        for part, before in self.older:
            older = older.replace(part, before)
        return dict.fromkeys((name, older))

    def get(self, name: str) -> Tensor | None:
        """Return a parameter, or ``None`` where the model has none of this name."""
        full = self.find(name)
        return None if full is None else self.fetch(full)

    def need(self, name: str) -> Tensor:
        """Return a parameter that must be there."""
        tensor = self.get(name)
        if tensor is None:
            raise MissingTensor(f"{self.where} has no {self.prefix + name!r}")
        return tensor

    def for_family(self, family: Family, anchor: str) -> "Tensors | None":
        """Return the same parameters with the prefix under which ``anchor``, a name of the family, is there.

        ``None`` where no parameter is called so, or two stacks of layers have it under different prefixes.
        """
        own = Tensors(self.names, self.fetch, self.where, family.older)
        for spelled in own.spellings(anchor):
            prefixes = {
                name.removesuffix(spelled) for name in self.names if name == spelled or name.endswith("." + spelled)
            }
            if len(prefixes) == 1:
                own.prefix = prefixes.pop()
                return own
        return None


def module_tensors(module: torch.nn.Module) -> Tensors:
    """Return the parameters of a loaded model, shared ones under each of their names."""
    tensors = dict(module.named_parameters(remove_duplicate=False))
    return Tensors(frozenset(tensors), lambda name: tensors[name].detach(), type(module).__name__)


def file_tensors(checkpoint: Checkpoint, dtype: torch.dtype) -> Tensors:
    """Return the parameters in a checkpoint's files; each is read when it is asked for, and no other."""
    files = tensor_files(checkpoint)
    return Tensors(
        frozenset(files), lambda name: read_tensor(files[name], name, dtype), f"{checkpoint.name} ({checkpoint.folder})"
    )
