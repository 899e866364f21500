"""nnsight: what a trace of a model of transformers saves, modules by path and operations inside them by name."""

from importlib.metadata import version

import torch
import transformers
from nnsight import NNsight

from attention_conformance.cases import Case

INTERFACE = "attention_interface_1"
"""What nnsight calls the operation in modules that hand queries, keys and values to a function of the registry."""
SOFTMAX = "nn_functional_softmax_0", "F_softmax_0"


class Adapter:
    """Traces models with eager attention, their parameters in float64; softmax and angles stay in float32."""

    library, version, computes_in = "nnsight", version("nnsight"), "float32"

    def compute(self, case: Case) -> dict[str, torch.Tensor]:
        """Trace a model and look at one layer; which attention a model returns, its output says."""
        options = {"attn_implementation": "eager", "experts_implementation": "eager"}
        model = getattr(transformers, case.auto).from_pretrained(case.folder, **options).double()
        traced, heads, n = NNsight(model), len(case.golden["queries"]), len(case.x)
        attention = traced.get(case.first.rpartition(".")[0])
        out = traced.get(case.out.replace(".output.", ".E_output."))  # what nnsight calls a submodule of that name
        known = hasattr(attention.source, INTERFACE)
        with traced.trace(**case.inputs, output_attentions=True):
            if known:
                operation = getattr(attention.source, INTERFACE)
                arguments = operation.inputs.save()
                softmax = next(name for name in SOFTMAX if hasattr(operation.source, name))
                scores = getattr(operation.source, softmax).input.save()
            rows = out.input.save()
            output = out.output.save()
            result = traced.output.save()
        maps = result.get(f"{case.stack}_attentions" if case.stack else "attentions")
        found = {"weighted_values": rows.reshape(n, heads, -1).transpose(0, 1), "output": output.reshape(n, -1)}
        if maps is not None and maps[case.layer] is not None:
            found["attention"] = maps[case.layer][0]
        if known:
            (_, queries, keys, *_), named = arguments
            found |= {"queries": queries[0] * named["scaling"] / case.scale, "keys": keys[0]}
            found["scores"] = scores[0, ..., :n]
        return found
