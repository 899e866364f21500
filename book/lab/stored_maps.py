"""Statistics of stored attention maps, taken by whole-tensor formulas and one by one, for what streaming is beside.

What belongs here: a random model of BERT BASE's shape, the other ways to its maps' statistics, and how far streamed
ones lie from exact ones. What does not: times and memory (``book.experiments.streaming_capture_cost``).
"""

import torch

from analysis.maps import streaming

LAYERS, HEADS, BATCH, N, CHANNEL = 12, 12, 8, 512, 64
"""Of BERT BASE, and the texts that it reads."""


def base(layers: int = LAYERS) -> tuple[torch.nn.Module, torch.Tensor]:
    """Make a random model of BERT BASE's width, and tokens for it."""
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(num_hidden_layers=layers)
    made = transformers.BertModel(config, add_pooling_layer=False).eval().requires_grad_(False)
    for parameter in made.parameters():
        parameter.data *= 2 if parameter.ndim == 2 else 1
    made.set_attn_implementation("sdpa")
    return made, torch.randint(1000, 20000, (BATCH, N))


def vectorised(maps) -> tuple[torch.Tensor, ...]:
    """Take the statistics of stored maps ``(batch, head, query, key)`` with whole-tensor operations."""
    n = maps.shape[-1]
    entropy = -(maps * torch.log(maps.clamp_min(1e-30))).sum(-1).sum(0)
    offset = (torch.arange(n) - torch.arange(n)[:, None] + n - 1).flatten()
    diagonal = maps.new_zeros(maps.shape[1], 2 * n - 1).index_add_(1, offset, maps.sum(0).flatten(1))
    return entropy, diagonal, maps.sum(-2).sum(0), maps.sum(-1).sum(0)


def naive(maps) -> tuple[torch.Tensor, ...]:
    """Take the same, map by map, row by row, diagonal by diagonal."""
    batch, heads, n, _ = maps.shape
    entropy, diagonal = torch.zeros(heads, n), torch.zeros(heads, 2 * n - 1)
    column, row = torch.zeros(heads, n), torch.zeros(heads, n)
    for b in range(batch):
        for h in range(heads):
            for i in range(n):
                p = maps[b, h, i]
                entropy[h, i] += -(p * torch.log(p.clamp_min(1e-30))).sum()
                row[h, i] += p.sum()
                column[h, i] += maps[b, h, :, i].sum()
            for offset in range(-n + 1, n):
                diagonal[h, offset + n - 1] += maps[b, h].diagonal(offset).sum()
    return entropy, diagonal, column, row


def distance(counted: streaming.MapStatistics, exact: tuple[torch.Tensor, ...]) -> float:
    """Return the largest difference of the statistics of one layer from exact ones, which are sums over the batch."""
    entropy, diagonal, column, row = (total / BATCH for total in exact)
    cells = N - torch.arange(-N + 1, N).abs()
    pairs = (
        (counted.entropy_by_query(), entropy),
        (counted.diagonal_profile(), diagonal / cells),
        (counted.column_mass(), column),
        (counted.row_mass(), row),
    )
    return max((mine[0] - due).abs().max().item() for mine, due in pairs)
