"""Expected time to compile the kernels of a method, in seconds on a typical machine, by kernel and by group."""

from __future__ import annotations

from collections.abc import Iterable

SECONDS = {  # of kernels that take long, by name; the others take about the same
    "sweep": 5.0,
    "_hidden": 1.4,
    "_parallax": 0.9,
    "_pull": 0.6,
    "_touch": 1.2,
    "_sort": 0.7,
    "_advance": 0.7,
    "_energy": 0.7,
    "_lend": 0.8,
    "_dilate": 0.5,
    "_pool": 0.5,
    "_misfit": 0.5,
    "_mean": 0.5,
    "_key": 0.1,
}
SECONDS_OF_OTHERS = 0.25
GROUPS = {
    "splat": ("_reproject", "_winners", "_gather", "_dilate", "_rise_and_fall", "_lend", "_fill"),
    "observations": ("_count", "_sort", "_misfit", "_key", "_upper_bits", "_alike"),
    "mean": ("_average",),
    "median": ("_weighted_median",),
    "order 1": ("sweep", "_energy", "_advance", "_adjoint_1", "_adjoint_1", "_stick_out_slope", "_add_gradient_1"),
    "order 2": (
        *("_energy", "_advance", "_adjoint_1", "_adjoint_1", "_stick_out_slope", "_add_gradient_1"),
        *("_adjoint_2", "_adjoint_2", "_stick_out", "_add_gradient_2", "_factors"),
    ),
    "L1 of order 2": ("sweep", "_l1_pixels"),
    "Huber of order 2": ("sweep",),
    "angles": ("_cosines",),
    "auto": ("_parallax", "_pull", "_touch", "_mean", "_hidden", "_split", "_score", "_pool", "_trust"),
}
SPLAT = ("splat", "observations")
CONVEX = (*SPLAT, "median", "order 2")
OF_METHODS = {
    "input": ("splat",),
    "mean": (*SPLAT, "mean"),
    "median": (*SPLAT, "median"),
    "rof": (*SPLAT, "mean", "order 1"),
    "rof-adapt": (*SPLAT, "mean", "order 1"),
    "l1": (*CONVEX, "L1 of order 2"),
    "l1-adapt": (*CONVEX, "L1 of order 2"),
    "tgv-fusion": (*CONVEX, "Huber of order 2"),
    "auto": (*CONVEX, "L1 of order 2", "auto"),
    "mosaic": ("observations", "median", "order 2", "Huber of order 2"),
}
OF_OTHERS = (*CONVEX, "L1 of order 2", "angles")


def seconds_of(kernel: str) -> float:
    """Seconds to compile one kernel."""
    return SECONDS.get(kernel, SECONDS_OF_OTHERS)


def seconds_for(methods: Iterable[str]) -> float:
    """Seconds to compile all kernels of some methods, each once."""
    groups = {group for method in methods for group in OF_METHODS.get(method, OF_OTHERS)}
    both = {"order 1", "order 2"} <= groups  # they share all kernels but the sweep
    shared = sum(seconds_of(kernel) for kernel in GROUPS["order 1"][1:]) if both else 0.0
    return sum(seconds_of(kernel) for group in groups for kernel in GROUPS[group]) - shared
