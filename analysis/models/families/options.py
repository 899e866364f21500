"""Options of a configuration that change what attention computes: refused, and never read as something else.

What belongs here: telling from config.json whether a row of the table reads a model. What does not: the options that a
row names (the other modules of this package that are named after kinds of models).
"""

from analysis.models.families.row import Config, Family

EVERYWHERE = {"quantization_config": (None,), "pruned_heads": ({}, None)}


def check_options(row: Family, config: Config, name: str) -> None:
    """Refuse an option that changes what the attention computes.

    A quantization is one, unless it says that it leaves the attention as it is.
    """
    for option, values in {**EVERYWHERE, **row.only}.items():
        value = getattr(config, option, values[0])
        if value not in values and not (option == "quantization_config" and _spares_attention(row, value)):
            raise ValueError(
                f"{name} has {option} = {value!r}, which changes what its attention computes; read here "
                f"are models with {' or '.join(map(repr, values[:1]))}"
            )


def _spares_attention(row: Family, quantization: object) -> bool:
    """Whether a quantization leaves the attention of all layers as it is, as that of gpt-oss does."""
    spared = quantization.get("modules_to_not_convert") if isinstance(quantization, dict) else None
    attention = f"{row.layer}.{row.output}".rpartition(".")[0].format("*")
    return any(module == attention or module.endswith(f".{attention}") for module in spared or ())
