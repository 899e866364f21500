"""What the ladder of controls says of gates: patterns, compositions, what maps carry, and three objections tried alone.

Random weights as large as MiniLM's have columns. Are large weights enough? BERT adds one vector, that of the first
token type, to every token; here it is 0, and nothing else changes. Are the weights alone as large? The LayerNorms of a
new network make longer vectors than MiniLM's, so its queries and keys are longer, too; here they are scaled to the same
length. And the sink turns down what a head adds. Does each word turn it for itself? Here each row gives the first token
what its head gives it on average.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from analysis.core.axes import Attention
from analysis.maps import gates
from analysis.models import checkpoints, extraction, pretrained
from analysis.models.controls import LARGE, PERMUTED, SHARP, make_controls
from analysis.models.reading import load
from analysis.statistics.intervals import Interval, mean_interval
from analysis.transformer.attention import project
from book.lab.documents import KINDS, load_documents
from book.publish import Inputs, Numbers, live_or_record
from book.publish.phrases import enumerated, percent
from book.publish.records import Experiment, Result
from book.studies.bert_gates.experiments import CLASSES, DIRECTIONAL, EACH, FIRST, QUERIES, read_layer
from book.studies.bert_gates.experiments import LONGEST as LONGEST_OF_MAPS
from book.studies.bert_gates.sink import EMPTY, LONGEST, choose_sink, run_without
from book.studies.shared.documents import LADDER, Rungs, load_rungs
from book.studies.shared.map_counts import PRESENT

# ---- What maps carry, and what the sink is made of: records

CARRIED_PLACES = {
    **{name: ("first", k) for k, name in enumerate(FIRST)},
    **{name: ("classes", k) for k, name in enumerate(CLASSES)},
    **{f"{gate}, by contribution": ("weighted gates", k) for k, gate in enumerate(gates.GATES)},
    "length of first": ("length of first",),
}


@dataclass(frozen=True)
class Classifier:
    """The maps of the classifier of virus variants: shares of them with a pattern, and with two or more."""

    patterned: float
    composed: float
    diagonals: float  # the largest share of the attention that a map has on any diagonal


@dataclass(frozen=True)
class CarriedNumbers(Numbers):
    """The numbers of these sections in the page's text."""

    first_lengths: str
    first_attention: str
    first_contribution: str
    columns_contribution: str
    sink_semi_bias: str
    sink_common: str
    sink_content: str


def measure_carried(inputs: Inputs) -> Rungs:
    """Read what maps carry, and how they are classed."""
    return load_rungs("bert-gates-weighted", inputs, CARRIED_PLACES)


def measure_covered(inputs: Inputs) -> float:
    """Return how much of a full diagonal the detector finds in one run, where it finds least: the calibration's."""
    return float(live_or_record("gate-detector-calibration", inputs, recompute=False)[0].array("covered").min())


def measure_classifier(inputs: Inputs) -> Classifier:
    """Read the gates of every map of the classifier off the record of the case study."""
    scores = live_or_record("variant-measures", inputs, recompute=False)[0].array("gates")
    there = scores[..., : len(gates.PATTERNS)] >= PRESENT
    return Classifier(float(there.any(-1).mean()), float((there.sum(-1) >= 2).mean()), float(scores[..., 1:4].max()))


def class_table(carried: Rungs) -> pd.DataFrame:
    """Tabulate the classes of maps by kind of text and in the controls, in per cent of the maps."""
    columns = {kind: [carried[name].by_kind[kind].mean() for name in CLASSES] for kind in KINDS}
    columns |= {rung: [carried[name].controls[rung].mean() for name in CLASSES] for rung in LADDER}
    return pd.DataFrame(columns, index=pd.Index(list(CLASSES), name="class")).map(lambda share: f"{100 * share:.0f}")


def sink_table(carried: Rungs) -> pd.DataFrame:
    """Tabulate by layer what the first token gets in all, for what reason, and what it contributes."""
    own, bare, centred, contributed = (carried[name].documents.mean(0) for name in FIRST)
    rows = {
        "attention": own,
        "of it by the semi-bias": own - bare,
        "by what queries share besides": bare - centred,
        "by content": centred,
        "share of what arrives": contributed,
        "length of what it brings, over others": carried["length of first"].documents.mean(0),
    }
    table = pd.DataFrame(rows).T.map(lambda value: f"{value:.3f}").rename_axis("what the first token gets")
    return table.rename(columns=lambda layer: f"layer {layer}")


def carried_numbers(carried: Rungs) -> CarriedNumbers:
    """Write the numbers."""
    own, bare, centred, contributed = (carried[name].documents.mean() for name in FIRST)
    lengths = carried["length of first"].documents.mean(0)
    return CarriedNumbers(
        first_lengths=enumerated(lengths, ".2f"),
        first_attention=percent(own),
        first_contribution=percent(contributed),
        columns_contribution=percent(carried["directional, by contribution"].documents.mean()),
        sink_semi_bias=percent(own - bare),
        sink_common=percent(bare - centred),
        sink_content=percent(centred),
    )


# ---- Three objections to what the page says of columns and of the sink, each tried on its own

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


def rows_of(network: torch.nn.Module, tokenizer, texts: list[str]) -> list[Tensor]:
    """Return what every layer reads of each text, ``(layer, row, channel)``."""
    return [extraction.hidden_states(network, tokenizer, [text], LONGEST_OF_MAPS)[0] for text in texts]


def rms_lengths(layer: AttentionLayer, rows: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the root mean square lengths ``(head,)`` of the queries and of the keys of all rows of all texts."""
    queries, keys = (
        torch.stack([project(x, W, b).square().sum(-1).mean(-1) for x in rows]).mean(0).sqrt()
        for W, b in ((layer.W_Q, layer.b_Q), (layer.W_K, layer.b_K))
    )
    return queries, keys


def give_lengths(layer: AttentionLayer, rows: Sequence[Tensor], due: tuple[Tensor, Tensor]) -> AttentionLayer:
    """Return the layer with the queries and keys of each head scaled until they have the lengths that are due."""
    q, k = (wanted / own for wanted, own in zip(due, rms_lengths(layer, rows), strict=True))
    scaled = {"W_Q": layer.W_Q * q[:, None, None], "W_K": layer.W_K * k[:, None, None]}
    return replace(layer, **scaled, b_Q=layer.b_Q * q[:, None], b_K=layer.b_K * k[:, None])


def read_maps(network: torch.nn.Module, rows: list[Tensor], due: list[tuple[Tensor, Tensor]] | None = None) -> dict:
    """Read all maps on the network's own rows, by text ``(layer, row, channel)``; queries and keys as long as is due.

    Returns columns and patterns, means over all maps, and the entropy ``(layer,)``.
    """
    found = []
    for n, layer in enumerate(load(network).plain_layers()):
        inputs = [x[n] for x in rows]
        scaled = layer if due is None else give_lengths(layer, inputs, due[n])
        found.append([read_layer(x, scaled, scaled.b_Q) for x in inputs])
    return {
        "columns": np.mean([text["gates"][DIRECTIONAL] for layer in found for text in layer]),
        "patterned": np.mean([text["patterned"] for layer in found for text in layer]),
        "entropy": np.array([np.mean([text["entropy"] for text in layer]) for layer in found]),
    }


@torch.no_grad()
def columns_of(network: torch.nn.Module, tokenizer, texts: list[str], *, typed: bool) -> tuple[float, float]:
    """Return the share of the attention on columns and the share of maps with a pattern, with or without the type."""
    types = network.embeddings.token_type_embeddings.weight
    kept = types.clone()
    types.mul_(typed)
    found = read_maps(network, rows_of(network, tokenizer, texts))
    types.copy_(kept)
    return float(found["columns"]), float(found["patterned"])


def try_objections(device: torch.device) -> Result:
    """Return columns and patterns ``(seed, with and without the type)``, and by document how far the sentence turns.

    Then columns, patterns and entropy of random queries and keys as long as MiniLM's, and MiniLM's own entropy.
    """
    checkpoint = checkpoints.find("minilm")
    tokenizer = pretrained.tokenizer(checkpoint)
    trained = pretrained.load(checkpoint, device=device)
    texts, found, as_long = [document.text for document in load_documents(each=EACH)], [], []
    rows = rows_of(trained, tokenizer, texts)
    due = [rms_lengths(layer, [x[n] for x in rows]) for n, layer in enumerate(load(trained).plain_layers())]
    own = read_maps(trained, rows)["entropy"]
    for control in make_controls(
        trained, lambda seed: pretrained.load(checkpoint, control_seed=seed, device=device), rungs=(SHARP,)
    ):
        found.append([columns_of(control.network, tokenizer, texts, typed=typed) for typed in TYPES])
        as_long.append(read_maps(control.network, rows_of(control.network, tokenizer, texts), due))
    network = trained.double()
    layers, turned = load(network).encoder_layers(), []
    for document in load_documents():
        (states,) = extraction.hidden_states(network, tokenizer, [document.text], LONGEST)
        rows, _ = run_without(states[0], layers, lambda maps: maps * choose_sink(maps), hold_volume)
        turned.append(1 - torch.cosine_similarity(rows.mean(0), states[-1].mean(0), dim=0).item())
    columns, patterned = np.moveaxis(np.array(found, np.float32), -1, 0)
    arrays = {"columns": columns, "patterned": patterned, "held": np.array(turned, np.float32)}
    arrays |= {f"{name} as long": np.array([seed[name] for seed in as_long], np.float32) for name in as_long[0]}
    arrays["entropy of MiniLM"] = own.astype(np.float32)
    tolerances = {"columns": 0.01, "patterned": 0.02, "held": 1e-4}
    tolerances |= {f"{name} as long": 0.02 for name in as_long[0]} | {"entropy of MiniLM": 0.005}
    return Result({}, arrays, tolerances)


@dataclass(frozen=True)
class Objections(Numbers):
    """Means over seeds in the page's text, in per cent; and how far the sentence turns with one volume per head."""

    columns_typed: str
    columns_untyped: str
    patterned_typed: str
    patterned_untyped: str  # the most of any seed
    sink_held: float
    columns_as_long: str
    patterned_as_long: str
    entropy_as_long: str  # in the sharpest layer


def measure_objections(inputs: Inputs) -> Objections:
    """Read what was found."""
    record, _ = live_or_record("bert-gates-objections", inputs, recompute=False)
    columns, patterned = (record.array(name).astype(float) for name in ("columns", "patterned"))
    return Objections(
        *(percent(share, 1) for share in columns.mean(0)),
        patterned_typed=percent(patterned[:, 0].mean()),
        patterned_untyped=percent(patterned[:, 1].max(), 1),
        sink_held=mean_interval(record.array("held").astype(float)).value,
        columns_as_long=percent(record.array("columns as long").astype(float).mean()),
        patterned_as_long=percent(record.array("patterned as long").astype(float).mean()),
        entropy_as_long=f"{record.array('entropy as long').astype(float).mean(0).min():.2f}",
    )


# ---- What the ladder of controls says of gates: patterns, compositions, and whether a query bias makes the columns

PANELS = ("maps with a pattern", "maps with two or more", "columns", "diagonals", "clusters", "row entropy")
GATE = {name: ("gates", gates.GATES.index(name)) for name in gates.GATES}
PLACES = {
    "maps with a pattern": ("patterned",),
    "maps with two or more": ("composed",),
    "columns": GATE["directional"],
    "open": GATE["open"],
    "backward": GATE["backward"],
    "forward": GATE["forward"],
    "clusters": GATE["cluster"],
    "row entropy": ("entropy",),
    "first of columns": ("first of columns",),
    **{f"columns, {way}": ("columns", place) for place, way in enumerate(QUERIES)},
}


@dataclass(frozen=True)
class LadderNumbers(Numbers):
    """Means over layers, documents and seeds in the page's text, in per cent."""

    patterned_trained: str
    patterned_sharp: str
    patterned_large: str
    patterned_permuted: str
    composed_trained: str
    composed_sharp: str
    composed_large: str
    composed_permuted: str
    columns_trained_own: str
    columns_trained_none: str
    columns_trained_centred: str
    columns_sharp: str
    columns_sharp_centred: str
    columns_sharp_lent: str
    columns_permuted_own: str
    columns_permuted_none: str
    diagonals_trained: str
    diagonals_most: str
    clusters_trained: str
    clusters_most: str
    first_trained: str
    first_most: str


def measure_rungs(inputs: Inputs) -> Rungs:
    """Read the ladder, and add the three diagonals up."""
    rungs = load_rungs("bert-gates-ladder", inputs, PLACES)
    rungs.measures["diagonals"] = rungs["open"] + rungs["backward"] + rungs["forward"]
    return rungs


def beside(rungs: Rungs) -> dict[str, tuple[Interval, dict[str, tuple[float, float]]]]:
    """Return, by what is counted, the trained share with its interval and the ranges of two controls, in words."""
    counted = {
        "maps with any gate": "maps with a pattern",
        "attention on columns": "columns",
        "maps with two gates or more": "maps with two or more",
        "attention on diagonals": "diagonals",
        "attention on clusters": "clusters",
    }
    said = {"random weights as large": SHARP, "trained weights shuffled": PERMUTED}
    return {
        words: (rungs[name].whole, {label: rungs[name].range_of(rung) for label, rung in said.items()})
        for words, name in counted.items()
    }


def ladder_numbers(rungs: Rungs) -> LadderNumbers:
    """Write the means; ``most`` is that of the highest rung."""

    def trained(name: str) -> str:
        return percent(rungs[name].documents.mean())

    def rung(name: str, which: str) -> str:
        return percent(rungs[name].controls[which].mean())

    def most(name: str) -> str:
        return percent(max(values.mean() for values in rungs[name].controls.values()), 1)

    kinds = {"sharp": SHARP, "large": LARGE, "permuted": PERMUTED}
    counts = {
        f"{word}_{short}": rung(name, which)
        for short, which in kinds.items()
        for word, name in (("patterned", "maps with a pattern"), ("composed", "maps with two or more"))
    }
    return LadderNumbers(
        patterned_trained=trained("maps with a pattern"),
        composed_trained=trained("maps with two or more"),
        **counts,
        columns_trained_own=trained("columns, own"),
        columns_trained_none=trained("columns, none"),
        columns_trained_centred=trained("columns, centred"),
        columns_sharp=rung("columns, own", SHARP),
        columns_sharp_centred=rung("columns, centred", SHARP),
        columns_sharp_lent=rung("columns, trained", SHARP),
        columns_permuted_own=rung("columns, own", PERMUTED),
        columns_permuted_none=rung("columns, none", PERMUTED),
        diagonals_trained=trained("diagonals"),
        diagonals_most=most("diagonals"),
        clusters_trained=trained("clusters"),
        clusters_most=most("clusters"),
        first_trained=trained("first of columns"),
        first_most=most("first of columns"),
    )


EXPERIMENTS = {
    "objections": Experiment(
        "Columns of large random weights without what BERT adds to every token, and with queries and keys as long as "
        "MiniLM's; MiniLM's sink as one setting per head",
        try_objections,
        models=("minilm",),
        minutes=4,
        seed=0,
    )
}
