"""TransformerLens: a bridge around the model, its weights as they are, and the cache of a run."""

import tempfile
from importlib.metadata import version

import torch
import transformers as hf
from attention_conformance import Case, NotOffered
from tokenizers import Tokenizer, models
from transformer_lens.model_bridge import TransformerBridge

WORDS = Tokenizer(models.WordLevel({f"[{n}]": n for n in range(40)}, "[0]"))
hf.PreTrainedTokenizerFast(tokenizer_object=WORDS, bos_token="[0]").save_pretrained(FOLDER := tempfile.mkdtemp())
HOOKS = {"scores": "hook_attn_scores", "attention": "hook_pattern", "output": "o.hook_out"}


class TransformerLens:
    """Runs the bridge in float64 around the library's modules, which keep their softmax in float32."""

    library, version, dtype = "TransformerLens", version("transformer-lens"), torch.float32
    notes = {"scores": "there hook_attn_scores holds the weights"}

    def layers(self, case: Case):
        """Return queries, keys, scores, attention and output of each layer, as far as the cache has them."""
        try:
            masked = type(hf.AutoConfig.from_pretrained(case.folder)) in hf.MODEL_FOR_MASKED_LM_MAPPING
            kind = hf.AutoModelForMaskedLM if masked else hf.AutoModelForCausalLM
            eager = {"attn_implementation": "eager", "experts_implementation": "eager", "dtype": torch.float64}
            model = kind.from_pretrained(case.folder, **eager)
            model.config.architectures = [type(model).__name__]
            made = {"hf_model": model, "tokenizer": hf.PreTrainedTokenizerFast.from_pretrained(FOLDER)}
            bridge = TransformerBridge.boot_transformers(str(case.folder), dtype=torch.float64, device="cpu", **made)
            cache = dict(bridge.run_with_cache(case.inputs["input_ids"])[1].items())
        except Exception as reason:  # each architecture that is not taken fails in a way of its own
            raise NotOffered(f"{type(reason).__name__}: {reason}") from reason
        side = "hook_rot_" if bridge.cfg.positional_embedding_type == "rotary" else "hook_"  # as the scores use them
        hooks = HOOKS | {"queries": f"{side}q", "keys": f"{side}k"}
        starts = (f"blocks.{n}.attn." for n in range(bridge.cfg.n_layers))
        found = [{name: cache[at + hook][0] for name, hook in hooks.items() if at + hook in cache} for at in starts]
        return [{name: v.transpose(0, 1) if name in "queries keys" else v for name, v in one.items()} for one in found]
