"""How long a step takes, said before the run is long; and the model compiled, where launching kernels takes longest."""

import statistics
import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

SKIPPED, LOOKED = 10, 50
"""Steps left out, while kernels are chosen and compiled, and steps after which the estimate is given."""


class Clock:
    """Take the time at each step, and once, after some steps, print how long all will take.

    Parameters
    ----------
    steps
        Of the whole run; a run of fewer than 200 steps is over too soon for an estimate.
    now
        A clock in seconds, for tests.
    """

    def __init__(self, steps: int, now: Callable[[], float] = time.monotonic):
        """Begin with no step."""
        self.steps, self.now, self.stamps = steps, now, []

    def tick(self) -> None:
        """Note that a step begins."""
        self.stamps.append(self.now())
        if len(self.stamps) == SKIPPED + LOOKED and self.steps >= 200:
            from tqdm.auto import tqdm

            tqdm.write(self.estimate())

    def median(self) -> float | None:
        """Return the median milliseconds of a step after the first ones; ``None`` if there were too few.

        The loop reads the loss after each step, so a step's work on a GPU is done before the next one begins.
        """
        times = [b - a for a, b in zip(self.stamps[SKIPPED:], self.stamps[SKIPPED + 1 :])]
        return round(1000 * statistics.median(times), 2) if times else None

    def estimate(self) -> str:
        """Say how long all steps take at the median pace."""
        return (
            f"{self.median():.1f} ms a step: {self.steps} steps take about "
            f"{self.median() * self.steps / 60_000:.1f} min"
        )


def eager_loss(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    """Return the model's own loss."""
    return model(**batch).loss


def compiled_loss(model: nn.Module, device: torch.device) -> Callable[[nn.Module, Mapping[str, Tensor]], Tensor]:
    """Return a loss of the compiled model: CUDA graphs on a GPU, the same traced graph without them on a CPU.

    The parameters are the model's own, so that what is saved and published does not know of it. Where compiling
    fails, at the first step, the run says so and goes on without.
    """
    from tqdm.auto import tqdm

    how = {"mode": "reduce-overhead"} if device.type == "cuda" else {"backend": "aot_eager"}
    state = {"run": torch.compile(model, **how), "tried": False}

    def loss(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        first, state["tried"] = not state["tried"], True
        try:
            if device.type == "cuda":
                torch.compiler.cudagraph_mark_step_begin()
            return state["run"](**batch).loss
        except RuntimeError as error:
            if not first:
                raise
            tqdm.write(f"the model is not compiled: {str(error).splitlines()[0] or type(error).__name__}")
            state["run"] = model
            return eager_loss(model, batch)

    return loss
