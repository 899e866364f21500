"""What the chapter on patterns and messages shows: the rewriting, readings on text, spectra, rotary forms, costs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from analysis.core.attention_layer import AttentionLayer
from book import publish
from book.publish import Inputs, Numbers
from book.studies.patterns_and_messages.forms import (
    BiasFree,
    Costs,
    Equality,
    Gauge,
    Rotary,
    measure_bias_free,
    measure_costs,
    measure_equality,
    measure_gauge,
    measure_rewriting,
    measure_rotary,
)
from book.studies.patterns_and_messages.readings import (
    PrintedLists,
    Readings,
    Spaces,
    measure_readings,
    measure_spaces,
    run_printed_lists,
)
from book.studies.patterns_and_messages.spectra import Spectra, measure_spectra
from book.studies.shared.equality import draw, random_layer

OWN_MODEL = "gpt2-mini"


@dataclass(frozen=True)
class Measured(Numbers):
    """Everything that the chapter shows or judges.

    ``layer`` and ``x`` are the random layer of three heads of width 4 and its input; ``rewriting`` holds the errors of
    its patterns and messages, as shares. ``sources`` says of each record whether it was recomputed.
    """

    prefix = "patterns"

    inputs: Inputs
    layer: AttentionLayer
    x: Float[Tensor, "batch position model"]
    rewriting: Mapping[str, float]
    equality: Equality
    no_constant: str
    bias_free: BiasFree
    lists: PrintedLists
    gauge: Gauge
    readings: Readings
    spaces: Spaces
    spectra: Spectra
    rotary: Rotary
    costs: Costs
    sources: Mapping[str, str]


def measure(model: str = OWN_MODEL, texts: str | None = None, device: str = "auto") -> Measured:
    """Compute everything that the chapter shows; ``model`` is a whole GPT-2, which is run on text."""
    inputs = publish.choose_inputs(model, own=OWN_MODEL, texts=texts, device=device)
    layer, x = random_layer(3, 12, 4).to(inputs.device), draw(2, 9, 12, device=inputs.device)
    bias_free = replace(layer, **{name: 0 * getattr(layer, name) for name in ("b_Q", "b_K", "b_V", "b_O")})
    equality, equality_source = measure_equality(layer, x, inputs)
    heads, heads_source = measure_spectra(inputs)
    left_out = equality.gpt2["no constant pattern"]
    return Measured(
        inputs=inputs,
        layer=layer,
        x=x,
        rewriting=measure_rewriting(layer, x),
        equality=equality,
        no_constant=f"{left_out.min():.0%} to {left_out.max():.0%}",
        bias_free=measure_bias_free(bias_free, x),
        lists=run_printed_lists(bias_free, x),
        gauge=measure_gauge(layer, x),
        readings=measure_readings(inputs),
        spaces=measure_spaces(inputs),
        spectra=heads,
        rotary=measure_rotary(layer, x),
        costs=measure_costs(layer, x, inputs),
        sources={"equality": equality_source, "spectra": heads_source},
    )
