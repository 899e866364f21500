"""Reading just the tensors that are needed, in the shapes of ``axes``; GPT-2 and BERT families.

Partial reads through ``safetensors.safe_open``; ``transformers`` is not imported. What a tensor means for
attention is not decided here.
"""

import json
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from analysis.core.checks import all_finite
from analysis.core.weights import AttentionWeights, LayerNormWeights
from analysis.models.checkpoints import Checkpoint, NotFound, Tampered

FAMILIES = ("gpt2", "bert")
_NEEDED = {"gpt2": ("n_embd", "n_head", "n_layer"),
           "bert": ("hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size")}
_OLDER = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
"""What older BERT files, google-bert/bert-base-uncased among them, call the gain and bias."""


class MissingTensor(LookupError):
    """A checkpoint lacks a tensor; the message names it and the files that were searched."""


def config(checkpoint: Checkpoint) -> dict:
    """Return ``config.json``, with ``layers``, ``heads``, ``model``, ``hidden`` and ``eps`` in common names added."""
    path = checkpoint.folder / "config.json"
    try:
        given = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise NotFound(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(given, dict):
        raise ValueError(f"{path} must hold a JSON object, got {type(given).__name__}")
    family = given.get("model_type")
    if family not in FAMILIES:
        raise ValueError(f"{checkpoint.name} is of the family {family!r}; these are read: {', '.join(FAMILIES)}")
    needed = _NEEDED[family]
    if wrong := [k for k in needed if not isinstance(given.get(k), int) or given[k] < 1]:
        raise ValueError(f"{path} must give {', '.join(wrong)} as a positive whole number, "
                         f"got {', '.join(repr(given.get(k)) for k in wrong)}")
    if given[needed[0]] % given[needed[1]]:
        raise ValueError(f"{path}: {needed[0]} {given[needed[0]]} is no multiple of {needed[1]} {given[needed[1]]}")
    if family == "gpt2":
        model = given["n_embd"]
        common = {"layers": given["n_layer"], "heads": given["n_head"], "model": model,
                  "hidden": given.get("n_inner") or 4 * model, "eps": given.get("layer_norm_epsilon", 1e-5)}
    else:
        common = {"layers": given["num_hidden_layers"], "heads": given["num_attention_heads"],
                  "model": given["hidden_size"], "hidden": given["intermediate_size"],
                  "eps": given.get("layer_norm_eps", 1e-12)}
    return {**given, **common, "causal": family == "gpt2"}


def read(checkpoint: Checkpoint, *names: str, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Read tensors by name, whatever prefix (``transformer.``, ``bert.``) the file puts before them.

    Raises
    ------
    MissingTensor
        If a name is in none of the checkpoint's files.
    Tampered
        If a file is not a whole safetensors file.
    """
    found: dict[str, Tensor] = {}
    for path in checkpoint.files():
        with _opened(path) as file:
            held = set(file.keys())
            for name in names:
                full = next((full for full in _spelled(name) if full in held), None)
                if full is not None and name not in found:
                    found[name] = file.get_tensor(full).to(dtype)
    for name in names:
        if name not in found:
            raise MissingTensor(f"tensor {name!r} is not in {', '.join(str(p) for p in checkpoint.files())}")
        if not all_finite(found[name]):
            raise ValueError(f"tensor {name!r} of {checkpoint.name} holds entries that are not finite")
    return [found[name] for name in names]


def _spelled(name: str) -> list[str]:
    """List what a file may call a tensor: with or without the whole model's prefix, in older words."""
    older = next((name.removesuffix(new) + old for new, old in _OLDER.items() if name.endswith(new)), None)
    return [prefix + n for n in (name, older) if n for prefix in ("", "transformer.", "bert.")]


def check_whole(checkpoint: Checkpoint) -> None:
    """Refuse a checkpoint one of whose files is truncated, reading headers only."""
    for path in checkpoint.files():
        with _opened(path):
            pass


def _opened(path: Path):
    from safetensors import SafetensorError, safe_open
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError, ValueError) as error:
        raise Tampered(f"{path} is not a whole safetensors file: {error}") from None


def has(checkpoint: Checkpoint, name: str) -> bool:
    """Say whether the checkpoint holds a tensor (headers only are read)."""
    for path in checkpoint.files():
        with _opened(path) as file:
            if set(_spelled(name)) & set(file.keys()):
                return True
    return False


def attention_layer(checkpoint: Checkpoint, layer: int, dtype: torch.dtype = torch.float32) -> AttentionWeights:
    """Read one attention layer.

    Parameters
    ----------
    layer
        Counted from 0.

    Raises
    ------
    ValueError
        If there is no such layer, or the family is neither GPT-2 nor BERT.
    MissingTensor
        If the files lack one of its tensors.
    """
    c = config(checkpoint)
    _check_layer(c, layer)
    if c["causal"]:
        W, b, W_O, b_O = read(checkpoint, *(f"h.{layer}.attn.{n}" for n in (
            "c_attn.weight", "c_attn.bias", "c_proj.weight", "c_proj.bias")), dtype=dtype)
        Ws, bs = W.chunk(3, dim=1), b.chunk(3)
    else:
        at = f"encoder.layer.{layer}.attention"
        names = [f"{at}.self.{n}.{kind}" for kind in ("weight", "bias") for n in ("query", "key", "value")]
        *both, W_O, b_O = read(checkpoint, *names, f"{at}.output.dense.weight", f"{at}.output.dense.bias", dtype=dtype)
        Ws, bs, W_O = [W.T for W in both[:3]], both[3:], W_O.T
    due = (c["model"], c["model"])
    if any(tuple(W.shape) != due for W in (*Ws, W_O)):
        raise ValueError(f"{checkpoint.name}: the matrices of layer {layer} must be {due} as config.json has it, "
                         f"got {[tuple(W.shape) for W in (*Ws, W_O)]}")
    return _split(Ws, bs, W_O, b_O, c["heads"])


def _split(Ws, bs, W_O, b_O, heads: int) -> AttentionWeights:
    """Cut the columns of W_Q, W_K, W_V and the rows of W_O into heads."""
    model = b_O.shape[0]
    return AttentionWeights(
        *(W.reshape(model, heads, -1).transpose(0, 1).contiguous() for W in Ws),
        W_O.reshape(heads, -1, model).contiguous(),
        *(b.reshape(heads, -1).contiguous() for b in bs),
        b_O,
    )


def _check_layer(c: dict, layer: int) -> None:
    if not isinstance(layer, int) or not 0 <= layer < c["layers"]:
        raise ValueError(f"layer must be 0..{c['layers'] - 1}, got {layer!r}")


_NORMS = {"gpt2": {"attention": "h.{}.ln_1", "mlp": "h.{}.ln_2", "final": "ln_f"},
          "bert": {"embeddings": "embeddings.LayerNorm", "attention": "encoder.layer.{}.attention.output.LayerNorm",
                   "mlp": "encoder.layer.{}.output.LayerNorm"}}


def layer_norm(checkpoint: Checkpoint, which: str, layer: int = 0,
               dtype: torch.dtype = torch.float32) -> LayerNormWeights:
    """Read one LayerNorm.

    Parameters
    ----------
    which
        ``"attention"`` or ``"mlp"``: the one before that block (GPT-2) or after it (BERT);
        ``"final"`` (GPT-2) or ``"embeddings"`` (BERT): the one outside the layers.
    """
    c = config(checkpoint)
    names = _NORMS[c["model_type"]]
    if which not in names:
        raise ValueError(f"which must be one of {', '.join(names)} for {c['model_type']}, got {which!r}")
    _check_layer(c, layer)
    at = names[which].format(layer)
    gain, bias = read(checkpoint, f"{at}.weight", f"{at}.bias", dtype=dtype)
    return LayerNormWeights(gain, bias, c["eps"])


def positions(checkpoint: Checkpoint, dtype: torch.dtype = torch.float32) -> Float[Tensor, "position model"]:
    """Read the table of learned positions."""
    gpt2 = config(checkpoint)["causal"]
    return read(checkpoint, "wpe.weight" if gpt2 else "embeddings.position_embeddings.weight", dtype=dtype)[0]


def tokens(checkpoint: Checkpoint, dtype: torch.dtype = torch.float32) -> Float[Tensor, "vocab model"]:
    """Read the table of token embeddings."""
    gpt2 = config(checkpoint)["causal"]
    return read(checkpoint, "wte.weight" if gpt2 else "embeddings.word_embeddings.weight", dtype=dtype)[0]


def mlp(checkpoint: Checkpoint, layer: int, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """Read one MLP as ``W_in (model, hidden)``, ``b_in``, ``W_out (hidden, model)``, ``b_out``."""
    c = config(checkpoint)
    _check_layer(c, layer)
    at = (f"h.{layer}.mlp.c_fc", f"h.{layer}.mlp.c_proj") if c["causal"] else (
        f"encoder.layer.{layer}.intermediate.dense", f"encoder.layer.{layer}.output.dense")
    W_in, b_in, W_out, b_out = read(checkpoint, *(f"{a}.{n}" for a in at for n in ("weight", "bias")), dtype=dtype)
    if not c["causal"]:
        W_in, W_out = W_in.T.contiguous(), W_out.T.contiguous()
    return {"W_in": W_in, "b_in": b_in, "W_out": W_out, "b_out": b_out}


def random_attention_layer(config: dict, layer: int = 0, seed: int = 0,
                           dtype: torch.dtype = torch.float32) -> AttentionWeights:
    """Draw one attention layer as the family initialises it: the control for weight-only measurements.

    Weights are normal with the configuration's ``initializer_range`` (0.02), biases are zero; GPT-2 divides
    ``W_O`` by ``sqrt(2 layers)``. The draw depends on ``seed`` and ``layer`` alone.
    """
    g = torch.Generator().manual_seed(1_000_003 * seed + layer)
    std, model = config.get("initializer_range", 0.02), config["model"]
    Ws = [torch.randn(model, model, generator=g, dtype=torch.float64) * std for _ in range(4)]
    if config["causal"]:
        Ws[3] /= (2 * config["layers"]) ** 0.5
    Ws = [W.to(dtype) for W in Ws]
    zero = torch.zeros(model, dtype=dtype)
    return _split(Ws[:3], [zero] * 3, Ws[3], zero, config["heads"])
