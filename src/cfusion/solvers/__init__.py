"""Solvers: frozen settings, each a function of a task."""

from cfusion.solvers.acs import ACS
from cfusion.solvers.ama import AMA
from cfusion.solvers.biconvex import Biconvex
from cfusion.solvers.outcome import Outer, Progress, Report, Solution, Status
from cfusion.solvers.pdhg import PDHG
from cfusion.solvers.pointwise import OneMap, Pointwise
from cfusion.solvers.solve import Solver, solve
from cfusion.solvers.task import Task, at_work, prepare
from cfusion.solvers.tuned import Tuned

__all__ = [
    "ACS",
    "AMA",
    "PDHG",
    "Biconvex",
    "OneMap",
    "Outer",
    "Pointwise",
    "Progress",
    "Report",
    "Solution",
    "Solver",
    "Status",
    "Task",
    "Tuned",
    "at_work",
    "prepare",
    "solve",
]
