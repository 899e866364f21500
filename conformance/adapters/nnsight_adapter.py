"""nnsight: what the library's own modules take in and give back, saved in a trace."""

from importlib.metadata import version

import torch
from attention_conformance import Case, NotOffered
from nnsight import NNsight
from transformers import AutoModel


class Nnsight:
    """Traces the model in float64; its modules keep their softmax and their rotary angles in float32."""

    library, version, dtype, notes = "nnsight", version("nnsight"), torch.float32, {}
    options = {"attn_implementation": "eager", "experts_implementation": "eager", "dtype": torch.float64}

    def layers(self, case: Case):
        """Return the attention that a module hands back, and the output of each layer."""
        model = AutoModel.from_pretrained(case.folder, **self.options).eval()
        stack, saved = NNsight(model.get_submodule(case.about["stack"])), []
        try:
            with torch.no_grad(), stack.trace(**case.inputs, output_attentions=True):
                for paths in case.about["layers"]:
                    saved.append(self.module(stack, paths["output"]).output.save())
                returned = stack.output.save()
        except Exception as reason:
            raise NotOffered(f"{type(reason).__name__}: {reason}") from reason
        pairs = zip(saved, returned.attentions, strict=False)
        return [{"output": out.flatten(0, -2), "attention": attention[0]} for out, attention in pairs]

    def module(self, stack, path: str):
        """Follow a path of names to a module."""
        for name in path.replace("output", "E_output").split("."):  # `output` is nnsight's own
            stack = stack[int(name)] if name.isdigit() else getattr(stack, name)
        return stack
