"""Why a word looks there: five heads of SmolLM2 on a dozen sentences, word by word, each score in its four parts.

The constants of a head are its mean query and its mean key over other prose, so that no word of these sentences is in
them. Parts are relative to their mean over the tokens that a query sees; they add up to the score relative to its own.
Arrays hold, sentence after sentence, the words that look row by row, each with the words up to itself.
"""

import json
import re
from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from analysis.models import pretrained
from analysis.transformer.attention import mask_future
from book.experiments.rotary_smollm2 import MODEL, PROSE, read_layers, split, take
from book.lab.documents import load_documents
from book.publish.records import Experiment, Result, Value

SENTENCES = (
    "The trophy didn't fit into the suitcase because it was too big.",
    "The bear said the soup was too hot, so we waited until it was cold and the bear was gone.",
    "Mrs Quillfeather had a parrot that sang only on Sundays. "
    "Every Sunday the neighbours of Mrs Quillfeather left town.",
    "My cat thinks that I work for her, and she is right.",
    "The doctor asked the nurse whether she had seen his glasses, which were on his nose.",
    "Why did the chicken cross the road? Because the road did not cross the chicken.",
    "Time flies like an arrow, but fruit flies like a banana.",
    "The keys to the cabinet are in the cabinet, and the cabinet is locked.",
    "Anna gave Bert a book, and Bert gave Anna a look.",
    "The bank by the river lent the fisherman a boat but no money.",
    "Professor Plumworthy lost his umbrella on Monday. On Tuesday Professor Plumworthy lost his temper.",
    "My sister told her teacher that the dog had eaten her homework, and the dog looked guilty.",
)
HEADS = {
    (13, 8): "who it is about",
    (16, 0): "the word before",
    (5, 6): "the same word again",
    (18, 6): "what came next last time",
    (18, 8): "the first word",
}
"""The strongest by `rotary-smollm2` (the word before, the first token) and by `smollm2-induction`, and two heads that
were found by looking at these sentences."""
PARTS = ("content", "semi-bias", "kernel", "query side")
TARGETS = ("the token before", "the first token", "the same token earlier", "what followed it then")
START = re.compile(r"\s|[^\w\s'\u2019]")
"""What a token begins with that begins a word: a blank, or a mark other than an apostrophe."""


def compute(device: torch.device) -> Result:
    """Five heads of SmolLM2 on a dozen sentences, each score in four parts.

    Read the sentences, and what the heads look at in prose.
    """
    words, network = pretrained.tokenizer(MODEL), pretrained.load(MODEL, task="lm", device=device)
    prose = take(words, [each.text for each in load_documents(*PROSE)]).to(device)
    texts = [words(sentence).input_ids for sentence in SENTENCES]
    spelled = [[words.decode([token]) for token in text] for text in texts]
    heads, targets = constants_of(network, prose)
    found = [
        read(network, torch.tensor([text], device=device), heads, number_words(tokens))
        for text, tokens in zip(texts, spelled, strict=True)
    ]
    parts, attention = (torch.cat([each[k] for each in found], -1).cpu().numpy() for k in range(2))
    values = {
        "sentences": Value(json.dumps([join(tokens) for tokens in spelled])),
        "heads": Value(json.dumps([[layer, head, name] for (layer, head), name in HEADS.items()])),
        "passages": Value(len(prose)),
    }
    arrays = {
        "parts": (100 * parts).round().astype(np.int16),
        "attention": (1e4 * attention).round().astype(np.uint16),
        "targets": targets.astype(np.float32),
    }
    return Result(values, arrays, {"parts": 5, "attention": 20, "targets": 5e-3})


def number_words(tokens: Sequence[str]) -> list[int]:
    """Return for each token the number of its word.

    A mark is a word of its own. So is each piece of a word that returns: what a head copies is the next piece.

    >>> number_words(["Mrs", " Qu", "ill", " didn", "'t", "."])
    [0, 1, 1, 2, 2, 3]
    >>> number_words(["Mr", " Qu", "ill", ",", " Mrs", " Qu", "ill"])
    [0, 1, 2, 3, 4, 5, 6]
    """
    words = []
    for token in tokens:
        if not words or START.match(token):
            words.append([])
        words[-1].append(token)
    texts, numbers = ["".join(word).strip() for word in words], []
    for word, text in zip(words, texts, strict=True):
        for piece in range(len(word)):
            numbers.append(numbers[-1] + (piece == 0 or texts.count(text) > 1) if numbers else 0)
    return numbers


def join(tokens: Sequence[str]) -> list[str]:
    """Return the words; a dot stands before a piece that goes on with the word before it.

    >>> join([" didn", "'t", "."])
    ["didn't", '.']
    >>> join(["To", "pp", " or", " To", "pp"])
    ['To', '·pp', 'or', 'To', '·pp']
    """
    pieces = zip(number_words(tokens), tokens, strict=True)
    words = ["".join(token for _, token in word) for _, word in groupby(pieces, lambda piece: piece[0])]
    return [words[0].strip(), *(word.strip() if START.match(word) else f"\u00b7{word}" for word in words[1:])]


@torch.no_grad()
def constants_of(network, prose: Int[Tensor, "passage position"], wanted: Iterable[tuple[int, int]] = tuple(HEADS)):
    """Return by head its mean query and key over prose, and what it gives to :data:`TARGETS` there."""
    constants, targets = {}, {}
    for number, (layer, queries, keys) in enumerate(read_layers(network, prose)):
        own = queries.mean((0, 2)), keys.mean((0, 2))
        for place, head in (each for each in wanted if each[0] == number):
            constants[place, head] = own
            scores = split(queries, keys, tuple(each[None] for each in own), layer)["whole"][:, head]
            targets[place, head] = look(mask_future(scores).softmax(-1), prose)
    return constants, np.array([targets[head] for head in wanted])


def look(weights: Float[Tensor, "passage query key"], ids: Int[Tensor, "passage position"]) -> list[float]:
    """Return the mean attention to :data:`TARGETS`; to the last two, of tokens that occurred after the first place.

    >>> even = torch.ones(1, 4, 4).tril() / torch.arange(1, 5)[:, None]
    >>> look(even, torch.tensor([[7, 5, 6, 5]]))[2:]
    [0.25, 0.25]
    """
    same = (ids[:, :, None] == ids[:, None]).tril(-1)
    same[..., 0] = False
    then = same.roll(1, -1)  # what followed: one place later, at most the query's own
    again = same.any(-1)
    return [
        weights.diagonal(-1, -2, -1)[:, 1:].mean().item(),  # the second one would look at the first
        weights[:, 2:, 0].mean().item(),
        *((weights * place).sum(-1)[again].mean().item() for place in (same, then)),
    ]


@torch.no_grad()
def read(network, ids: Tensor, constants, numbers: Sequence[int], wanted: Iterable[tuple[int, int]] = tuple(HEADS)):
    """Return parts ``(part, head, entry)`` and attention ``(head, entry)`` of one sentence, word by word."""
    found = {}
    for number, (layer, queries, keys) in enumerate(read_layers(network, ids)):
        for place, head in (each for each in constants if each[0] == number):
            own = tuple(each[None] for each in constants[place, head])
            scores = {name: each[0, head].double() for name, each in split(queries, keys, own, layer).items()}
            rest = scores["whole"] - sum(scores[name] for name in PARTS[1:])
            parts = torch.stack([rest, *(scores[name] for name in PARTS[1:])])
            found[place, head] = by_word(parts, numbers)
    parts, attention = zip(*(found[head] for head in wanted), strict=True)
    return torch.stack(parts, 1), torch.stack(attention)


def by_word(parts: Float[Tensor, "part query key"], numbers: Sequence[int]):
    """Return parts ``(part, entry)`` and attention ``(entry,)`` of the words, each with those up to itself.

    The query of a word is that of its last token. The attention to a word is the sum over its tokens, and the score is
    their mean, weighted by this attention.

    >>> scores = torch.tensor([[[0.0, 0, 0], [0, 0, 0], [0, 3, 0]]]).double()
    >>> parts, attention = by_word(scores, [0, 1, 1])
    >>> parts[0].tolist(), round(attention.sum().item(), 9)  # [0, 0, and 3 - 1 for nearly all of the second word]
    ([0.0, -1.0, 1.8577...], 2.0)
    """
    seen = torch.ones_like(parts[0]).tril()
    relative = (parts - (parts * seen).sum(-1, keepdim=True) / seen.sum(-1, keepdim=True)) * seen
    weights = mask_future(parts.sum(0)).softmax(-1).clamp(min=1e-30) * seen
    words = torch.tensor(numbers, device=parts.device)
    member = torch.nn.functional.one_hot(words).to(parts)
    last = torch.tensor([k for k in range(len(numbers)) if k + 1 == len(numbers) or numbers[k + 1] > numbers[k]])
    attention = (weights @ member)[last]
    merged = (relative * weights @ member)[:, last] / attention.clamp(min=1e-30)
    rows, columns = torch.tril_indices(len(last), len(last))
    return merged[:, rows, columns], attention[rows, columns]


EXPERIMENT = Experiment(compute, models=(MODEL,), minutes=2, seed=0)
