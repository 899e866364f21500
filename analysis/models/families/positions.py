"""Positions and masks as configurations of transformers describe them, for the rows of the table of families.

What belongs here: from options to :mod:`analysis.core.positions`. What does not: positions that need parameters
(:mod:`analysis.models.families.learned`).
"""

from collections.abc import Callable, Mapping

import torch

from analysis.core.attention_layer import Mask
from analysis.core.positions import Alibi, Positions, Rotary, StreamPositions
from analysis.models.families.row import Config

Choice = Callable[[Config, int], bool]
"""Says of a layer whether something holds for it."""


def layer_type(config: Config, layer: int) -> str | None:
    """Return what kind of attention a layer has, where the configuration says so: ``"sliding_attention"``, ..."""
    kinds = getattr(config, "layer_types", None)
    return kinds[layer] if kinds else None


def causal(config: Config, layer: int, channel: int) -> Mask:
    """Return a causal mask; with a window where the configuration gives this layer one."""
    kind, window = layer_type(config, layer), getattr(config, "sliding_window", None)
    if kind == "chunked_attention":
        return Mask(causal=True, chunk=config.attention_chunk_size)
    slides = kind == "sliding_attention" if kind else bool(window)
    return Mask(causal=True, reach=window - 1 if slides else None)


def plain_causal(config: Config, layer: int, channel: int) -> Mask:
    """Return a causal mask whatever windows the configuration names."""
    return Mask(causal=True)


def causal_if_decoder(config: Config, layer: int, channel: int) -> Mask:
    """Return what a model has that can be an encoder or, with ``is_decoder``, a decoder."""
    return Mask(causal=bool(getattr(config, "is_decoder", False)))


def two_sided_window(config: Config, layer: int, channel: int) -> Mask:
    """Return a mask that is local on both sides in sliding layers (ModernBERT)."""
    slides = layer_type(config, layer) == "sliding_attention"
    return Mask(causal=False, reach=config.sliding_window if slides else None)


def rotary(
    pairing: str = "halves", *, unless: Choice | None = None, share: Callable[[Config], float] | None = None
) -> Callable[[Config, int, int], Positions]:
    """Return a function for rows with rotary positions.

    Parameters
    ----------
    pairing
        One of :data:`analysis.core.positions.PAIRINGS`.
    unless
        The layers that have no positions.
    share
        Which part of a head is turned, where ``partial_rotary_factor`` does not say so.
    """

    def positions(config: Config, layer: int, channel: int) -> Positions:
        if unless and unless(config, layer):
            return StreamPositions("none")
        return read_rotary(config, layer, channel, pairing, share(config) if share else None)

    return positions


def read_rotary(config: Config, layer: int, channel: int, pairing: str, share: float | None = None) -> Positions:
    """Return the frequencies of a layer, by the library's own functions where they are scaled for longer texts.

    Raises
    ------
    ValueError
        If frequencies depend on the length of the text, so that no one set of them is the model's.
    """
    settings, kind = config.rope_parameters or {}, layer_type(config, layer)
    if kind in settings:
        settings = settings[kind]
    elif settings and all(isinstance(value, Mapping) or value is None for value in settings.values()):
        return StreamPositions("none")
    else:
        kind = None
    if settings is None:
        return StreamPositions("none")
    scaling, base = settings.get("rope_type", "default"), settings["rope_theta"]
    if scaling in ("dynamic", "longrope"):
        raise ValueError(
            f"rotary positions of the kind {scaling!r} have other frequencies for longer texts: there is "
            "no one rotation to read"
        )
    if scaling == "default":
        share = settings.get("partial_rotary_factor", 1.0) if share is None else share
        return Rotary(frequencies(int(channel * share), base), channel, pairing, float(base))
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaled, factor = ROPE_INIT_FUNCTIONS[scaling](config, "cpu", layer_type=kind)
    return Rotary(scaled.double(), channel, pairing, float(base), scaling, float(factor))


def fixed_rotary(pairing: str, coordinates: str | None) -> Callable[[Config, int, int], Rotary]:
    """Return a function for rows with rotary positions of base 10,000, without options.

    ``coordinates`` is what the configuration calls the number of coordinates that are turned; ``None``: all are.
    """

    def positions(config: Config, layer: int, channel: int) -> Rotary:
        return Rotary(frequencies(getattr(config, coordinates) if coordinates else channel, 10000.0), channel, pairing)

    return positions


def frequencies(coordinates: int, base: float) -> torch.Tensor:
    """Return ``base ** (-2 f / coordinates)`` as models have it, rounded to float32.

    >>> frequencies(4, 100.0)
    tensor([1.0000, 0.1000], dtype=torch.float64)
    """
    power = torch.arange(0, coordinates, 2, dtype=torch.int64).float() / coordinates
    return (1.0 / (base**power)).double()


def alibi(
    *, odd_first: bool = False, exponent: Callable[[Config], float] = lambda config: 8.0
) -> Callable[[Config, int, int], Alibi]:
    """Return a function for rows with ALiBi."""
    return lambda config, layer, channel: Alibi(config.num_attention_heads, float(exponent(config)), odd_first)
