"""A layer's parts, switched on and off: skip connection, MLP or a linear one, LayerNorm."""

from itertools import product

from torch.nn.functional import gelu

from analysis.transformer.encoder import Switches

WITH_SKIP = Switches(mlp=False, layer_norm=False)
ACTIVATIONS = {"GELU": gelu, "z / 2": lambda z: z / 2, "z": lambda z: z}
WHOLE = "attention + skip + MLP + LayerNorm"


def all_switches() -> list[Switches]:
    """Return every set of parts beside attention: with an MLP or none first, then with a linear one."""
    on = (False, True)
    return [
        *(Switches(skip=s, mlp=m, layer_norm=n) for s, m, n in product(on, on, on)),
        *(Switches(skip=s, layer_norm=n, linear=True) for s, n in product(on, on)),
    ]
