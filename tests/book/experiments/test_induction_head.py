"""What is recorded of trainings on repeated tokens, on a tiny model and a trace known by hand."""

import numpy as np

from book.experiments.induction_head import formed_at


def test_a_head_has_formed_at_the_first_step_of_one_half():
    prefix = np.array([[[0.1, 0.2]], [[0.5, 0.1]], [[0.9, 0.1]]])
    assert formed_at(np.array([0, 25, 50]), prefix) == 25
    assert formed_at(np.array([0, 25, 50]), prefix / 2) == -1
