"""TransformerLens: a bridge around the model, without processing of its weights, and the cache of a run."""

from importlib.metadata import version

import torch
from attention_conformance import Case, NotOffered
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformer_lens.model_bridge import TransformerBridge
from transformers import PreTrainedTokenizerFast

WORDS = Tokenizer(WordLevel({f"[{n}]": n for n in range(40)}, "[0]"))
TOKENIZER = PreTrainedTokenizerFast(tokenizer_object=WORDS, bos_token="[0]", eos_token="[0]", pad_token="[1]")
HOOKS = {"queries": ("rot_q", "q"), "keys": ("rot_k", "k"), "scores": ("attn_scores",), "attention": ("pattern",)}


class TransformerLens:
    """Runs the bridge in float64 and reads its cache."""

    library, version, notes = "TransformerLens", version("transformer-lens"), {}

    def layers(self, case: Case):
        """Return queries, keys, scores, attention and output of each layer, as far as the cache has them."""
        try:
            bridge = TransformerBridge.boot_transformers(
                str(case.folder), device="cpu", dtype=torch.float64, tokenizer=TOKENIZER
            )
            _, cache = bridge.run_with_cache(case.inputs["input_ids"])
        except Exception as reason:  # each unsupported architecture fails in a way of its own
            raise NotOffered(f"{type(reason).__name__}: {reason}") from reason
        return [self.quantities(cache, f"blocks.{n}.attn.") for n in range(len(case.about["layers"]))]

    def quantities(self, cache, start: str):
        """Return what the cache has of a layer, heads first."""
        found = {}
        for name, hooks in HOOKS.items():
            value = next((cache[f"{start}hook_{hook}"][0] for hook in hooks if f"{start}hook_{hook}" in cache), None)
            if value is not None:
                found[name] = (value.transpose(0, 1) if name in ("queries", "keys") else value).float()
        return found | ({"output": cache[f"{start}hook_out"][0].float()} if f"{start}hook_out" in cache else {})
