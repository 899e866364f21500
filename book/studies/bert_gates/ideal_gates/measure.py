"""The ideal gates held to the paper's formulas: errors, ranks and entropies, in float64.

Positions are counted from 1 where a field speaks of the paper's ``i``, ``j`` or ``k``, and from 0 in the code.
Errors are the largest absolute differences of two matrices.
"""

from dataclasses import dataclass

from book.studies.bert_gates.ideal_gates.cases import POSITIONS, draw
from book.studies.bert_gates.ideal_gates.lines import (
    Backward,
    Column,
    Forward,
    Open,
    measure_backward,
    measure_column,
    measure_forward,
    measure_open,
)
from book.studies.bert_gates.ideal_gates.mixtures import Mixture, Softmax, measure_mixture, measure_softmax
from book.studies.bert_gates.ideal_gates.rows import (
    Block,
    Closed,
    Instance,
    Inverse,
    measure_block,
    measure_closed,
    measure_instance,
    measure_inverse,
)
from book.studies.bert_gates.printed_gates import PrintedGates, measure_printed_gates


@dataclass(frozen=True)
class IdealGates:
    """What the formulas of the gates come to, gate by gate, in maps of so many positions."""

    positions: int
    printed: PrintedGates
    column: Column
    open: Open
    backward: Backward
    forward: Forward
    block: Block
    instance: Instance
    closed: Closed
    mixture: Mixture
    inverse: Inverse
    softmax: Softmax


def measure_ideal_gates() -> IdealGates:
    """Build every gate and hold it, and its output for random values, to the formulas."""
    draws = draw()
    values = draws.values
    return IdealGates(
        POSITIONS,
        printed=measure_printed_gates(),
        column=measure_column(values),
        open=measure_open(values),
        backward=measure_backward(values),
        forward=measure_forward(values),
        block=measure_block(values),
        instance=measure_instance(values),
        closed=measure_closed(draws),
        mixture=measure_mixture(draws),
        inverse=measure_inverse(values),
        softmax=measure_softmax(draws.scores),
    )
