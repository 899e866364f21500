"""Models of transformers whose parameters stay in their files: each is read when a function needs it, and let go.

So a model runs as the library runs it, in little more memory than its largest matrix takes.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from analysis.models.checkpoints import Checkpoint
from analysis.models.configuration import library_configuration
from analysis.models.families.tensors import Tensors, file_source
from analysis.models.pretrained import quiet_library
from analysis.models.reading import load


class Offloaded(TorchFunctionMode):
    """A model without numbers; while this mode is on, functions get its parameters from the files.

    Attributes
    ----------
    model
        In evaluation mode, with eager attention; its parameters are on ``meta``, its buffers are not.
    dtype
        In which it computes.
    absent
        Parameters that no file holds under their name; they count as zero.

    Examples
    --------
    >>> from analysis.models.checkpoints import find
    >>> offloaded = Offloaded(find("gpt2-mini"), torch.float64)
    >>> with offloaded, torch.no_grad():
    ...     rows = offloaded.model(torch.tensor([[1, 2, 3]])).last_hidden_state
    >>> rows.shape, rows.dtype, offloaded.model.wte.weight.device.type, offloaded.absent
    (torch.Size([1, 3, 128]), torch.float64, 'meta', [])
    """

    def __init__(self, checkpoint: Checkpoint, dtype: torch.dtype):
        """Build the model; of the files only headers are read."""
        super().__init__()
        self.dtype = dtype
        self.model = _without_numbers(checkpoint, dtype)
        self._read = file_source(checkpoint, None).read  # in the dtype of the files
        self._stored: dict[int, str] = {}
        self.absent: list[str] = []
        named = _names(load(checkpoint).tensors, self.model.base_model_prefix)
        for name, buffer in self.model.named_buffers():
            if name in named and buffer.is_floating_point():
                buffer.copy_(self._read(named[name]))
        names: dict[int, list[str]] = {}
        for name, parameter in self.model.named_parameters(remove_duplicate=False):  # tied ones have several
            names.setdefault(id(parameter), []).append(name)
        for key, own in names.items():
            found = next((named[name] for name in own if name in named), None)
            self.absent += [] if found else own[:1]
            self._stored[key] = found or ""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is embedding and (name := self._stored.get(id(args[1]))):  # only the rows that are asked for
            return self._read(name)[args[0]].to(args[1].dtype)
        if getattr(func, "__name__", "") == "__get__":
            value = func(*args, **kwargs)
            if isinstance(value, torch.device) and id(args[0]) in self._stored:
                return torch.device("cpu")  # where its numbers will be
            if not isinstance(value, Tensor):  # a shape, a dtype
                return value
        args, kwargs = tree_map(self._number, (tuple(args), kwargs))
        return func(*args, **kwargs)

    def _number(self, value: Any) -> Any:
        """Return the materialized parameter; pass other values through."""
        name = self._stored.get(id(value)) if isinstance(value, Tensor) else None
        if name is None:
            return value
        return self._read(name).to(value.dtype) if name else torch.zeros_like(value, device="cpu")


def _without_numbers(checkpoint: Checkpoint, dtype: torch.dtype) -> torch.nn.Module:
    """Build a model on ``meta``, and compute its buffers as the library does for a model that it loads."""
    from transformers import MODEL_MAPPING, AutoModel

    config = library_configuration(checkpoint)
    if type(config) not in MODEL_MAPPING:
        raise ValueError(f"the library builds no whole {config.model_type}: there is nothing to run")
    own = torch.float32 if dtype == torch.float64 else dtype  # what is computed in float32 is made so, then converted
    with quiet_library(checkpoint), torch.device("meta"):
        model = AutoModel.from_config(config, attn_implementation="eager", experts_implementation="eager", dtype=own)
    with torch.no_grad():
        for module in model.modules():
            if buffers := {name: each for name, each in module._buffers.items() if each is not None}:
                module._buffers.update({name: torch.zeros_like(each, device="cpu") for name, each in buffers.items()})
                model._init_weights(module)
    return (model.double() if dtype == torch.float64 else model).eval().requires_grad_(False)


def _names(tensors: Tensors, prefix: str) -> dict[str, str]:
    """Return what the files call each parameter of a base model: as it does, below its prefix, or by an older name."""
    headers = {name: name for name in tensors.source.headers}
    return {name.removeprefix(f"{prefix}."): name for name in headers} | headers | dict(tensors.spelled)
