"""The closed-form minimiser of an energy without a regulariser, whose pixels are independent."""

from dataclasses import dataclass

import numpy as np

from cfusion.errors import InputError
from cfusion.kernels.contract import Energies, Fidelity
from cfusion.solvers.outcome import Report, Solution, Status
from cfusion.solvers.pdhg import fixed_confidence, to_solution
from cfusion.solvers.task import Task


@dataclass(frozen=True)
class Pointwise:
    """The weighted median for L1, the weighted mean for L2."""

    def __call__(self, task: Task, report: Report | None = None) -> Solution:
        if task.energy.regulariser is not None:
            raise InputError("the pointwise solver needs an energy without a regulariser; use PDHG")
        if (kind := task.energy.fidelity.kind) not in (Fidelity.L1, Fidelity.L2):
            raise InputError(f"several {kind.name.title()} terms per pixel have no closed form; use L1 or L2")
        state = task.initial_state()
        if kind is Fidelity.L2:
            observed = task.observations.total > 0
            state.primal[0] = np.where(observed, task.observations.values[0], task.start)
        confidence = fixed_confidence(task)
        misfit = task.backend.misfit(task.problem(confidence), state.primal[0])
        fidelity = float(np.sum(confidence * misfit, dtype=np.float64))
        return to_solution(
            task, state, confidence, Status.closed_form, (), float("nan"), Energies((), fidelity, 0.0), None
        )
