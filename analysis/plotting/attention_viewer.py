"""An interactive attention map: one piece of HTML that needs no other file and no network.

All layers and heads of one text. Weights are quantised to 8 bits on a square-root scale (error below 0.004, and below
0.0005 for weights under 0.01); gates take 4 bits a cell.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.colors import to_hex

from analysis.core.files import write_atomically
from analysis.plotting import style

TEMPLATE = Path(__file__).with_suffix(".html")
LIMIT = 400_000
"""Bytes that a viewer may have; a page stays light."""
UNSEEN = 15


class AttentionViewer:
    """The viewer: shown by a notebook as HTML; ``save`` writes a page of its own.

    Parameters
    ----------
    attention
        ``(layer, head, query, key)``, rows sum to 1.
    cells
        The gate of each cell, as ``GateReading.cells``: an index into ``order``, or -1 where a query may not look.
    scores
        ``(layer, head, gate)``: the share of each gate.
    order
        The names of the gates, ``gates.GATES``.
    start
        Layer, head, query and key that are chosen at first.
    label
        What a screen reader calls the map.

    Raises
    ------
    ValueError
        If shapes do not fit, or the viewer would weigh more than ``LIMIT``: choose a shorter text.
    """

    def __init__(
        self,
        attention: np.ndarray,
        tokens: Sequence[str],
        *,
        cells: np.ndarray,
        scores: np.ndarray,
        order: Sequence[str],
        start: tuple[int, int, int, int] = (0, 0, 0, 0),
        label: str = "Attention map",
    ):
        """Pack the maps into HTML."""
        layers, heads, n = attention.shape[:3]
        if attention.shape != (layers, heads, n, n) or cells.shape != attention.shape:
            raise ValueError(
                f"attention and cells must both be (layer, head, query, key), got {attention.shape} and {cells.shape}"
            )
        if len(tokens) != n or scores.shape != (layers, heads, len(order)):
            raise ValueError(
                f"tokens must be {n} and scores ({layers}, {heads}, {len(order)}), got {len(tokens)} and {scores.shape}"
            )
        if any(not 0 <= at < size for at, size in zip(start, attention.shape, strict=True)):
            raise ValueError(f"start must lie within {attention.shape}, got {start}")
        if foreign := [name for name in order if name not in style.GATES]:
            raise ValueError(f"order must be names of gates, {', '.join(style.GATES)}; got {foreign[0]!r}")
        data = {
            "layers": layers,
            "heads": heads,
            "tokens": list(tokens),
            "names": list(order),
            "start": list(start),
            "colours": [style.GATES[name] for name in order],
            "scale": [to_hex(matplotlib.colormaps[style.WEIGHT_CMAP](x)) for x in np.linspace(0, 1, 9)],
            "shares": np.round(scores.reshape(-1, len(order)).astype(float), 3).tolist(),
            "weights": _text(quantise(attention)),
            "gates": _text(pack(cells)),
        }
        text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
        identity = "attmap-" + hashlib.sha256(text.encode()).hexdigest()[:8]
        self.html = fill(
            TEMPLATE.read_text(encoding="utf-8"),
            {"ID": identity, "LABEL": html.escape(label, quote=True), "DATA": text},
        )
        if (size := len(self.html.encode())) > LIMIT:
            raise ValueError(
                f"the viewer would weigh {size} bytes, more than {LIMIT}: {n} tokens of {layers} x "
                f"{heads} heads are too many, choose a shorter text"
            )

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return "an interactive attention map (HTML)"

    def save(self, path: str | Path, title: str = "Attention map") -> Path:
        """Write a page of its own, which opens from the file system; first under a temporary name, then renamed."""
        path = Path(path)
        page = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
            'content="width=device-width,initial-scale=1"><title>' + html.escape(title) + "</title><style>"
            "body{margin:0;padding:.5rem;background:#fff}"
            "@media (prefers-color-scheme:dark){body{background:#121214}}"
            "</style></head><body><main>" + self.html + "</main></body></html>\n"
        )
        write_atomically(path, page)
        return path


def fill(template: str, values: Mapping[str, str]) -> str:
    """Fill in what stands between two ``@``, each value once: what a value holds is data and is never filled in.

    >>> fill("<p id=@ID@>@LABEL@</p>", {"ID": "a", "LABEL": "an @ID@"})
    '<p id=a>an @ID@</p>'
    """
    return re.sub("@([A-Z]+)@", lambda place: values[place[1]], template)


def quantise(attention: np.ndarray) -> np.ndarray:
    """Turn weights into bytes: ``round(255 sqrt(w))``.

    >>> quantise(np.array([0.0, 0.25, 1.0])).tolist()
    [0, 128, 255]
    """
    return np.round(255 * np.sqrt(np.clip(attention, 0, 1))).astype(np.uint8)


def pack(cells: np.ndarray) -> np.ndarray:
    """Pack gate numbers, two in a byte, the first in the low half; -1 becomes 15.

    >>> pack(np.array([1, 2, -1])).tolist()
    [33, 15]
    """
    flat = np.where(cells < 0, UNSEEN, cells).astype(np.uint8).ravel()
    flat = np.append(flat, 0) if flat.size % 2 else flat
    return flat[::2] | (flat[1::2] << 4)


def _text(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
