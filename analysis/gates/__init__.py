"""The gates of BERT: ideal attention maps, and a reader that finds them in real ones.

``ideal`` builds the matrices, as they must be and as they were printed; ``reader`` takes a real map apart.
Plain tensors throughout; drawing is ``analysis.figures.gates``, running models is ``analysis.capture``.
"""

from analysis.gates.ideal import (
    backward,
    closed,
    cluster,
    directional,
    forward,
    instance,
    inverse_directional,
    open_gate,
    printed_block,
    printed_ends,
    row_entropy,
)

__all__ = [
    "backward", "closed", "cluster", "directional", "forward", "instance", "inverse_directional", "open_gate",
    "printed_block", "printed_ends", "row_entropy",
]
