"""The library's configuration of a model: what its config.json says of the mathematics, each value checked, no more.

A configuration of ``transformers`` has some thirty fields, and checks them in its own words, after it has begun to
build. Of what a folder says, only what a forward pass or a random initialisation depends on reaches it; the rest
(dropout, tokens that begin a text, caches, which attention to run) is the caller's to choose.
"""

from collections.abc import Mapping

from analysis.models.configuration import ModelConfig

MOST_LABELS = 100_000
"""Classes of a classifier."""


def module_config(config: ModelConfig, settings: Mapping, source: str = "config.json"):
    """Make the library's configuration of a model that was read.

    Parameters
    ----------
    config
        What `configuration.read_config` made of ``settings``.
    settings
        What config.json holds.
    source
        What an error calls the file.

    Raises
    ------
    ValueError
        If the library has no such activation, or the padding, the classes or the tied table are not what they must be.

    Examples
    --------
    >>> from analysis.models.configuration import read_config
    >>> settings = {"model_type": "gpt2", "n_layer": 2, "n_head": 3, "n_embd": 12,
    ...             "attn_pdrop": "none"}
    >>> module_config(read_config(settings), settings).n_inner
    48
    """
    from transformers import CONFIG_MAPPING
    from transformers.activations import ACT2FN

    family = config.family
    if config.activation not in ACT2FN:
        raise ValueError(
            f"{source} must name in {family.sizes['activation']} an activation that transformers has, got "
            f"{config.activation!r}"
        )
    chosen = {key: getattr(config, word) for word, key in family.sizes.items()}
    chosen |= {"bos_token_id": None, "eos_token_id": None}  # the library's own may lie beyond this vocabulary
    for word in ("divides_by_root", "divides_by_layer"):
        if key := getattr(family, word):
            chosen[key] = getattr(config, word)
    if "pad_token_id" in settings:
        chosen["pad_token_id"] = _padding(settings["pad_token_id"], config.vocab, source)
    names = class_names(settings, source)
    return CONFIG_MAPPING[settings["model_type"]](
        **chosen,
        initializer_range=config.initializer_range,
        tie_word_embeddings=_tied(settings, source),
        id2label=dict(enumerate(names)),
        label2id={name: number for number, name in enumerate(names)},
    )


def class_names(settings: Mapping, source: str = "config.json") -> list[str]:
    """Return the names of a classifier's classes: of ``id2label``, else as many as ``num_labels``, the library's 2.

    Raises
    ------
    ValueError
        If they are not numbered from 0, a name is not printable or given twice, or there are too many.

    Examples
    --------
    >>> class_names({"num_labels": 3}), class_names({"id2label": {"1": "Beta",
    ...                                                           "0": "Alpha"}})
    (['LABEL_0', 'LABEL_1', 'LABEL_2'], ['Alpha', 'Beta'])
    >>> class_names({"id2label": {"0": "Alpha", "1": "Alpha"}})
    Traceback (most recent call last):
    ValueError: config.json names 2 classes in id2label and only 1 of the names differ
    """
    table, count = settings.get("id2label"), settings.get("num_labels")
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_LABELS):
        raise ValueError(
            f"{source} must give num_labels as a positive whole number, at most {MOST_LABELS}, got {count!r}"
        )
    if table is None:
        return [f"LABEL_{number}" for number in range(2 if count is None else count)]
    size = len(table) if isinstance(table, Mapping) else 0
    if (
        not size
        or set(table) != {str(number) for number in range(size)}
        or not all(isinstance(name, str) and name and name.isprintable() for name in table.values())
    ):
        raise ValueError(
            f'{source} must give id2label as an object that names each class, counted from "0", in '
            f"printable letters, got {str(table)[:80]!r}"
        )
    if count not in (None, size):
        raise ValueError(f"{source} gives num_labels as {count}, and names {size} classes in id2label")
    if (names := len(set(table.values()))) < size:
        raise ValueError(f"{source} names {size} classes in id2label and only {names} of the names differ")
    return [table[str(number)] for number in range(size)]


def _padding(token: object, vocab: int, source: str) -> int | None:
    if token is not None and (isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocab):
        raise ValueError(f"{source} must give pad_token_id as a token, 0..{vocab - 1}, or null, got {token!r}")
    return token


def _tied(settings: Mapping, source: str) -> bool:
    tied = settings.get("tie_word_embeddings", True)
    if not isinstance(tied, bool):
        raise ValueError(f"{source} must give tie_word_embeddings as true or false, got {tied!r}")
    return tied
