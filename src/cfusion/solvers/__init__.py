"""Solvers: frozen settings that are functions of a task."""

from cfusion.solvers.acs import ACS
from cfusion.solvers.ama import AMA
from cfusion.solvers.biconvex import Biconvex
from cfusion.solvers.outcome import Fused, Outer, Progress, Report, Solution, Solver, Status, ViewEvidence
from cfusion.solvers.pdhg import PDHG
from cfusion.solvers.pointwise import Pointwise
from cfusion.solvers.task import Task, prepare
from cfusion.solvers.warm_start import WarmStart

__all__ = [
    "ACS",
    "AMA",
    "PDHG",
    "Biconvex",
    "Fused",
    "Outer",
    "Pointwise",
    "Progress",
    "Report",
    "Solution",
    "Solver",
    "Status",
    "Task",
    "ViewEvidence",
    "WarmStart",
    "prepare",
]
