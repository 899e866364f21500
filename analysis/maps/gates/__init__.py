"""The gates of BERT: ideal attention maps, and a reader that finds them in real ones.

``ideal`` builds the matrices, as they must be and as they were printed; ``reader`` takes a real map apart;
``synthetic`` draws maps with known truth to measure the reader on.
Plain tensors throughout; running models is in :mod:`analysis.models.attention_hooks`.
"""

from analysis.maps.entropy import row_entropy as row_entropy
from analysis.maps.gates.ideal import backward as backward, closed as closed, cluster as cluster
from analysis.maps.gates.ideal import directional as directional, forward as forward, instance as instance
from analysis.maps.gates.ideal import inverse_directional as inverse_directional, open_gate as open_gate
from analysis.maps.gates.ideal import printed_block as printed_block, printed_ends as printed_ends
from analysis.maps.gates.reader import GATES as GATES, PATTERNS as PATTERNS, SHORTEST as SHORTEST
from analysis.maps.gates.reader import GateReading as GateReading, read_gates as read_gates
from analysis.maps.gates.reader import shuffle_rows as shuffle_rows
