"""A record as scripts, for the viewers of the book: its numbers, and its arrays in base64."""

import base64
import json
from collections.abc import Mapping

import numpy as np

from book.publish import experiments, records

LIMIT = 1_500_000
"""Bytes that a script may have."""
DTYPES = ("float16", "float32", "uint8", "int8", "uint16", "int16")
BY_HEAD = {"semi-bias-mixer": ("left", "right", "own")}
"""Heavy arrays of a record: each head has a script of its own, loaded when a reader picks it."""


def scripts(name: str) -> dict[str, str]:
    """Return the scripts of a record by their names; each sets ``Play.models`` of its name to values and arrays.

    The first has the record's name, and in it ``heads`` is how many scripts there are for single heads.
    """
    record = records.load(name, experiments.FOLDER)
    values = {key: value.value for key, value in record.values.items()}
    apart = {key: record.arrays[key] for key in BY_HEAD.get(name, ())}
    whole = {key: array for key, array in record.arrays.items() if key not in apart}
    by_head = [dict(zip(apart, arrays, strict=True)) for arrays in zip(*apart.values(), strict=True)]
    written = {name: script(name, whole, values=values, heads=len(by_head))}
    return written | {f"{name}-{k}": script(f"{name}-{k}", arrays) for k, arrays in enumerate(by_head)}


def script(name: str, arrays: Mapping[str, np.ndarray], **more: object) -> str:
    """Return the script that sets ``Play.models[name]``.

    >>> script("few", {"x": np.array([1], dtype=np.int8)}, heads=0)
    'Play.models["few"] = {"arrays":{"x":{"shape":[1],"dtype":"int8","data":"AQ=="}},"heads":0};\\n'
    """
    body = {"arrays": {key: packed(array, key) for key, array in arrays.items()}, **more}
    written = f"Play.models[{json.dumps(name)}] = {json.dumps(body, separators=(',', ':'))};\n"
    if (size := len(written)) > LIMIT:
        raise ValueError(f"the script of {name} would weigh {size:,} bytes, more than {LIMIT:,}")
    return written


def packed(array: np.ndarray, name: str = "array") -> dict[str, object]:
    """Return an array's shape, dtype and entries, little-endian, in base64.

    >>> packed(np.array([[1, 2]], dtype=np.uint8))
    {'shape': [1, 2], 'dtype': 'uint8', 'data': 'AQI='}
    """
    if array.dtype.name not in DTYPES:
        raise ValueError(f"{name} must be one of {', '.join(DTYPES)}, got {array.dtype}")
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return {
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "data": base64.b64encode(little.tobytes()).decode("ascii"),
    }
