"""What a trained language model is published with: its files, its card in words and as data, its trace and digests.

The format is described in :mod:`book.lab.training.gpt2_mini`.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from torch import nn

from analysis.core.files import write_together

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
