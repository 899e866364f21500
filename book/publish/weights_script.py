"""A bundled model as a script: its parameters in half precision, its tokenizer and sizes, for the viewers of the book.

A script rather than a data file, since a page that is opened from a file may load the one and not the other.
"""

import base64
import json
from pathlib import Path

import numpy as np

import analysis

BUNDLED = Path(analysis.__file__).parent / "bundled"
LIMIT = 2_000_000
"""Bytes that a script may have."""
NEEDED = {"width": "n_embd", "layers": "n_layer", "heads": "n_head", "vocabulary": "vocab_size",
          "context": "n_positions", "epsilon": "layer_norm_epsilon"}


def script(name: str, folder: Path = BUNDLED) -> str:
    """Return the script of a GPT-2: it sets ``Play.models[name]``.

    ``tensors`` names each parameter's first entry and length in ``data``, the entries of all of them as 16-bit
    floats, in base64.

    Raises
    ------
    ValueError
        If the model is no GPT-2, a parameter is too large for half precision, or the script too heavy for a page.
    """
    from safetensors.numpy import load_file
    config = json.loads((folder / name / "config.json").read_text(encoding="utf-8"))
    if config["model_type"] != "gpt2":
        raise ValueError(f"{name} must be a GPT-2 for transformer.js, got {config['model_type']!r}")
    sizes = {ours: config[theirs] for ours, theirs in NEEDED.items()}
    sizes["hidden"] = config["n_inner"] or 4 * sizes["width"]
    tensors, parts, start = {}, [], 0
    for key, values in sorted(load_file(folder / name / "model.safetensors").items()):
        tensors[key.removeprefix("transformer.")] = [start, values.size]
        parts.append(half(values, key))
        start += values.size
    text = json.dumps({"name": name, "config": sizes, **tokenizer(folder / name), "tensors": tensors,
                       "data": base64.b64encode(b"".join(part.tobytes() for part in parts)).decode("ascii")},
                      separators=(",", ":"), ensure_ascii=False)
    written = f"Play.models[{json.dumps(name)}] = {text};\n"
    if (size := len(written.encode())) > LIMIT:
        raise ValueError(f"the script of {name} would weigh {size:,} bytes, more than {LIMIT:,}")
    return written


def half(values: np.ndarray, name: str = "values") -> np.ndarray:
    """Return an array's entries in little-endian half precision, flat; refuse what does not fit.

    >>> half(np.array([[1.0, -0.5]])).tolist()
    [1.0, -0.5]
    """
    if not np.abs(values).max() < np.finfo(np.float16).max:
        raise ValueError(f"{name} holds entries too large for half precision, or not finite")
    return np.ascontiguousarray(values).ravel().astype("<f2")


def tokenizer(folder: Path) -> dict[str, list[str]]:
    """Return the tokens by number and the merges by rank, each pair with a blank between."""
    model = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    return {"tokens": sorted(model["vocab"], key=model["vocab"].get), "merges": merges}
