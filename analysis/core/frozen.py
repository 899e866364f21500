"""What all classes of weights share: their tensors are of one floating dtype and finite, and move together."""

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from analysis.core.checks import all_finite


@dataclass(frozen=True, eq=False, repr=False)
class Frozen:
    """The base of frozen dataclasses whose fields are tensors: checks, and copies elsewhere."""

    def __post_init__(self):
        for field in fields(self):
            tensor = getattr(self, field.name)
            if not isinstance(tensor, Tensor):
                continue
            first = getattr(self, fields(self)[0].name)
            if not tensor.is_floating_point() or tensor.dtype != first.dtype:
                raise ValueError(
                    f"{field.name} must be of a floating dtype, the same for all fields, got "
                    f"{tensor.dtype} and {fields(self)[0].name} in {first.dtype}"
                )
            if not all_finite(tensor):
                raise ValueError(f"{field.name} holds entries that are not finite (nan or inf)")

    def _fit(self, like: str, shapes: dict[str, tuple[int, ...]]) -> None:
        """Raise for the first field whose shape is not the one that fits ``like``."""
        for name, shape in shapes.items():
            if (own := tuple(getattr(self, name).shape)) != shape:
                raise ValueError(f"{name} must have shape {shape} to fit {like}, got {own}")

    def to(self, *args, **kwargs):
        """Return a copy with every tensor passed through ``Tensor.to`` (a dtype, a device)."""
        moved = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{k: v.to(*args, **kwargs) for k, v in moved.items() if isinstance(v, Tensor)})

    def double(self):
        """Return a copy in float64, for testing identities."""
        return self.to(torch.float64)
