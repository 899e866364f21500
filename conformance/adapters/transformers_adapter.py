"""The library ``transformers``, whose modules most others run: eager attention, or torch's own (sdpa)."""

import torch
import transformers
from attention_conformance import Case, NotOffered
from transformers import AutoModel
from transformers.utils import logging

logging.set_verbosity_error()


class Eager:
    """Runs the model in float64; its softmax and its rotary angles stay in float32."""

    library, version, dtype, notes = "transformers (eager)", transformers.__version__, torch.float32, {}
    options = {"attn_implementation": "eager", "experts_implementation": "eager", "dtype": torch.float64}

    def layers(self, case: Case):
        """Return the attention, where it is returned, and the output of each layer."""
        try:
            model = AutoModel.from_pretrained(case.folder, **self.options).eval()
        except ValueError as reason:  # not every family has every implementation
            raise NotOffered(str(reason)) from reason
        stack, found = model.get_submodule(case.about["stack"]), [{} for _ in case.about["layers"]]
        for layer, paths in zip(found, case.about["layers"], strict=True):
            write = stack.get_submodule(paths["output"])
            write.register_forward_hook(lambda m, a, out, layer=layer: layer.update(output=out.flatten(0, -2)))
        with torch.no_grad():
            returned = stack(**case.inputs, output_attentions=self.options["attn_implementation"] == "eager")
        for layer, attention in zip(found, returned.get("attentions") or (), strict=False):
            layer["attention"] = attention[0]
        return found


class Sdpa(Eager):
    """The same with torch's fused attention, which returns no weights."""

    library, options = "transformers (sdpa)", Eager.options | {"attn_implementation": "sdpa"}
