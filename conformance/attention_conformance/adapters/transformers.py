"""transformers: what its own modules hand to attention, read and return, with the parameters in float64."""

import sys

import torch
import transformers
from torch.overrides import TorchFunctionMode
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from attention_conformance.cases import Case, NotOffered


class Eager(TorchFunctionMode):
    """The eager attention, watched: its softmax and angles are float32 in many modules whatever the parameters are."""

    library, version, kind, computes_in = "transformers (eager)", transformers.__version__, "eager", "float32"

    def __torch_function__(self, func, types, args=(), kwargs=None):
        """Keep the last softmax in and out."""
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") == "softmax":
            self.last = {"scores": args[0], "attention": result}
        return result

    def compute(self, case: Case) -> dict[str, torch.Tensor]:
        """Run a model and look at one layer."""
        auto, self.last, n = getattr(transformers, case.auto), {}, len(case.x)
        try:
            model = auto.from_pretrained(case.folder, attn_implementation=self.kind, experts_implementation="eager")
            model.double()
        except ValueError as reason:
            raise NotOffered(str(reason).partition(". ")[0]) from None
        found, before = {}, ALL_ATTENTION_FUNCTIONS.get(self.kind)

        def watch(module, query, key, *others, **options):
            if module is model.get_submodule(case.first.rpartition(".")[0]):  # some scale their queries before
                found.update(queries=query[0] * options.get("scaling", case.scale) / case.scale, keys=key[0])
            run = before or sys.modules[type(module).__module__].eager_attention_forward
            return run(module, query, key, *others, **options)

        def look(_, args, result):
            heads = args[0].reshape(n, len(case.golden["queries"]), -1).transpose(0, 1)
            found.update(weighted_values=heads, output=result.reshape(n, -1))
            found.update({name: each[..., :n].reshape(-1, n, n) for name, each in self.last.items()})

        model.get_submodule(case.out).register_forward_hook(look)
        ALL_ATTENTION_FUNCTIONS[self.kind] = watch
        with torch.no_grad(), self:
            model(**case.inputs)
        ALL_ATTENTION_FUNCTIONS.pop(self.kind, None)
        return found


class Sdpa(Eager):
    """The default attention, one kernel from queries to weighted values."""

    library, kind = "transformers (sdpa)", "sdpa"
