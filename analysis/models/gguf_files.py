"""GGUF: one file that holds a model's settings, its words and its weights, most of them in a few bits each."""

from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from analysis.core.files import check_regular
from analysis.models.checkpoints import NotFound, Tampered

INSTALL = "pip install --no-deps gguf==0.19.0"
MODEL_TYPE = "llama"
"""The family whose files are read: others store some of their tensors otherwise."""
_SETTINGS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
    "vocab_size": "vocab_size",
}
"""What config.json calls a setting of the file."""
_LAYER = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def find_gguf(folder: Path) -> Path | None:
    """Return the GGUF file of a folder that has no ``config.json`` of another model and one such file; else nothing."""
    files = [] if (folder / "config.json").exists() else sorted(folder.glob("*.gguf"))
    return files[0] if len(files) == 1 else None


def open_gguf(path: Path):
    """Open a GGUF file; one that was not changed since is opened once. Its tensors are read when they are asked for.

    Raises
    ------
    NotFound
        If the library ``gguf`` is not installed.
    Tampered
        If it is not a whole GGUF file.
    """
    try:
        import gguf  # noqa: F401, to say that it is missing
    except ModuleNotFoundError as error:
        raise NotFound(f"{path.name} is read through gguf, which is not installed ({error.name}): {INSTALL}") from None
    check_regular(path)
    status = path.stat()
    return _open(str(path), status.st_size, status.st_mtime_ns)


@cache
def _open(path: str, size: int, modified: int):
    import gguf

    try:
        return gguf.GGUFReader(path)
    except (ValueError, IndexError, KeyError, OSError, OverflowError) as error:
        raise Tampered(f"{path} is not a whole GGUF file: {error}") from None


def gguf_settings(path: Path) -> dict:
    """Return the settings of a GGUF file as its ``config.json`` would have them.

    Raises
    ------
    ValueError
        If it is of another family than Llama, or stretches its rotation.
    """
    reader = open_gguf(path)
    family = reader.fields["general.architecture"].contents() if "general.architecture" in reader.fields else None
    if family != MODEL_TYPE:
        raise ValueError(f"{path} is of the family {family!r}: of GGUF files only those of a {MODEL_TYPE} are read")
    if scaled := [name for name in reader.fields if name.startswith(f"{MODEL_TYPE}.rope.scaling")]:
        raise ValueError(f"{path} has {scaled[0]}, which is not read from a GGUF file")
    own = {config: reader.fields.get(f"{MODEL_TYPE}.{name}") for name, config in _SETTINGS.items()}
    names = {tensor.name for tensor in reader.tensors}
    settings = {config: field.contents() for config, field in own.items() if field is not None}
    return {"model_type": MODEL_TYPE, "tie_word_embeddings": "output.weight" not in names, **settings}


class GgufTensors:
    """The tensors of a GGUF file under the names of `transformers`, each of them float32 as soon as it is read.

    Attributes
    ----------
    headers
        Shape and dtype of every tensor, by name: the dtype is that of what `read` returns.
    """

    def __init__(self, path: Path):
        """Read the headers."""
        reader = open_gguf(path)
        self._tensors = {_name(tensor.name): tensor for tensor in reader.tensors}
        self.headers = {
            name: (tuple(int(size) for size in reversed(tensor.shape)), "F32") for name, tensor in self._tensors.items()
        }
        settings = gguf_settings(path)
        heads = settings["num_attention_heads"]
        self._heads = {"q_proj.weight": heads, "k_proj.weight": settings.get("num_key_value_heads", heads)}

    def read(self, name: str) -> Tensor:
        """Read one tensor: its integers times their steps, in the order of coordinates that `transformers` has."""
        from gguf.quants import dequantize

        tensor = self._tensors[name]
        values = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy()).float()
        heads = next((count for ending, count in self._heads.items() if name.endswith(ending)), None)
        return values if heads is None else in_halves(values, heads)


def _name(name: str) -> str:
    """Return what `transformers` calls a tensor; a name that is not known stays as it is, and is one too many.

    >>> _name("blk.3.attn_q.weight"), _name("token_embd.weight")
    ('model.layers.3.self_attn.q_proj.weight', 'model.embed_tokens.weight')
    """
    stem, _, kind = name.rpartition(".")
    block, _, part = stem.removeprefix("blk.").partition(".")
    if stem.startswith("blk.") and part in _LAYER:
        return f"model.layers.{block}.{_LAYER[part]}.{kind}"
    return f"{_OUTSIDE[stem]}.{kind}" if stem in _OUTSIDE else name


def in_halves(rows: Tensor, heads: int) -> Tensor:
    """Put the rows of each head, of which a GGUF has two neighbours turn together, so that row f turns with f + half.

    >>> in_halves(torch.arange(8.0)[:, None], 2).flatten().int().tolist()
    [0, 2, 1, 3, 4, 6, 5, 7]
    """
    pairs = rows.view(heads, -1, 2, *rows.shape[1:])
    return pairs.transpose(1, 2).reshape(rows.shape)
