"""Models with random weights in folders, as transformers writes them, and one with a structure planted in it."""

from pathlib import Path

import torch

from analysis.models import checkpoints

TEN = (
    ("GPT2Config", {"n_embd": 64, "n_layer": 12, "n_head": 4}),
    ("GPT2Config", {"n_embd": 32, "n_layer": 2, "n_head": 4}),
    ("GPT2Config", {"n_embd": 48, "n_layer": 4, "n_head": 6, "initializer_range": 0.2}),
    ("LlamaConfig", {"hidden_size": 64, "num_hidden_layers": 12, "num_attention_heads": 8, "num_key_value_heads": 4}),
    ("LlamaConfig", {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}),
    ("LlamaConfig", {"hidden_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4, "initializer_range": 0.2}),
    ("BertConfig", {"hidden_size": 64, "num_hidden_layers": 8, "num_attention_heads": 8}),
    ("BertConfig", {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}),
    ("BertConfig", {"hidden_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4, "initializer_range": 0.2}),
    ("GPTNeoXConfig", {"hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 8, "initializer_range": 0.05}),
)
"""Families, sizes and sharpness of attention; the intermediate size is 64."""


def make_random(kind: str, seed: int = 0, **options) -> torch.nn.Module:
    """Return a model with random weights, as transformers initialises it."""
    import transformers

    inner = {} if kind == "GPT2Config" else {"intermediate_size": 64}
    config = getattr(transformers, kind)(
        vocab_size=2048, max_position_embeddings=128, bos_token_id=0, eos_token_id=0, pad_token_id=0, **inner, **options
    )
    torch.manual_seed(seed)
    return transformers.AutoModel.from_config(config)


def save(model: torch.nn.Module, folder: Path) -> Path:
    """Write a model with the tokenizer of gpt2-mini."""
    import transformers

    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(checkpoints.find("gpt2-mini").folder).save_pretrained(folder)
    return folder


@torch.no_grad()
def plant_previous_token(model: torch.nn.Module, head: int = 1, sharpness: float = 12.0) -> None:
    """Let one head of the second layer of a GPT-2 attend to the position before, and leave all else random.

    Positions get a code of sines and cosines, which a rotation of the query carries one position back.
    """
    config, places = model.config, torch.arange(model.config.n_positions, dtype=torch.float32)
    width, channel = config.n_embd, config.n_embd // config.n_head
    frequencies = 2 * torch.pi / 2.0 ** torch.linspace(1.5, 7, channel // 2)
    angles = places[:, None] * frequencies
    model.wpe.weight.zero_()
    model.wpe.weight[:, :channel] = torch.stack([angles.cos(), angles.sin()], -1).flatten(1)
    back = torch.block_diag(*(torch.tensor([[f.cos(), -f.sin()], [f.sin(), f.cos()]]) for f in frequencies))
    fused = model.h[1].attn.c_attn.weight  # (model, 3 model): queries, keys, values
    here = slice(head * channel, (head + 1) * channel)
    fused[:, here] = 0
    fused[:channel, here] = sharpness**0.5 * back
    fused[:, width : 2 * width][:, here] = 0
    fused[:channel, width : 2 * width][:, here] = sharpness**0.5 * torch.eye(channel)
