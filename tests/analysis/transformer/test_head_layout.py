"""Blocks side by side and one below the other, of sizes that all differ, for batches."""

import pytest

from analysis.transformer.head_layout import block_of, concatenate, printed_block_of, split, stack
from tests.analysis.tiny import draw


def test_blocks_of_a_batch_stand_side_by_side_or_below_each_other():
    blocks = draw(2, 4, 5, 3)  # two of a batch, four blocks of five rows and three columns
    beside, below = concatenate(blocks), stack(blocks)
    assert beside.shape == (2, 5, 12)
    assert below.shape == (2, 20, 3)
    for block in range(4):
        assert beside[..., 3 * block : 3 * block + 3].equal(blocks[:, block])
        assert below[:, 5 * block : 5 * block + 5].equal(blocks[:, block])
    assert split(beside, 4).equal(blocks)


def test_columns_are_numbered_from_1():
    assert [block_of(k, 3) for k in (1, 3, 4, 7)] == [(1, 1), (1, 3), (2, 1), (3, 1)]
    assert [printed_block_of(k, 3, 4) for k in (1, 3, 7)] == [(1 / 4, 1), (1.0, 0), (7 / 4, 1)]
    for k, width in ((0, 3), (1, 0)):
        with pytest.raises(ValueError, match="k and width count from 1"):
            block_of(k, width)
    assert block_of(1, 1) == (1, 1)
    with pytest.raises(ValueError, match="must divide"):
        split(draw(2, 7), 3)
