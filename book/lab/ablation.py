"""A model without some of its attention: weights taken from its maps, heads silenced or levelled.

Weights are taken layer by layer: each map is computed on what the layers before left. What is left of a row can stay as
it is, and the row sums to less than 1; or it can be made to sum to 1 again, which also makes every other weight larger.
That side effect can be run alone: nothing is taken, and the other weights become as much larger. For comparison exactly
as much of every row can be taken from cells at random.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import cosine_similarity, scaled_dot_product_attention

from analysis.core.weights import EncoderLayer
from analysis.maps import gates
from analysis.models import attention_hooks
from analysis.transformer.encoder import encode_layer, run_layer

EMPTY = 1e-6  # a row with less left than this stays as it was

Maps = Float[Tensor, "*batch query key"]
"""Maps maps of any number of heads."""
Choice = Callable[[Maps], Bool[Tensor, "*batch query key"]]
Take = Callable[[Maps], Maps]
Change = Callable[[Maps, Maps], Maps]


# ---- What is done with the weights that are taken


def leave_short(maps: Maps, taken: Maps) -> Maps:
    """Take the weights away; rows sum to less than 1.

    >>> leave_short(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[0.5, 0.0, 0.0]]))
    tensor([[0.0000, 0.3000, 0.2000]])
    """
    return maps - taken


def renormalise(maps: Maps, taken: Maps) -> Maps:
    """Take the weights away and make rows sum to 1 again; a row that would be left empty stays as it is.

    >>> renormalise(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[0.5, 0.0, 0.0]]))
    tensor([[0.0000, 0.6000, 0.4000]])
    """
    rest = maps - taken
    total = rest.sum(-1, keepdim=True)
    return torch.where(total > EMPTY, rest / total.clamp_min(EMPTY), maps)


def scale_up(maps: Maps, taken: Maps) -> Maps:
    """Take nothing away, and make the other weights as large as renormalising would: rows sum to more than 1.

    >>> scale_up(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[0.5, 0.0, 0.0]]))
    tensor([[0.5000, 0.6000, 0.4000]])
    """
    total = (maps - taken).sum(-1, keepdim=True)
    return torch.where(total > EMPTY, renormalise(maps, taken) + taken, maps)


def hold_volume(maps: Maps, taken: Maps) -> Maps:
    """Give every row of a head the mean of what is taken from its rows; the rest keeps its proportions.

    >>> maps = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]])
    >>> hold_volume(maps, maps * choose_sink(maps))
    tensor([[0.3000, 0.4200, 0.2800],
            [0.3000, 0.2333, 0.4667]])
    """
    share = taken.sum(-1, keepdim=True)
    mean = share.mean(-2, keepdim=True)
    held = (maps - taken) * (1 - mean) / (1 - share).clamp_min(EMPTY) + taken * mean / share.clamp_min(EMPTY)
    return torch.where((share > EMPTY) & (share < 1 - EMPTY), held, maps)


WAYS: dict[str, tuple[Change, bool]] = {
    "deleted, rows left short": (leave_short, False),
    "as much at random deleted, rows left short": (leave_short, True),
    "deleted, rows renormalised": (renormalise, False),
    "as much at random deleted, rows renormalised": (renormalise, True),
    "nothing deleted, the other weights scaled up": (scale_up, False),
}
"""What is done with the weights, and whether they are those of random cells."""


# ---- Which weights are taken


def choose_sink(maps: Maps) -> Bool[Tensor, "*batch query key"]:
    """Choose the first token's column."""
    chosen = torch.zeros_like(maps, dtype=torch.bool)
    chosen[..., 0] = True
    return chosen


def choose_gate(gate: int) -> Choice:
    """Return the choice of the cells that the detector names after one gate."""
    return lambda maps: gates.read_gates(maps).cells == gate


def draw_as_much(maps: Maps, share: Tensor, generator: torch.Generator) -> Maps:
    """Take cells of each row at random until they hold a share of it; of the last one only what is wanting.

    >>> taken = draw_as_much(torch.full((1, 4), 0.25), torch.tensor([[0.6]]), torch.Generator().manual_seed(0))
    >>> taken.sort().values, taken.sum()
    (tensor([[0.0000, 0.1000, 0.2500, 0.2500]]), tensor(0.6000))
    """
    order = torch.rand(maps.shape, generator=generator).to(maps).argsort(-1)
    ordered = maps.gather(-1, order)
    before = ordered.cumsum(-1) - ordered
    return torch.zeros_like(maps).scatter(-1, order, (share - before).clamp_min(0).minimum(ordered))


def take_as_much(shares: Sequence[Tensor], seed: int) -> Take:
    """Return what takes these shares from the maps of one layer after the other, from cells at random."""
    generator, wanted = torch.Generator().manual_seed(seed), iter(shares)
    return lambda maps: draw_as_much(maps, next(wanted), generator)


# ---- Models that run so


def run_without(x: Tensor, layers: Sequence[EncoderLayer], take: Take, change: Change) -> tuple[Tensor, list[Tensor]]:
    """Run all layers with maps changed; return the rows at the end, and by layer what was taken of every row."""
    shares = []
    for layer in layers:
        maps = run_layer(x, layer).attention
        taken = take(maps)
        shares.append(taken.sum(-1, keepdim=True))
        x = run_layer(x, layer, patched_attention=change(maps, taken)).second
    return x, shares


def change_each_head(
    x: Tensor, layers: Sequence[EncoderLayer], weight: float | int
) -> Float[Tensor, "head position model"]:
    """Give all of one head's map in the first of the layers the same weight; return the rows at the end, by head."""
    maps = run_layer(x, layers[0]).attention
    heads, changed = range(len(maps)), maps.repeat(len(maps), 1, 1, 1)  # one copy for each head that is changed
    changed[heads, heads] = weight
    rows = run_layer(x.expand(len(maps), *x.shape), layers[0], patched_attention=changed).second
    for layer in layers[1:]:
        rows = encode_layer(rows, layer)
    return rows


def turned(rows: Tensor, whole: Tensor) -> float:
    """Return how far the mean of the rows, which is MiniLM's vector of a text, turns: 1 - cosine."""
    return 1 - cosine_similarity(rows.mean(0), whole.mean(0), dim=0).item()


def measure_ways(
    states: Tensor, layers: Sequence[EncoderLayer], choose: Choice, names: Sequence[str], seed: int
) -> list[tuple[float, float]]:
    """Return for each way how far the sentence turns (``1 - cos``), and the share of the attention that was taken.

    From cells at random as much is taken, row by row, as the run with the same change took from the chosen cells.
    """
    found, shares = [], {}
    for change, at_random in (WAYS[name] for name in names):
        take = take_as_much(shares[change], seed) if at_random else lambda maps: maps * choose(maps)
        rows, taken = run_without(states[0], layers, take, change)
        shares.setdefault(change, taken)
        share = 0.0 if change is scale_up else torch.stack(taken).mean().item()
        found.append((turned(rows, states[-1]), share))
    return found


class Ablate:
    """Maps that changes one layer: sequence ``2 h`` of a batch loses head ``h``, ``2 h + 1`` gets it uniform.

    The last sequence is left as it is.
    """

    def __init__(self, layer: int):
        """Choose the layer."""
        self.layer = layer

    def __call__(self, layer, query, key, value, *, scale, causal=False, lengths=None):
        """Attend; ``lengths`` must be ``None``: the sequences are copies of one."""
        output = scaled_dot_product_attention(query, key, value, scale=scale, is_causal=causal)
        if layer == self.layer:
            heads = torch.arange(value.shape[1], device=value.device)
            output[2 * heads, heads] = 0
            mean = value[2 * heads + 1, heads].mean(-2, keepdim=True)
            output[2 * heads + 1, heads] = mean.expand(-1, value.shape[-2], -1)
        return output


def measure_heads(model: torch.nn.Module, tokenizer, passages: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Measure ``1 - cos`` between embeddings with and without each head: ``(text, layer, head, way)``.

    The ways are silenced and made uniform. The unchanged embeddings come second. An embedding is the mean of the last
    hidden states, as MiniLM is used.
    """
    heads, found, whole = model.config.num_attention_heads, [], []
    for text in passages:
        inputs = tokenizer(
            text, truncation=True, max_length=model.config.max_position_embeddings, return_tensors="pt"
        ).to(model.device)
        copies = {name: tensor.expand(2 * heads + 1, -1) for name, tensor in inputs.items()}
        by_layer = []
        for layer in range(model.config.num_hidden_layers):
            with torch.no_grad(), attention_hooks.with_attention(model, Ablate(layer)):
                embedding = model(**copies).last_hidden_state.mean(1).double()
            by_layer.append(1 - cosine_similarity(embedding[:-1], embedding[-1], dim=-1).reshape(heads, 2))
        found.append(torch.stack(by_layer))
        whole.append(embedding[-1])
    return torch.stack(found).cpu(), torch.stack(whole).cpu()
