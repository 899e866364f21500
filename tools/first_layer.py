"""Cut GPT-2's first layer out of the whole model: ``python -m tools.first_layer FOLDER`` writes the bundled folder.

FOLDER holds GPT-2 small as the model hub has it, or the extract of its attention that ``gpt2`` is also known by.
"""

import argparse
import json
from pathlib import Path

from safetensors.numpy import load_file, save

from analysis.core.files import sha256, write_atomically
from analysis.models import checkpoints

PLACE = checkpoints.BUNDLED / "gpt2-first-layer"
KEPT = (
    "wpe.weight",
    *(f"h.0.{part}.{kind}" for part in ("ln_1", "attn.c_attn", "attn.c_proj") for kind in ("weight", "bias")),
)
CONFIG = {
    "model_type": "gpt2",
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 1,
    "partial": True,
    "n_head": 12,
    "vocab_size": 50257,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-05,
}


def cut(folder: Path, place: Path = PLACE) -> Path:
    """Write the first layer of the GPT-2 in a folder, and the sums of all files beside it.

    Raises
    ------
    Tampered
        If the file is not GPT-2 small, by the checksums that it is known by.
    """
    source = folder / "model.safetensors"
    if sha256(source) not in checkpoints.KNOWN["gpt2"].sha256:
        raise checkpoints.Tampered(f"{source} is not the file of GPT-2 small, by its sha256")
    stored = load_file(source)
    write_atomically(place / "model.safetensors", save({name: stored[name] for name in KEPT}, {"format": "pt"}))
    write_atomically(place / "config.json", json.dumps(CONFIG, indent=1) + "\n")
    files = sorted(path for path in place.iterdir() if path.name != "SHA256SUMS")
    write_atomically(place / "SHA256SUMS", "".join(f"{sha256(path)}  {path.name}\n" for path in files))
    return place


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    print(cut(parser.parse_args().folder))
