"""What a census has counted so far, in a file: an interrupted one goes on with the next text, to the same bits."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from analysis.core.checks import check_fit
from analysis.core.files import sha256, write_atomically
from analysis.maps.streaming import Sums

CODE = Path(__file__).parents[1]
COUNTED_BY = ("maps/streaming.py", "maps/tiles.py", "maps/gates/*.py", "statistics/exact_sums.py", "surveys/census.py")


def identity(model: dict, texts: Sequence[str], share: tuple[int, int], control: int | None) -> str:
    """Name what is counted: the model's provenance, the texts, this process's share, and the code that counts."""
    code = [sha256(path) for pattern in COUNTED_BY for path in sorted(CODE.glob(pattern))]
    return hashlib.sha256(json.dumps([model, list(texts), share, control, code]).encode()).hexdigest()


def save(path: Path, sums: Sums, name: str, done: int, seconds: float = 0.0) -> None:
    """Write the sums, how many texts are in them and what they took; first under a temporary name, then renamed."""
    from safetensors.torch import save as packed

    write_atomically(
        path,
        packed(
            {key: total.cpu().contiguous() for key, total in sums.state.items()},
            metadata={"identity": name, "done": str(done), "seconds": repr(float(seconds))},
        ),
    )


def restore(path: Path, sums: Sums, name: str) -> tuple[int, float]:
    """Fill the sums from a file, if there is one; return how many texts are in them and the seconds that they took.

    Raises
    ------
    ValueError
        If the file is truncated, or belongs to another census: other texts, another model, other code.
    """
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        return 0, 0.0
    try:
        with safe_open(path, framework="pt") as file:
            header, tensors = file.metadata() or {}, {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        count, seconds = int(header["done"]), float(header["seconds"])
        if header["identity"] == name:
            for key, total in sums.state.items():
                check_fit(key, tensors[key], total.shape, "the census", total.cpu())
                total.copy_(tensors[key])
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path} is no state of a census ({error}): delete it to begin anew") from error
    if header["identity"] != name:
        raise ValueError(
            f"{path} is the state of another census (other texts, model, share or code): delete it to "
            "begin anew, or write elsewhere"
        )
    return count, seconds
