"""Take a census of a model's heads on texts, one row per head; under torchrun the processes share the texts.

Every few seconds what was measured so far is kept next to the table, so an interrupted census goes on where it was.
"""

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from analysis.core import device
from analysis.core.files import claim_folder, sha256, write_atomically, write_json
from analysis.data import texts
from analysis.models import checkpoints
from analysis.models.checkpoints import Checkpoint
from analysis.models.gguf_files import find_gguf

RUNS = Path("runs")
KIND = "census"
SEEDS = range(2**63)
DTYPES = ("float32", "bfloat16", "float16")
DEVICE_MAPS = ("auto", "balanced", "sequential")


def add_arguments(parser):
    """Take the model, the texts, how it runs and where to write."""
    parser.add_argument("named", nargs="?", metavar="MODEL", help="a name that `list` shows, a folder, or a hub name")
    parser.add_argument("--model", help="the same; default: minilm")
    parser.add_argument("--texts", type=Path, metavar="FILE", help="a text file or a folder; default: bundled passages")
    parser.add_argument("--count", type=int, help="read only so many texts")
    parser.add_argument("--longest", type=int, metavar="TOKENS", default=128, help="of a text (default: 128)")
    parser.add_argument(
        "--measures",
        type=lambda text: text.split(","),
        help="columns, with a comma between two; default: all but gates, whose shares take far longer than all else",
    )
    parser.add_argument(
        "--heads", type=read_heads, metavar="LAYER.HEAD,...", help="only these, such as 0.4,1.7 (default: all)"
    )
    parser.add_argument(
        "--queries",
        type=read_queries,
        metavar="FIRST:LAST",
        help="only these rows of a map, the last left out; --queries=-1: for the last token's (default: all)",
    )
    parser.add_argument("--batch", type=int, metavar="TEXTS", default=8, help="read at once (default: 8)")
    parser.add_argument("--dtype", choices=DTYPES, help="default: bfloat16 where the files are, else float32")
    parser.add_argument(
        "--device-map", choices=DEVICE_MAPS, help="spread one model over all devices, what does not fit over files"
    )
    parser.add_argument("--control", type=int, metavar="SEED", help="random weights instead of trained ones")
    parser.add_argument("--name", help="of the table; default: census-MODEL, of a control census-MODEL-control-SEED")
    parser.add_argument("--folder", type=Path, help="where to write (default: runs/NAME)")


def read_heads(text: str) -> list[tuple[int, int]]:
    """Read which heads are meant.

    >>> read_heads("0.4,11.7")
    [(0, 4), (11, 7)]
    """
    return [(int(layer), int(head)) for layer, _, head in (each.partition(".") for each in text.split(","))]


def read_queries(text: str) -> slice:
    """Read which queries are meant.

    >>> read_queries("8:64"), read_queries("-1:")
    (slice(8, 64, None), slice(-1, None, None))
    """
    first, colon, last = text.partition(":")
    if not colon:
        raise ValueError(text)
    return slice(int(first) if first else None, int(last) if last else None)


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
    """Read the variables that torchrun sets; raise for what it would not have set."""
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
    port = os.environ.get("MASTER_PORT", "")
    if processes.world > 1 and not (re.fullmatch(r"\d{1,5}", port) and 1 <= int(port) <= 65535):
        raise ValueError(f"the variable MASTER_PORT must be 1 to 65535, as torchrun sets it, got {port!r}")
    return processes


def name_model(named: str | None, model: str | None) -> str:
    """Return the model's name, which may be given alone or after --model.

    >>> name_model("a", None), name_model(None, "b"), name_model(None, None)
    ('a', 'b', 'minilm')
    """
    if named is not None and model is not None:
        raise ValueError(f"MODEL is given twice: {named} and --model {model}")
    return next((name for name in (named, model) if name is not None), "minilm")


def name_record(checkpoint: Checkpoint, control: int | None, name: str | None) -> str:
    """Return the record's name, which is a file's: of the model, and of the seed where its weights are random."""
    ending = "" if control is None else f"-control-{control}"
    name = name or f"census-{Path(checkpoint.name).name}{ending}"
    if not re.fullmatch(r"\w[\w.-]{0,99}", name):
        raise ValueError(f"--name must be letters, digits, '-', '_' and '.', at most 100, got {name!r}")
    return name


def weights_measured(checkpoint: Checkpoint, control: int | None) -> dict:
    """Return which weights were measured; random ones have no file, so only the configuration's digest is cited."""
    about = checkpoint.provenance()
    if control is None:
        return about
    settings = find_gguf(checkpoint.folder) or checkpoint.folder / "config.json"
    return about | {"weights": f"random initialisation, seed {control}", "sha256": {settings.name: sha256(settings)}}


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
    """Take the census, each process its share, add up, and let the first process write."""
    processes = count_processes()
    for name, least, most in (("count", 1, 10**9), ("longest", 8, 10**6), ("batch", 1, 10**6)):
        if (value := getattr(arguments, name)) is not None and not least <= value <= most:
            raise ValueError(f"--{name} must be {least} to {most}, got {value}")
    if arguments.control is not None and arguments.control not in SEEDS:
        raise ValueError(f"--control must be 0 to 2**63 - 1, got {arguments.control}")
    if arguments.device_map and (arguments.control is not None or processes.world > 1):
        raise ValueError("--device-map spreads one trained model in one process: leave out --control and torchrun")
    where = device.choose(arguments.device)
    if where.type == "cuda" and processes.world > 1:
        where = device.choose(f"cuda:{processes.local_rank}")
    passages = texts.passages(count=arguments.count, source=arguments.texts)
    checkpoint = checkpoints.find(name_model(arguments.named, arguments.model))
    name = name_record(checkpoint, arguments.control, arguments.name)
    folder = arguments.folder or RUNS / name
    files = [f"{name}.csv", f"{name}.json"]
    with claim_folder(folder, KIND, files) if processes.rank == 0 else nullcontext():
        try:
            with joined(processes, where):
                measure(checkpoint, passages, folder / name, processes=processes, where=where, arguments=arguments)
        except KeyboardInterrupt:
            if processes.rank == 0 and any(folder.glob(".unfinished-*")):
                print(f"what was measured is kept in {folder}: run the same command again to go on", file=sys.stderr)
            raise
    return 0


def measure(
    checkpoint: Checkpoint, passages: list[str], path: Path, *, processes: Processes, where: torch.device, arguments
) -> None:
    """Measure the heads, and write the table and where it is from."""
    from analysis.models import pretrained, reading
    from analysis.models.controls import fresh_model
    from analysis.reporting import head_table
    from analysis.reporting.observations import tokenise
    from analysis.reporting.state import State, identity

    began = time.monotonic()
    tokenizer, read = pretrained.tokenizer(checkpoint), reading.load(checkpoint)
    measures = arguments.measures or head_table.QUICK
    choice = head_table.choose(read, measures, arguments.heads, arguments.queries)
    dtype = arguments.dtype and getattr(torch, arguments.dtype)
    model = pretrained.load(checkpoint, device=where, dtype=dtype, device_map=arguments.device_map)
    read = (
        replace(read, held=(model, tokenizer))
        if arguments.control is None
        else reading.load(fresh_model(model, arguments.control), tokenizer=tokenizer)
    )
    pretrained.check_reads_text(read)
    limit = min(arguments.longest, read.room or arguments.longest)
    given = tokenise(tokenizer, passages, limit, read.config.vocab_size)
    if processes.rank == 0 and given.lengths():
        print(given.lengths(), file=sys.stderr)
    weights = weights_measured(checkpoint, arguments.control)
    settings = {key: getattr(arguments, key) for key in ("batch", "dtype", "device_map", "control")}
    settings |= {"first": given.first, "choice": asdict(choice)}
    settings |= {"device": where.type, "processes": processes.world}
    state = State(path.parent, identity(weights, [each[0].tolist() for each in given.ids], settings))
    own = {"share": (processes.rank, processes.world), "state": state, "show": processes.rank == 0}
    padding = tokenizer.pad_token_id or 0
    seen = head_table.observe_heads(read, given.ids, choice, batch=arguments.batch, padding=padding, **own)
    if processes.world > 1:
        seen.all_reduce(where)
    if processes.rank > 0:
        return
    table = head_table.tabulate(seen, read, given, choice, measures)
    provenance = {
        "models": [weights],
        "seed": arguments.control,
        **device.describe_run(where, time.monotonic() - began, processes.command(arguments.command_line)),
        "texts": {
            "from": str(arguments.texts or "the bundled passages"),
            "count": len(passages),
            "sha256": texts.digest(json.dumps(passages)),
        },
    }
    write_atomically(path.with_name(f"{path.name}.csv"), table.to_csv())
    write_json(path.with_name(f"{path.name}.json"), json.loads(table.to_json()) | {"provenance": provenance})
    state.remove()
    print(f"{table}\nwritten to {path}.csv, and with where it is from to {path}.json")
