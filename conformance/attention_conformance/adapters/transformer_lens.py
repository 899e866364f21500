"""TransformerLens: the hooks of a bridge, and the weights that its compatibility mode folds, nothing centred."""

from importlib.metadata import version
from typing import ClassVar

import torch
import transformers
from transformer_lens.model_bridge import TransformerBridge

from attention_conformance.cases import Case, NotOffered

PATHS = {"": "blocks.{}.attn", "encoder": "encoder_blocks.{}.attn", "decoder": "decoder_blocks.{}.self_attn"}
HOOKS = {"scores": "hook_attn_scores", "attention": "hook_pattern", "weighted_values": "hook_z", "output": "o.hook_out"}
FOLDS = {"folded_W": ("W_Q", "W_K", "W_V"), "folded_b": ("b_Q", "b_K", "b_V"), "folded_b_O": ("b_O",)}
SCORES = "where transformers computes the attention the hook holds it after the softmax, as a comment in the code says"


class Adapter:
    """Bridges around models in float64; their softmax and angles stay in float32, as in transformers."""

    library, version, computes_in = "TransformerLens", version("transformer-lens"), "float32"
    notes: ClassVar = {"scores": SCORES, "folded_b_O": "an error for Llama, Granite and Qwen 3 with biases"}

    def bridge(self, case: Case, **folding) -> TransformerBridge:
        """Build a bridge, and fold what is named."""
        model = getattr(transformers, case.auto).from_pretrained(case.folder, experts_implementation="eager").double()
        bridge = TransformerBridge.boot_transformers(str(case.folder), hf_model=model, device="cpu")
        if folding:
            bridge.enable_compatibility_mode(center_writing_weights=False, center_unembed=False, **folding)
        if folding.get("fold_ln") and not getattr(bridge.adapter, "supports_fold_ln", True):
            raise ValueError("the library warns that it folds no norm of this family")
        return bridge

    def compute(self, case: Case) -> dict[str, torch.Tensor | NotOffered]:
        """Run a bridge and look at the hooks of one layer; keep what each fold gives, or why it gives nothing."""
        try:
            bridge = self.bridge(case)
        except (ValueError, RuntimeError) as reason:
            raise NotOffered(str(reason).partition(". ")[0]) from None
        inputs, path = case.inputs, PATHS[case.stack].format(case.layer)
        _, cache = bridge.run_with_cache(inputs.pop(bridge.original_model.main_input_name), **inputs)
        turned = "rot_" * (bridge.cfg.positional_embedding_type == "rotary")
        hooks = HOOKS | {"queries": f"hook_{turned}q", "keys": f"hook_{turned}k"}
        found = {name: cache[f"{path}.{hook}"][0] for name, hook in hooks.items() if f"{path}.{hook}" in cache}
        for name in {"queries", "keys", "weighted_values"} & found.keys():  # (position, head, channel) in the cache
            found[name] = found[name].transpose(0, 1)
        for name in [] if case.stack else FOLDS.keys() & case.golden.keys():
            try:
                folded = self.bridge(case, fold_ln=name != "folded_b_O", fold_value_biases=name == "folded_b_O")
                found[name] = torch.cat([getattr(folded, each)[case.layer] for each in FOLDS[name]])
            except (AssertionError, AttributeError, RuntimeError, ValueError) as reason:
                found[name] = NotOffered(f"{name}: {str(reason).partition('. ')[0]}")
        return found
