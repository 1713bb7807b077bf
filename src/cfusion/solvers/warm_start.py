"""The final state of a solve, as a start for the next one on similar data."""

from __future__ import annotations

from dataclasses import dataclass

from cfusion.kernels.contract import Mask, State
from cfusion.solvers.task import Task


@dataclass(frozen=True, eq=False)
class WarmStart:
    """The final state of a task."""

    state: State
    window: tuple[slice, slice]
    inside: Mask
    centre: float
    inverse: bool

    @staticmethod
    def of(task: Task, state: State) -> WarmStart:
        return WarmStart(state, task.window, task.inside(), task.centre, task.energy.inverse)

    def transfer(self, task: Task) -> State:
        """The initial state of another task, set to this one on common pixels."""
        state = task.initial_state()
        if self.inverse != task.energy.inverse or len(self.state.primal) != len(state.primal):
            return state
        rows, columns = (here.start - there.start for here, there in zip(task.window, self.window, strict=True))
        shift = self.centre - task.centre
        task.backend.transfer_state(state, task.links, self.state, self.inside, (rows, columns), shift)
        return state
