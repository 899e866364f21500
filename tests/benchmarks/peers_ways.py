"""The ways that ``book.experiments.peers_packages`` measures, run in the peers' environment: each returns a call.

``python -P peers_ways.py TASK WAY time|memory OUT`` measures one way in a process of its own, saves
what it computed to ``OUT`` (npy) and prints one line of JSON. Functions named ``ours`` use this package, the others a
peer as its documentation has it, or what one would write without either.
"""

import gc
import importlib
import json
import re
import sys
import time
from importlib import metadata
from pathlib import Path

BUNDLED = Path(__file__).parents[2] / "analysis" / "bundled" / "gpt2-mini"
HEADS, MODEL, CHANNEL, VOCABULARY = 12, 768, 64, 50257
LAYERS, BATCH, POSITIONS = 4, 4, 512
DENSE, ROWS = 6, 512
"""How many of 144 heads, and of 6,144 rows, a slow way is measured on; only its seconds are multiplied."""


def _random(*shape, seed=0):
    import torch

    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _factors():
    return _random(144, MODEL, CHANNEL), _random(144, MODEL, CHANNEL, seed=1)


def spectra_ours():
    """144 spectra by Gram matrices."""
    from analysis.matrices.spectra import product_singular_values

    A, B = _factors()
    return lambda: product_singular_values(A, B)


def spectra_transformer_lens():
    """144 spectra by ``FactoredMatrix``, which gives singular vectors as well."""
    from transformer_lens import FactoredMatrix

    A, B = _factors()
    return lambda: FactoredMatrix(A, B.mT).svd()[1]


def spectra_torch():
    """Spectra of the products themselves, of a few heads."""
    import torch

    A, B = (factor[:DENSE] for factor in _factors())
    return lambda: torch.linalg.svdvals(A @ B.mT)[:, :CHANNEL]


def _layer():
    from analysis.core.attention_layer import AttentionLayer

    shapes = [(HEADS, MODEL, CHANNEL)] * 3 + [(HEADS, CHANNEL, MODEL)] + [(HEADS, CHANNEL)] * 3 + [(MODEL,)]
    return AttentionLayer(*(0.02 * _random(*shape, seed=i) for i, shape in enumerate(shapes)))


def semi_bias_ours():
    """The semi-bias of a vocabulary: ``b_Q W_K^T`` first."""
    from analysis.decomposition.terms import semi_bias

    layer, tokens = _layer(), _random(VOCABULARY, MODEL, seed=9)
    return lambda: semi_bias(tokens, layer)


def semi_bias_keys_first():
    """The semi-bias by way of all keys of all heads: the approach of lm-detokenization, written anew."""
    import torch

    layer, tokens = _layer(), _random(VOCABULARY, MODEL, seed=9)

    def call():
        keys = torch.einsum("tm,hmc->htc", tokens, layer.W_K)
        return torch.einsum("hc,htc->ht", layer.b_Q, keys) / CHANNEL**0.5

    return call


def _gpt2(attention):
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_layer=LAYERS,
        vocab_size=1000,
        n_positions=POSITIONS,
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation=attention,
    )
    model = transformers.GPT2LMHeadModel(config).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        parameter.data *= 4 if name.endswith("c_attn.weight") else 1  # maps that are not uniform
    return model, torch.randint(1000, (BATCH, POSITIONS), generator=torch.Generator().manual_seed(1))


def _entropy(maps):
    import torch

    return torch.stack([-torch.xlogy(layer, layer).sum(-1).mean((0, 2)) for layer in maps])


def maps_none():
    """The forward pass alone, with the model's fastest attention."""
    model, ids = _gpt2("sdpa")
    return lambda: model.transformer(ids).last_hidden_state[:0, 0]


def maps_ours():
    """Entropy, column mass and diagonals of all maps while they go by."""
    from analysis.maps.streaming import MapStatistics
    from analysis.models import attention_hooks

    model, ids = _gpt2("sdpa")

    def call():
        counted = MapStatistics(LAYERS, HEADS, POSITIONS)
        with attention_hooks.with_attention(model, counted.attend):
            model.transformer(ids)
        return counted.entropy()

    return call


def maps_transformers():
    """Entropy from maps that the model returns."""
    model, ids = _gpt2("eager")
    return lambda: _entropy(model.transformer(ids, output_attentions=True).attentions)


def maps_transformer_lens():
    """Entropy from a cache that holds the maps and nothing else."""
    import transformers
    from transformer_lens.model_bridge import TransformerBridge

    model, ids = _gpt2("eager")
    tokenizer = transformers.AutoTokenizer.from_pretrained(BUNDLED, local_files_only=True)  # else it asks the hub
    bridge = TransformerBridge.boot_transformers("gpt2", hf_model=model, tokenizer=tokenizer, device="cpu")

    def call():
        _, cache = bridge.run_with_cache(
            ids, names_filter=lambda name: name.endswith("attn.hook_pattern"), return_type=None
        )
        return _entropy([cache[f"blocks.{layer}.attn.hook_pattern"] for layer in range(LAYERS)])

    return call


def lilliefors_ours():
    """Lilliefors statistics of a layer's rows, all at once."""
    from analysis.statistics.normality import lilliefors

    rows = _random(6144, MODEL)
    return lambda: lilliefors(rows)


def lilliefors_statsmodels():
    """The same, row by row, of some rows; each comes with its p-value."""
    import numpy as np
    from statsmodels.stats.diagnostic import lilliefors

    rows = _random(6144, MODEL)[:ROWS].double().numpy()
    return lambda: np.array([lilliefors(row)[0] for row in rows])


def _maps(n=64):
    return _random(4, 4, n, n).softmax(-1), [f"token{i}" for i in range(n)]


def viewer_ours():
    """A page that shows any map of a text; which gate each cell belongs to is given."""
    from analysis.maps.gates import GATES, read_gates
    from analysis.plotting.attention_viewer import AttentionViewer

    maps, tokens = _maps()
    gates = read_gates(maps)
    given = {"cells": gates.cells.numpy(), "scores": gates.scores.numpy()}
    return lambda: AttentionViewer(maps.numpy(), tokens, order=GATES, **given).html


def viewer_bertviz():
    """BertViz's view of all heads of a layer."""
    from bertviz import head_view

    maps, tokens = _maps()
    return lambda: head_view([layer[None] for layer in maps], tokens, html_action="return").data


IMPORTS = {
    "ours": ("analysis.transformer.attention", "analysis.decomposition.terms", "analysis.matrices.spectra"),
    "transformers": ("transformers",),
    "transformer_lens": ("transformer_lens", "transformer_lens.model_bridge"),
    "bertviz": ("bertviz",),
    "statsmodels": ("statsmodels.stats.diagnostic",),
}
SCALE = {("spectra", "torch"): 144 / DENSE, ("lilliefors", "statsmodels"): 6144 / ROWS}
PACKAGES = ("torch", "transformers", "transformer-lens", "bertviz", "statsmodels")


def resident(which: str = "VmRSS") -> float:
    """Return this process's memory in MB: now, or with ``VmHWM`` the most so far (Linux only)."""
    return int(re.search(rf"{which}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


def added(call) -> float:
    """Return how many MB the process grows at most while it makes a call."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # forget the most so far
    before = resident()
    call()
    return max(resident("VmHWM") - before, 0.0)


def measure(task: str, way: str, what: str, out: str) -> dict:
    """Measure one way once it is prepared: processor seconds of the fastest call, or the memory of the first."""
    scale = SCALE.get((task, way), 1)
    if task == "import":
        start, before = time.process_time(), resident()
        for name in IMPORTS[way]:
            importlib.import_module(name)
        if way == "transformers":
            _ = sys.modules["transformers"].GPT2LMHeadModel
        return {"seconds": time.process_time() - start, "megabytes": resident("VmHWM") - before}
    import numpy as np
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    with torch.no_grad():
        call = globals()[f"{task}_{way}"]()
        if what == "memory":
            return {"megabytes": added(call)}
        result, seconds = call(), []
        while len(seconds) < 3 or (sum(seconds) < 2 and len(seconds) < 20):
            start = time.process_time()
            call()
            seconds.append(time.process_time() - start)
    found = {"seconds": scale * min(seconds)}
    if isinstance(result, str):
        hosts = set(re.findall(r"""['\"]https?://([\w.-]+)""", result)) - {"www.w3.org"}  # quoted: not in a comment
        return found | {"bytes": len(result.encode()), "hosts": len(hosts)}
    np.save(out, np.asarray(result, dtype=np.float64))
    return found


if __name__ == "__main__":
    found = measure(*sys.argv[1:5])
    print(json.dumps(found | {"versions": {name: metadata.version(name) for name in PACKAGES}}))
