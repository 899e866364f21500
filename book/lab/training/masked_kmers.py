"""Masked-k-mer pre-training of a classifier's encoder: does it need to know the language before the classes?

Fifteen in a hundred words of each training sequence are hidden and have to be guessed, as BERT's authors had it. A word
shares three bases with each neighbour, so half of its twelve bases can be read off and the rest has to be known.
"""

from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from book.lab.training import loop

SHARE = 0.15
IGNORED = -100
"""What the loss passes over."""


def hide(
    ids: Int[Tensor, "sequence position"],
    real: Bool[Tensor, "sequence position"],
    words: range,
    mask: int,
    generator: torch.Generator,
) -> tuple[Int[Tensor, "sequence position"], Int[Tensor, "sequence position"]]:
    """Hide words and return what is shown and what is to be guessed.

    Of the chosen words, 80 % become [MASK], 10 % some other word, 10 % stay.

    Parameters
    ----------
    real
        Which positions may be chosen: neither padding nor [CLS].
    words, mask
        Ids of the vocabulary's words, special tokens left out, and of [MASK].

    Returns
    -------
    tuple
        The inputs and the labels; a label is -100, which the loss passes over, wherever no word was chosen.

    >>> ids, everywhere = torch.tensor([[5, 6, 7]]), torch.ones(1, 3, dtype=torch.bool)
    >>> inputs, labels = hide(ids, ~everywhere, range(4, 9), 3, torch.Generator())
    >>> inputs.tolist(), labels.tolist()
    ([[5, 6, 7]], [[-100, -100, -100]])
    """
    places = (torch.rand(ids.shape, generator=generator) < SHARE) & real
    fate = torch.rand(ids.shape, generator=generator)
    other = torch.randint(words.start, words.stop, ids.shape, generator=generator)
    inputs = torch.where(places & (fate < 0.8), mask, torch.where(places & (fate >= 0.9), other, ids))
    return inputs, torch.where(places, ids, IGNORED)


def position_entropy(ids: Int[Tensor, "sequence position"], real: Bool[Tensor, "sequence position"]) -> float:
    """Return the loss, in nats, of guessing words by their position alone, the frequencies there being known.

    No guesser that looks at nothing but the position does better on these sequences.

    >>> ids = torch.tensor([[5, 6], [5, 7]])
    >>> round(position_entropy(ids, ids > 0), 4)  # 0 at the first position, then ln 2
    0.3466
    """
    total = 0.0
    for words, there in zip(ids.T, real.T):
        counts = words[there].unique(return_counts=True)[1].double()
        total -= float(torch.xlogy(counts, counts / counts.sum()).sum())
    return total / int(real.sum())


def pretrain(
    config: Any,
    coded: dict[str, Tensor],
    tokenizer: Any,
    settings: loop.Settings,
    *,
    out: Path,
    order: Any,
    device: torch.device | str = "cpu",
    identity: dict | None = None,
    resume: bool = True,
) -> tuple[nn.Module, loop.Run]:
    """Train a BERT to guess hidden words and return its encoder, without a pooler, and the run.

    ``config`` is the classifier's, ``order`` says which sequences each step sees, ``(steps, batch)``.
    """
    from transformers import BertForMaskedLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = BertForMaskedLM._from_config(config, attn_implementation="sdpa")
    words = range(len(tokenizer.all_special_ids), len(tokenizer))

    def batch(step: int) -> dict[str, Tensor]:
        rows = torch.from_numpy(order[step])
        ids, seen = coded["input_ids"][rows], coded["attention_mask"][rows]
        generator = torch.Generator().manual_seed(settings.seed * 1_000_003 + step)
        real = seen.bool() & (ids != tokenizer.cls_token_id)
        inputs, labels = hide(ids, real, words, tokenizer.mask_token_id, generator)
        return {"input_ids": inputs, "attention_mask": seen, "labels": labels}

    run = loop.train(
        model,
        batch,
        lambda model, batch: model(**batch).loss,
        settings,
        out,
        device=device,
        identity=identity,
        resume=resume,
        name="pre-training",
    )
    return model.bert, run
