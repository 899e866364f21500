"""The library ``transformers``, whose modules most others run: eager attention, or torch's own (sdpa)."""

import torch
import transformers
from attention_conformance import Case
from transformers import AutoModel
from transformers.utils import logging

logging.set_verbosity_error()


class Eager:
    """Runs the model in float64 and reads what its modules return."""

    library, version, attention = "transformers (eager)", transformers.__version__, "eager"
    notes = {"attention": "its softmax and its rotary angles are computed in float32 whatever the model's dtype"}
    notes["output"] = notes["attention"]

    def layers(self, case: Case):
        """Return the attention, where it is returned, and the output of each layer."""
        with torch.no_grad():
            model = AutoModel.from_pretrained(
                case.folder, dtype=torch.float64, attn_implementation=self.attention, experts_implementation="eager"
            ).eval()
            stack = model.get_submodule(case.about["stack"])
            found = [{} for _ in case.about["layers"]]
            for layer, paths in zip(found, case.about["layers"], strict=True):
                write = stack.get_submodule(paths["output"])
                write.register_forward_hook(lambda m, a, out, layer=layer: layer.update(output=out.flatten(0, -2)))
            returned = stack(**case.inputs, output_attentions=self.attention == "eager")
        for layer, attention in zip(found, returned.get("attentions") or (), strict=False):
            layer["attention"] = attention[0]
        return [{name: value.float() for name, value in layer.items()} for layer in found]


class Sdpa(Eager):
    """The same with torch's fused attention, which returns no weights."""

    library, attention = "transformers (sdpa)", "sdpa"
