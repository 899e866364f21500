"""What the claims need of models as they are: scores of random layers, caches, and keys and values of trained ones."""

import math

import torch
from torch import Tensor, nn

import analysis
from analysis import AttentionLayer

TRAINED = ("gpt2-mini", "minilm")
PRINTED = {"QKV": 0.851, "Q=K-V": 0.854, "(Q=K-V)+": 0.870, "Q-K=V": 0.850, "Q=K=V": 0.780, "(Q=K=V)+": 0.823}
"""The means of the paper's first table, of tasks of symbols, as the authors' notes repeat them."""
WIDTH, HEADS, LENGTH = 32, 2, 16  # of layers with random weights
# Which of the three roles share one projection; a plus adds the fixed positions of rows and columns to the scores.
SHARED = {"QKV": "QKV", "Q=K-V": "KKV", "(Q=K-V)+": "KKV", "Q-K=V": "QKK", "Q=K=V": "KKK", "(Q=K=V)+": "KKK"}
CHANNELS = 10  # of the positions that a plus adds


def sinusoids(length: int, channels: int) -> Tensor:
    """Return sines and cosines of positions, one row each."""
    rates = 10000 ** (-torch.arange(0, channels, 2)[: (channels + 1) // 2] / channels)
    angles = torch.arange(length)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)[:, :channels]


class Attention(nn.Module):
    """Attention of two heads with random weights, in which two or three roles share a projection."""

    def __init__(self, variant: str) -> None:
        """Draw the projections that the variant has."""
        super().__init__()
        self.variant, self.size = variant, WIDTH // HEADS
        self.maps = nn.ModuleDict({role: nn.Linear(WIDTH, WIDTH) for role in sorted(set(SHARED[variant]))})
        self.out = nn.Linear(WIDTH, WIDTH)
        if variant.endswith("+"):
            half = sinusoids(LENGTH, CHANNELS // 2)
            rows, columns = (half[:, None].expand(-1, LENGTH, -1), half.expand(LENGTH, -1, -1))
            self.register_buffer("positions", torch.cat([rows, columns], 2))
            self.mix = nn.Linear(CHANNELS, 1)

    def roles(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return queries, keys and values, one of each for each head."""
        made = {role: one(x).unflatten(-1, (-1, self.size)).transpose(1, 2) for role, one in self.maps.items()}
        return tuple(made[role] for role in SHARED[self.variant])

    def scores(self, x: Tensor) -> Tensor:
        """Return what the softmax reads, before a mask."""
        queries, keys, _ = self.roles(x)
        found = queries @ keys.mT / math.sqrt(self.size)
        if self.variant.endswith("+"):  # as many channels, each of them the scores and a position, mixed into one
            found = found * self.mix.weight.sum() + self.mix(self.positions).squeeze(-1)
        return found

    def forward(self, x: Tensor) -> Tensor:
        """Return what a causal layer adds."""
        scores = self.scores(x)
        scores = scores.masked_fill(torch.ones_like(scores[0, 0]).triu(1).bool(), -math.inf)
        return self.out((scores.softmax(-1) @ self.roles(x)[2]).transpose(1, 2).flatten(2))


@torch.no_grad()
def asymmetry(variant: str, seed: int = 0) -> tuple[float, float, int, int]:
    """Return how far a random layer is from symmetric in its scores and its weights, and count rings and pairs.

    A ring is three tokens each of which scores the next above the one before, a pair two tokens each of which scores
    the other above itself. Both are counted in each head.
    """
    torch.manual_seed(seed)
    layer = Attention(variant).double()
    scores = layer.scores(torch.randn(1, LENGTH, WIDTH, dtype=torch.float64))[0]
    weights = scores.softmax(-1)
    above = scores[:, :, :, None] > scores[:, :, None, :]  # i scores j above k
    rings = above & above.permute(0, 3, 1, 2) & above.permute(0, 2, 3, 1)
    other = scores > scores.diagonal(dim1=1, dim2=2)[:, :, None]
    pairs = other & other.mT
    return (
        *((each - each.mT).abs().max().item() for each in (scores, weights)),
        int(rings.sum()) // 3,
        int(pairs.sum()) // 2,
    )


@torch.no_grad()
def decoding_gap() -> float:
    """Return by how much a causal layer's output differs if values are read from a cache that holds keys alone."""
    torch.manual_seed(0)
    layer, x = Attention("Q-K=V").double(), torch.randn(1, LENGTH, WIDTH, dtype=torch.float64)
    cache, outputs = [], []
    for place in range(LENGTH):
        query, key, _ = layer.roles(x[:, place : place + 1])
        cache.append(key)
        held = torch.cat(cache, 2)
        outputs.append((query @ held.mT / layer.size**0.5).softmax(-1) @ held)
    return (layer.out(torch.cat(outputs, 2).transpose(1, 2).flatten(2)) - layer(x)).abs().max().item()


def kept(heads: int, groups: int, tensors: int) -> float:
    """Return the share of the cache of ``heads`` keys and values that some groups of ``tensors`` tensors need."""
    return groups / heads * tensors / 2


def layers() -> list[AttentionLayer]:
    """Return the first layer of GPT-2 and all layers of a small GPT-2 and of MiniLM."""
    return [layer for name in ("gpt2-first-layer", *TRAINED) for layer in analysis.load(name).layers]


def cosine(one: Tensor, other: Tensor) -> float:
    """Return the cosine of two projections, each taken as one vector."""
    return torch.cosine_similarity(one.flatten(), other.flatten(), dim=0).item()


def best_cosine(one: Tensor, other: Tensor) -> float:
    """Return the mean of the largest cosine of two heads' projections if the space of each head may be rotated."""
    sizes = one.flatten(1).norm(dim=1) * other.flatten(1).norm(dim=1)
    return (torch.linalg.svdvals(one.mT @ other).sum(1) / sizes).mean().item()


def effective_rank(matrix: Tensor) -> Tensor:
    """Return the exponential of the entropy of the singular values' shares."""
    values = torch.linalg.svdvals(matrix)
    return torch.special.entr(values / values.sum(-1, keepdim=True)).sum(-1).exp()


def rank_of(projection: Tensor) -> float:
    """Return the effective rank of a projection of all heads together, as a share of the model's width."""
    return effective_rank(projection.transpose(0, 1).flatten(1)).item() / projection.shape[1]


def map_ranks() -> list[float]:
    """Return each layer's mean effective rank of attention maps of a text, as a share of its tokens."""
    shares = []
    for name in TRAINED:
        tokenizer, model = analysis.pretrained.tokenizer(name), analysis.pretrained.load(name)
        inputs = tokenizer(analysis.passages(count=1)[0], return_tensors="pt")
        with torch.no_grad():
            maps = model(**inputs, output_attentions=True).attentions
        shares += [effective_rank(each[0]).mean().item() / each.shape[-1] for each in maps]
    return shares
