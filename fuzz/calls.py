"""Odd calls of the public functions: every argument may be anything."""

from typing import Any

import numpy as np

import cfusion

ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 2.5, float("nan"), float("inf"), 1e300, 10**400, "x", "", b"x", [], {}, (), object()),
    *(np.zeros((4, 5)), np.ones((4, 5)), np.ones((1, 4, 5)), np.full((2, 4, 5), np.nan), np.ones((0, 4, 5))),
    *(np.ones((4, 5), np.uint16), np.ones((4, 5), complex), np.ones((4, 5), "datetime64[s]"), np.array(["a"])),
    *(
        np.ma.masked_all((1, 4, 5)),
        np.array(None),
        [[1, 2], [3]],
        np.eye(3),
        np.eye(4),
        -np.eye(4),
        np.full((4, 4), np.inf),
    ),
    *(3e38 * np.ones((4, 5)), 1e-38 * np.ones((4, 5)), np.ones((4, 5), np.float16), np.ones((4, 5))[:, ::-1]),
)


def odd_call(rng: np.random.Generator) -> None:
    """One call with one or two odd arguments."""

    def odd() -> Any:
        return ODD[int(rng.integers(0, len(ODD)))]

    def perhaps(usual: Any, share: float = 0.4) -> Any:
        return odd() if rng.random() < share else usual

    match int(rng.integers(0, 7)):
        case 0:
            cfusion.Pinhole(*(perhaps(each) for each in (10.0, 10.0, 2.0, 1.5, 5, 4)))
        case 1:
            cfusion.Pose(perhaps(np.eye(3)), perhaps(np.zeros(3)))
        case 2:
            cfusion.Pose.from_matrix(odd())
        case 3:
            camera = cfusion.Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4)
            pose, given = perhaps(cfusion.Pose.identity()), [perhaps(None), perhaps(None)]
            cfusion.View(perhaps(np.ones((4, 5))), perhaps(camera), pose, *given)
        case 4:
            cfusion.Stack(odd(), perhaps(None), perhaps(None, 0.1), perhaps(None, 0.1))
        case 5:
            method = "median" if rng.random() < 0.7 else odd()
            stack = cfusion.Stack(rng.uniform(1, 2, (2, 4, 5)))
            parameters = {name: odd() for name in ("lam", "radius", "iterations", "fill_radius") if rng.random() < 0.2}
            cfusion.fuse_stack(perhaps(stack, 0.1), method, backend="numpy", **parameters)
        case _:
            pose, camera = cfusion.Pose.identity(), cfusion.Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4)
            views = [cfusion.View(np.ones((4, 5)), camera, pose)] * 2
            cfusion.fuse(perhaps(views, 0.2), "median", reference=perhaps(None), backend="numpy")
