"""The numbers behind a figure: what its lines, maps, points and bars were drawn from."""

import base64
import io
import json
import re
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection, QuadMesh
from matplotlib.figure import Figure

MIME = "application/vnd.analysis.figure+json"
MANY = 20_000  # entries; beyond, single precision is enough for a plot


def data(figure: Figure) -> dict[str, np.ndarray]:
    """Collect the arrays that a figure shows.

    Returns
    -------
    dict
        ``panel0.line0`` is ``(2, n)``, x over y; ``panel0.image0`` the values of a map; ``panel0.points0`` is
        ``(n, 2)``, with ``panel0.points0.values`` where colours mean something; ``panel0.segments0`` is
        ``(n, 2, 2)``, start and end; ``panel0.bars0`` is ``(n, 4)``, left, bottom, width and height. ``contents`` says
        in words what each of them is.
    """
    arrays, said = {}, []
    for number, axes in enumerate(figure.axes):
        panel = f"panel{number}"
        said.append(
            f"{panel}: {axes.get_title() or axes.get_title('left') or 'no title'}; "
            f"x: {_plain(axes.get_xlabel())}; y: {_plain(axes.get_ylabel())}"
        )
        for kind, label, array in _artists(axes):
            name, numbers = f"{panel}.{kind}", _numbers(array)
            if not numbers.size:
                continue
            arrays[name] = numbers
            if label and not label.startswith("_"):
                said.append(f"{name}: {_plain(label)}")
    return {"contents": np.array(said), **arrays}


def bundle(figure: Figure) -> dict[str, str]:
    """Pack a figure as PNG and its numbers as NPZ, both in base64."""
    packed, drawn = io.BytesIO(), io.BytesIO()
    np.savez_compressed(packed, **data(figure))
    figure.savefig(drawn, format="png", metadata={"Software": None})
    return {"npz": base64.b64encode(packed.getvalue()).decode(), "png": base64.b64encode(drawn.getvalue()).decode()}


def to_json(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the numbers behind a figure as JSON, lists by the names of `data`; what is not a number becomes null.

    >>> to_json({"panel0.line0": np.array([1.0, np.nan])})
    '{"panel0.line0": [1.0, null]}'
    """
    finite = {name: np.where(np.isfinite(of), of, None) if of.dtype.kind == "f" else of for name, of in arrays.items()}
    return json.dumps({name: of.tolist() for name, of in finite.items()})


def to_csv(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the numbers behind a figure as CSV: an entry a line, with its array and its place there.

    >>> print(to_csv({"panel0.image0": np.array([[1.5, 2.0]])}), end="")
    array,i,j,k,value
    panel0.image0,0,0,,1.5
    panel0.image0,0,1,,2.0
    """
    lines = ["array,i,j,k,value"]
    for name, of in arrays.items():
        for place, value in np.ndenumerate(of) if name != "contents" else ():
            lines.append(",".join(map(str, (name, *place, *[""] * (3 - of.ndim), value))))
    return "\n".join(lines) + "\n"


def _artists(axes: Axes):
    for n, line in enumerate(axes.lines):
        yield f"line{n}", line.get_label(), np.broadcast_arrays(line.get_xdata(orig=False), line.get_ydata(orig=False))
    for n, image in enumerate(axes.images):
        yield f"image{n}", image.get_label(), image.get_array()
    for n, marks in enumerate(axes.collections):
        if isinstance(marks, LineCollection):
            segments = [s for s in marks.get_segments() if len(s) == 2]
            if segments:
                yield f"segments{n}", marks.get_label(), segments
        elif isinstance(marks, QuadMesh):
            yield f"image{n}.mesh", marks.get_label(), marks.get_array()
        elif isinstance(marks, PathCollection):
            yield f"points{n}", marks.get_label(), marks.get_offsets()
            if marks.get_array() is not None:
                yield f"points{n}.values", "", marks.get_array()
        elif len(marks.get_paths()) == 1:
            yield f"area{n}", marks.get_label(), marks.get_paths()[0].vertices
    for n, bars in enumerate(axes.containers):
        boxes = [(*p.get_xy(), p.get_width(), p.get_height()) for p in bars if hasattr(p, "get_width")]
        if boxes:
            yield f"bars{n}", bars.get_label(), boxes


def _numbers(array) -> np.ndarray:
    array = np.ma.asarray(array).astype(float).filled(np.nan) if np.ma.isMaskedArray(array) else np.asarray(array)
    return array.astype(np.float32) if array.dtype.kind == "f" and array.size > MANY else array


def _plain(text: str) -> str:
    """Keep a formula's letters without the dollars."""
    return re.sub(r"\s+", " ", text.replace("$", "")) or "none"
