"""The table of families: every row, and the families that are refused with the reason."""

from analysis.models.families import decoders, encoders
from analysis.models.families.row import Family

FAMILIES: tuple[Family, ...] = (*decoders.ROWS, *encoders.ROWS)

_LATENT = ("queries, keys and values pass through a latent row with a norm of its own (multi-head latent attention), "
           "so no head has one matrix W_K that the identities could be about")
REFUSED: dict[str, str] = {"deepseek_v2": _LATENT, "deepseek_v3": _LATENT}
"""Why models of a ``model_type`` are not read."""
