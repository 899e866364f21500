"""The gates of BERT: ideal attention maps, and a reader that finds them in real ones.

``ideal`` builds the matrices, as they must be and as they were printed; ``reader`` takes a real map apart;
``synthetic`` draws maps with known truth to measure the reader on.
Plain tensors throughout; running models is in :mod:`analysis.models.attention_hooks`.
"""

from analysis.maps.entropy import row_entropy
from analysis.maps.gates.ideal import (
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
)
from analysis.maps.gates.reader import GATES, PATTERNS, SHORTEST, GateReading, read_gates, shuffle_rows

__all__ = [
    "GATES",
    "PATTERNS",
    "SHORTEST",
    "GateReading",
    "backward",
    "closed",
    "cluster",
    "directional",
    "forward",
    "instance",
    "inverse_directional",
    "open_gate",
    "printed_block",
    "printed_ends",
    "read_gates",
    "row_entropy",
    "shuffle_rows",
]
