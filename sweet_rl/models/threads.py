"""CPU threads of a command: one for a tiny model, whose matrices are too small to be divided among threads.

The choice is the user's if the environment names a number, and the caller's where this package is a library. With a GPU
nothing is changed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sweet_rl.runs.cli import command_line

if TYPE_CHECKING:
    import torch

# Weights of a tiny model. On two cores a second thread cost CPU time at all sizes from 1 to 36 million weights, and
# made a training step slower up to 9 million.
TINY = 10_000_000
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def threads_for(weights: int, default: int, environment: Mapping[str, str]) -> int:
    """Return the number of CPU threads for a process.

    Args:
        weights: Number of weights of its largest model.
        default: Number that torch has chosen.
        environment: Environment variables, in which a user may have named another number.
    """
    chosen = any(environment.get(name) for name in VARIABLES)
    return default if chosen or weights > TINY else 1


class Threads:
    """The number of threads of this process, which fits the largest model that it has loaded."""

    def __init__(self) -> None:
        self.default, self.last, self.weights = 0, 0, 0

    def choose(self, model: torch.nn.Module) -> None:
        """Set the number for a model that was loaded. A number that somebody else has set since is kept."""
        import torch

        if command_line() is None or torch.cuda.is_available():
            return
        now = torch.get_num_threads()
        self.default, self.last = self.default or now, self.last or now
        if now != self.last:
            return
        self.weights = max(self.weights, sum(getattr(one, "ds_numel", one.numel()) for one in model.parameters()))
        self.last = threads_for(self.weights, self.default, os.environ)
        torch.set_num_threads(self.last)


_threads = Threads()
choose_threads = _threads.choose
