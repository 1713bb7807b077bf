"""Where a solve has come to, for the next one on nearly the same data to start from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cfusion.kernels.contract import Mask, State
from cfusion.solvers.task import Task


@dataclass(frozen=True, eq=False)
class Footing:
    """The state of a task at the end."""

    state: State
    window: tuple[slice, slice]
    inside: Mask
    centre: float
    inverse: bool

    @staticmethod
    def of(task: Task, state: State) -> Footing:
        return Footing(state, task.window, task.inside(), task.centre, task.energy.inverse)

    def onto(self, task: Task) -> State:
        """The initial state of another task, continued from here where both have pixels."""
        state = task.initial_state()
        if self.inverse != task.energy.inverse or len(self.state.primal) != len(state.primal):
            return state
        here, there = zip(*map(_overlap, task.window, self.window), strict=True)
        both = task.inside()[here] & self.inside[there]
        planes = (slice(None), *here)
        primal, dual = (each[(slice(None), *there)] for each in (self.state.primal, self.state.dual))
        state.primal[planes] = np.where(both, primal, state.primal[planes])
        state.primal[0][here] += np.where(both, primal.dtype.type(self.centre - task.centre), primal.dtype.type(0))
        bits = task.backend.to_device(1 << np.arange(len(dual))[:, None, None], task.links.dtype)
        exists = both & (task.links[here] & bits > 0)
        state.dual[planes] = np.where(exists, dual, state.dual[planes])
        return state


def _overlap(one: slice, other: slice) -> tuple[slice, slice]:
    """What two ranges have in common, counted from the start of each; nothing if they are apart."""
    first = max(one.start, other.start)
    end = max(min(one.stop, other.stop), first)
    return slice(first - one.start, end - one.start), slice(first - other.start, end - other.start)
