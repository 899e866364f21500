"""The variant classifier: a BERT trained from scratch to tell eight classes of spike genes apart.

``MINI`` trains in minutes on two cores and is bundled; ``BASE`` is BERT_BASE as the paper has it, for one GPU.
Data come from :mod:`book.lab.dna`; what the trained model shows is measured elsewhere.
"""

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from analysis.core.files import make_writable, write_together
from analysis.models.memory import check_memory
from book.lab.dna.fasta import Gene
from book.lab.dna.kmers import build_tokenizer, kmers, load_tokenizer, words
from book.lab.dna.reference import ACCESSION, fetch_reference
from book.lab.dna.simulate import Backbone, invent_backbones, read_backbones, simulate
from book.lab.dna.splits import Split, split
from book.lab.training import loop
from book.lab.training.masked_kmers import pretrain
from book.lab.training.speed import compiled_loss, eager_loss, register_float32_attention
from book.lab.training.trained_body import copy_body

POSITIONS = 512


@dataclass(frozen=True)
class Recipe:
    """Architecture, data and training of one classifier; everything that its result depends on besides the seed."""

    name: str
    layers: int = 12
    heads: int = 12
    width: int = 192
    hidden: int = 768
    attention_dropout: float = 0.0
    dropout: float = 0.0
    initial: float = 0.03
    sequences: int = 2800
    by: str = "sequence"
    batch: int = 4
    steps: int = 500
    rate: float = 3e-4
    embedding_rate: float = 3.0
    warmup: int = 60
    bf16: bool = True
    pad_to: int = 0  # tokens of every training sequence, padding included; 0 for the longest of the training part
    compiled: bool = False  # on a GPU into CUDA graphs, which want a fixed length
    pretrain_steps: int = 0  # of masked-k-mer pre-training (:mod:`book.lab.training.masked_kmers`)
    start: str = ""  # a trained BERT of the same sizes to begin with (:mod:`book.lab.training.trained_body`)
    look_every: int = 0  # updates between looks at the validation part, whose best weights are kept; 0 for none
    guard: float | None = None  # as in :class:`book.lab.training.loop.Settings`

    def __post_init__(self):
        if self.batch > self.sequences:
            raise ValueError(f"batch must be at most the {self.sequences} sequences that there are, got {self.batch}")
        if self.batch < 1 or self.pretrain_steps < 0:
            raise ValueError(
                f"batch must be at least 1 and pretrain_steps at least 0, got {self.batch} and {self.pretrain_steps}"
            )


MINI = Recipe("variant-bert-mini")
BASE = Recipe(
    "variant-bert-base",
    width=768,
    hidden=3072,
    attention_dropout=0.1,
    dropout=0.1,
    initial=0.02,
    sequences=56460,
    batch=4,
    steps=19761,
    rate=7.5e-5,
    warmup=1000,
    pad_to=POSITIONS,
    compiled=True,
)
"""As large as the paper's; 39,522 training sequences, which are 70 % of all; 2 epochs, batches of 4
(section 2.2).

The authors' code fine-tunes bert-base-cased on 36,360 of these, 18,180 updates at a rate of 2e-5; the others are its
validation part. That rate would be little for random weights: this is the rate of ``MINI`` divided by the ratio of the
widths. Tried once, on an H100 (18 ms per update), it named all validation sequences that were looked at rightly from
update 395 to 2,964, and collapsed at update 3,234, from which it did not come back: too high for too long.
"""
CAREFUL = replace(
    BASE,
    name="variant-bert-base-careful",
    batch=16,
    steps=4940,
    rate=5e-5,
    embedding_rate=1.0,
    warmup=494,
    look_every=200,
    guard=5.0,
)
"""The same 2 epochs in larger batches, with what ``BASE`` lacked: a lower rate, a warm-up over a tenth, and a guard."""
TINY = Recipe(
    "variant-bert-tiny",
    layers=2,
    heads=2,
    width=32,
    hidden=64,
    sequences=240,
    batch=16,
    steps=120,
    rate=3e-3,
    warmup=10,
    bf16=False,
)
"""Two layers, for tests."""


@dataclass(frozen=True)
class Data:
    """Sequences parted, their token ids and class numbers; ``origin`` says around which backbones they were made."""

    genes: list[Gene]
    parts: Split
    tokenizer: Any
    labels: tuple[str, ...]
    origin: str

    def encode(
        self, genes: Sequence[Gene], pad_to: int | None = None, device: torch.device | str = "cpu"
    ) -> dict[str, torch.Tensor]:
        """Return ``input_ids``, ``attention_mask`` and ``labels``; padded to the longest, or to ``pad_to``."""
        length = pad_to or min(POSITIONS, 1 + max(len(kmers(g.bases)) for g in genes))
        first, unknown = self.tokenizer.cls_token_id, self.tokenizer.unk_token_id
        ids = torch.full((len(genes), length), self.tokenizer.pad_token_id)
        keep = torch.zeros_like(ids)
        for row, kept, gene in zip(ids, keep, genes, strict=True):
            coded = [first, *(self.vocabulary.get(word, unknown) for word in kmers(gene.bases))][:length]
            row[: len(coded)], kept[: len(coded)] = torch.tensor(coded), 1
        labels = torch.tensor([self.labels.index(g.label) for g in genes])
        coded = {"input_ids": ids, "attention_mask": keep, "labels": labels}
        return {name: tensor.to(device) for name, tensor in coded.items()}

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        """The number of each k-mer: what the tokenizer says of it, found without its detours."""
        return self.tokenizer.get_vocab()


def make_data(
    recipe: Recipe, seed: int = 0, folder: Path | None = None, backbones: Sequence[Backbone] | None = None
) -> Data:
    """Simulate the sequences of a recipe around real backbones (a folder), given ones, or invented ones.

    ``folder`` may be :data:`book.lab.dna.reference.ACCESSION`: the reference gene, if a download is allowed.
    """
    origin = "synthetic gene"
    if str(folder) == ACCESSION:
        backbones, origin = invent_backbones(0, gene=fetch_reference()), f"invented clades of {ACCESSION}"
    elif folder is not None:
        backbones, origin = read_backbones(folder), f"real lineages ({Path(folder).name})"
    backbones = backbones or invent_backbones(0)
    genes = list(simulate(backbones, recipe.sequences, seed))
    parts = split(genes, recipe.by, seed, shares=(0.1, 0.2))
    tokenizer = build_tokenizer((genes[i].bases for i in parts.train), POSITIONS)
    return Data(genes, parts, tokenizer, tuple(sorted({g.label for g in genes})), origin)


def configure(recipe: Recipe, data: Data):
    """Return the configuration of the classifier: BERT with one output a class."""
    from transformers import BertConfig

    return BertConfig(
        vocab_size=len(data.tokenizer),
        hidden_size=recipe.width,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        intermediate_size=recipe.hidden,
        max_position_embeddings=POSITIONS,
        attention_probs_dropout_prob=recipe.attention_dropout,
        hidden_dropout_prob=recipe.dropout,
        initializer_range=recipe.initial,
        pad_token_id=0,
        num_labels=len(data.labels),
        id2label=dict(enumerate(data.labels)),
        label2id={name: i for i, name in enumerate(data.labels)},
    )


def initialise(recipe: Recipe, data: Data, seed: int, attention: str = "eager") -> torch.nn.Module:
    """Make the classifier that a training with this seed begins with: random, or random around a trained body."""
    from transformers import BertForSequenceClassification

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BertForSequenceClassification._from_config(configure(recipe, data), attn_implementation=attention)
    if recipe.start:
        copy_body(model.bert, recipe.start, data.tokenizer)
    return model


def train(
    recipe: Recipe,
    out: str | Path,
    *,
    seed: int = 0,
    folder: Path | None = None,
    device: torch.device | str = "cpu",
    resume: bool = True,
    data: Data | None = None,
    probe: Callable[[int, torch.nn.Module], Mapping[str, Any]] | None = None,
    probe_at: Sequence[int] = (),
    limit: float = math.inf,
) -> dict:
    """Train a classifier and write model, tokenizer, card and trace to ``out``; return its report.

    The checkpoint kept is the last one, whose step count was chosen on the validation part, or, where the recipe looks
    at that part, the best one since the training was begun or resumed. The test part is scored once, here, at the end.

    ``folder`` has real backbones; without it the gene is invented, and the report says so. A probe of validation
    accuracy and loss is always added.
    """
    out, settings = make_writable(out), _settings(recipe, recipe.steps, recipe.warmup, seed, recipe.guard)
    data = data or make_data(recipe, seed, folder)
    coded = data.encode([data.genes[i] for i in data.parts.train], recipe.pad_to or None)
    kind = register_float32_attention() if recipe.bf16 and torch.device(device).type == "cpu" else "sdpa"
    model = initialise(recipe, data, seed, kind)
    identity = {
        **{key: value for key, value in asdict(recipe).items() if key not in asdict(settings)},
        "origin": data.origin,
        "vocabulary": len(data.tokenizer),
    }
    before = _pretrained(
        recipe, model, coded, data, out=out / "pretraining", seed=seed, device=device, identity=identity, resume=resume
    )
    order, begun = _order(len(data.parts.train), recipe.steps, recipe.batch, [seed, 7]), []

    def batch(step):
        begun.append(time.monotonic())
        rows = torch.from_numpy(order[step])
        return {name: tensor[rows] for name, tensor in coded.items()}

    best: dict[str, Any] = {"step": recipe.steps, "loss": math.inf}

    def look(step, model):
        some = data.parts.validation[:: -(-len(data.parts.validation) // 96)]
        right, nats = score(model, data, some, bf16=recipe.bf16)
        if recipe.look_every and nats < best["loss"]:
            weights = {name: value.clone() for name, value in model.state_dict().items()}
            best.update(step=step, loss=nats, weights=weights)
        return {"validation": right, "validation_loss": nats, **(probe(step, model) if probe else {})}

    loss = compiled_loss(model, torch.device(device)) if recipe.compiled else eager_loss
    run = loop.train(
        model,
        batch,
        loss,
        settings,
        out / "state",
        probe=look,
        probe_at={*probe_at, recipe.steps, *(range(0, recipe.steps, recipe.look_every) if recipe.look_every else ())},
        device=device,
        identity=identity,
        resume=resume,
        name=recipe.name,
        save_every=30.0 if recipe.width < BASE.width else 120.0,
        limit=limit,
    )
    if "weights" in best:
        model.load_state_dict(best["weights"])
    on_gpu = recipe.bf16 and torch.device(device).type == "cuda"
    report = {
        "name": recipe.name,
        "seed": seed,
        "origin": data.origin,
        "steps": len(run.losses),
        "kept": min(best["step"], len(run.losses)),
        "seconds": round(run.seconds + (before.seconds if before else 0)),
        "ms_per_step": round(1000 * float(np.median(np.diff(begun))), 2) if len(begun) > 1 else None,
        "vocabulary": len(data.tokenizer),
        "parameters": sum(p.numel() for p in model.parameters()),
        "validation": accuracy(model.eval(), data, data.parts.validation, bf16=on_gpu),
        "test": accuracy(model, data, data.parts.test, bf16=on_gpu),
        "final_loss": float(run.losses[-20:].mean()),
        "recipe": asdict(recipe),
    }
    if before:
        report["pretrain_loss"] = float(before.losses[-20:].mean())
        run.trace["pretrain_loss"] = before.losses
    _publish(out, model, data, report, run)
    return report


def _settings(recipe: Recipe, steps: int, warmup: int, seed: int, guard: float | None = None) -> loop.Settings:
    rates = {"*word_embeddings*": recipe.rate * recipe.embedding_rate}
    shared = {"decay": 0.01, "bf16": recipe.bf16, "seed": seed, "guard": guard}
    return loop.Settings(steps, recipe.rate, rates, warmup, "linear", **shared)


def _pretrained(recipe: Recipe, model, coded, data: Data, *, seed: int, **settled) -> loop.Run | None:
    """Pre-train the model's encoder in place where the recipe has it so; its pooler stays random."""
    if not recipe.pretrain_steps:
        return None
    steps = recipe.pretrain_steps
    settings = _settings(recipe, steps, min(recipe.warmup, steps // 10), seed)
    order = _order(len(data.parts.train), steps, recipe.batch, [seed, 8])
    encoder, run = pretrain(model.config, coded, data.tokenizer, settings, order=order, **settled)
    model.bert.load_state_dict(encoder.state_dict(), strict=False)
    return run


def rebatched(recipe: Recipe, batch: int) -> Recipe:
    """Return the recipe with other batches: the same epochs, and the rate times the root of the batches' ratio.

    >>> wide = rebatched(BASE, 36)
    >>> wide.batch, wide.steps, wide.warmup, round(wide.rate / BASE.rate, 6)
    (36, 2196, 111, 3.0)
    """
    if not 1 <= batch <= recipe.sequences:
        raise ValueError(f"batch must be 1 to {recipe.sequences}, the number of sequences, got {batch}")
    ratio = batch / recipe.batch
    return replace(
        recipe,
        batch=batch,
        steps=max(1, round(recipe.steps / ratio)),
        rate=recipe.rate * ratio**0.5,
        warmup=round(recipe.warmup / ratio),
    )


def _order(count: int, steps: int, batch: int, seed: Sequence[int]) -> np.ndarray:
    """Return which sequences each step sees: whole epochs, each shuffled."""
    rng = np.random.default_rng(seed)
    needed = steps * batch
    check_memory(2 * 8 * needed, f"the order of {needed:,} sequences")
    epochs = [rng.permutation(count) for _ in range(-(-needed // count))]
    return np.concatenate(epochs)[:needed].reshape(steps, batch)


def accuracy(model: torch.nn.Module, data: Data, indices: Sequence[int] | np.ndarray, *, bf16: bool = False) -> float:
    """Return the share of sequences whose class the model names."""
    return score(model, data, indices, bf16=bf16)[0]


@torch.no_grad()
def score(
    model: torch.nn.Module, data: Data, indices: Sequence[int] | np.ndarray, *, bf16: bool = False
) -> tuple[float, float]:
    """Return the share of sequences whose class the model names, and the mean loss in nats."""
    device, right, nats = next(model.parameters()).device, 0, 0.0
    many = 16 if device.type == "cpu" else 128
    for some in np.array_split(np.asarray(indices), -(-len(indices) // many)):
        coded = data.encode([data.genes[i] for i in some], device=device)
        labels = coded.pop("labels")
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            logits = model(**coded).logits.float()
        right += int((logits.argmax(-1) == labels).sum())
        nats += float(torch.nn.functional.cross_entropy(logits, labels, reduction="sum"))
    return right / len(indices), nats / len(indices)


@torch.no_grad()
def predict(model: torch.nn.Module, tokenizer, sequences: Sequence[str]) -> torch.Tensor:
    """Return the class probabilities of each sequence, ``(sequence, class)``, in float32 on the CPU."""
    rows = []
    for start in range(0, len(sequences), 16):
        some = [words(bases) for bases in sequences[start : start + 16]]
        coded = tokenizer(some, padding=True, truncation=True, return_tensors="pt").to(model.device)
        rows.append(model(**coded).logits.float().softmax(-1).cpu())
    return torch.cat(rows)


def _publish(out: Path, model, data: Data, report: dict, run: loop.Run) -> None:
    """Write the model in half precision, its tokenizer, the card and the trace."""
    replaced = {name: tensor.half().contiguous() for name, tensor in model.state_dict().items()}
    from safetensors.torch import save

    content = save(replaced, metadata={"format": "pt"})
    with write_together(out) as folder:
        model.config.save_pretrained(folder)
        data.tokenizer.save_pretrained(folder)
        (folder / "model.safetensors").write_bytes(content)
        (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        np.savez_compressed(folder / "trace.npz", loss=run.losses, **run.trace)
        sums = f"{hashlib.sha256(content).hexdigest()}  model.safetensors\n"
        (folder / "SHA256SUMS").write_text(sums, encoding="utf-8")


def load(folder: str | Path):
    """Load a published classifier: model in float32 and evaluation mode, tokenizer, class names in order."""
    from analysis.models import checkpoints, pretrained

    model = pretrained.load(checkpoints.find(Path(folder).name, folder=folder), task="classifier", attention="sdpa")
    return model, load_tokenizer(folder), [model.config.id2label[i] for i in range(model.config.num_labels)]


def shortened(recipe: Recipe, **changes) -> Recipe:
    """Return the recipe with some settings replaced."""
    return replace(recipe, **changes)
