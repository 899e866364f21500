"""Make the cases anew: ``python conformance/generate.py``, in the book's environment.

A model is drawn from a seed, written in float32 as its publishers' files would be, and read again in float64. What is
known of it is computed here by plain formulas, from its tensors and what its attention reads, without the package
``analysis``; and what the model itself returns, attention and output, must agree with them to 1e-12.
"""

import json
import math
import shutil
import sys
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from attention_conformance import CASES

from analysis.models.families.tiny import tiny_inputs, tiny_model  # configurations, and nothing that computes

POSITIONS = 6
LIMIT = 1e-12
LLAMA = "layers.{n}.self_attn"
BERT = "encoder.layer.{n}.attention"


@dataclass(frozen=True)
class Kind:
    """Where a family keeps a layer's attention, and what acts in it.

    ``attention`` is the path of the module, ``qkv`` the names of its maps or of the one that holds all three, laid out
    as ``fused`` says, ``out`` the name of the map that writes, relative to the module or, with a leading dot, to the
    model. ``norm`` is the path of the norm before the module. ``turn`` pairs the channels of rotary positions.
    """

    attention: str = LLAMA
    qkv: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")
    out: str = "o_proj"
    fused: str = ""
    norm: str = "layers.{n}.input_layernorm"
    norm_kind: str = "layer"
    one_plus: bool = False
    turn: str = ""
    stack: str = ""
    causal: bool = True
    table: tuple[str, int] = ("", 0)
    bias: str = ""
    scale: Callable = lambda config, width: width**-0.5
    settings: dict = field(default_factory=dict)


ROTARY = {"turn": "halves"}
RMS = {**ROTARY, "norm_kind": "rms"}
BERT_LIKE = {
    "attention": f"{BERT}.self",
    "qkv": ("query", "key", "value"),
    "out": f".{BERT}.output.dense",
    "norm": "",
    "causal": False,
}
BART_LIKE = {"stack": "encoder", "out": "out_proj", "norm": "", "causal": False}
GEMMA = {
    **RMS,
    "one_plus": True,
    "scale": lambda config, width: getattr(config, "query_pre_attn_scalar", width) ** -0.5,
}
KINDS = {
    "gpt2": Kind("h.{n}.attn", ("c_attn",), "c_proj", "conv", "h.{n}.ln_1", table=("wpe.weight", 0)),
    "gpt_bigcode": Kind("h.{n}.attn", ("c_attn",), "c_proj", "rows", "h.{n}.ln_1", table=("wpe.weight", 0)),
    "gpt_neo": Kind(
        "h.{n}.attn.attention", out="out_proj", norm="h.{n}.ln_1", table=("wpe.weight", 0), scale=lambda *_: 1.0
    ),
    "gpt_neox": Kind(
        "layers.{n}.attention", ("query_key_value",), "dense", "heads", settings={"attention_bias": True}, **ROTARY
    ),
    "gptj": Kind("h.{n}.attn", out="out_proj", norm="h.{n}.ln_1", turn="pairs"),
    "opt": Kind(
        "decoder.layers.{n}.self_attn",
        out="out_proj",
        norm="decoder.layers.{n}.self_attn_layer_norm",
        table=("decoder.embed_positions.weight", 2),
    ),
    "bloom": Kind(
        "h.{n}.self_attention", ("query_key_value",), "dense", "heads", "h.{n}.input_layernorm", bias="alibi"
    ),
    "mpt": Kind("blocks.{n}.attn", ("Wqkv",), "out_proj", "rows", "blocks.{n}.norm_1", bias="alibi"),
    "falcon": Kind("h.{n}.self_attention", ("query_key_value",), "dense", "groups", "h.{n}.ln_attn", **ROTARY),
    "llama": Kind(**RMS),
    "llama-biases": Kind(settings={"attention_bias": True}, **RMS),
    "mistral": Kind(**RMS),
    "qwen2": Kind(**RMS),
    "qwen3": Kind(**RMS),
    "qwen3-biases": Kind(settings={"attention_bias": True}, **RMS),
    "qwen3_moe": Kind(**RMS),
    "gemma": Kind(**GEMMA),
    "gemma2": Kind(**GEMMA),
    "gemma3_text": Kind(**GEMMA),
    "gpt_oss": Kind(**RMS),
    "phi": Kind(out="dense", **ROTARY),
    "phi3": Kind(qkv=("qkv_proj",), fused="rows", **RMS),
    "stablelm": Kind(**ROTARY),
    "stablelm-biases": Kind(settings={"use_qkv_bias": True}, **ROTARY),
    "cohere": Kind(turn="pairs"),
    "olmo": Kind(norm="", **ROTARY),
    "olmo2": Kind(norm="", **RMS),
    "granite": Kind(scale=lambda config, _: config.attention_multiplier, **RMS),
    "starcoder2": Kind(**ROTARY),
    "smollm3": Kind(**RMS),
    "bert": Kind(table=("embeddings.position_embeddings.weight", 0), **BERT_LIKE),
    "roberta": Kind(table=("embeddings.position_embeddings.weight", 2), **BERT_LIKE),
    "distilbert": Kind(
        "transformer.layer.{n}.attention",
        ("q_lin", "k_lin", "v_lin"),
        "out_lin",
        norm="",
        causal=False,
        table=("embeddings.position_embeddings.weight", 0),
    ),
    "albert": Kind(
        "encoder.albert_layer_groups.{n}.albert_layers.0.attention",
        ("query", "key", "value"),
        "dense",
        norm="",
        causal=False,
    ),
    "mpnet": Kind(f"{BERT}.attn", ("q", "k", "v"), "o", norm="", causal=False, bias="encoder.relative_attention_bias"),
    "modernbert": Kind("layers.{n}.attn", ("Wqkv",), "Wo", "rows", "layers.{n}.attn_norm", causal=False, **ROTARY),
    "vit": Kind("layers.{n}.attention", norm="layers.{n}.layernorm_before", causal=False),
    "clip_text_model": Kind(
        "encoder.layers.{n}.self_attn",
        out="out_proj",
        norm="encoder.layers.{n}.layer_norm1",
        table=("embeddings.position_embedding.weight", 0),
    ),
    "t5": Kind(
        "block.{n}.layer.0.SelfAttention",
        ("q", "k", "v"),
        "o",
        norm="block.{n}.layer.0.layer_norm",
        norm_kind="rms",
        stack="encoder",
        causal=False,
        bias="block.0.layer.0.SelfAttention.relative_attention_bias",
        scale=lambda *_: 1.0,
    ),
    "bart": Kind(**BART_LIKE),
    "whisper": Kind(**(BART_LIKE | {"norm": "layers.{n}.self_attn_layer_norm"})),
}


@dataclass(frozen=True)
class Weights:
    """One layer: ``(head or group, model, channel)``, ``(head or group, channel)``, and the map that writes."""

    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor
    b_Q: Tensor
    b_K: Tensor
    b_V: Tensor
    W_O: Tensor
    b_O: Tensor


def separate(tensors: dict, path: str, kind: Kind, groups: int, width: int) -> list[Tensor]:
    """Return weight ``(out, in)`` and bias ``(out,)`` of queries, keys and values, whatever layout they have."""
    if not kind.fused:
        maps = [tensors[f"{path}.{name}.weight"] for name in kind.qkv]
        return maps + [
            tensors.get(f"{path}.{name}.bias", maps[k].new_zeros(len(maps[k]))) for k, name in enumerate(kind.qkv)
        ]
    W = tensors[f"{path}.{kind.qkv[0]}.weight"]
    W = W.T if kind.fused == "conv" else W
    b = tensors.get(f"{path}.{kind.qkv[0]}.bias", W.new_zeros(len(W)))
    heads = len(W) // width - 2 * groups
    each = {
        "conv": (heads, groups, groups),
        "rows": (heads, groups, groups),
        "heads": (1, 1, 1),
        "groups": (heads // groups, 1, 1),
    }[kind.fused]
    both = [one.unflatten(0, (-1, sum(each), width)) for one in (W, b)]
    return [part.flatten(0, 2) for one in both for part in one.split(each, 1)]


def read(tensors: dict, path: str, out: str, kind: Kind, groups: int, width: int) -> Weights:
    """Return a layer's weights head by head."""
    *maps, b_Q, b_K, b_V = separate(tensors, path, kind, groups, width)
    by_head = [one.unflatten(0, (-1, width)).mT for one in maps]
    biases = [b.unflatten(0, (-1, width)) for b in (b_Q, b_K, b_V)]
    W_O = tensors[f"{out}.weight"]
    W_O = W_O if kind.fused == "conv" else W_O.T
    b_O = tensors.get(f"{out}.bias", W_O.new_zeros(W_O.shape[1]))
    return Weights(*by_head, *biases, W_O.unflatten(0, (-1, width)), b_O)


def turned(rows: Tensor, frequencies: Tensor, factor: float, pairs: str) -> Tensor:
    """Turn pairs of channels of ``(head, position, channel)`` by position times frequency, and multiply them."""
    size = 2 * len(frequencies)
    angles = torch.arange(rows.shape[-2]).double()[:, None] * frequencies
    cos, sin = factor * angles.cos(), factor * angles.sin()
    own, rest = rows[..., :size], rows[..., size:]
    if pairs == "pairs":
        a, b = own[..., 0::2], own[..., 1::2]
        both = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    else:
        a, b = own.chunk(2, -1)
        both = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    return torch.cat([both, rest], -1)


def yarn(said: dict, size: int, base: float, taught: int) -> Tensor:
    """Return frequencies that YaRN slows down, but for those that turn often within the positions it was taught on."""
    own = base ** -(torch.arange(0, size, 2).double() / size)
    turns = [
        size * math.log(taught / (2 * math.pi * said[name])) / (2 * math.log(base))
        for name in ("beta_fast", "beta_slow")
    ]
    low, high = (math.floor(turns[0]), math.ceil(turns[1])) if said.get("truncate", True) else turns
    low, high = max(low, 0), min(high, size - 1)
    ramp = ((torch.arange(size // 2).double() - low) / (high - low)).clamp(0, 1)
    return own * (1 - ramp) + own / said["factor"] * ramp


def frequencies_of(config, number: int, width: int) -> tuple[Tensor, float]:
    """Return what a layer turns its channels by, none without rotary positions, and what it multiplies them by."""
    types = getattr(config, "layer_types", None) or ("",)
    if getattr(config, "no_rope_layers", None) and not config.no_rope_layers[number]:
        return torch.zeros(0, dtype=torch.float64), 1.0
    if config.model_type == "gptj":
        said = {"partial_rotary_factor": config.rotary_dim / width, "rope_theta": 10000.0}
    else:
        said = config.rope_parameters
        said = said.get(types[number % len(types)], said)
    size, base = int(width * said.get("partial_rotary_factor", 1.0)), said["rope_theta"]
    if said.get("rope_type") == "yarn":
        slowed = yarn(said, size, base, said["original_max_position_embeddings"])
        return slowed, 0.1 * math.log(said["factor"]) + 1
    return base ** -(torch.arange(0, size, 2).double() / size), 1.0


def kept(frequencies: Tensor, stack) -> Tensor:
    """Return frequencies as the model keeps them, in float32, where it keeps any; they must be those of the formula."""
    names = [buffer for name, buffer in stack.named_buffers() if name.endswith("inv_freq")]
    alike = [buffer.double() for buffer in names if buffer.shape == frequencies.shape]
    if not alike or not len(frequencies):
        return frequencies.float().double()
    best = min(alike, key=lambda buffer: float((buffer / frequencies - 1).abs().max()))
    torch.testing.assert_close(best, frequencies, rtol=1e-6, atol=0)
    return best


def bias_of(kind: Kind, tensors: dict, heads: int, positions: int) -> Tensor | None:
    """Return what positions add to the scores, before any row's constant."""
    place = torch.arange(positions)
    if kind.bias == "alibi":
        slopes = 2.0 ** -(8 / heads * torch.arange(1, heads + 1).double())
        return (slopes[:, None, None] * place).expand(heads, positions, positions)
    if kind.bias:
        table = tensors[f"{kind.bias}.weight"]
        half = len(table) // 2
        distance = place - place[:, None]
        near, size = half // 2, distance.abs()
        far = near + (size.clamp_min(1).double() / near).log() / math.log(128 / near) * (half - near)
        bucket = torch.where(size < near, size, far.long().clamp_max(half - 1)) + half * (distance > 0)
        return table[bucket].permute(2, 0, 1)
    return None


def visible_of(kind: Kind, config, number: int, positions: int) -> Tensor:
    """Return which keys each query sees."""
    place = torch.arange(positions)
    ahead = place - place[:, None]
    seen = ahead <= 0 if kind.causal else torch.ones_like(ahead, dtype=torch.bool)
    types = getattr(config, "layer_types", None) or getattr(config, "attention_layers", None) or ["full_attention"]
    window = getattr(config, "sliding_window", None) or getattr(config, "window_size", None)
    local = types[number % len(types)] in ("sliding_attention", "local")
    if window and (local or config.model_type in ("mistral", "mixtral", "starcoder2", "phi3")):
        seen = seen & ((ahead > -window) if kind.causal else (ahead.abs() <= window))
    return seen


def normed(parts: list[Tensor], gain: Tensor, epsilon: float, one_plus: bool) -> list[Tensor]:
    """Divide parts of ``(head, position, channel)`` by the root mean square of their sum, over what the gain covers."""
    whole = sum(parts)
    gain = 1 + gain if one_plus else gain
    if len(gain) == whole.shape[-1]:
        size = (whole.square().mean(-1, keepdim=True) + epsilon).rsqrt()
        return [part * size * gain for part in parts]
    size = (whole.square().mean((0, 2), keepdim=True) + epsilon).rsqrt()
    return [part * size * gain.view(len(whole), 1, -1) for part in parts]


def compute(x: Tensor, w: Weights, kind: Kind, config, stack, tensors: dict, number: int) -> dict[str, Tensor]:
    """Return what is known of a layer that reads the rows ``x``."""
    heads, groups, width = len(w.W_Q), len(w.W_K), w.W_Q.shape[-1]
    path = kind.attention.format(n=number)
    sides = {}
    for side, W, b in (("q", w.W_Q, w.b_Q), ("k", w.W_K, w.b_K)):
        parts = [x @ W, b[:, None].expand(-1, len(x), -1)]
        gain = tensors.get(f"{path}.{side}_norm.weight")
        if gain is not None:
            epsilon = getattr(config, "rms_norm_eps", None) or config.layer_norm_eps
            parts = normed(parts, gain, epsilon, kind.one_plus)
        if kind.turn:
            frequencies, factor = frequencies_of(config, number, width)
            parts = [turned(part, kept(frequencies, stack), factor, kind.turn) for part in parts]
        sides[side] = parts
    scale = kind.scale(config, width)
    wide = [k.repeat_interleave(heads // groups, 0) for k in sides["k"]]
    named = {"content": (0, 0), "semi-bias": (1, 0), "query side": (0, 1), "kernel": (1, 1)}
    known = {name: scale * sides["q"][q] @ wide[k].mT for name, (q, k) in named.items()}
    scores = sum(known.values())
    if cap := getattr(config, "attn_logit_softcapping", None):
        scores = cap * torch.tanh(scores / cap)
    if (added := bias_of(kind, tensors, heads, len(x))) is not None:
        known["position bias"] = added
        scores = scores + added
    visible = visible_of(kind, config, number, len(x))
    hidden = scores.masked_fill(~visible, -math.inf)
    if (sinks := tensors.get(f"{path}.sinks")) is not None:
        attention = torch.cat([hidden, sinks[:, None, None].expand(-1, len(x), 1)], -1).softmax(-1)[..., :-1]
    else:
        attention = hidden.softmax(-1)
    values = (x @ w.W_V + w.b_V[:, None]).repeat_interleave(heads // groups, 0)
    known |= {
        "rows": x,
        "visible": visible,
        "queries": sum(sides["q"]),
        "keys": sum(sides["k"]),
        "scores": scores,
        "attention": attention,
        "output": torch.einsum("hqv,hvm->qm", attention @ values, w.W_O) + w.b_O,
    }
    if sinks is None:  # else rows do not sum to one, and nothing folds
        known["value bias folded"] = (
            torch.einsum("hv,hvm->m", w.b_V.repeat_interleave(heads // groups, 0), w.W_O) + w.b_O
        )
    return known | folded(w, kind, tensors, number) | of_positions(w, kind, tensors, scale)


def folded(w: Weights, kind: Kind, tensors: dict, number: int) -> dict[str, Tensor]:
    """Return queries' weights with the gain and the bias of the norm before the layer in them, where there is one."""
    gain = tensors.get(f"{kind.norm.format(n=number)}.weight") if kind.norm else None
    if gain is None:
        return {}
    W_Q = (1 + gain if kind.one_plus else gain)[:, None] * w.W_Q
    if kind.norm_kind == "layer":  # its rows have no mean, so columns count only up to theirs
        W_Q = W_Q - W_Q.mean(1, keepdim=True)
    shift = tensors.get(f"{kind.norm.format(n=number)}.bias", torch.zeros_like(gain))
    return {"norm folded into W_Q": W_Q, "norm folded into b_Q": w.b_Q + torch.einsum("m,hmc->hc", shift, w.W_Q)}


def of_positions(w: Weights, kind: Kind, tensors: dict, scale: float) -> dict[str, Tensor]:
    """Return the semi-bias of the rows of the table of positions, where there is one and queries have a bias."""
    name, first = kind.table
    if not name or not w.b_Q.any():
        return {}
    table = tensors[name][first : first + POSITIONS]
    keys = (table @ w.W_K).repeat_interleave(len(w.W_Q) // len(w.W_K), 0)
    return {"semi-bias of positions": scale * torch.einsum("hc,hpc->hp", w.b_Q, keys)}


class Double(TorchFunctionMode):
    """Keeps in float64 what a model turns into float32 on its way: frequencies, softmax, norms."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        """Ask for float64 where float32 is asked for."""
        if func is Tensor.float:
            return args[0].double()
        wide = [torch.float64 if one is torch.float32 else one for one in args]
        named = {key: torch.float64 if one is torch.float32 else one for key, one in (kwargs or {}).items()}
        return func(*wide, **named)


@contextmanager
def in_double():
    """Build a model whose own constants are in float64 as well."""
    torch.set_default_dtype(torch.float64)
    with Double():
        yield
    torch.set_default_dtype(torch.float32)


def observe(model, stack, inputs: dict, paths: list[dict]) -> list[dict[str, Tensor]]:
    """Run a model and return what each attention read, how it attended, and what was written."""
    seen = [{} for _ in paths]
    handles = []
    for found, path in zip(seen, paths, strict=True):

        def reads(module, args, kwargs, found=found):
            found["rows"] = (args[0] if args else kwargs["hidden_states"])[0].clone()

        def writes(module, args, out, found=found):
            found["output"] = out.reshape(-1, out.shape[-1]).clone()

        handles.append(stack.get_submodule(path["attention"]).register_forward_pre_hook(reads, with_kwargs=True))
        handles.append(stack.get_submodule(path["output"]).register_forward_hook(writes))
    returned = stack(**inputs, output_attentions=True)
    for handle in handles:
        handle.remove()
    for found, attention in zip(seen, returned.attentions, strict=False):
        found["attention"] = attention[0]
    return seen


def make(name: str, kind: Kind, folder: Path, seed: int) -> float:
    """Write one case; return the largest difference from the model's own attention and output."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model_type = name.partition("-")[0]
    model = tiny_model(model_type, seed, **kind.settings)
    inputs = {key: value[:1] for key, value in tiny_inputs(model, 1, seed).items()}
    if kind.stack:
        inputs = {key: value for key, value in inputs.items() if not key.startswith("decoder")}
    inputs = {key: value[:, :POSITIONS] if value.ndim == 2 else value for key, value in inputs.items()}
    shutil.rmtree(folder, ignore_errors=True)
    model.float().save_pretrained(folder)
    eager = {"attn_implementation": "eager", "experts_implementation": "eager"}
    with in_double() if model_type == "gptj" else nullcontext():
        model = type(model).from_pretrained(folder, dtype=torch.float64, **eager).eval()
    stack, config = (model.get_submodule(kind.stack) if kind.stack else model), model.config
    tensors = {key: value.detach() for key, value in stack.state_dict().items()}
    layers = 0
    while any(key.startswith(kind.attention.format(n=layers)) for key in tensors):
        layers += 1
    paths = []
    for n in range(layers):
        attention = kind.attention.format(n=n)
        out = kind.out.format(n=n)
        paths.append({"attention": attention, "output": out[1:] if out.startswith(".") else f"{attention}.{out}"})
    with torch.no_grad(), Double():
        seen = observe(model, stack, inputs, paths)
    golden, worst = {f"inputs.{key}": value for key, value in inputs.items()}, 0.0
    groups, width = sizes(config)
    for n, found in enumerate(seen):
        w = read(tensors, paths[n]["attention"], paths[n]["output"], kind, groups, width)
        known = compute(found["rows"], w, kind, config, stack, tensors, n)
        for key in ("attention", "output"):
            off = float((known[key] - found[key]).abs().max() / found[key].abs().max())
            if not off < (1e-8 if model_type == "gptj" else LIMIT):  # GPT-J keeps sines in float32
                raise ValueError(f"{name}, layer {n}: the {key} that the model returns is off by {off:.1e}")
            worst = max(worst, off)
        golden |= {f"{n}.{key}": value.contiguous().clone() for key, value in known.items()}
    save_file(golden, folder / "golden.safetensors")
    about = {"model_type": model_type, "stack": kind.stack, "layers": paths}
    (folder / "case.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    for path in folder.iterdir():
        if path.name not in ("config.json", "model.safetensors", "golden.safetensors", "case.json"):
            path.unlink()
    return worst


def sizes(config) -> tuple[int, int]:
    """Return how many groups of keys a layer has, and how wide a head is."""
    heads = getattr(config, "num_attention_heads", None) or config.encoder_attention_heads
    width = getattr(config, "head_dim", None) or getattr(config, "d_kv", None) or config.hidden_size // heads
    if config.model_type == "gpt_bigcode":
        return 1 if config.multi_query else heads, width
    groups = getattr(config, "num_key_value_heads", None) or getattr(config, "num_kv_heads", None) or heads
    return groups, width


def main(*names: str) -> None:
    """Make the cases of that name, or all."""
    for seed, (name, kind) in enumerate(KINDS.items()):
        if not names or name in names:
            print(f"{name:18} {make(name, kind, CASES / name, seed):.1e}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
