"""What a tokenizer's files may make of a text: what would write many letters for one is refused before any is read."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from analysis.core.files import read_json_object

FILES = (
    *("config.json", "tokenizer.json", "vocab.json", "tokenizer_config.json"),
    *("special_tokens_map.json", "added_tokens.json"),
)
"""Those of them that are JSON, and what names their code."""
MOST_LETTERS = 1000
"""Letters that may stand for one: twenty times what real tokenizers and the normal forms of Unicode write (18)."""


def check_tokenizer_files(folder: Path) -> None:
    """Refuse files that are no JSON, name a tokenizer with code of its own, or lengthen texts (`check_expansion`).

    Raises
    ------
    ValueError
        Naming the file. With code of its own it may make other tokens than the library's.
    """
    there = {name: read_json_object(folder / name) for name in FILES if (folder / name).exists()}
    for name in ("config.json", "tokenizer_config.json"):
        code = there.get(name, {}).get("auto_map")
        if isinstance(code, Mapping) and "AutoTokenizer" in code:
            raise ValueError(
                f"{folder / name} names {str(code['AutoTokenizer'])[:100]}, a tokenizer with code of its own, which is "
                "not run here: transformers' may make other tokens; if it makes the same, take auto_map out of a copy"
            )
    if "tokenizer.json" in there:
        check_expansion(folder / "tokenizer.json")


def check_expansion(path: Path) -> None:
    """Refuse a ``tokenizer.json`` whose replacements, one after another, may write too many letters for one.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it holds no JSON object, or lengthens texts.
    """
    settings = read_json_object(path)
    steps = [settings.get("normalizer"), settings.get("pre_tokenizer")]
    if (letters := math.prod(_letters_for_one(step) for step in _walk(steps))) > MOST_LETTERS:
        raise ValueError(f"{path} replaces a letter by up to {letters} letters: at most {MOST_LETTERS} are allowed")


def _walk(steps: list) -> Iterator[Mapping]:
    """Yield every step, those inside others too."""
    while steps:
        step = steps.pop()
        if isinstance(step, Mapping):
            yield step
        if isinstance(step, Mapping | list):
            steps.extend(step.values() if isinstance(step, Mapping) else step)


def _letters_for_one(step: Mapping) -> int:
    r"""Return how many letters a replacement may write for one that it reads.

    >>> quotes, blank = {"String": "``"}, {"Regex": "\\s"}
    >>> _letters_for_one({"type": "Replace", "pattern": quotes, "content": '"'})
    1
    >>> _letters_for_one({"type": "Replace", "pattern": blank, "content": "abc"})
    4
    """
    if step.get("type") not in ("Replace", "Prepend"):
        return 1
    written, pattern = step.get("content", step.get("prepend", "")), step.get("pattern")
    read = pattern.get("String", "") if isinstance(pattern, Mapping) else pattern
    lengths = [len(text) if isinstance(text, str) else 0 for text in (written, read)]
    return math.ceil(lengths[0] / lengths[1]) or 1 if lengths[1] else 1 + lengths[0]  # a pattern may read nothing
