"""The residual in a trained model and its control with parts switched off, and what GELU does to the MLP's rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import gelu

from analysis.models.extraction import Observed
from analysis.representations.rank_collapse import residual
from analysis.transformer.encoder import ALL_ON, Switches, encode, run_layer
from book.studies.bert_rank.parts import ACTIVATIONS, all_switches
from book.studies.bert_rank.residuals import Runs, typical


@dataclass(frozen=True)
class TrainedStack:
    """The switches in a trained model and in its control."""

    traced: Mapping[str, Runs]  # one run for each text
    cosines: Mapping[str, Mapping[str, float]]  # of a text's mean row at the end with that of the whole model
    hidden: Mapping[str, Float[np.ndarray, "layer 4"]]  # mean of GELU, share below zero, residual before and after it
    ends: Mapping[str, Mapping[str, tuple[float, float]]]  # residual after the last layer and cosine, by activation

    @property
    def final(self) -> dict[str, dict[str, float]]:
        """The residual after the last layer."""
        return {which: {name: typical(run, -1) for name, run in runs.items()} for which, runs in self.traced.items()}

    @property
    def most_without_skip(self) -> float:
        """The largest residual that a trained stack without skip connections ends at."""
        return max(value for name, value in self.final["trained"].items() if "skip" not in name)


def measure_trained_stack(observed: Mapping[str, Observed]) -> TrainedStack:
    """Switch parts of the model and its control off, and look at what GELU reads and writes."""

    found = {
        which: {switches.describe(): trace_texts(o, switches) for switches in all_switches()}
        for which, o in observed.items()
    }
    return TrainedStack(
        traced={which: {name: run for name, (run, _) in parts.items()} for which, parts in found.items()},
        cosines={which: {name: cosine for name, (_, cosine) in parts.items()} for which, parts in found.items()},
        hidden={which: measure_hidden_rows(o) for which, o in observed.items()},
        ends={
            which: {
                name: (typical(run, -1), cosine)
                for name, activation in ACTIVATIONS.items()
                for run, cosine in [trace_texts(o, ALL_ON, activation)]
            }
            for which, o in observed.items()
        },
    )


def trace_texts(
    o: Observed, switches: Switches, activation: Callable[[Tensor], Tensor] = gelu
) -> tuple[Float[np.ndarray, "text state"], float]:
    """Follow the residual of every text; and return how near their mean rows end to those of the whole model."""
    runs = [encode(states[0], o.layers, switches, activation) for states in o.states]
    cosines = [
        torch.cosine_similarity(run[-1].mean(0), states[-1].mean(0), dim=0)
        for run, states in zip(runs, o.states, strict=True)
    ]
    return torch.stack([residual(torch.stack(run)) for run in runs]).cpu().numpy(), torch.stack(cosines).mean().item()


def measure_hidden_rows(o: Observed) -> Float[np.ndarray, "layer 4"]:
    """Return by layer the mean of GELU, the share of what it reads below zero, and the residual before and after it."""
    by_layer = []
    for i, layer in enumerate(o.layers):
        after_attention = torch.cat([run_layer(s[i], layer).first for s in o.states])
        z = after_attention @ layer.mlp.W_in + layer.mlp.b_in
        by_layer.append(torch.stack([gelu(z).mean(), (z < 0).double().mean(), residual(z), residual(gelu(z))]))
    return torch.stack(by_layer).cpu().numpy()
