"""Positions and masks as configurations of transformers describe them, for the rows of the table of families."""

import math
from collections.abc import Callable, Mapping

import torch

from analysis.core.attention_layer import Mask
from analysis.core.positions import Alibi, Positions, Rotary, StreamPositions, Tempered
from analysis.models.families.row import Config

Choice = Callable[[Config, int], bool]
"""Says of a layer whether something holds for it."""
IN_WINDOWS = " in a layer that has a window"


def layer_type(config: Config, layer: int) -> str | None:
    """Return what kind of attention a layer has, where the configuration says so: ``"sliding_attention"``, ..."""
    kinds = getattr(config, "layer_types", None)
    return kinds[layer] if kinds else None


def is_causal(config: Config) -> bool:
    """Return whether a decoder is one: with ``is_causal`` false its positions see later ones too, as embedders may."""
    return bool(getattr(config, "is_causal", True))


def within(config: Config, *, sides: int) -> Mask:
    """Return the mask of ``sliding_window``: to one side, the window counts the token itself, and to both it does not.

    Raises
    ------
    ValueError
        If it is not a positive whole number.
    """
    window = whole(config, "sliding_window", IN_WINDOWS)
    return Mask(causal=sides == 1, reach=window - 1 if sides == 1 else window)


def whole(config: Config, option: str, where: str = "") -> int:
    """Return an option that must be a positive whole number, ``where`` if not everywhere."""
    number = getattr(config, option, None)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError(f"{option} must be a positive whole number{where}, got {number!r}")
    return number


def plain_causal(config: Config, layer: int, channel: int) -> Mask:
    """Return a causal mask whatever windows the configuration names."""
    return Mask(causal=is_causal(config))


def windowed(config: Config, layer: int, channel: int) -> Mask:
    """Return a causal mask, with the configuration's window in every layer if it names one."""
    if config.sliding_window is None:
        return plain_causal(config, layer, channel)
    return within(config, sides=1 if is_causal(config) else 2)


def causal(config: Config, layer: int, channel: int) -> Mask:
    """Return a causal mask; with a window or blocks where the configuration gives this layer some."""
    kind = layer_type(config, layer)
    if kind == "chunked_attention":  # the library's mask of blocks knows no other
        return Mask(causal=True, chunk=whole(config, "attention_chunk_size", IN_WINDOWS))
    if kind == "sliding_attention":
        return within(config, sides=1 if is_causal(config) else 2)
    return plain_causal(config, layer, channel)


def causal_if_decoder(config: Config, layer: int, channel: int) -> Mask:
    """Return what a model has that can be an encoder or, with ``is_decoder``, a decoder."""
    return Mask(causal=bool(getattr(config, "is_decoder", False)) and is_causal(config))


def two_sided_window(config: Config, layer: int, channel: int) -> Mask:
    """Return a mask that is local on both sides in sliding layers (ModernBERT)."""
    return within(config, sides=2) if layer_type(config, layer) == "sliding_attention" else Mask()


def rotary(
    pairing: str = "halves",
    *,
    unless: Choice | None = None,
    otherwise: Callable[[Config], Positions] = lambda config: StreamPositions("none"),
    partial: Callable[[Config], bool] | bool = False,
) -> Callable[[Config, int, int], Positions]:
    """Return a function for rows with rotary positions.

    Parameters
    ----------
    pairing
        One of :data:`analysis.core.positions.PAIRINGS`.
    unless
        The layers that have no positions, or those that ``otherwise`` gives.
    partial
        Whether ``partial_rotary_factor`` says which part of a head is turned; otherwise all of it is.
    """

    def positions(config: Config, layer: int, channel: int) -> Positions:
        if unless and unless(config, layer):
            return otherwise(config)
        return read_rotary(config, layer, channel, pairing, partial=partial(config) if callable(partial) else partial)

    return positions


def tempered(config: Config) -> Positions:
    """Return what lets queries grow in layers without rotary positions (Llama 4), where the option is on."""
    if not config.attn_temperature_tuning:
        return StreamPositions("none")
    return Tempered(float(config.floor_scale), float(config.attn_scale))


def read_rotary(config: Config, layer: int, channel: int, pairing: str, *, partial: bool) -> Positions:
    """Return the frequencies of a layer, by the library's own functions where they are scaled for longer texts.

    Where they depend on the length of the text, these are the ones of texts within the trained length, which is noted.

    Raises
    ------
    ValueError
        If there are no such frequencies, or an odd number of coordinates is turned, or more than a head has.
    """
    # The settings of this layer's kind, where layers differ.
    settings, kind = config.rope_parameters or {}, layer_type(config, layer)
    if kind in settings:
        settings = settings[kind]
    elif settings and all(isinstance(value, Mapping) or value is None for value in settings.values()):
        return StreamPositions("none")
    else:
        kind = None
    if settings is None:
        return StreamPositions("none")
    # Plain frequencies are computed here, scaled ones by the library.
    scaling, base = settings.get("rope_type", "default"), _base(settings.get("rope_theta"))
    if scaling == "default":
        share = settings.get("partial_rotary_factor", 1.0) if partial else 1.0
        if isinstance(share, bool) or not isinstance(share, int | float) or not math.isfinite(share):
            raise ValueError(f"partial_rotary_factor must be a number, got {share!r}")
        turned = _even(int(channel * share), channel, share)
        return Rotary(frequencies(turned, base), channel, pairing, base)
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    if not isinstance(scaling, str) or scaling not in ROPE_INIT_FUNCTIONS:
        raise ValueError(
            f"rope_parameters (or rope_scaling) must have as its rope_type default, {', '.join(ROPE_INIT_FUNCTIONS)}, "
            f"got {scaling!r}"
        )
    scaled, factor = ROPE_INIT_FUNCTIONS[scaling](config, "cpu", layer_type=kind)
    share = float(settings.get("partial_rotary_factor", 1.0))
    turned = channel if scaling == "proportional" else int(channel * share)  # which gives still pairs a frequency of 0
    _even(turned, channel, share)
    longest = {
        "longrope": settings.get("original_max_position_embeddings"),
        "dynamic": config.max_position_embeddings - 1,  # at that length itself it depends on what was read before
    }.get(scaling)
    return Rotary(scaled.double(), channel, pairing, base, scaling, float(factor), longest)


def _base(number: object, name: str = "rope_theta") -> float:
    """Return the base of frequencies; refuse what makes none, of which every score would be nan.

    >>> _base(-1)
    Traceback (most recent call last):
    ValueError: rope_theta must be a positive finite number, got -1
    """
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < math.inf:
        raise ValueError(f"{name} must be a positive finite number, got {number!r}")
    return float(number)


def _even(turned: int, channel: int, share: float) -> int:
    """Return how many coordinates of a head are turned; refuse a number that makes no pairs of them."""
    if turned % 2 or not 0 <= turned <= channel:
        raise ValueError(
            f"partial_rotary_factor = {share!r} of the {channel} channels of a head (head_dim, or hidden_size / "
            f"num_attention_heads) must be an even number of them, because pairs are turned, got {turned}"
        )
    return turned


def fixed_rotary(
    pairing: str, coordinates: str | None = None, base: str | None = None
) -> Callable[[Config, int, int], Rotary]:
    """Return a function for rows with rotary positions that know no scaling.

    ``coordinates`` and ``base`` are what the configuration calls the number of coordinates that are turned and the base
    of the frequencies; ``None``: all are, and it is 10,000.
    """

    def positions(config: Config, layer: int, channel: int) -> Rotary:
        turned = getattr(config, coordinates) if coordinates else None
        turned = channel if turned is None else turned
        if turned % 2 or not 0 < turned <= channel:
            raise ValueError(f"{coordinates} must be even and at most {channel}, the width of a head, got {turned}")
        theta = _base(getattr(config, base), base) if base else 10000.0
        return Rotary(frequencies(turned, theta), channel, pairing, theta)

    return positions


def frequencies(coordinates: int, base: float) -> torch.Tensor:
    """Return ``base ** (-2 f / coordinates)`` as models have it, rounded to float32.

    >>> frequencies(4, 100.0)
    tensor([1.0000, 0.1000], dtype=torch.float64)
    """
    power = torch.arange(0, coordinates, 2, dtype=torch.int64).float() / coordinates
    return (1.0 / (base**power)).double()


def alibi(config: Config, layer: int, channel: int) -> Alibi:
    """Return the positions of a layer with ALiBi, in whose families the flattest slope is 2 ** -8."""
    return Alibi(config.num_attention_heads)
