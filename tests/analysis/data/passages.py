"""How the bundled passages were made: prose of the held-out topics of CPython's language reference."""

import re

from analysis.data.texts import held_out_topics, paragraphs

COUNT, SHORTEST, LONGEST = 48, 30, 450


def make_passages() -> list[str]:
    """Make the bundled passages again from the held-out topics of this Python; a fixed rule, nothing is drawn.

    Prose only: indentation, headings, code and grammar are dropped, sentences kept whole. Passage ``i`` is to have
    ``30 * 15 ** frac(i / golden ratio)`` words, and takes them, the longest first, from the topic with most left.
    """
    left, seen = {}, set()
    for name, text in held_out_topics().items():
        fresh = [part for part in map(_prose, paragraphs(text)) if part and part not in seen]
        seen.update(fresh)
        left[name] = [sentence for part in fresh for sentence in _sentences(part)]
    golden = (5**0.5 - 1) / 2
    target = {i: SHORTEST * (LONGEST / SHORTEST) ** (i * golden % 1) for i in range(COUNT)}
    made = {}
    for i in sorted(target, key=lambda i: (-target[i], i)):
        sentences, taken = max(left.values(), key=_words), []
        while sentences and _words(taken) < target[i]:
            taken.append(sentences.pop(0))
        made[i] = " ".join(taken)
    return [made[i] for i in range(COUNT)]


def _words(sentences: list[str]) -> int:
    return sum(len(sentence.split()) for sentence in sentences)


def _sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.?!:]) (?=[A-Z\"])", text) if part[-1] != ":"]


def _prose(paragraph: str) -> str:
    """Return the paragraph on one line, or nothing where it is code, grammar, a heading or a fragment."""
    text = re.sub(r"(?<=\w)- ", "-", " ".join(re.sub(r"^\s*(\*|[0-9]+\.)\s+", "", paragraph).split()))
    code = re.search(r"::=|>>>|\*\*\*|===|---|\| ?\w+ ?\||[{}]|==|\+[-=]|->| = |^(class|def|from|import) ", text)
    if code or not re.match(r"[A-Z\"].*[.:]$", text) or len(text.split()) < 8:
        return ""
    return re.sub(r"\*(\w[^*]*)\*", r"\1", text).replace('"', "")
