"""The six tables of the slides as printed, and the head built by hand: its tables, and what each matrix does.

Source: University of Maryland, "Induction Head Example" (after Michael Hahn); ledger I-14 to I-16 and I-20 to I-22.
Rows are the positions of the sequence ``! a b a c b``; tables of outputs have the columns E_0..E_5, P_0..P_5.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from analysis.decomposition.uniform import uniform_causal
from analysis.transformer import attention_only, induction
from analysis.transformer.attention import attend
from book.publish import Numbers
from book.studies.induction_head import readings
from book.studies.induction_head.figures import Compared
from book.studies.shared.equality import largest

# ---- The six tables of the induction-head slides, as printed: facts to compare with, never used to compute

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


def printed_tables() -> dict[str, Float[Tensor, "row column"]]:
    """Return the six printed tables, by the names in ``readings.TABLES``.

    >>> [tuple(table.shape) for table in printed_tables().values()]
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


# ---- The head built by hand: its tables beside the printed ones, and what each of its six matrices does

VOCAB = len(VOCABULARY)
TOKENS = encode(SEQUENCE)
LONG = 300  # positions of the longer sequence on which layer 1 is looked at
MATCHES = 50.0  # nats: half of the slides' 100, above which a score of layer 2 says "the same token"


@dataclass(frozen=True)
class ByHand(Numbers):
    """The hand-built head on the slides' sequence ``! a b a c b``, at the slides' sharpness and gain of 100.

    Attributes
    ----------
    wrong_cells
        Printed cells that the equations, taken at their word, contradict, in all six tables.
    cells
        The same by table.
    matrices
        The six matrices, by their names in TeX.
    compared
        The six tables, printed and recomputed.
    first, second
        What the two layers compute.
    errors
        Largest absolute differences between what a claim says and what is computed; 0 or rounding where it holds.
    one_back
        Shares of rows of layer 1 whose largest weight is at the previous position, for 6 and for 300 positions.
    counts
        ``rows stored otherwise than printed``: rows 1 to 5 of layer 1 that do not store their own token, which equation
        8 says they do; ``passthrough rows``: rows of the printed last table that a passthrough of the current token
        would contradict; ``rows that gather a stored token`` in layer 2, before ``V_2``; ``pairs`` of positions in all
        sequences of up to 5 tokens.
    mistaken_keys
        By key position ``j``, the pairs in which the score of layer 2 does not say whether ``x_i = x_(j-1)``.
    """

    wrong_cells: int
    cells: Mapping[str, int]
    matrices: Mapping[str, np.ndarray]
    compared: tuple[Compared, ...]
    first: induction.Step
    second: induction.Step
    errors: Mapping[str, float]
    one_back: tuple[float, float]
    counts: Mapping[str, int]
    mistaken_keys: Mapping[int, int]


def measure_by_hand() -> ByHand:
    """Run the head on the slides' sequence, compare its tables, and try each matrix on random rows."""
    head, printed = induction.build(VOCAB, len(TOKENS)), printed_tables()
    first, second = induction.run(TOKENS, head)
    at_their_word = readings.differing(readings.tables(TOKENS, VOCAB, readings.Reading()), printed)
    cells = {name: int(differs.sum()) for name, differs in at_their_word.items()}
    pairs, mistaken_keys = count_mistaken_pairs()
    return ByHand(
        wrong_cells=sum(cells.values()),
        cells=cells,
        matrices={
            f"${name}_{number}$": getattr(layer, name).numpy()
            for number, layer in ((1, head.first), (2, head.second))
            for name in "AVW"
        },
        compared=tuple(compare_tables(printed, (first, second))),
        first=first,
        second=second,
        errors=model_errors(head, first) | matrix_errors(head) | output_errors(head, first, second),
        one_back=(one_step_back(first), one_step_back(run_long())),
        counts={
            "pairs": pairs,
            "passthrough rows": count_passthrough_rows(head, first, second),
            "rows stored otherwise than printed": count_rows_stored_otherwise(head, first),
            "rows that gather a stored token": count_rows_gathering(first, second),
        },
        mistaken_keys=mistaken_keys,
    )


def compare_tables(printed: Mapping[str, Tensor], steps: tuple[induction.Step, induction.Step]) -> list[Compared]:
    """Put each printed table beside the recomputed one, rounded to four decimals."""
    computed = [table for step in steps for table in (step.scores, step.attention, step.output)]
    wide = [f"E_{c}" for c in range(VOCAB)] + [f"P_{c}" for c in range(VOCAB)]
    return [
        Compared(
            name,
            SEQUENCE,
            wide if table.shape[1] == len(wide) else list(SEQUENCE),
            printed[name].numpy(),
            table.round(decimals=4).numpy(),
        )
        for name, table in zip(readings.TABLES, computed, strict=True)
    ]


def gap_to_attention(x: Float[Tensor, "position model"], layer: induction.Layer) -> float:
    """Return how far a layer is from the book's reference attention plus the passthrough."""
    reference = attend(x, layer.as_attention()).output + x @ layer.W.T
    return largest(reference - induction.step(x, layer).output)


def model_errors(head: induction.InductionHead, first: induction.Step) -> dict[str, float]:
    """Compare the input and the two layers with what the slides define."""
    x = induction.embed(TOKENS, head)
    each_token = induction.embed(torch.arange(VOCAB), head)[:, :VOCAB]
    return {
        "embedding": largest(each_token - torch.eye(VOCAB)),
        "input": largest(x - printed_embeddings()),
        "attention": max(gap_to_attention(x, head.first), gap_to_attention(first.output, head.second)),
    }


def matrix_errors(head: induction.InductionHead) -> dict[str, float]:
    """Compare what each matrix does to random rows with what the slides say that it does."""
    rows = torch.randn(4, 2 * VOCAB, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    token, other, nothing = rows[:, :VOCAB], rows[:, VOCAB:], torch.zeros(4, VOCAB)
    block, A_1 = head.first.A[VOCAB:, VOCAB:], head.first.A.clone()
    A_1[VOCAB:, VOCAB:] = 0
    return {
        "A_1 in the position block": largest(block - printed_tables()["scores 1"]),
        "A_1 elsewhere": largest(A_1),
        "V_1": largest(rows @ head.first.V.T - torch.cat([nothing, token], 1)),
        "W_1": largest(rows @ head.first.W.T - torch.cat([token, nothing], 1)),
        "A_2": largest(rows @ head.second.A @ rows.T - 100 * token @ other.T),
    }


def output_errors(head: induction.InductionHead, first: induction.Step, second: induction.Step) -> dict[str, float]:
    """Compare weights and outputs on the slides' sequence with what the slides say of them."""
    current, stored = induction.embed(TOKENS, head)[:, :VOCAB], first.output[:, VOCAB:]
    one_back = torch.ones(len(TOKENS) - 1).diag(-1)
    one_back[0, 0] = 1
    gathered = second.attention @ first.output
    copied = second.output[[3, 5]].amax(1)
    unseen, equal = [1, 2, 4], uniform_causal(len(TOKENS))
    return {
        "first weights": largest(first.attention - one_back),
        "stored token": largest(stored[1:] - current[:-1]),
        "output without a passthrough": largest(second.output - gathered @ head.second.V.T),
        "copied at a gain of 100": largest(copied - 100),
        "weights of unseen rows": largest((second.attention - equal)[unseen]),
        "outputs of unseen rows": largest((second.output[:, :VOCAB] - 100 * equal @ current)[unseen]),
        "written stored tokens": largest(second.output[:, VOCAB:]),
        "written current tokens": largest(second.output[:, :VOCAB] - 100 * gathered[:, :VOCAB]),
    }


def count_passthrough_rows(head: induction.InductionHead, first: induction.Step, second: induction.Step) -> int:
    """Count the rows of the printed last table in which a passthrough like ``W_1`` would write a token that is not."""
    passing = induction.step(first.output, replace(head.second, W=head.first.W))
    printed = printed_tables()["output 2"]
    return int(((passing.output - second.output > 0) & (printed == 0)).any(1).sum())


def count_rows_stored_otherwise(head: induction.InductionHead, first: induction.Step) -> int:
    """Count the rows from 1 on in which layer 1 does not store the row's own token, as equation 8 prints it."""
    difference = first.output[1:, VOCAB:] - induction.embed(TOKENS, head)[1:, :VOCAB]
    return int((difference.abs().sum(1) > 0).sum())


def count_rows_gathering(first: induction.Step, second: induction.Step) -> int:
    """Count the rows of layer 2 that attend to a stored token, which ``V_2`` has not zeroed out yet."""
    stored = (second.attention @ first.output)[:, VOCAB:]
    return int((stored.abs().sum(1) > 0).sum())


def run_long() -> induction.Step:
    """Run layer 1 on a sequence of one token only, long enough to see every distance."""
    head = induction.build(1, LONG)
    return induction.step(induction.embed(torch.zeros(LONG, dtype=torch.long), head), head.first)


def one_step_back(step: induction.Step) -> float:
    """Return the share of rows, but for the first, whose largest weight is at the previous position."""
    return attention_only.top_1_accuracy(step.attention, 1, causal=True).item()


def count_mistaken_pairs(longest: int = 5) -> tuple[int, dict[int, int]]:
    """Count pairs of positions in all sequences, and by key those whose score does not say ``x_i = x_(j-1)``."""
    pairs, mistaken = 0, Counter()
    for length in range(1, longest + 1):
        head = induction.build(VOCAB, length)
        for sequence in map(torch.tensor, readings.sequences(length, VOCAB)):
            matches = torch.zeros(length, length, dtype=torch.bool)
            matches[:, 1:] = sequence[:, None] == sequence[None, :-1]
            differs = (induction.run(sequence, head)[1].scores > MATCHES) != matches
            mistaken.update(differs.nonzero()[:, 1].tolist())
            pairs += length * length
    return pairs, dict(mistaken)
