"""How the heads' outputs are laid out: side by side in one row, or one below the other."""

from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from analysis.core.signatures import checked


def check_blocks(name: str, width: int, blocks: int) -> None:
    """Raise for a number of blocks that does not divide the width of rows.

    >>> check_blocks("rows", 12, 5)
    Traceback (most recent call last):
    ValueError: blocks must divide the 12 columns of rows, got 5
    """
    if blocks < 1 or width % blocks:
        raise ValueError(f"blocks must divide the {width} columns of {name}, got {blocks}")


@checked
def concatenate(blocks: Float[Tensor, "*batch block row column"]) -> Float[Tensor, "*batch row concatenated"]:
    """Put the blocks side by side, the first leftmost: Conc of "The geometry of BERT", definition 5.3.1.

    Examples
    --------
    >>> import torch
    >>> concatenate(torch.tensor([[[1.0], [2.0]], [[3.0], [4.0]]]))
    tensor([[1., 3.],
            [2., 4.]])
    """
    return rearrange(blocks, "... block row column -> ... row (block column)")


@checked
def stack(blocks: Float[Tensor, "*batch block row column"]) -> Float[Tensor, "*batch stacked column"]:
    """Put the blocks one under another, the first on top.

    It is the transposed Conc of "The geometry of BERT", definition 5.3.4.

    Examples
    --------
    >>> import torch
    >>> stack(torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]))
    tensor([[1., 2.],
            [3., 4.]])
    """
    return rearrange(blocks, "... block row column -> ... (block row) column")


@checked(finite=True)
def split(rows: Float[Tensor, "*batch row concatenated"], blocks: int) -> Float[Tensor, "*batch block row column"]:
    """Undo `concatenate`.

    Examples
    --------
    >>> import torch
    >>> split(torch.tensor([[1.0, 3.0]]), 2)
    tensor([[[1.]],
    <BLANKLINE>
            [[3.]]])
    """
    check_blocks("rows", rows.shape[-1], blocks)
    return rearrange(rows, "... row (block column) -> ... block row column", block=blocks)


def block_of(k: int, width: int) -> tuple[int, int]:
    r"""Return block and place within it of the k-th column of a concatenation, all counted from 1.

    .. math::  i = \lfloor (k-1)/s \rfloor + 1, \qquad c = ((k-1) \bmod s) + 1

    This is the correction of (5.3), and with rows for columns of (5.6); the printed i divides by the number of blocks
    ((5.3), (5.6)).

    >>> block_of(64, 64), block_of(65, 64)
    ((1, 64), (2, 1))
    """
    if k < 1 or width < 1:
        raise ValueError(f"k and width count from 1, got k={k}, width={width}")
    return (k - 1) // width + 1, (k - 1) % width + 1


def printed_block_of(k: int, width: int, blocks: int) -> tuple[float, int]:
    """Return what (5.3) prints for the same column: ``((k - k mod s + 1) / n, k mod s)``.

    >>> printed_block_of(65, 64, 12)
    (5.416666666666667, 1)
    """
    return (k - k % width + 1) / blocks, k % width
