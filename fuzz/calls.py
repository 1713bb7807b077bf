"""Odd calls of the public functions: every argument may be anything."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import cfusion
from cfusion import metrics
from cfusion.datasets import check, write_bundle, write_result, write_views

ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 2.5, float("nan"), float("inf"), 1e300, 10**400, "x", "", b"x", [], {}, (), object()),
    *(np.zeros((4, 5)), np.ones((4, 5)), np.ones((1, 4, 5)), np.full((2, 4, 5), np.nan), np.ones((0, 4, 5))),
    *(np.ones((4, 5), np.uint16), np.ones((4, 5), complex), np.ones((4, 5), "datetime64[s]"), np.array(["a"])),
    *(np.ma.masked_all((1, 4, 5)), np.array(None), [[1, 2], [3]], np.eye(3), np.eye(4), -np.eye(4)),
    *(np.full((4, 4), np.inf), np.float32(2), np.array(2.0), (1, 2), (1.0, float("nan")), {"a": 1}, Path("/nowhere")),
    *(3e38 * np.ones((4, 5)), 1e-38 * np.ones((4, 5)), np.ones((4, 5), np.float16), np.ones((4, 5))[:, ::-1]),
    *("\0", "../x", "median", "auto", "a" * 5000, "x\n\x1b[2J", range(3), 1 << 40, -(1 << 70), 1e-300, int, len),
)
CAMERA = cfusion.Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4)
VIEW = cfusion.View(np.ones((4, 5)), CAMERA, cfusion.Pose.identity(), np.full((4, 5), 0.5), np.ones((4, 5)))
VIEWS = (VIEW, VIEW)
STACK = cfusion.Stack(np.ones((2, 4, 5)))
RESULT = cfusion.fuse(VIEWS, "median", backend="numpy")
MAP = np.ones((4, 5))
NAMES = ("lam", "radius", "iterations", "fill_radius", "alpha", "tolerance", "order", "rounds", "rate", "gate", "outer")

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
CALLS: tuple[Call, ...] = (
    (cfusion.Pinhole, (10.0, 10.0, 2.0, 1.5, 5, 4), {}),
    (cfusion.BrownConrady, (10.0, 10.0, 2.0, 1.5, 5, 4, 0.1, 0.0, 0.0, 0.0, 0.0), {}),
    (cfusion.Orthographic, (2.0, 2.0, 1.5, 5, 4), {}),
    (cfusion.Pose, (np.eye(3), np.zeros(3)), {}),
    (cfusion.Pose.from_matrix, (np.eye(4),), {}),
    (cfusion.Pose.identity().apply, (np.zeros((3, 3)),), {}),
    (CAMERA.back_project, (MAP,), {}),
    (CAMERA.project, (np.ones((2, 3)),), {}),
    (cfusion.View, (MAP, CAMERA, cfusion.Pose.identity()), {"image": MAP, "confidence": MAP, "name": "x"}),
    (cfusion.Stack, (np.ones((2, 4, 5)), np.ones((2, 4, 5))), {}),
    (cfusion.normals, (MAP, CAMERA), {}),
    (cfusion.fuse, (VIEWS, "median"), {"reference": 0, "backend": "numpy"}),
    (cfusion.fuse_stack, (STACK, "median"), {"backend": "numpy"}),
    (lambda *given, **named: list(cfusion.fuse_many(*given, **named)), ([VIEWS], "median"), {"backend": "numpy"}),
    (cfusion.evaluate, (MAP, MAP, CAMERA, 0.5), {}),
    (metrics.ause, (MAP, MAP), {}),
    (metrics.roc_auc, (MAP, MAP, 0.5), {}),
    (metrics.fill_background, (MAP,), {}),
)
SLOW: tuple[Call, ...] = ((check.quick_check, (VIEWS,), {}), (check.align_scales, (VIEWS,), {}))
WRITING: tuple[Call, ...] = (  # into a folder of the case
    (write_bundle, (VIEWS,), {"reference": 0, "unit": "metre"}),
    (write_views, (VIEWS,), {"format": "tum"}),
    (write_result, (RESULT,), {"formats": ("npy",), "unit": "metre", "source": "x"}),
    (RESULT.save, (), {"formats": ("npy",)}),
)


def odd_call(rng: np.random.Generator, place: Path) -> None:
    """One call with some odd arguments."""

    def odd() -> Any:
        return ODD[int(rng.integers(0, len(ODD)))]

    def perhaps(usual: Any) -> Any:
        return odd() if rng.random() < 0.35 else usual

    which = int(rng.integers(0, len(CALLS) + len(WRITING) + 2))
    if which >= len(CALLS) + len(WRITING):
        return _solve(rng, odd)
    if which >= len(CALLS):
        function, usual, named = WRITING[which - len(CALLS)]
        usual = (*usual, place / "written") if function != RESULT.save else (place / "written",)
    else:
        function, usual, named = CALLS[which] if rng.random() > 0.005 else SLOW[which % len(SLOW)]
    if function is cfusion.fuse and rng.random() < 0.5:  # a list with something odd in it
        usual = ([perhaps(VIEW) for _ in range(2)], *usual[1:])
    given = [perhaps(each) for each in usual]
    if which >= len(CALLS) and isinstance(given[-1], str | Path) and given[-1] != Path("/nowhere"):
        given[-1] = place / "written"  # nothing is written elsewhere
    function(*given, **{name: perhaps(each) for name, each in named.items()})


def _solve(rng: np.random.Generator, odd: Callable[[], Any]) -> None:
    """A method with odd parameters, on a few pixels."""
    stack = cfusion.Stack(rng.uniform(1, 2, (2, 4, 5)))
    names = list(cfusion.METHODS)
    method = names[int(rng.integers(0, len(names)))]
    parameters = {name: odd() for name in NAMES if rng.random() < 0.15}
    cfusion.fuse_stack(stack, method, backend="numpy", **({"iterations": 3} if rng.random() < 0.9 else {}) | parameters)
