"""MiniLM without some cells of its maps: without the sink's column, and without what the detector named.

In every layer the map is computed on what the layers before left and robbed of some weights. What is left of a row can
stay as it is, and the row sums to less than 1; or it can be made to sum to 1 again, which also makes every other weight
larger. That side effect is run alone as well: nothing is deleted, and the other weights become as much larger. For
comparison exactly as much of every row is taken from cells at random.

One row's sink is also turned down bit by bit, for the reader to play with.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from analysis.core.axes import Attention
from analysis.core.weights import EncoderLayer
from analysis.maps import gates
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.reading import load
from analysis.statistics.intervals import Interval, mean_interval
from analysis.transformer.attention import project
from analysis.transformer.encoder import run_layer
from book.lab.documents import load_documents
from book.publish import Inputs, Numbers, live_or_record
from book.publish.phrases import enumerated
from book.publish.records import Experiment, Record, Result, Value

# ---- MiniLM without some cells of its maps: without the sink's column, and without what the detector named

LONGEST, SEED = 64, 0  # tokens of a document; the seed of the first one's random cells
EMPTY = 1e-6  # a row with less left than this stays as it was

Choice = Callable[[Attention], Bool[Tensor, "head query key"]]
Take = Callable[[Attention], Attention]
Change = Callable[[Attention, Attention], Attention]


def leave_short(maps: Attention, taken: Attention) -> Attention:
    """Take the weights away; rows sum to less than 1.

    >>> leave_short(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[0.5, 0.0, 0.0]]))
    tensor([[0.0000, 0.3000, 0.2000]])
    """
    return maps - taken


def renormalise(maps: Attention, taken: Attention) -> Attention:
    """Take the weights away and make rows sum to 1 again; a row that would be left empty stays as it is.

    >>> renormalise(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[0.5, 0.0, 0.0]]))
    tensor([[0.0000, 0.6000, 0.4000]])
    """
    rest = maps - taken
    total = rest.sum(-1, keepdim=True)
    return torch.where(total > EMPTY, rest / total.clamp_min(EMPTY), maps)


def scale_up(maps: Attention, taken: Attention) -> Attention:
    """Take nothing away, and make the other weights as large as renormalising would: rows sum to more than 1.

    >>> scale_up(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[0.5, 0.0, 0.0]]))
    tensor([[0.5000, 0.6000, 0.4000]])
    """
    total = (maps - taken).sum(-1, keepdim=True)
    return torch.where(total > EMPTY, renormalise(maps, taken) + taken, maps)


WAYS: dict[str, tuple[Change, bool]] = {
    "deleted, rows left short": (leave_short, False),
    "as much at random deleted, rows left short": (leave_short, True),
    "deleted, rows renormalised": (renormalise, False),
    "as much at random deleted, rows renormalised": (renormalise, True),
    "nothing deleted, the other weights scaled up": (scale_up, False),
}
"""What is done with the weights, and whether they are those of random cells."""
SHORT = list(WAYS)[:2]


def choose_sink(maps: Attention) -> Bool[Tensor, "head query key"]:
    """Choose the first token's column."""
    chosen = torch.zeros_like(maps, dtype=torch.bool)
    chosen[..., 0] = True
    return chosen


def choose_gate(gate: int) -> Choice:
    """Return the choice of the cells that the detector names after one gate."""
    return lambda maps: gates.read_gates(maps).cells == gate


def remove_cells(device: torch.device) -> Result:
    """Return effects and shares: of the sink ``(document, way)``, of named cells ``(document, gate, way)``."""
    checkpoint = checkpoints.find("minilm")
    network = pretrained.load(checkpoint, dtype=torch.float64, device=device)
    tokenizer, layers = pretrained.tokenizer(checkpoint), load(network).encoder_layers()
    sink, named = [], []
    for seed, document in enumerate(load_documents()):
        (states,) = extraction.hidden_states(network, tokenizer, [document.text], LONGEST)
        sink.append(measure_ways(states, layers, choose_sink, list(WAYS), seed))
        named.append([measure_ways(states, layers, choose_gate(gate), SHORT, seed) for gate in range(len(gates.GATES))])
    (turned, taken), (effect, share) = (np.moveaxis(np.array(found, np.float32), -1, 0) for found in (sink, named))
    arrays = {"sink": turned, "sink share": taken, "effect": effect, "share": share}
    return Result({}, arrays, {"sink": 1e-4, "sink share": 1e-4, "effect": 5e-3, "share": 0.01})


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
        turned = 1 - torch.cosine_similarity(rows.mean(0), states[-1].mean(0), dim=0).item()
        found.append((turned, 0.0 if change is scale_up else torch.stack(taken).mean().item()))
    return found


def take_as_much(shares: Sequence[Tensor], seed: int) -> Take:
    """Return what takes these shares from the maps of one layer after the other, from cells at random."""
    generator, wanted = torch.Generator().manual_seed(seed), iter(shares)
    return lambda maps: draw_as_much(maps, next(wanted), generator)


def run_without(x: Tensor, layers: Sequence[EncoderLayer], take: Take, change: Change) -> tuple[Tensor, list[Tensor]]:
    """Run all layers with maps changed; return the rows at the end, and by layer what was taken of every row."""
    shares = []
    for layer in layers:
        maps = run_layer(x, layer).attention
        taken = take(maps)
        shares.append(taken.sum(-1, keepdim=True))
        x = run_layer(x, layer, patched_attention=change(maps, taken)).second
    return x, shares


def draw_as_much(maps: Attention, share: Tensor, generator: torch.Generator) -> Attention:
    """Take cells of each row at random until they hold a share of it; of the last one only what is wanting.

    >>> taken = draw_as_much(torch.full((1, 4), 0.25), torch.tensor([[0.6]]), torch.Generator().manual_seed(0))
    >>> taken.sort().values, taken.sum()
    (tensor([[0.0000, 0.1000, 0.2500, 0.2500]]), tensor(0.6000))
    """
    order = torch.rand(maps.shape, generator=generator).to(maps).argsort(-1)
    ordered = maps.gather(-1, order)
    before = ordered.cumsum(-1) - ordered
    return torch.zeros_like(maps).scatter(-1, order, (share - before).clamp_min(0).minimum(ordered))


AMOUNTS = np.linspace(0, 1, 11)  # of the sink's weight
DIAL_WAYS = {"left out": leave_short, "shared out": renormalise, "others turned up": scale_up}
SENTENCE, LAYER, HEAD, QUERY = "The old bridge was closed because the river had risen in the night.", 3, 0, 4


def turn_sink(device: torch.device) -> Result:
    """Return the effects ``(document, way, amount)``; weights and lengths of one row of one map."""
    checkpoint = checkpoints.find("minilm")
    network = pretrained.load(checkpoint, dtype=torch.float64, device=device)
    tokenizer, layers = pretrained.tokenizer(checkpoint), load(network).encoder_layers()
    effects = []
    for document in load_documents():
        (states,) = extraction.hidden_states(network, tokenizer, [document.text], LONGEST)
        effects.append([[turn(states, layers, change, amount) for amount in AMOUNTS] for change in DIAL_WAYS.values()])
    (states,) = extraction.hidden_states(network, tokenizer, [SENTENCE], LONGEST)
    x, layer = states[LAYER], layers[LAYER]
    attention = layer.attention
    lengths = (project(x, attention.W_V, attention.b_V)[HEAD] @ attention.W_O[HEAD]).norm(dim=-1)
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(SENTENCE)["input_ids"])
    arrays = {
        "effect": np.array(effects, np.float32).mean(0),
        "weights": run_layer(x, layer).attention[HEAD, QUERY].numpy(force=True).astype(np.float32),
        "lengths": lengths.numpy(force=True).astype(np.float32),
    }
    values = {"tokens": Value(json.dumps(tokens)), "query": Value(tokens[QUERY])}
    return Result(values, arrays, dict.fromkeys(arrays, 1e-3))


def turn(states: torch.Tensor, layers, change, amount: float) -> float:
    """Return how far the sentence turns (1 - cos) with so much of the sink's weight taken in every layer."""
    rows, _ = run_without(states[0], layers, lambda maps: amount * maps * choose_sink(maps), change)
    return 1 - torch.cosine_similarity(rows.mean(0), states[-1].mean(0), dim=0).item()


@dataclass(frozen=True)
class OneRow:
    """One row of one map: weights, the length of what each token brings, the tokens, and which of them looks."""

    weights: Float[np.ndarray, " key"]
    lengths: Float[np.ndarray, " key"]
    tokens: list[str]
    query: str

    def start(self) -> dict:
        """Return the state in which the viewer begins: a little of the weight is left out."""
        return {"way": "out", "amount": 10}


def one_row(record: Record) -> OneRow:
    """Read the row that the viewer shows."""
    return OneRow(record.array("weights"), record.array("lengths"), json.loads(record["tokens"]), record["query"])


# ---- What is left of a sentence without the sink's column, or without the cells that the detector named: a record

SEEN = 0.01  # of the attention, so that a gate's cells can matter
DELETED, AT_RANDOM, RENORMALISED, RANDOM_RENORMALISED, SCALED_UP = WAYS
IN_WORDS = {
    DELETED: "deleted",
    AT_RANDOM: "as much deleted at random",
    RENORMALISED: "deleted, and shared among the others",
    SCALED_UP: "kept, and the others turned up as much",
}


@dataclass(frozen=True)
class Removal:
    """How far the sentence turns (1 - cos), over documents, and the share of the attention that is taken.

    By way for the sink; by gate for named cells and for as much at random, both with rows left short.
    """

    sink: Mapping[str, Interval]
    sink_shares: Mapping[str, float]
    named: Mapping[str, Interval]
    random: Mapping[str, Interval]
    difference: Mapping[str, Interval]  # of the two effects on the same document
    shares: Mapping[str, tuple[float, float]]  # named, random

    def said(self) -> dict[str, Interval]:
        """Return what is done with the sink's weight, in words, and how far the sentence turns."""
        return {words: self.sink[way] for way, words in IN_WORDS.items()}

    def sink_table(self) -> pd.DataFrame:
        """Tabulate what is done with the first token's weight, and how far the sentence turns."""
        columns = {
            "attention taken": {way: f"{share:.1%}" for way, share in self.sink_shares.items()},
            "effect": _bracketed(self.sink),
        }
        return pd.DataFrame(columns).rename_axis("[CLS]'s column, in all layers")

    def gate_table(self) -> pd.DataFrame:
        """Tabulate effects of taking the cells of a gate away, and as much at random."""
        columns = {
            "attention taken": {gate: f"{named:.1%}" for gate, (named, _) in self.shares.items()},
            "as much at random": {gate: f"{drawn:.1%}" for gate, (_, drawn) in self.shares.items()},
            "effect": _bracketed(self.named),
            "effect at random": _bracketed(self.random),
            "difference": _bracketed(self.difference),
        }
        return pd.DataFrame(columns).rename_axis("gate")


def _bracketed(spans: Mapping[str, Interval]) -> dict[str, str]:
    """Write each value with its interval.

    >>> _bracketed({"open": Interval(0.5, 0.25, 0.75)})
    {'open': '0.500 [0.250, 0.750]'}
    """
    return {name: f"{e.value:.3f} [{e.low:.3f}, {e.high:.3f}]" for name, e in spans.items()}


@dataclass(frozen=True)
class RemovalNumbers(Numbers):
    """The effects in the page's text; and the gates whose cells matter more than as much at random."""

    sink_deleted: float
    sink_at_random: float
    sink_renormalised: float
    sink_scaled: float
    removed_columns: float
    removed_at_random: float
    removed_difference: float
    removed_difference_low: float
    removed_difference_high: float
    removed_more: str


def measure_removal(inputs: Inputs) -> Removal:
    """Read the effects of taking weights away."""
    record, _ = live_or_record("bert-gates-removal", inputs, recompute=False)
    sink, taken, effect, share = (
        record.array(name).astype(float) for name in ("sink", "sink share", "effect", "share")
    )
    named, random, difference = (
        {gate: mean_interval(values[:, k]) for k, gate in enumerate(gates.GATES)}
        for values in (effect[..., 0], effect[..., 1], effect[..., 0] - effect[..., 1])
    )
    return Removal(
        sink={way: mean_interval(sink[:, k]) for k, way in enumerate(WAYS)},
        sink_shares=dict(zip(WAYS, taken.mean(0).tolist(), strict=True)),
        named=named,
        random=random,
        difference=difference,
        shares=dict(zip(gates.GATES, map(tuple, share.mean(0).tolist()), strict=True)),
    )


def removal_numbers(removal: Removal) -> RemovalNumbers:
    """Write the effects of the sink and of the columns, and name the gates that matter more than random cells."""
    columns, chance, more = (of["directional"] for of in (removal.named, removal.random, removal.difference))
    return RemovalNumbers(
        sink_deleted=removal.sink[DELETED].value,
        sink_at_random=removal.sink[AT_RANDOM].value,
        sink_renormalised=removal.sink[RENORMALISED].value,
        sink_scaled=removal.sink[SCALED_UP].value,
        removed_columns=columns.value,
        removed_at_random=chance.value,
        removed_difference=more.value,
        removed_difference_low=more.low,
        removed_difference_high=more.high,
        removed_more=enumerated(
            [gate for gate, (share, _) in removal.shares.items() if share > SEEN and removal.difference[gate].low > 0]
        ),
    )


EXPERIMENTS = {
    "removal": Experiment(
        "MiniLM without the sink's column, and without the cells that the gate detector named",
        remove_cells,
        models=("minilm",),
        minutes=3,
        seed=SEED,
    ),
    "sink-dial": Experiment(
        "MiniLM with more and more of the sink's weight left out or shared out, for the viewer",
        turn_sink,
        models=("minilm",),
        minutes=2,
    ),
}
