"""The six tables of the induction-head slides, as printed: facts to compare with, never used to compute.

Source: University of Maryland, "Induction Head Example" (after Michael Hahn); ledger I-14 to I-16 and I-20 to I-22.
Rows are the positions of the sequence ``! a b a c b``; tables of outputs have the columns E_0..E_5, P_0..P_5.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

VOCABULARY = ("!", "a", "b", "c", "d", "e")

SEQUENCE = ("!", "a", "b", "a", "c", "b")

_EMBEDDINGS = """
    1 0 0 0 0 0  1 0 0 0 0 0
    0 1 0 0 0 0  0 1 0 0 0 0
    0 0 1 0 0 0  0 0 1 0 0 0
    0 1 0 0 0 0  0 0 0 1 0 0
    0 0 0 1 0 0  0 0 0 0 1 0
    0 0 1 0 0 0  0 0 0 0 0 1"""

_PRINTED = {
    "scores 1": """
        -100 -100 -100 -100 -100 -100
         100 -100 -100 -100 -100 -100
        -100  100 -100 -100 -100 -100
        -100 -100  100 -100 -100 -100
        -100 -100 -100  100 -100 -100
        -100 -100 -100 -100  100 -100""",
    "weights 1": """
        1 0 0 0 0 0
        1 0 0 0 0 0
        0 1 0 0 0 0
        0 0 1 0 0 0
        0 0 0 1 0 0
        0 0 0 0 1 0""",
    "output 1": """
        1 0 0 0 0 0  0 0 0 0 0 0
        0 1 0 0 0 0  1 0 0 0 0 0
        0 0 1 0 0 0  0 1 0 0 0 0
        0 1 0 0 0 0  0 0 1 0 0 0
        0 0 0 1 0 0  0 1 0 0 0 0
        0 0 1 0 0 0  0 0 0 1 0 0""",
    "scores 2": """
        0 100   0   0   0   0
        0   0 100   0 100   0
        0   0   0 100   0   0
        0   0 100   0 100   0
        0   0   0   0   0 100
        0   0   0 100   0   0""",
    "weights 2": """
        1 0 0 0 0 0
        0 0 0 0 0 0
        0 0 0 0 0 0
        0 0 1 0 0 0
        0 0 0 0 0 0
        0 0 0 1 0 0""",
    "output 2": """
        0 0 0 0 0 0  0 0 0 0 0 0
        0 0 0 0 0 0  0 0 0 0 0 0
        0 0 0 0 0 0  0 0 0 0 0 0
        0 0 1 0 0 0  0 0 0 0 0 0
        0 0 0 0 0 0  0 0 0 0 0 0
        0 1 0 0 0 0  0 0 0 0 0 0""",
}


def printed() -> dict[str, Float[Tensor, "row column"]]:
    """Return the six printed tables, by the names in ``readings.TABLES``.

    >>> [tuple(table.shape) for table in printed().values()]
    [(6, 6), (6, 6), (6, 12), (6, 6), (6, 6), (6, 12)]
    """
    return {name: _read(text) for name, text in _PRINTED.items()}


def printed_embeddings() -> Float[Tensor, "position model"]:
    """Return the printed input, ``E`` beside ``P`` (ledger I-02).

    >>> printed_embeddings().sum(1)
    tensor([2., 2., 2., 2., 2., 2.], dtype=torch.float64)
    """
    return _read(_EMBEDDINGS)


def _read(text: str) -> Float[Tensor, "row column"]:
    return torch.tensor(
        [[float(cell) for cell in line.split()] for line in text.strip().splitlines()], dtype=torch.float64
    )


def encode(symbols: str | tuple[str, ...], vocabulary: tuple[str, ...] = VOCABULARY) -> Int[Tensor, " position"]:
    """Turn symbols (a tuple, or a string with spaces between) into token numbers.

    Raises
    ------
    ValueError
        If a symbol is not in the vocabulary; the message lists what is.

    Examples
    --------
    >>> encode("! a b a")
    tensor([0, 1, 2, 1])
    """
    symbols = tuple(symbols.split()) if isinstance(symbols, str) else symbols
    unknown = sorted(set(symbols) - set(vocabulary))
    if unknown:
        raise ValueError(f"symbols {unknown} are not in the vocabulary {' '.join(vocabulary)}")
    return torch.tensor([vocabulary.index(symbol) for symbol in symbols], dtype=torch.long)
