"""The vocabulary of axes: one word for each axis, the same in every signature and in every ``einops.einsum``.

``batch layer head query key position vocab model channel hidden``. Nothing is computed here.
"""

from jaxtyping import Float
from torch import Tensor

Residual = Float[Tensor, "*batch position model"]
"""Rows of the residual stream: what a layer reads, one row per position."""

Projected = Float[Tensor, "*batch head position channel"]
"""Queries, keys or values: one row per position in each head."""

Scores = Float[Tensor, "*batch head query key"]
"""Before the softmax, already divided by ``sqrt(channel)``; in nats. Minus infinity where masked."""

Attention = Float[Tensor, "*batch head query key"]
"""After the softmax: row ``query`` says how much it attends to each ``key``; rows sum to 1."""
