"""A layer's parts, switched on and off: skip connection, MLP or a linear one, LayerNorm."""

from dataclasses import replace
from itertools import product

from torch.nn.functional import gelu

from analysis.transformer.encoder import ALL_ON, PURE_ATTENTION, Switches

NO_NORMS = replace(ALL_ON, norm_attention=False, norm_mlp=False)
WITH_SKIP = replace(PURE_ATTENTION, skip=True)
ACTIVATIONS = {"GELU": gelu, "z / 2": lambda z: z / 2, "z": lambda z: z}
WHOLE, NO_MLP = ALL_ON.describe(), Switches(mlp=False).describe()


def all_switches() -> list[Switches]:
    """Return every set of parts beside attention: with an MLP or none first, then with a linear one."""
    on = (False, True)
    return [
        *(set_parts(skip=s, mlp=m, norms=n) for s, m, n in product(on, on, on)),
        *(set_parts(skip=s, norms=n, linear=True) for s, n in product(on, on)),
    ]


def set_parts(*, norms: bool, **parts: bool) -> Switches:
    """Return switches with both LayerNorms on or both off."""
    return Switches(norm_attention=norms, norm_mlp=norms, **parts)
