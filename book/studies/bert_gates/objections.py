"""Two objections to what the page says of columns and of the sink, each tried on its own.

Random weights as large as MiniLM's have columns. Are large weights enough? BERT adds one vector, that of the first
token type, to every token; here it is 0, and nothing else changes. And the sink turns down what a head adds. Does each
word turn it for itself? Here each row gives the first token what its head gives it on average.
"""

from dataclasses import dataclass

import numpy as np
import torch

from analysis.core.axes import Attention
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.controls import SHARP, make_controls
from analysis.models.reading import load
from analysis.statistics.intervals import mean_interval
from book.lab.documents import load_documents
from book.publish import Inputs, Numbers, live_or_record
from book.publish.phrases import percent
from book.publish.records import Experiment, Result
from book.studies.bert_gates.experiments import DIRECTIONAL, EACH, read_layer
from book.studies.bert_gates.experiments import LONGEST as LONGEST_OF_MAPS
from book.studies.bert_gates.removal import EMPTY, LONGEST, choose_sink, run_without

TYPES = (True, False)
"""With what BERT adds to every token, and without it."""


def hold_volume(maps: Attention, taken: Attention) -> Attention:
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


@torch.no_grad()
def columns_of(network: torch.nn.Module, tokenizer, texts: list[str], *, typed: bool) -> tuple[float, float]:
    """Return the share of the attention on columns and the share of maps with a pattern, with or without the type."""
    types = network.embeddings.token_type_embeddings.weight
    kept = types.clone()
    types.mul_(typed)
    found = []
    for text in texts:
        (states,) = extraction.hidden_states(network, tokenizer, [text], LONGEST_OF_MAPS)
        layers = load(network).plain_layers()
        found += [read_layer(x, layer, layer.b_Q) for x, layer in zip(states, layers)]
    types.copy_(kept)
    return (
        float(np.mean([layer["gates"][DIRECTIONAL] for layer in found])),
        float(np.mean([layer["patterned"] for layer in found])),
    )


def try_objections(device: torch.device) -> Result:
    """Return columns and patterns ``(seed, with and without the type)``, and by document how far the sentence turns."""
    checkpoint = checkpoints.find("minilm")
    tokenizer = pretrained.tokenizer(checkpoint)
    trained = pretrained.load(checkpoint, device=device)
    texts, found = [document.text for document in load_documents(each=EACH)], []
    for control in make_controls(
        trained, lambda seed: pretrained.load(checkpoint, control_seed=seed, device=device), rungs=(SHARP,)
    ):
        found.append([columns_of(control.network, tokenizer, texts, typed=typed) for typed in TYPES])
    network = trained.double()
    layers, turned = load(network).encoder_layers(), []
    for document in load_documents():
        (states,) = extraction.hidden_states(network, tokenizer, [document.text], LONGEST)
        rows, _ = run_without(states[0], layers, lambda maps: maps * choose_sink(maps), hold_volume)
        turned.append(1 - torch.cosine_similarity(rows.mean(0), states[-1].mean(0), dim=0).item())
    columns, patterned = np.moveaxis(np.array(found, np.float32), -1, 0)
    arrays = {"columns": columns, "patterned": patterned, "held": np.array(turned, np.float32)}
    return Result({}, arrays, {"columns": 0.01, "patterned": 0.02, "held": 1e-4})


@dataclass(frozen=True)
class Objections(Numbers):
    """Means over seeds in the page's text, in per cent; and how far the sentence turns with one volume per head."""

    columns_typed: str
    columns_untyped: str
    patterned_typed: str
    patterned_untyped: str  # the most of any seed
    sink_held: float


def measure_objections(inputs: Inputs) -> Objections:
    """Read what was found."""
    record, _ = live_or_record("bert-gates-objections", inputs, recompute=False)
    columns, patterned = (record.array(name).astype(float) for name in ("columns", "patterned"))
    return Objections(
        *(percent(share, 1) for share in columns.mean(0)),
        patterned_typed=percent(patterned[:, 0].mean()),
        patterned_untyped=percent(patterned[:, 1].max(), 1),
        sink_held=mean_interval(record.array("held").astype(float)).value,
    )


EXPERIMENT = Experiment(
    "Columns of large random weights without what BERT adds to every token; MiniLM's sink as one setting per head",
    try_objections,
    models=("minilm",),
    minutes=2,
    seed=0,
)
