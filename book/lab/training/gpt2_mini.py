"""Train ``gpt2-mini``: GPT-2's architecture at 0.7 M parameters, from scratch, on the text that every Python carries.

Learned positions, biases, LayerNorm before each part, output tied to the token table; 2 layers, 8 heads, width 128,
context 128, a byte-level BPE of 2,048 tokens. Query biases start at 0, so that a semi-bias has to be learned. The
folder that :func:`train` writes loads in ``transformers`` and holds

* ``model.safetensors``, ``config.json``, ``tokenizer.json``, ``tokenizer_config.json``, ``SHA256SUMS``;
* ``README.md``: the model card, with corpus digest, Python version, seed, steps and losses;
* ``trace.json``: the same as data (``card``), and the axes of each array in ``trace.npz`` (``arrays``);
* ``trace.npz``: one row a probed step, read by :func:`read_trace`. Always there: ``step`` (updates made before the
  look), ``loss`` (mean training loss of the updates since the last look, in nats per token) and ``held_out`` (loss on
  64 windows of held-out text). The probe adds the rest; ``python -m book train`` adds
  ``rank_correlation (step, layer, head)``, Spearman's correlation of the positional semi-bias with the position;
  ``size (step, layer, head)``, its standard deviation over positions in nats; ``semi_bias (step, head, position)``,
  the semi-bias itself in layer 0, in nats; and the same three with ``_folded``, where the LayerNorm before the layer
  is folded in and the position divided by its sigma. Where the semi-bias is 0 the correlation is nan.

What a probe measures is mathematics and belongs above; this module only calls it.
"""

import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from analysis.core import device as devices
from analysis.core.files import make_writable, read_json_object, write_together
from analysis.data import texts
from book.lab.training import loop

NAME = "gpt2-mini"
LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY = 2, 8, 128, 128, 2048
STEPS, BATCH, LOOKS, WINDOWS = 3000, 16, 60, 64
END = "<|endoftext|>"
CARD = """---
license: mit
language: en
pipeline_tag: text-generation
---
# {name}

{description}, a byte-level BPE
of at most 2,048 tokens. {parameters:,} parameters. It is there to have its attention taken apart, not to write text.

| | |
|---|---|
| training text | the `pydoc_data` topics and the docstrings of the standard library of CPython {python}, each paragraph once, {training_tokens:,} tokens |
| its sha256 | `{corpus_sha256}` |
| held-out text | every fourth topic, {held_out_tokens:,} tokens |
| its sha256 | `{held_out_sha256}` |
| seed, steps, tokens seen | {seed}, {steps:,}, {tokens_seen:,} |
| optimiser | AdamW, rate {rate} after {warmup} steps of warm-up, cosine, decay {decay} except on vectors |
| training loss, last 100 steps | {train_loss:.4f} nats a token |
| held-out loss | {held_out_loss:.4f} nats a token |
| loss on the 48 bundled passages | {passages_loss:.4f} nats a token |
| made with | torch {torch}, {device}, {seconds} s |

Made again with `python -m book train {name} --seed {seed} --steps {steps}`; the passages are part of the
held-out topics. `trace.npz` holds what was measured along the way; its format is described in
`book.lab.training.gpt2_mini`.

The weights are under the MIT licence. The training text is Copyright (c) 2001-2023 Python Software Foundation, used
under the Python Software Foundation License Version 2.
"""  # noqa: E501


@dataclass(frozen=True)
class Architecture:
    """A model that this recipe trains."""

    name: str  # as ``python -m book train`` takes it
    make: Callable[[int, int], nn.Module]  # of the size of the vocabulary and a seed
    description: str  # for the model card: a phrase without its full stop
    rate: float | None = None  # at its height, if not gpt2-mini's


@dataclass(frozen=True)
class Corpus:
    """A text to train on and one to look at, with the tokenizer that the first one has trained."""

    tokenizer: Any
    ids: Int[Tensor, " token"]
    held_out: Int[Tensor, " other"]
    digests: dict[str, str]  # sha256 of the texts, by ``corpus`` and ``held_out``

    @property
    def windows(self) -> Int[Tensor, "window position"]:
        """The windows of held-out text that a training looks at."""
        return windows(self.held_out, WINDOWS)


def read_corpus(pair: tuple[str, str] | None = None) -> Corpus:
    """Tokenize training and held-out text; by default the two parts of :func:`analysis.data.texts.corpus`."""
    text, held_out = pair or (texts.corpus(), texts.corpus(held_out=True))
    tokenizer = make_tokenizer(text)
    corpus = Corpus(
        tokenizer,
        encode(tokenizer, text),
        encode(tokenizer, held_out),
        {"corpus": texts.digest(text), "held_out": texts.digest(held_out)},
    )
    windows(corpus.ids), windows(corpus.held_out)
    return corpus


def settings(steps: int = STEPS, seed: int = 0) -> loop.Settings:
    """Return how gpt2-mini is trained: AdamW, decay of matrices and tables only, warm-up and cosine."""
    return loop.Settings(
        steps=steps, rate=3e-3, warmup=min(100, steps // 10), final=0.05, decay=0.1, betas=(0.9, 0.95), seed=seed
    )


def looks(steps: int = STEPS, count: int = LOOKS) -> list[int]:
    """Return the steps to probe at: 0, then evenly on a logarithmic scale; the first coincide, so fewer than ``count``.

    >>> looks(100, 6)
    [0, 1, 3, 10, 32, 100]
    """
    return sorted({0, *np.geomspace(1, steps, count - 1).round().astype(int).tolist()})


def make_tokenizer(text: str):
    """Train the byte-level BPE on the text and return it as transformers' tokenizer."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(
        text.split("\n\n"),
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=[END],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token=END, eos_token=END, unk_token=END, model_max_length=CONTEXT
    )


def make_model(vocabulary: int = VOCABULARY, seed: int = 0) -> nn.Module:
    """Make the untrained model: a ``GPT2LMHeadModel`` with GPT-2's own initialisation, and no dropout."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=LAYERS,
        n_head=HEADS,
        n_embd=WIDTH,
        n_positions=CONTEXT,
        vocab_size=vocabulary,
        bos_token_id=0,
        eos_token_id=0,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return GPT2LMHeadModel(config)


GPT2 = Architecture(
    NAME,
    make_model,
    """GPT-2's architecture at a small size, trained from scratch for *Attention, \
Taken Apart*: learned positions, biases,
LayerNorm before each part, output tied to the token table; 2 layers, 8 heads, width 128, context 128""",
)


def encode(tokenizer, text: str) -> Int[Tensor, " token"]:
    """Return the text's token ids, however long it is."""
    return torch.tensor(tokenizer.backend_tokenizer.encode(text).ids)


def windows(ids: Int[Tensor, " token"], count: int | None = None) -> Int[Tensor, "window position"]:
    """Cut the ids into windows of context + 1 that overlap by one token; ``count`` of them, evenly spread."""
    if len(ids) <= CONTEXT:
        raise ValueError(f"the text must have more than {CONTEXT} tokens, got {len(ids)}")
    cut = ids.unfold(0, CONTEXT + 1, CONTEXT)
    return cut if count is None or count >= len(cut) else cut[torch.arange(count) * len(cut) // count]


def loss(model: nn.Module, batch: Int[Tensor, "window position"]) -> Tensor:
    """Return the mean cross entropy of each next token, in nats."""
    scores = model(input_ids=batch[:, :-1], use_cache=False).logits
    return cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten())


@torch.no_grad()
def evaluate(model: nn.Module, cut: Int[Tensor, "window position"]) -> float:
    """Return the mean loss over windows, in nats per token."""
    where = next(model.parameters()).device
    parts = [loss(model, part.to(where)).item() * len(part) for part in cut.split(WINDOWS)]
    return sum(parts) / len(cut)


def train(
    out: str | Path,
    steps: int = STEPS,
    seed: int = 0,
    *,
    device: str | None = None,
    probe: Callable[[int, nn.Module], Mapping[str, Any]] | None = None,
    resume: bool = True,
    corpus: tuple[str, str] | Corpus | None = None,
    report: Callable[[int, float], None] = lambda step, held_out: None,
    architecture: Architecture | None = None,
) -> dict:
    """Train the model, write the folder described above, and return its card as a dict.

    Parameters
    ----------
    out
        The folder; the resumable state lies in ``out/state``.
    device
        A name that :func:`analysis.core.device.choose` takes.
    probe
        Step and model to arrays by name, added to the trace.
    corpus
        Training and held-out text, as :func:`read_corpus` takes or returns them.
    report
        Called with step and held-out loss at each probed step.
    """
    out, where = make_writable(out), devices.choose(device)
    text = corpus if isinstance(corpus, Corpus) else read_corpus(corpus)
    built = architecture or GPT2
    model = built.make(len(text.tokenizer), seed)

    def batch(step: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        starts = torch.randint(len(text.ids) - CONTEXT, (BATCH, 1), generator=generator)
        return text.ids[starts + torch.arange(CONTEXT + 1)]

    def look(step: int, model: nn.Module) -> dict:
        value = evaluate(model, text.windows)
        report(step, value)
        return {"held_out": value, **(probe(step, model) if probe else {})}

    schedule = settings(steps, seed)
    schedule = replace(schedule, rate=built.rate or schedule.rate)
    identity = text.digests if architecture is None else {"model": built.name, **text.digests}
    run = loop.train(
        model,
        batch,
        loss,
        schedule,
        out / "state",
        probe=look,
        probe_at=looks(steps),
        device=where,
        identity=identity,
        resume=resume,
        name=built.name,
    )
    model.to("cpu").eval()
    card = {
        "name": built.name,
        "parameters": sum(p.numel() for p in model.parameters()),
        "seed": seed,
        "steps": steps,
        "tokens_seen": steps * BATCH * CONTEXT,
        "training_tokens": len(text.ids),
        "held_out_tokens": len(text.held_out),
        "corpus_sha256": text.digests["corpus"],
        "held_out_sha256": text.digests["held_out"],
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": devices.describe(where),
        "seconds": round(run.seconds),
        "train_loss": float(run.losses[-100:].mean()),
        "held_out_loss": evaluate(model, windows(text.held_out)),
        "passages_loss": evaluate(model, windows(encode(text.tokenizer, "\n\n".join(texts.passages())))),
        "rate": schedule.rate,
        "warmup": schedule.warmup,
        "decay": schedule.decay,
    }
    trace = {**run.trace, "loss": _since_last_look(run.losses, run.trace["step"])}
    publish_model(out, model, text.tokenizer, card, trace, description=built.description)
    return card


def publish_model(
    out: Path, model: nn.Module, tokenizer, card: Mapping, trace: Mapping[str, np.ndarray], *, description: str = ""
) -> None:
    """Write model, tokenizer, card, trace and digests into a temporary folder, then rename file by file.

    The trace has arrays by name, one row a look; float64 is stored as float32.
    """
    from transformers.utils import logging

    logging.disable_progress_bar()
    arrays = {key: value.astype(np.float32) if value.dtype == np.float64 else value for key, value in trace.items()}
    with write_together(out) as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        np.savez_compressed(folder / "trace.npz", **arrays)
        axes = {key: list(value.shape) for key, value in arrays.items()}
        about = json.dumps({"card": card, "arrays": axes}, indent=1) + "\n"
        (folder / "trace.json").write_text(about, encoding="utf-8")
        (folder / "README.md").write_text(CARD.format(**card, description=description), encoding="utf-8")
        files = sorted(folder.iterdir())
        sums = (f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
        (folder / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")


def _since_last_look(losses: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Average the losses between looks; the first look, before any update, gets the first batch's loss."""
    return np.array([losses[0], *(losses[a:b].mean() for a, b in pairwise(steps))])


def read_trace(folder: str | Path) -> tuple[dict, dict[str, np.ndarray]]:
    """Return the card and the trace's arrays of a trained model's folder."""
    folder = Path(folder)
    if not (folder / "trace.npz").is_file():
        raise FileNotFoundError(f"{folder} has no trace.npz: it was not written by `python -m book train {NAME}`")
    with np.load(folder / "trace.npz", allow_pickle=False) as arrays:
        return read_json_object(folder / "trace.json")["card"], dict(arrays)
