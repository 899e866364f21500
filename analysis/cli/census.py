"""Count the gates of a model's heads over texts and write a record; under torchrun the processes share the texts.

What is counted so far lies beside the record until that is written, so an interrupted census goes on where it was.
"""

import os
import sys
from pathlib import Path

from analysis.core import device
from analysis.core.files import make_writable
from analysis.data import texts
from analysis.models import checkpoints, pretrained
from analysis.surveys import records


def add_arguments(parser):
    """Take the model, the texts and where to write."""
    parser.add_argument("--model", default="minilm", help="a name that `list` shows, a folder, or a hub name")
    parser.add_argument("--texts", type=Path, metavar="FILE", help="a text file or a folder; default: bundled passages")
    parser.add_argument("--count", type=int, help="read only so many texts")
    parser.add_argument("--control", type=int, metavar="SEED", help="random weights instead of trained ones")
    parser.add_argument("--name", help="of the record; default: census-MODEL")
    parser.add_argument("--folder", type=Path, default=Path("."), help="where to write (default: here)")


def run(arguments) -> int:
    """Take the census, each process its share, add up exactly, and let the first process write."""
    import torch.distributed as dist

    from analysis.surveys import census_state
    from analysis.surveys.census import summarise, take_census

    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    where = device.choose(arguments.device)
    if where.type == "cuda" and world > 1:
        where = device.choose(f"cuda:{os.environ.get('LOCAL_RANK', '0')}")
    make_writable(arguments.folder)
    found = checkpoints.find(arguments.model)
    model = pretrained.load(found, control_seed=arguments.control, device=where)
    passages = texts.passages(count=arguments.count, source=arguments.texts)
    name = arguments.name or f"census-{Path(arguments.model).name}"
    state = arguments.folder / f".{name}.{rank}-of-{world}.safetensors"
    identity = census_state.identity(found.provenance(), passages, (rank, world), arguments.control)
    if world > 1:
        on_gpu = where.type == "cuda"
        dist.init_process_group("nccl" if on_gpu else "gloo", device_id=where if on_gpu else None)
    try:
        census = take_census(model, pretrained.tokenizer(found), passages, share=(rank, world), state=state,
                             identity=identity)
        census.all_reduce()
    finally:
        if world > 1:
            dist.destroy_process_group()
    if rank == 0:
        experiment = records.Experiment(
            name=name, summary=f"gates of {found.name} on {len(passages)} texts", models=(arguments.model,),
            compute=lambda _: summarise(census), seed=arguments.control,
            command=" ".join(["python -m analysis", *sys.argv[1:]]))
        print(records.write(experiment, where, arguments.folder))
    state.unlink(missing_ok=True)
    return 0
