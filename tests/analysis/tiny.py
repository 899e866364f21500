"""Tiny models and folders for the tests: made here, laid out as the hub's cache lays them out."""

import hashlib
import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from analysis.core.attention_layer import AttentionLayer, Mask

GPT2 = {
    "model_type": "gpt2",
    "vocab_size": 31,
    "n_positions": 16,
    "n_embd": 12,
    "n_layer": 2,
    "n_head": 3,
    "layer_norm_epsilon": 1e-5,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
BERT = {
    "model_type": "bert",
    "vocab_size": 31,
    "max_position_embeddings": 16,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "layer_norm_eps": 1e-12,
}


def random_layer(head=3, model=12, channel=4, seed=0, *, causal=False):
    """Return a layer with every parameter random, in float64."""
    g = torch.Generator().manual_seed(seed)
    shapes = [(head, model, channel)] * 3 + [(head, channel, model)] + [(head, channel)] * 3 + [(model,)]
    drawn = (torch.randn(s, generator=g, dtype=torch.float64) for s in shapes)
    return AttentionLayer(*drawn, mask=Mask(causal=causal))


def draw(*shape, seed=1):
    """Return normal numbers in float64."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_llama(**settings):
    """Return a random Llama with a head for words, whose attention returns its maps."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
    torch.manual_seed(0)
    config = LlamaConfig(**{"vocab_size": 60} | sizes | settings, attn_implementation="eager")
    return LlamaForCausalLM(config).eval().requires_grad_(False)


def write_model(folder: Path, config: dict = GPT2, seed: int = 0) -> Path:
    """Write a randomly initialised model of that configuration, every parameter non-zero."""
    from transformers import AutoModel, BertConfig, GPT2Config

    settings = (GPT2Config if config["model_type"] == "gpt2" else BertConfig)(**config)
    torch.manual_seed(seed)
    model = AutoModel.from_config(settings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def rewrite(path: Path, **entries) -> None:
    """Set entries of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def change_tensors(folder: Path, change) -> None:
    """Write a model's tensors as a function of them by name returns them."""
    file = folder / "model.safetensors"
    save_file(change(load_file(file)), file, metadata={"format": "pt"})


def write_hub_cache(cache: Path, hub_id: str, source: Path, revision: str = "a" * 40, branch: str = "main") -> Path:
    """Lay a model folder out as the hub's cache does: blobs named by sha256, a snapshot of links, a ref."""
    home = cache / f"models--{hub_id.replace('/', '--')}"
    snapshot = home / "snapshots" / revision
    snapshot.mkdir(parents=True)
    (home / "blobs").mkdir(exist_ok=True)
    (home / "refs").mkdir(exist_ok=True)
    (home / "refs" / branch).write_text(revision)
    for path in source.iterdir():
        blob = home / "blobs" / hashlib.sha256(path.read_bytes()).hexdigest()
        blob.write_bytes(path.read_bytes())
        (snapshot / path.name).symlink_to(blob)
    return snapshot
