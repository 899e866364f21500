"""Make the tiny models of the suite and their golden values: ``python generate.py [--check] [NAME ...]``.

Weights are drawn with numpy's generator from a seed for each name, so they are the same everywhere. The golden values
come from ``formulas.py``, which reads the weights by their names in ``families.py``; then the model's own module of
transformers runs in float64, and its scores, its attention, each head's rows and what it writes must agree to 1e-12.
"""

import argparse
import json
import tempfile
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch
import transformers
from families import FAMILIES, TOKENS, Row
from formulas import Disentangled, Layer, Norm, Rotation, alibi, attend, project, t5_buckets
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models
from torch import Tensor
from torch.overrides import TorchFunctionMode

MODELS = Path(__file__).parent / "attention_conformance" / "models.zip"
LIMIT = 1e-12
ROUNDED = ("gpt-j", "codegen")
"""Whose library tabulates sines and cosines in float32: they agree to 1e-6, and libraries are held to less."""
OFFSET = ("bloom", "mpt", "gpt-oss")
"""Whose scores the library gives up to a constant along each row, which no softmax sees."""


class Watch(TorchFunctionMode):
    """Computes in float64 what asks for float32, and keeps the last softmax in and out."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        """Call a function of torch."""
        args, kwargs = [doubled(each) for each in args], {k: doubled(v) for k, v in (kwargs or {}).items()}
        result = (Tensor.double if func is Tensor.float else func)(*args, **kwargs)
        if getattr(func, "__name__", "") == "softmax":
            self.scores, self.attention = args[0], result
        return result


def doubled(value):
    """Return float64 for float32."""
    return torch.float64 if value is torch.float32 else value


def build(name: str) -> torch.nn.Module:
    """Build a model with weights drawn by numpy, rounded to float32."""
    row = FAMILIES[name][0]
    config = transformers.AutoConfig.for_model(row.type, **row.settings)
    for each in [config, *(getattr(config, key) for key in config.sub_configs)]:
        each._experts_implementation = "eager"
    with torch.random.fork_rng(devices=[]):
        model = getattr(transformers, row.auto).from_config(config, attn_implementation="eager").eval()
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    for path, parameter in model.requires_grad_(False).named_parameters():
        drawn = generator.standard_normal(parameter.shape) * (0.25 if parameter.ndim > 1 else 0.5)
        gain = parameter.ndim == 1 and path.endswith("weight")
        parameter.copy_(torch.from_numpy(drawn + gain))
    return model


def inputs_of(name: str) -> dict[str, np.ndarray]:
    """Draw the input of a model: tokens, an image or a sound."""
    row, generator = FAMILIES[name][0], np.random.default_rng(zlib.crc32(name.encode()) + 1)
    inputs = {
        key: generator.integers(2, TOKENS, shape) if key.endswith("ids") else generator.standard_normal(shape)
        for key, shape in row.input.items()
    }
    if row.stack and "decoder_input_ids" not in inputs:
        inputs["decoder_input_ids"] = inputs["input_ids"][:, ::-1].copy()
    return inputs


def split(row: Row, map_: Tensor, heads: int, groups: int) -> tuple[np.ndarray, ...]:
    """Take a fused map or bias ``(out, ...)`` apart: queries, keys and values, each ``(head, channel, ...)``."""
    rest = map_.shape[1:]
    if row.fused == "blocks":
        return tuple(each.reshape(-1, 8, *rest) for each in map_.split([8 * heads, 8 * groups, 8 * groups]))
    if row.fused == "triples":
        return tuple(map_.reshape(heads, 3, 8, *rest).unbind(1))
    if row.fused == "groups":
        whole = map_.reshape(groups, heads // groups + 2, 8, *rest)
        return whole[:, :-2].reshape(heads, 8, *rest), whole[:, -2], whole[:, -1]
    queries, values, keys = map_.reshape(4, 3, heads // 4, 8, *rest).unbind(1)  # CodeGen: four blocks of q, v, k
    return tuple(each.reshape(heads, 8, *rest) for each in (queries, keys, values))


def read_maps(row: Row, find) -> dict[str, np.ndarray]:
    """Read the four maps and their biases, each by head."""
    maps = [find(name) for name in row.maps]
    turned = [module.weight.T if type(module).__name__ == "Conv1D" else module.weight for module in maps]
    biases = [getattr(module, "bias", None) for module in maps]
    biases = [torch.zeros(len(W)) if b is None else b for W, b in zip(turned, biases, strict=True)]
    groups = row.settings.get("num_key_value_heads", 4)
    if row.fused:
        weights, biases = (split(row, each[0], 4, groups) for each in (turned, biases))
    else:
        weights, biases = ([e.reshape(-1, 8, *e.shape[1:]) for e in group] for group in (turned, biases))
    out = find(row.out)
    W_O = out.weight if type(out).__name__ == "Conv1D" else out.weight.T
    b_O = torch.zeros(W_O.shape[1]) if getattr(out, "bias", None) is None else out.bias
    found = {f"W_{n}": array(W.transpose(1, 2)) for n, W in zip("QKV", weights, strict=True)}
    found |= {f"b_{n}": array(b) for n, b in zip("QKV", biases, strict=True)}
    has_bias = getattr(maps[-1], "bias", None) is not None
    return found | {"W_O": array(W_O.reshape(4, 8, -1)), "b_O": array(b_O), "value_bias": has_bias}


def array(tensor: Tensor) -> np.ndarray:
    """Return a tensor in numpy's float64."""
    return tensor.detach().double().numpy()


def read_norm(find, path: str, kind: str, eps: float) -> Norm:
    """Read a norm; one ``plus one`` stores its gain less 1."""
    module = find(path)
    gain = array(module.weight) + (kind == "plus one")
    bias = getattr(module, "bias", None)
    return Norm(gain, np.zeros_like(gain) if bias is None else array(bias), eps, kind == "layer")


def added(row: Row, base: torch.nn.Module, n: int, maps: dict) -> np.ndarray | Disentangled | None:
    """Return what positions add to scores."""
    if row.alibi:
        return alibi(4, n)
    if row.buckets == "disentangled":
        norm = read_norm(base.get_submodule, "encoder.LayerNorm", "layer", 1e-7)
        table = array(base.get_submodule("encoder.rel_embeddings").weight)
        table = norm.of(table, table) + norm.bias
        rows = [np.einsum("rm,hmc->hrc", table, maps[f"W_{n}"]) + maps[f"b_{n}"][:, None] for n in "KQ"]
        return Disentangled(*rows, row.settings["position_buckets"], row.settings["max_relative_positions"])
    if row.buckets:
        table = array(base.get_submodule(row.buckets).weight)
        longest = row.settings.get("relative_attention_max_distance", 128)
        return table[t5_buckets(n, len(table), longest, not row.causal)].transpose(2, 0, 1)
    return None


def visible(row: Row, number: int, n: int) -> np.ndarray:
    """Return which keys each query sees."""
    back = np.arange(n)[:, None] - np.arange(n)
    reach = row.reach[number % len(row.reach)] or n
    return (back < reach) & ((back >= 0) if row.causal else (back > -reach))


def read_layer(row: Row, model: torch.nn.Module, number: int, n: int) -> Layer:
    """Read one layer of a model, by the names of its row."""
    base, path = model.base_model, row.layer.format(number)

    def find(name: str) -> torch.nn.Module:
        return base.get_submodule(f"{path}.{name}")

    maps, rotation, table = read_maps(row, find), None, None
    if row.rotary and number not in row.still:
        frequencies = row.base ** (-2 * np.arange(row.rotary // 2) / row.rotary)
        rotation = Rotation(frequencies.astype(np.float32).astype(float), row.neighbours)
    bare = row.norm is None or (row.type == "modernbert" and number == 0)  # whose first layer has none
    names, kind = (row.qk_norm[:2], row.qk_norm[2]) if row.qk_norm else ((), "")
    norms = [read_norm(find, name, kind, 1e-6) for name in names] or [None, None]
    if row.table and number == 0:
        owner, _, last = row.table[0].rpartition(".")
        table = getattr(base.get_submodule(owner), last)
        table = array(getattr(table, "weight", table)).reshape(-1, 32)[row.table[1] : row.table[1] + n]
    return Layer(
        **maps,
        scale=row.scale,
        seen=visible(row, number, n),
        rotation=rotation,
        added=added(row, base, n, maps),
        norm=None if bare else read_norm(find, *row.norm),
        query_norm=norms[0],
        key_norm=norms[1],
        whole_norm=kind == "whole",
        sinks=array(base.get_parameter(f"{path}.{row.sinks}")) if row.sinks else None,
        cap=row.cap,
        position_rows=table,
    )


def run(name: str, model: torch.nn.Module) -> list[dict[str, Tensor]]:
    """Run a model in float64; return what each layer read, its softmax in and out, its heads' rows and its output."""
    seen, watch, handles = {}, Watch(), []
    for key, row, number in layers_of(name):
        path = row.layer.format(number)
        first, last = (model.base_model.get_submodule(f"{path}.{each}") for each in (row.maps[0], row.out))

        def read(_, args, key=key):
            seen.setdefault(key, {"x": args[0][0]})  # DeBERTa's map reads its rows of distances later

        def write(_, args, result, key=key):
            found = {"scores": watch.scores, "attention": watch.attention, "rows": args[0], "output": result}
            seen[key] |= {each: tensor.detach().clone() for each, tensor in found.items()}

        handles += [first.register_forward_pre_hook(read), last.register_forward_hook(write)]
    torch.set_default_dtype(torch.float64)
    with torch.no_grad(), watch:
        model(**{key: torch.from_numpy(value) for key, value in inputs_of(name).items()})
    torch.set_default_dtype(torch.float32)
    for handle in handles:
        handle.remove()
    return [seen[key] for key, _, _ in layers_of(name)]


def layers_of(name: str) -> list[tuple[str, Row, int]]:
    """List the layers of a model: a key for each, its row, its number."""
    return [(f"{row.stack or 'layers'}.{i}", row, i) for row in FAMILIES[name] for i in range(row.layers)]


def errors(name: str, golden: dict[str, np.ndarray], own: dict[str, Tensor]) -> dict[str, float]:
    """Return the largest differences from the model's own module, in parts of the largest entry."""
    heads, n, _ = golden["attention"].shape
    theirs = {key: array(own[key]).reshape(heads, n, -1)[..., :n] for key in ("scores", "attention")}
    theirs["weighted_values"] = array(own["rows"]).reshape(n, heads, -1).transpose(1, 0, 2)
    theirs["output"] = array(own["output"]).reshape(n, -1)
    seen = golden["attention"] > 0
    gap = {key: theirs[key] - golden[key] for key in theirs}
    gap["scores"] = np.where(seen, gap["scores"], 0)
    if name in OFFSET:
        mean = gap["scores"].sum(-1, keepdims=True) / seen.sum(-1, keepdims=True)
        gap["scores"] = np.where(seen, gap["scores"] - mean, 0)
    return {key: float(np.abs(each).max() / np.abs(golden[key]).max()) for key, each in gap.items()}


def fold_errors(layer: Layer, found: dict[str, np.ndarray]) -> dict[str, float]:
    """Return how far the folded weights are from giving what the layer's own give."""
    x, off = found["x"], {}
    if layer.norm:
        rows = (x - layer.norm.bias) / layer.norm.gain  # centred already, where the norm centres
        maps = np.concatenate([project(x, W) for W in (layer.W_Q, layer.W_K, layer.W_V)])
        maps += np.concatenate([layer.b_Q, layer.b_K, layer.b_V])[:, None]
        gap = project(rows, found["folded_W"]) + found["folded_b"][:, None] - maps
        off["folded_W, folded_b"] = float(np.abs(gap).max() / np.abs(maps).max())
    if "folded_b_O" in found:
        values = project(x, layer.W_V).repeat(len(layer.W_Q) // len(layer.W_V), 0)
        bare = np.einsum("hic,hcm->im", found["attention"] @ values, layer.W_O)
        gap = bare + found["folded_b_O"] - found["output"]
        off["folded_b_O"] = float(np.abs(gap).max() / np.abs(found["output"]).max())
    return off


def make(name: str) -> tuple[torch.nn.Module, dict[str, np.ndarray], dict]:
    """Return a model in float32, the golden values of all its layers, and its entry of the index."""
    model = build(name)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    model.double()
    golden, index = {f"inputs.{key}": value for key, value in inputs_of(name).items()}, {}
    for (key, row, number), own in zip(layers_of(name), run(name, model), strict=True):
        x = array(own["x"])
        layer = read_layer(row, model, number, len(x))
        found = attend(x, layer)
        off, folded = errors(name, found, own), fold_errors(layer, found)
        if max(off.values()) > (1e-6 if name in ROUNDED else LIMIT) or max(folded.values(), default=0) > LIMIT:
            raise SystemExit(f"{name}, {key}: the formulas differ from the model's own module by {off | folded}")
        golden |= {f"{key}.{quantity}": value for quantity, value in found.items()}
        path = f"{prefix(model)}{row.layer.format(number)}"
        index[key] = {"stack": row.stack, "layer": number, "first": f"{path}.{row.maps[0]}", "out": f"{path}.{row.out}"}
        index[key]["scale"] = row.scale
    model.float().load_state_dict(state)
    facts = {"rounded": name in ROUNDED, "up_to_row": name in OFFSET, "class": row.auto}
    return model, golden, facts | {"layers": index}


def tokenizer() -> transformers.PreTrainedTokenizerFast:
    """Return a tokenizer of numbers: some libraries open no model without one."""
    words = Tokenizer(models.WordLevel({str(token): token for token in range(TOKENS)}, "2"))
    special = {"bos_token": "0", "eos_token": "0", "pad_token": "1", "unk_token": "2"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, **special)


def prefix(model: torch.nn.Module) -> str:
    """Return the path of the base model, with a dot behind it."""
    return next((f"{path}." for path, module in model.named_modules() if path and module is model.base_model), "")


def packed() -> dict[str, bytes]:
    """Return the files of the archive, by names such as ``gpt2/config.json``."""
    if not MODELS.is_file():
        return {}
    with zipfile.ZipFile(MODELS) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(files: dict[str, bytes]) -> None:
    """Write the archive, which is the same each time."""
    with zipfile.ZipFile(MODELS, "w") as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED, 9)


def main():
    """Write all models, or those that are named; with ``--check`` only compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=None)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    listed, files = MODELS.with_suffix(".json"), packed()
    index = json.loads(listed.read_text("utf-8"))["models"] if listed.is_file() else {}
    for name in arguments.names or FAMILIES:
        model, golden, entry = make(name)
        if not arguments.check:
            with tempfile.TemporaryDirectory() as folder:
                model.save_pretrained(folder)
                whole = {key: np.ascontiguousarray(value) for key, value in golden.items()}
                save_file(whole, Path(folder, "golden.safetensors"))
                if "pixel_values" not in inputs_of(name):
                    tokenizer().save_pretrained(folder)
                Path(folder, "generation_config.json").unlink(missing_ok=True)
                files |= {f"{name}/{file.name}": file.read_bytes() for file in Path(folder).iterdir()}
            index[name] = entry
        print(name, "agrees")
    if not arguments.check:
        pack(files)
        made = {"made_with": {"transformers": transformers.__version__, "torch": torch.__version__}}
        ordered = {name: index[name] for name in FAMILIES if name in index}
        listed.write_text(json.dumps(made | {"models": ordered}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
