"""One training loop for every model of the book: seeded by step, resumable to the bit, never half-written.

A run is a model, a batch for each step, a loss, and :class:`Settings`. Everything random depends on the step number
alone, so that a run interrupted and resumed ends, on the CPU, at exactly the parameters of a run left alone. The state
(parameters, AdamW's moments, losses, trace) is one safetensors file whose header carries the rest as JSON; it is
written under a temporary name and renamed. What the model is, and what is published of it, belongs elsewhere.
"""

import json
import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from analysis.core.files import make_writable, write_atomically

STATE = "state.safetensors"
STEPS = range(1, 10**7 + 1)
"""Numbers of updates: at most 500 times those of the longest training of the book."""
SEEDS = range(2**40)
"""Seeds that leave room for a step's number within the 64 bits of torch's generators."""


@dataclass(frozen=True)
class Settings:
    """How to train: AdamW with warm-up, a schedule and clipping."""

    steps: int  # updates
    rate: float = 1e-3  # learning rate at its height
    rates: Mapping[str, float] = field(default_factory=dict)  # other heights by patterns of names, the first counts
    warmup: int = 0  # updates during which the rate rises linearly
    schedule: str = "cosine"  # or "linear" or "constant": how it falls after that, to ``final`` times its height
    final: float = 0.0
    decay: float = 0.0  # of matrices and tables; vectors (biases, LayerNorm gains) have none
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    clip: float | None = 1.0  # largest norm of the gradient of all parameters together
    guard: float | None = None  # leaves out an update whose gradient is longer than so many times what has been usual
    bf16: bool = False  # computes the loss under bfloat16 autocast; parameters stay in their dtype
    seed: int = 0  # of what is random inside the model, at every step anew

    def __post_init__(self):
        if self.steps not in STEPS or self.warmup < 0:
            raise ValueError(
                f"steps must be at least 1, at most {STEPS[-1]:,}, and warmup at least 0, got {self.steps} and "
                f"{self.warmup}"
            )
        if self.seed not in SEEDS:
            raise ValueError(f"seed must be 0 to 2**40 - 1, got {self.seed}")
        if self.schedule not in ("cosine", "linear", "constant"):
            raise ValueError(f"schedule must be 'cosine', 'linear' or 'constant', got {self.schedule!r}")

    def share(self, step: int) -> float:
        """Return the learning rate of update ``step`` (from 0) as a share of its height.

        >>> [Settings(steps=8, warmup=2, schedule="linear").share(step)
        ...  for step in (0, 1, 2, 5)]
        [0.5, 1.0, 1.0, 0.5]
        """
        if step < self.warmup:
            return (step + 1) / self.warmup
        progress = (step - self.warmup) / max(1, self.steps - self.warmup)
        cosine = (1 + math.cos(math.pi * progress)) / 2
        fall = {"cosine": cosine, "linear": 1 - progress, "constant": 1.0}[self.schedule]
        return self.final + (1 - self.final) * fall


@dataclass(frozen=True)
class Run:
    """What a run leaves: the loss of every step, and what the probe returned."""

    losses: np.ndarray  # of the batch of each step, before the update
    trace: dict[str, np.ndarray]  # first axis: the looks; ``trace["step"]`` counts the updates made before each
    seconds: float  # interruptions not counted


def train(
    model: nn.Module,
    batch: Callable[[int], Any],
    loss: Callable[[nn.Module, Any], Tensor],
    settings: Settings,
    out: str | Path,
    *,
    probe: Callable[[int, nn.Module], Mapping[str, Any]] | None = None,
    probe_at: Collection[int] = (),
    device: torch.device | str = "cpu",
    identity: Mapping[str, Any] | None = None,
    resume: bool = True,
    save_every: float = 30.0,
    limit: float = math.inf,
    name: str | None = "training",
) -> Run:
    """Train the model in place and return its losses and trace.

    Parameters
    ----------
    model
        Moved to ``device``; in training mode for the updates and in evaluation mode for the probe.
    batch
        Step number to batch (a tensor, or a tuple, list or dict of them); must depend on the step alone.
    out
        Folder for the state, ``state.safetensors``.
    probe, probe_at
        Called as ``probe(step, model)`` without gradients after ``step`` updates, for each step of ``probe_at``
        (0 to ``settings.steps``); returns numbers or arrays by name, the same names every time.
    identity
        What else tells this run from another: JSON. A state with another identity or other settings is not resumed.
    save_every, limit
        Seconds between two savings, and after which to stop, look and save, however many updates were made.
    name
        For the progress bar; ``None`` for no bar.
    """
    from tqdm.auto import tqdm

    state = make_writable(out) / STATE
    about = json.loads(json.dumps({"settings": asdict(settings), "identity": dict(identity or {})}))
    device, wanted = torch.device(device), set(probe_at)
    model.to(device)
    optimiser = torch.optim.AdamW(_groups(model, settings), betas=settings.betas, eps=settings.eps)
    run = _Progress()
    if resume and state.exists():
        run = _restore(state, model, optimiser, about)
    began = saved = time.monotonic()
    before = run.seconds

    with (
        torch.random.fork_rng([device] if device.type == "cuda" else []),
        tqdm(
            total=settings.steps, initial=run.step, desc=name, unit="step", mininterval=1, disable=name is None
        ) as bar,
    ):
        while True:
            done = run.step == settings.steps or time.monotonic() - began >= limit
            look = run.step in wanted or (done and bool(wanted))
            if look and probe is not None and (not run.probed or run.probed[-1]["step"] < run.step):
                model.eval()
                with torch.no_grad():
                    run.probed.append({"step": run.step, **probe(run.step, model)})
            run.seconds = before + time.monotonic() - began
            if done or time.monotonic() - saved >= save_every:
                _save(state, model, optimiser, about, run)
                saved = time.monotonic()
            if done:
                return Run(np.array(run.losses), _stack(run.probed), run.seconds)
            _prepare(model, optimiser, settings, run.step)
            with torch.autocast(device.type, torch.bfloat16, enabled=settings.bf16):
                value = loss(model, _to(batch(run.step), device))
            if not torch.isfinite(value):
                raise FloatingPointError(f"the loss is {value.item()} at step {run.step}: try a smaller learning rate")
            run.usual = _update(model, optimiser, value, settings, run.usual)
            run.losses.append(value.item())
            run.step += 1
            bar.set_postfix(loss=f"{run.losses[-1]:.3f}", refresh=False)
            bar.update()


@dataclass
class _Progress:
    step: int = 0
    seconds: float = 0.0
    usual: float = 0.0
    losses: list[float] = field(default_factory=list)
    probed: list[dict] = field(default_factory=list)


def _prepare(model: nn.Module, optimiser: torch.optim.Optimizer, settings: Settings, step: int) -> None:
    """Set what depends on the step number: the generator, the learning rates; and leave evaluation mode."""
    torch.manual_seed(settings.seed * 1_000_003 + step)
    model.train()
    for group in optimiser.param_groups:
        group["lr"] = group["height"] * settings.share(step)


USUAL = 0.02
"""What one update adds to the usual length of the gradient."""


def _update(
    model: nn.Module, optimiser: torch.optim.Optimizer, value: Tensor, settings: Settings, usual: float
) -> float:
    """Make an update unless its gradient is a spike; return the usual length of the gradient (0 for no guard).

    A spike counts as the longest gradient that is none, so that the guard gives way to what lasts.
    """
    optimiser.zero_grad(set_to_none=True)
    value.backward()
    if settings.clip is None and settings.guard is None:
        optimiser.step()
        return usual
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip or math.inf)
    if settings.guard is None:
        optimiser.step()
        return usual
    longest, length = settings.guard * usual or math.inf, norm.item()
    if length < longest:
        optimiser.step()
    else:
        length = longest if longest < math.inf else 0.0
    return usual + USUAL * (length - usual) if usual else length


def _groups(model: nn.Module, settings: Settings) -> list[dict]:
    """Group the parameters by learning rate and weight decay."""
    groups: dict[tuple[float, float], list] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            rate = next((r for pattern, r in settings.rates.items() if fnmatchcase(name, pattern)), settings.rate)
            groups.setdefault((rate, settings.decay if parameter.ndim > 1 else 0.0), []).append(parameter)
    return [
        {"params": kept, "lr": rate, "height": rate, "weight_decay": decay} for (rate, decay), kept in groups.items()
    ]


def _to(batch, device: torch.device):
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, Mapping):
        return {key: _to(value, device) for key, value in batch.items()}
    return type(batch)(_to(value, device) for value in batch) if isinstance(batch, tuple | list) else batch


def _stack(probed: list[dict]) -> dict[str, np.ndarray]:
    return {key: np.stack([np.asarray(entry[key]) for entry in probed]) for key in (probed[0] if probed else ())}


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and persistent buffers by name, tied ones once."""
    parameters = dict(model.named_parameters())
    return parameters | {name: value for name, value in model.named_buffers() if name in model.state_dict()}


def _save(path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, about: dict, run: _Progress) -> None:
    from safetensors.torch import save

    tensors = {f"model/{name}": value.detach() for name, value in _tensors(model).items()}
    for name, parameter in model.named_parameters():
        for key, value in optimiser.state.get(parameter, {}).items():
            tensors[f"optimiser/{name}/{key}"] = value
    tensors["losses"] = torch.tensor(run.losses, dtype=torch.float64)
    for key, value in _stack(run.probed).items():
        tensors[f"trace/{key}"] = torch.from_numpy(np.ascontiguousarray(value))
    header = {
        "about": json.dumps(about),
        "step": str(run.step),
        "seconds": f"{run.seconds:.3f}",
        "usual": repr(run.usual),
    }
    write_atomically(path, save({key: value.contiguous() for key, value in tensors.items()}, metadata=header))


def _restore(path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, about: dict) -> _Progress:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            header, tensors = file.metadata(), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        origin = json.loads(header["about"])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no state of a training run ({error}): train afresh") from error
    if origin != about:
        sides = {**origin["settings"], **origin["identity"]}, {**about["settings"], **about["identity"]}
        other = [
            f"{key} {sides[0].get(key)!r} there, {sides[1].get(key)!r} here"
            for key in sorted(sides[0] | sides[1])
            if sides[0].get(key) != sides[1].get(key)
        ]
        raise ValueError(f"{path} is the state of another run ({'; '.join(other)}): train afresh or elsewhere")
    with torch.no_grad():
        for name, value in _tensors(model).items():
            value.copy_(tensors[f"model/{name}"])
    for name, parameter in model.named_parameters():
        prefix = f"optimiser/{name}/"
        moments = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        if moments:
            optimiser.state[parameter] = {
                key: value if key == "step" else value.to(parameter.device) for key, value in moments.items()
            }
    trace = {key.removeprefix("trace/"): value.numpy() for key, value in tensors.items() if key.startswith("trace/")}
    probed = [{key: values[i] for key, values in trace.items()} for i in range(len(trace.get("step", ())))]
    numbers = int(header["step"]), float(header["seconds"]), float(header.get("usual", 0))
    return _Progress(*numbers, tensors["losses"].tolist(), probed)
