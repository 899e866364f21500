"""What the chapter on the case study's data shows: the sequences themselves, and the records of all classifiers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from analysis.data.dna.kmers import STRIDE, kmers
from analysis.maps.gates import GATES
from analysis.models import checkpoints
from analysis.models.checkpoints import Checkpoint
from analysis.statistics.intervals import share_interval
from analysis.surveys.records import Record, Value
from analysis.training.dna_classifier import POSITIONS, Data
from analysis.training.masked_kmers import SHARE, position_entropy
from book.publish import Inputs, Numbers, choose_inputs, live_or_record
from book.publish.phrases import percent
from book.studies.shared import released_code as code
from book.studies.shared import variant_measures, variant_runs

MODEL = "variant-bert-mini"
RECORDS = {"baselines": "variant-baselines", "seeds": "variant-seeds", "real": "variant-data-real",
           "splits": "variant-data-splits", "pretraining": "variant-data-pretraining",
           "baselines-real": "variant-data-baselines-real", "real-splits": "variant-data-real-splits",
           "measures": "variant-measures"}
NAMED = tuple(RECORDS)[:5]
"""The records whose provenance the page prints; the others were made in the same runs."""
GENE = (21563, 25384)
"""The first and the last base of the spike gene in the reference genome."""
UNSHIFTED = ("GH/490R", "Mu")
"""The classes of which no deletion changes the phase: the one of Mu has nine bases."""
CLASSIFIERS = {"majority": "majority", "length": "length", "phase": "phase", "nearest": "nearest lineage",
               "kmers": "words", "kmers-gapped": "words, gaps kept", "bert": "BERT"}
"""The classifiers by their names in the records, as the page calls them."""

Shares = Mapping[str, float]
Tables = Mapping[str, Float[np.ndarray, "row column"]]


@dataclass(frozen=True)
class Corpus(Numbers):
    """The simulated sequences of the bundled classifier, and the words that a gene is cut into.

    ``training``, ``validation`` and ``test`` count the sequences of each part; ``words_rejoin`` says whether the words
    of a sequence, each without what it shares with the next, are the sequence again. ``guess_by_position`` is the loss
    in nats of who knows how often each word stands at each position.
    """

    prefix = "vdata-corpus"
    classes: tuple[str, ...]
    sequences: int
    training: int
    validation: int
    test: int
    vocabulary: int
    reference_bases: int
    reference_words: int
    words_rejoin: bool
    positions: int
    guess_by_position: float


@dataclass(frozen=True)
class Authors(Numbers):
    """What the authors' public repository records of their data, and what arithmetic makes of it.

    ``computed`` are training, validation and test by the code's rule, ``recorded`` as the notebook printed them;
    ``test_by_class`` is the stratified share of every class, ``recorded_test`` the printed one. ``words`` are those of
    the reference gene after its padding, ``padding_rows`` the rows of 512 that no token has.
    """

    prefix = "vdata-authors"
    accuracy: str
    interval: str
    right: int
    rows: int
    words: int
    tokens: int
    padding_rows: int
    computed: tuple[int, int, int]
    recorded: tuple[int, int, int]
    test_by_class: Int[np.ndarray, " class"]
    recorded_test: Int[np.ndarray, " class"]


@dataclass(frozen=True)
class Leak:
    """What deletions give away: the phase of each class's words along the gene, and the lengths of its sequences."""

    classes: list[str]
    phases: Int[np.ndarray, "class word"]
    lengths: list[int]
    length_counts: Int[np.ndarray, "class length"]


class Parting(NamedTuple):
    """Test accuracies with one thing kept apart: BERT's, with its lower bound, and those of simple classifiers."""

    kept_apart: str
    training: int
    test: int
    units: int
    bert: float
    least: float
    words: float
    nearest: float
    length: float
    phase: float


@dataclass(frozen=True)
class Partings(Numbers):
    """All ways to keep training and test apart: accuracies with intervals, and what is named after an exchange.

    ``exchanged`` has, by what is kept apart, how often the class of the bases and that of the deletions is named.
    """

    length: str
    phase: str
    table: tuple[Parting, ...]
    accuracies: Mapping[str, Sequence[tuple[float, float, float]]]
    exchanged: Mapping[str, Shares]
    one_per_class: str  # accuracy of words from one training sequence per class

    @property
    def kept_apart(self) -> list[str]:
        """Name what is kept apart, one parting after the other."""
        return [row.kept_apart for row in self.table]


@dataclass(frozen=True)
class Training(Numbers):
    """The training of three seeds, and their accuracies on the whole validation and test parts."""

    whole_test: str
    losses: Float[np.ndarray, "seed update"]
    steps: Float[np.ndarray, "seed look"]
    validation_curves: Float[np.ndarray, "seed look"]
    validation: tuple[Value, ...]
    test: tuple[Value, ...]
    test_share: Value


@dataclass(frozen=True)
class Exchange:
    """How often a class is named when bases and deletions are of two: by BERT in three seeds, and by the words."""

    bert: Float[np.ndarray, " seed"]
    words: float
    words_gapped: float


@dataclass(frozen=True)
class Evidence(Numbers):
    """What the classifiers read: accuracies with half of the evidence, exchanged deletions, and confusions.

    ``accuracies`` is by set and class, ``confusions`` by class and class named; ``exchanged`` is by the part of the
    sequence whose class is named.
    """

    deletions_alone: str
    deletions_still: str
    follow: str
    sets: tuple[str, ...]
    accuracies: Tables
    exchanged: Mapping[str, Exchange]
    confusions: Tables


@dataclass(frozen=True)
class Pretraining(Numbers):
    """The classifier that was pre-trained on hidden words, beside three seeds that were not and the control.

    ``loss`` is that of the hidden words in nats. ``curves`` has in each panel a curve ``(sequence, layer)`` a model,
    in per cent, or ``(layer,)`` where there is one value only. ``gates`` has the means over sequences.
    """

    updates: int
    hidden: str
    before: str
    before_control: str
    top: str
    top_seeds: str
    loss: Float[np.ndarray, " update"]
    test: Value
    exchanged: Shares
    curves: Mapping[str, Mapping[str, np.ndarray]]
    gates: Mapping[str, Float[np.ndarray, "seed layer head gate"]]


@dataclass(frozen=True)
class RealLineages(Numbers):
    """The classifier trained around real lineages; ``deposited`` are sequences that were openly deposited."""

    open_right: int
    real_units: int
    real_lineage: str
    real_least: str
    real_follow: str
    real_rest: str
    test: Value
    deposited: Value
    simple: Shares
    table: tuple[Parting, ...]
    exchanged: Mapping[str, Shares]


@dataclass(frozen=True)
class Measured(Numbers):
    """Everything that the chapter shows; ``sources`` says where its records come from."""

    prefix = "vdata"
    inputs: Inputs
    checkpoint: Checkpoint
    sources: tuple[str, ...]
    corpus: Corpus
    authors: Authors
    leak: Leak
    partings: Partings
    training: Training
    evidence: Evidence
    pretraining: Pretraining
    real: RealLineages


def measure(device: str = "auto") -> Measured:
    """Read the records of the classifiers, and make the sequences of the bundled one again."""
    inputs, checkpoint = choose_inputs(device=device), checkpoints.find(MODEL)
    shown = {name: live_or_record(record, inputs, recompute=False) for name, record in RECORDS.items()}
    records = {name: record for name, (record, _) in shown.items()}
    data = variant_measures.open_run(checkpoint.folder, device=inputs.device).data
    return Measured(
        inputs, checkpoint, tuple(shown[name][1] for name in NAMED),
        corpus=measure_corpus(data, inputs.device),
        authors=measure_authors(live_or_record("text-and-code-repository", inputs, recompute=False)[0]),
        leak=measure_leak(records["baselines"]),
        partings=measure_partings(records["splits"], records["baselines"]),
        training=measure_training(records["seeds"]),
        evidence=measure_evidence(records, data.labels),
        pretraining=measure_pretraining(records, len(data.labels)),
        real=measure_real(records))


def measure_corpus(data: Data, device: torch.device) -> Corpus:
    """Count the sequences and their words; see how well a word is known by its position alone."""
    parts = data.parts
    coded = data.encode([data.genes[i] for i in data.parts.train], device=device)
    words = coded["attention_mask"].bool() & (coded["input_ids"] != data.tokenizer.cls_token_id)
    bases = GENE[1] - GENE[0] + 1
    return Corpus(
        classes=data.labels, sequences=len(data.genes), training=len(parts.train), validation=len(parts.validation),
        test=len(parts.test), vocabulary=len(data.tokenizer), reference_bases=bases,
        reference_words=len(kmers("A" * bases)), words_rejoin=words_rejoin(data.genes[0].bases), positions=POSITIONS,
        guess_by_position=position_entropy(coded["input_ids"], words))


def words_rejoin(bases: str) -> bool:
    """Say whether the words of a sequence make it up again, but for fewer bases at its end than a stride."""
    *words, last = kmers(bases)
    joined = "".join(word[:STRIDE] for word in words) + last
    return bases.startswith(joined) and len(bases) - len(joined) < STRIDE


def measure_authors(record: Record) -> Authors:
    """Do the arithmetic of the authors' split and of their cutting, beside what they recorded."""
    by_class, bases = record.array("by_class"), GENE[1] - GENE[0] + 1
    words, right, rows = len(code.padded_words("A" * bases)), record["logits_right"], record["logits_rows"]
    share = share_interval(right, rows)
    return Authors(
        accuracy=percent(share.value, 1), interval=f"{100 * share.low:.1f} to {100 * share.high:.1f} %", right=right,
        rows=rows, words=words, tokens=words + 2, padding_rows=POSITIONS - words - 2,
        computed=code.split_sizes(int(by_class.sum())), recorded=tuple(record.array("parts").tolist()),
        test_by_class=np.rint(code.TEST_SHARE * by_class).astype(int), recorded_test=record.array("tested_by_class"))


def measure_leak(baselines: Record) -> Leak:
    """Return the phases and the lengths of each class."""
    return Leak(baselines.array("classes").tolist(), baselines.array("phases"), baselines.array("lengths").tolist(),
                baselines.array("length_counts"))


def measure_partings(splits: Record, baselines: Record) -> Partings:
    """Compare BERT with simple classifiers on the same parts, kept apart in three ways."""
    table = tabulate(splits)
    accuracies = {shown: [interval(splits.values[f"{name}/{row.kept_apart}"]) for row in table]
                  for name, shown in CLASSIFIERS.items()}
    return Partings(length=percent(table[0].length), phase=percent(table[0].phase), table=table,
                    accuracies=accuracies, exchanged=exchanged_by_parting(splits),
                    one_per_class=f"{baselines['kmers/one-a-class']:.3f}")


def tabulate(splits: Record) -> tuple[Parting, ...]:
    """Return a row of accuracies for each way to keep training and test apart."""
    names = ("train", "units", "bert", "kmers", "nearest", "length", "phase")
    rows = []
    for kept_apart in splits.array("parts").tolist():
        training, units, bert, *simple = (splits.values[f"{name}/{kept_apart}"] for name in names)
        rows.append(Parting(kept_apart, training.value, bert.n, units.value, bert.value, bert.low,
                            *(each.value for each in simple)))
    return tuple(rows)


def interval(value: Value) -> tuple[float, float, float]:
    """Return a recorded value with the bounds of its interval."""
    return value.value, value.low, value.high


def exchanged_by_parting(splits: Record) -> dict[str, Shares]:
    """Say how often the class of the bases and that of the deletions is named, by what is kept apart."""
    return {kept_apart: {part: splits.values[f"exchanged_{part}/{kept_apart}"].value for part in ("bases", "deletions")}
            for kept_apart in splits.array("parts").tolist()}


def measure_training(seeds: Record) -> Training:
    """Return the training of three seeds; their accuracy is that over all their test sequences."""
    validation, test = (tuple(seeds.values[f"whole_{part}_{seed}"] for seed in range(3))
                        for part in ("validation", "test"))
    count = sum(each.n for each in test)
    share = sum(each.value * each.n for each in test) / count
    return Training(whole_test=percent(share, 1), losses=seeds.array("trace_loss"), steps=seeds.array("trace_step"),
                    validation_curves=seeds.array("trace_validation"), validation=validation, test=test,
                    test_share=Value(share, n=count))


def measure_evidence(records: Mapping[str, Record], classes: Sequence[str]) -> Evidence:
    """Tell apart what is read of bases and of deletions."""
    seeds, splits = records["seeds"], records["splits"]
    confusion = seeds.array("confusion").sum(0)
    accuracies = accuracy_by_class(confusion)
    alone, still = accuracies[variant_runs.SETS.index("only deletions")], np.isin(classes, UNSHIFTED)
    exchanged = {part: exchange(seeds, records["baselines"], part) for part in ("bases", "deletions")}
    by_lineage = splits.array("confusion")[splits.array("parts").tolist().index("lineage")]
    follow = exchanged["deletions"].bert
    return Evidence(
        deletions_alone=percent(alone[~still].mean()), deletions_still=percent(alone[still].mean()),
        follow=f"{percent(follow.min())} to {percent(follow.max())}", sets=variant_runs.SETS,
        accuracies={"invented gene": accuracies,
                    "real lineages": accuracy_by_class(records["real"].array("confusion"))},
        exchanged=exchanged,
        confusions={"by lineage": row_shares(by_lineage),
                    "only substitutions": row_shares(confusion[variant_runs.SETS.index("only substitutions")])})


def exchange(seeds: Record, baselines: Record, part: str) -> Exchange:
    """Say how often the class of that part of a sequence is named, where its bases and deletions are of two classes."""
    words, gapped = (baselines.values[f"{name}/exchanged-{part}"].value for name in ("kmers", "kmers-gapped"))
    return Exchange(np.array([seeds.values[f"exchanged_{part}_{seed}"].value for seed in range(3)]), words, gapped)


def accuracy_by_class(confusion: Int[np.ndarray, "set class named"]) -> Float[np.ndarray, "set class"]:
    """Return the share of each class's sequences that are named rightly."""
    return np.diagonal(confusion, axis1=1, axis2=2) / confusion.sum(-1).clip(1)


def row_shares(counts: Int[np.ndarray, "class named"]) -> Float[np.ndarray, "class named"]:
    """Return counts as shares of their rows."""
    return counts / counts.sum(-1, keepdims=True).clip(1)


def measure_pretraining(records: Mapping[str, Record], classes: int) -> Pretraining:
    """Compare the gates of the pre-trained classifier with those of three seeds without, and with the control."""
    pretrained, seeds, controls = records["pretraining"], records["seeds"], records["measures"]
    directional = GATES.index("directional")
    before = pretrained.array("trace_gates")[0][:, directional]
    top = seeds.array("gates")[:, :, -1, :, directional]
    return Pretraining(
        updates=pretrained["updates"], hidden=percent(SHARE), before=percent(before.mean(), 1),
        before_control=percent(controls.array("control_gates")[..., directional].mean(), 1),
        top=percent(pretrained.array("gates")[:, -1, :, directional].mean()),
        top_seeds=", ".join(percent(shares.mean()) for shares in top),
        loss=pretrained.array("pretrain_loss"), test=pretrained.values["whole_test"],
        exchanged={part: pretrained[f"exchanged_{part}"] for part in ("bases", "deletions")},
        curves=compare_layers(records, classes),
        gates={"pre-trained": pretrained.array("gates").mean(0)[None], "three seeds, not": seeds.array("gates").mean(1),
               "control": controls.array("control_gates").mean(0)[None]})


def compare_layers(records: Mapping[str, Record], classes: int) -> dict[str, dict[str, np.ndarray]]:
    """Return gate shares and the entropy that rows lack, by layer, of all models: a panel each, in per cent."""
    gates, entropy = (average_heads(records, measured, classes) for measured in ("gates", "entropy"))
    panels = {name: {model: 100 * shares[..., GATES.index(name)] for model, shares in gates.items()}
              for name in ("directional", "cluster")}
    return panels | {"missing entropy": {model: 100 * (1 - relative) for model, relative in entropy.items()}}


def average_heads(records: Mapping[str, Record], measured: str, classes: int) -> dict[str, np.ndarray]:
    """Return what was measured in each model, ``(sequence, layer, ...)``, as means over heads.

    Of the pre-trained encoder before the classes only the mean over sequences was recorded, ``(layer, ...)``.
    """
    pretrained, control = records["pretraining"], records["measures"].array(f"control_{measured}")
    by_head = {"pre-trained": pretrained.array(measured),
               **{f"seed {seed}": values for seed, values in enumerate(records["seeds"].array(measured))},
               "control": control[::len(control) // classes]}  # the first sequence of each class
    return {**{model: values.mean(2) for model, values in by_head.items()},
            "before the classes": pretrained.array(f"trace_{measured}")[0]}


def measure_real(records: Mapping[str, Record]) -> RealLineages:
    """Return what the classifier that was trained around real lineages names, and what simple ones do."""
    real, splits, baselines = records["real"], records["real-splits"], records["baselines-real"]
    by_lineage, deposited, exchanged = splits.values["bert/lineage"], real.values["open"], exchanged_by_parting(splits)
    return RealLineages(
        open_right=round(deposited.value * deposited.n), real_units=splits["units/lineage"],
        real_lineage=percent(by_lineage.value, 1), real_least=percent(by_lineage.low, 1),
        real_follow=" and ".join(percent(share["deletions"]) for share in exchanged.values()),
        real_rest=" and ".join(percent(1 - sum(share.values())) for share in exchanged.values()),
        test=real.values["whole_test"], deposited=deposited,
        simple={name: baselines[f"{name}/open"] for name in ("kmers", "nearest", "length")},
        table=tabulate(splits), exchanged=exchanged)
