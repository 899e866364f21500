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
NEEDED = {
    "gpt2": {
        "width": "n_embd",
        "layers": "n_layer",
        "heads": "n_head",
        "vocabulary": "vocab_size",
        "context": "n_positions",
        "epsilon": "layer_norm_epsilon",
    },
    "gpt_neox": {
        "width": "hidden_size",
        "layers": "num_hidden_layers",
        "heads": "num_attention_heads",
        "vocabulary": "vocab_size",
        "context": "max_position_embeddings",
        "epsilon": "layer_norm_eps",
    },
}
NEOX = {
    "embed_in": "wte",
    "final_layer_norm": "ln_f",
    "layers": "h",
    "input_layernorm": "ln_1",
    "post_attention_layernorm": "ln_2",
    "attention": "attn",
    "query_key_value": "c_attn",
    "dense": "c_proj",
    "dense_h_to_4h": "c_fc",
    "dense_4h_to_h": "c_proj",
}
"""What GPT-2 calls the modules of a GPT-NeoX."""


def script(name: str, folder: Path = BUNDLED) -> str:
    """Return the script of a GPT-2 or a GPT-NeoX: it sets ``Play.models[name]``.

    ``tensors`` names each parameter's first entry and length in ``data``, the entries of all of them as 16-bit
    floats, in base64. Names and layouts are GPT-2's.
    """
    from safetensors.numpy import load_file

    config = json.loads((folder / name / "config.json").read_text(encoding="utf-8"))
    if config["model_type"] not in NEEDED:
        raise ValueError(f"{name} must be a GPT-2 or a GPT-NeoX for transformer.js, got {config['model_type']!r}")
    sizes = {ours: config[theirs] for ours, theirs in NEEDED[config["model_type"]].items()}
    stored = load_file(folder / name / "model.safetensors")
    if config["model_type"] == "gpt_neox":
        stored = as_gpt2(stored, sizes["heads"])
        sizes |= rotary(name, config)
    sizes["hidden"] = len(stored["transformer.h.0.mlp.c_fc.bias"])
    tensors, parts, start = {}, [], 0
    for key, values in sorted(stored.items()):
        tensors[key.removeprefix("transformer.")] = [start, values.size]
        parts.append(half(values, key))
        start += values.size
    text = json.dumps(
        {
            "name": name,
            "config": sizes,
            **tokenizer(folder / name),
            "tensors": tensors,
            "data": base64.b64encode(b"".join(part.tobytes() for part in parts)).decode("ascii"),
        },
        separators=(",", ":"),
        ensure_ascii=False,
    )
    written = f"Play.models[{json.dumps(name)}] = {text};\n"
    if (size := len(written.encode())) > LIMIT:
        raise ValueError(f"the script of {name} would weigh {size:,} bytes, more than {LIMIT:,}")
    return written


def rotary(name: str, config: dict) -> dict[str, float]:
    """Return the base of a GPT-NeoX's angles; refuse what transformer.js does not compute."""
    angles = config["rope_parameters"]
    if (
        (angles["partial_rotary_factor"], angles["rope_type"]) != (1.0, "default")
        or config["hidden_act"] != "gelu"
        or not (config["use_parallel_residual"] and config["tie_word_embeddings"])
    ):
        raise ValueError(f"{name} must turn all channels, have the exact GELU, parallel branches and one token table")
    return {"rotary": angles["rope_theta"]}


def as_gpt2(stored: dict[str, np.ndarray], heads: int) -> dict[str, np.ndarray]:
    """Rename a GPT-NeoX's parameters, transpose its matrices, and put queries before keys before values.

    GPT-NeoX keeps query, key and value of a head together; GPT-2 keeps the queries of all heads together.

    >>> one = as_gpt2({"gpt_neox.layers.0.attention.query_key_value.bias": np.arange(6)}, heads=2)
    >>> one["transformer.h.0.attn.c_attn.bias"].tolist()
    [0, 3, 1, 4, 2, 5]
    """
    renamed = {}
    for key, values in stored.items():
        words, ordered = key.removeprefix("gpt_neox.").split("."), values
        if "query_key_value" in words:
            by_head = values.reshape(heads, 3, -1, *values.shape[1:])
            ordered = np.swapaxes(by_head, 0, 1).reshape(values.shape)
        matrix = values.ndim == 2 and words[0] != "embed_in"
        renamed[".".join(["transformer", *(NEOX.get(word, word) for word in words)])] = ordered.T if matrix else ordered
    return renamed


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
