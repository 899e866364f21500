"""Count the gates of a model's heads over texts and write a record; under torchrun the processes share the texts.

What is counted so far lies beside the record until that is written, so an interrupted census goes on where it was.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

from analysis.core import device
from analysis.core.files import claim_folder, sha256
from analysis.data import texts
from analysis.models import checkpoints, pretrained
from analysis.models.checkpoints import Checkpoint
from analysis.surveys import results

RUNS = Path("runs")
KIND = "census"
SEEDS = range(2**63)


def add_arguments(parser):
    """Take the model, the texts and where to write."""
    parser.add_argument("--model", default="minilm", help="a name that `list` shows, a folder, or a hub name")
    parser.add_argument("--texts", type=Path, metavar="FILE", help="a text file or a folder; default: bundled passages")
    parser.add_argument("--count", type=int, help="read only so many texts")
    parser.add_argument("--control", type=int, metavar="SEED", help="random weights instead of trained ones")
    parser.add_argument("--name", help="of the record; default: census-MODEL, of a control census-MODEL-control-SEED")
    parser.add_argument("--folder", type=Path, help="where to write (default: runs/NAME)")


@dataclass(frozen=True)
class Processes:
    """This process's number, how many there are, its number on this machine, and how many this machine has."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1

    def command(self, command_line: str) -> str:
        """Return the command line that starts this many processes."""
        if self.world == 1:
            return command_line
        machines = "" if self.world == self.local_world else f"--nnodes {self.world // self.local_world} "
        return command_line.replace("python ", f"torchrun {machines}--nproc-per-node {self.local_world} ", 1)


def count_processes() -> Processes:
    """Read the variables that torchrun sets; refuse what it would not have set."""
    numbers = []
    for name, alone in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "1")):
        text = os.environ.get(name, alone)
        if not re.fullmatch(r"\d{1,6}", text):
            raise ValueError(f"the variable {name} must be a whole number, as torchrun sets it, got {text!r}")
        numbers.append(int(text))
    processes = Processes(*numbers)
    if processes.rank >= processes.world:
        raise ValueError(f"the variable RANK must be below WORLD_SIZE, got {processes.rank} and {processes.world}")
    absent = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
    if processes.world > 1 and absent:
        raise ValueError(
            f"WORLD_SIZE is {processes.world}, but {' and '.join(absent)} is not set: start the processes with torchrun"
        )
    if processes.world > 1 and not _is_port(port := os.environ["MASTER_PORT"]):
        raise ValueError(f"the variable MASTER_PORT must be 1 to 65535, as torchrun sets it, got {port!r}")
    return processes


def _is_port(text: str) -> bool:
    return bool(re.fullmatch(r"\d{1,5}", text)) and 1 <= int(text) <= 65535


def find_model(name: str) -> Checkpoint:
    """Find the model that was asked for; nothing stands in for it, since a record names what was measured."""
    checkpoint = checkpoints.find(name)
    if checkpoint.stands_in_for:
        raise checkpoints.NotFound(
            f"the model {name!r} is not here; give its folder, or measure {checkpoint.name}, "
            f"which stands in for it: --model {checkpoint.name}"
        )
    return checkpoint


def name_record(checkpoint: Checkpoint, control: int | None, name: str | None) -> str:
    """Return the record's name, which is a file's: of the model, and of the seed where its weights are random."""
    ending = "" if control is None else f"-control-{control}"
    name = name or f"census-{Path(checkpoint.name).name}{ending}"
    if not re.fullmatch(r"\w[\w.-]{0,99}", name):
        raise ValueError(f"--name must be letters, digits, '-', '_' and '.', at most 100, got {name!r}")
    return name


def weights_measured(checkpoint: Checkpoint, control: int | None) -> dict:
    """Say which weights were measured; random ones have no file, so only the configuration's digest is cited."""
    about = checkpoint.provenance()
    if control is None:
        return about
    return about | {
        "weights": f"random initialisation, seed {control}",
        "sha256": {"config.json": sha256(checkpoint.folder / "config.json")},
    }


@dataclass(frozen=True)
class Task:
    """What is measured, and where the record goes."""

    checkpoint: Checkpoint
    control: int | None
    passages: list[str]
    name: str
    folder: Path

    def state(self, processes: Processes) -> Path:
        """Return the file that keeps what this process has counted so far."""
        return self.folder / f".{self.name}.{processes.rank}-of-{processes.world}.safetensors"

    def summary(self) -> str:
        """Say in a line what was measured."""
        random = "" if self.control is None else f"random weights (seed {self.control}) in the form of "
        return f"gates of {random}{self.checkpoint.name} on {len(self.passages)} texts"


@contextmanager
def joined(processes: Processes, where: torch.device) -> Iterator[None]:
    """Connect the processes; none goes on before the first, which has claimed the folder, nor leaves before it has."""
    import torch.distributed as dist

    if processes.world == 1:
        yield
        return
    on_gpu = where.type == "cuda"
    try:
        dist.init_process_group("nccl" if on_gpu else "gloo", device_id=where if on_gpu else None)
    except (RuntimeError, ValueError) as error:
        place = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise OSError(f"the processes cannot be joined at {place}: {' '.join(str(error).split())[:200]}") from None
    try:
        dist.barrier()
        yield
        dist.barrier()
    finally:
        dist.destroy_process_group()


def run(arguments) -> int:
    """Take the census, each process its share, add up exactly, and let the first process write."""
    processes = count_processes()
    if arguments.control is not None and arguments.control not in SEEDS:
        raise ValueError(f"--control must be 0 to 2**63 - 1, got {arguments.control}")
    where = device.choose(arguments.device)
    if where.type == "cuda" and processes.world > 1:
        where = device.choose(f"cuda:{processes.local_rank}")
    passages = texts.passages(count=arguments.count, source=arguments.texts)
    checkpoint = find_model(arguments.model)
    name = name_record(checkpoint, arguments.control, arguments.name)
    task = Task(checkpoint, arguments.control, passages, name, arguments.folder or RUNS / name)
    with claim_folder(task.folder, KIND) if processes.rank == 0 else nullcontext():
        with joined(processes, where):
            measure(task, processes, where, arguments)
        task.state(processes).unlink(missing_ok=True)
    return 0


def measure(task: Task, processes: Processes, where: torch.device, arguments) -> None:
    """Count, and write the record of what was counted."""
    from analysis.surveys import census_state
    from analysis.surveys.census import summarise, take_census

    share, weights = (processes.rank, processes.world), weights_measured(task.checkpoint, task.control)
    identity = census_state.identity(weights, task.passages, share, task.control)
    model = pretrained.load(task.checkpoint, control_seed=task.control, device=where)
    census = take_census(
        model,
        pretrained.tokenizer(task.checkpoint),
        task.passages,
        share=share,
        identity=identity,
        state=task.state(processes),
        show=processes.rank == 0,
    )
    census.all_reduce()
    if processes.rank > 0:
        return
    provenance = {
        "models": [weights],
        "data": [],
        "seed": task.control,
        **device.describe_run(where, census.seconds, processes.command(arguments.command_line)),
        "texts": {
            "from": str(arguments.texts or "the bundled passages"),
            "count": len(task.passages),
            "sha256": texts.digest(json.dumps(task.passages)),
        },
    }
    print(results.write(task.name, task.summary(), summarise(census), provenance, task.folder))
