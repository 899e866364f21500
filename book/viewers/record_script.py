"""A record as a script, for the viewers of the book: its numbers, and its arrays in base64."""

import base64
import json

import numpy as np

from book.publish import experiments, records

LIMIT = 1_500_000
"""Bytes that a script may have."""
DTYPES = ("float16", "float32", "uint8", "int8", "uint16", "int16")


def script(name: str) -> str:
    """Return a script that sets ``Play.models[name]`` to the values and arrays of a record."""
    record = records.load(name, experiments.FOLDER)
    body = {
        "name": name,
        "values": {key: value.value for key, value in record.values.items()},
        "arrays": {key: packed(array, key) for key, array in record.arrays.items()},
    }
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
