"""Tensors that say they lie on a GPU and compute on the CPU, with a GPU's refusals: what meets must lie together.

No GPU is needed, values are real (so that branches on them run), and a tensor made on the wrong device is found.
"""

from contextlib import contextmanager
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

GPU = torch.device("meta")
MIXES = {"index", "index_put", "index_put_", "_index_put_impl_", "copy_", "_to_copy"}
"""What takes tensors of the CPU beside those of a GPU: indices, and copies."""
STRICT = {"cat", "stack"}
"""What takes not even a single number of the CPU."""
PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot"}
"""What CUDA has for floating-point numbers alone."""
LACKING = {"histogram", "histogramdd"}
"""What CUDA does not have at all."""


class OnGPU(torch.Tensor):
    """A tensor that lies on the pretended GPU; ``held`` is where its numbers are."""

    @staticmethod
    def __new__(cls, real):
        """Take shape, strides and dtype of a tensor on the CPU."""
        made = torch.Tensor._make_wrapper_subclass(
            cls, real.shape, strides=real.stride(), dtype=real.dtype, storage_offset=real.storage_offset(), device=GPU
        )
        made.held = real
        return made

    def tolist(self):
        """Return the numbers, as a GPU's tensor does."""
        return self.held.tolist()

    def __format__(self, spec):
        """Write a single number, as a GPU's tensor does."""
        return format(self.held, spec)

    def numpy(self, *, force=False):
        """Refuse unless forced, as a GPU's tensor does."""
        if force:
            return self.held.numpy(force=True)
        raise TypeError("can't convert a tensor on the GPU to numpy: use Tensor.cpu() first")

    def __array__(self, *_, **__):
        return self.numpy()

    def __repr__(self):
        return f"OnGPU({self.held})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        """Refuse what a GPU refuses; else compute on the CPU."""
        kwargs = dict(kwargs or {})
        name, given = func._schema.name.removeprefix("aten::"), tree_leaves((args, kwargs))
        here = any(isinstance(x, OnGPU) for x in given)
        there = (x for x in given if isinstance(x, torch.Tensor) and not isinstance(x, OnGPU))
        strange = [x for x in there if x.ndim or name in STRICT]
        indices_only = name not in MIXES or (name.startswith(("index", "_index")) and not isinstance(args[0], OnGPU))
        if here and strange and indices_only:
            raise AssertionError(
                f"{name} was given tensors on the GPU and on the CPU, here of shape {[tuple(x.shape) for x in strange]}"
            )
        whole = name in PRODUCTS and not (given[0].is_floating_point() or given[0].is_complex())
        if here and (whole or name.split(".")[0].lstrip("_") in LACKING):
            raise NotImplementedError(f"{name} of {given[0].dtype} is not there on the GPU")
        asked = kwargs.get("device")
        to_gpu = asked.type == GPU.type if isinstance(asked, torch.device) else here
        generator = kwargs.get("generator")
        if to_gpu and generator is not None and generator.device.type == "cpu":
            raise AssertionError(f"{name} on the GPU was given a generator of the CPU")
        if asked is not None:
            kwargs["device"] = torch.device("cpu")
        bare, options = tree_map_only(OnGPU, lambda x: x.held, (args, kwargs))
        found = func(*bare, **options)
        if torch.Tag.inplace_view in func.tags:  # ``squeeze_``, of which a row times a matrix is made
            with no_dispatch():
                func(*args, **kwargs)
        if func._schema.is_mutable:
            return kwargs["out"] if "out" in kwargs else args[0]
        return tree_map_only(torch.Tensor, OnGPU, found) if to_gpu else found


class _Dispatched(TorchDispatchMode):
    """Sees what is made with ``device=GPU``, which no argument tells of."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Hand on to :class:`OnGPU`, which knows what to do without one too."""
        return OnGPU.__torch_dispatch__(func, types, args, kwargs)


class _Called(TorchFunctionMode):
    """Makes tensors of numbers on the CPU and moves them, as torch does for a true GPU."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        """Split what would reach the dispatcher with its numbers lost."""
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and kwargs.get("device") == GPU:
            return func(*args, **kwargs | {"device": "cpu"}).to(GPU)
        if func is torch.Tensor.new_tensor and args[0].device == GPU:
            return torch.tensor(*args[1:], **{"dtype": args[0].dtype} | kwargs).to(GPU)
        if func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
            args = (args[0], _index(args[1]), *args[2:])
        return func(*args, **kwargs)


def _index(given):
    """Make tensors of the lists in an index."""
    if isinstance(given, tuple):
        return tuple(map(_index, given))
    return torch.tensor(given) if isinstance(given, list) else given


@contextmanager
def pretended():
    """Within it, ``device=GPU`` makes pretended tensors."""
    cast = torch.autocast

    def autocast(kind, *given, **options):
        return cast("cpu" if kind == GPU.type else kind, *given, **options)

    with _Dispatched(), _Called(), mock.patch.object(torch, "autocast", autocast):
        yield
