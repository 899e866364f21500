"""What streaming statistics cost, against what was promised; the page itself shows how they are taken."""

from collections.abc import Mapping
from dataclasses import dataclass

from book.publish import Inputs, Numbers, choose_inputs, live_or_record
from book.publish.phrases import percent
from book.studies.streaming_capture.gpu_cost import DTYPES


@dataclass(frozen=True)
class Cost:
    """One measured cost: what it is of, its value, and whether it was promised to be at most or at least ``limit``."""

    subject: str
    value: float
    kind: str
    limit: float

    @property
    def within_limit(self) -> bool:
        """Say whether the promise is kept."""
        return self.value <= self.limit if self.kind == "at most" else self.value >= self.limit


LIMITS = {
    "time": ("forward pass with statistics, over one without", "at most", 1.15),
    "memory": ("memory on top, MB", "at most", 400),
    "vectorised": ("stored maps, whole-tensor formulas, over streaming", "at least", 4),
    "naive": ("stored maps, one by one, over streaming", "at least", 30),
    "error": ("largest difference from float64", "at most", 1e-6),
}


@dataclass(frozen=True)
class Gpu(Numbers):
    """The costs on a GPU, by precision: what the table shows, and what the text names."""

    prefix = "capture-gpu"
    machine: str
    sequences: int
    batch: int
    error: float
    single: float
    half: float
    ways: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Measured(Numbers):
    """The costs on record, and those of them that the text names.

    ``sources`` says where they are from; a tuple is no part of the page's text.
    """

    prefix = "capture"
    inputs: Inputs
    sources: tuple[str, ...]
    costs: Mapping[str, Cost]
    share: str
    memory: str
    faster: str
    much_faster: str
    threads: int
    gpu: Gpu


def measure(model: str = "minilm", texts: str | None = None, device: str = "auto") -> Measured:
    """Check what the page is executed with, and read what streaming costs.

    Parameters
    ----------
    model
        A whole BERT or GPT-2 with its tokenizer, by name or folder.
    texts
        A text file, or a folder of them, in place of the book's passages.
    device
        ``"auto"``, ``"cpu"`` or ``"cuda"``.
    """
    inputs = choose_inputs(model, own="minilm", texts=texts, device=device, families=("bert", "gpt2"))
    record, source = live_or_record("streaming-capture-cost", inputs, recompute=False)
    costs = {name: Cost(subject, record[name], kind, limit) for name, (subject, kind, limit) in LIMITS.items()}
    gpu, gpu_source = read_gpu(inputs)
    return Measured(
        inputs=inputs,
        sources=(source, gpu_source),
        gpu=gpu,
        costs=costs,
        share=percent(record["time"] - 1),
        memory=f"{record['memory']:.0f} MB",
        faster=f"{record['vectorised']:.0f}",
        much_faster=f"{record['naive']:.0f}",
        threads=record["threads"],
    )


def read_gpu(inputs: Inputs) -> tuple[Gpu, str]:
    """Read what streaming costs on a GPU, and where that is from."""
    record, source = live_or_record("streaming-capture-gpu-cost", inputs, recompute=False)
    columns = ("seconds", "rate", "share")
    ways = {
        f"{way}, {dtype}": {column: record[f"{dtype}_{way}_{column}"] for column in columns}
        for dtype in DTYPES
        for way in ("plain", "streamed")
    }
    return Gpu(
        machine=record.provenance["device"],
        sequences=record["sequences"],
        batch=record["batch"],
        error=record["error"],
        single=record["float32_time"],
        half=record["bfloat16_time"],
        ways=ways,
    ), source
