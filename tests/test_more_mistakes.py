"""Mistakes in settings, specifications and files: each has its sentence, and the nearest good value has none."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cfusion import Orthographic, Pinhole, Pose, Stack, View, fuse, fuse_stack
from cfusion.arrays import adopt
from cfusion.datasets.write_back import LAYOUTS
from cfusion.errors import CFusionError
from cfusion.experiments.conditions import OnTrack
from cfusion.experiments.models import Model
from cfusion.experiments.spec import Part, Quick, Spec
from cfusion.frontends.calibration import Calibration
from cfusion.frontends.mc_cnn.matcher import McCnn
from cfusion.frontends.mc_cnn.semi_global import Penalties
from cfusion.frontends.rig import StereoFrame
from cfusion.frontends.stereo import grey_bytes
from cfusion.geometry.camera import LARGEST, MOST_PIXELS
from cfusion.metrics import fill_background, roc_auc
from cfusion.rasters.options import Options
from cfusion.rasters.roles import _row, assign
from cfusion.source import Registered
from cfusion.synthetic import Scene
from cfusion.synthetic.isosurface import isosurface
from cfusion.view.content import Content

CAMERA = Pinhole(10.0, 10.0, 5.0, 4.0, 10, 8)
VIEW = View(np.ones(CAMERA.shape), CAMERA, Pose.identity())
TRIANGLE = Scene(np.eye(3), np.array([[0, 1, 2]]))
TABLE = Part(name="a", kind="table", caption="", data=("city",), rows=("l1", "auto"), columns=("rmse",))
SWEEP = replace(TABLE, kind="sweep", over="gauss", values=(1.0,))
PANELS = replace(TABLE, kind="panels", columns=(), layout=(2,))
MODEL = Model("a", stand_in="blob")
TRACK = OnTrack(MODEL, "orbit", 3, 1, ("gauss", 0.1), 0.1)
ROWS: Any = {"l1": None, "auto": None}
SPEC = Spec("x", "X", "", "geometric", (0,), {"city": (TRACK,)}, ROWS, (TABLE,), Quick((), (), 1.0))
RESULT, WIDER = (SimpleNamespace(depth=np.ones(shape, np.float32)) for shape in ((3, 4), (3, 5)))


def _replaced(format: str, source: str) -> tuple[Path, ...]:
    return LAYOUTS[format].replaced(Path("a"), Path(source))


def _ball(points: np.ndarray) -> np.ndarray:
    """Negative within a distance of one from the origin."""
    return np.linalg.norm(points, axis=-1) - 1.0


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "a stack for views": (lambda: fuse(Stack(np.ones((2, 3, 4)))), r"use fuse_stack\(stack\)"),  # type: ignore[arg-type]
    "a path for views": (lambda: fuse("data"), r"read it first: fuse\(read\('data'\)\)"),  # type: ignore[arg-type]
    "one view for views": (lambda: fuse(VIEW), "needs a list of views, not"),  # type: ignore[arg-type]
    "a number for views": (lambda: fuse(3), "needs a list of views, not"),  # type: ignore[arg-type]
    "views for a stack": (lambda: fuse_stack([VIEW]), "needs a cfusion.Stack, not"),  # type: ignore[arg-type]
    "numbers for a mask": (lambda: adopt(np.ones(3), np.bool_, "filled"), "filled is float64; give an array of True"),
    "an image without end": (lambda: Pinhole(1.0, 1.0, 0.0, 0.0, MOST_PIXELS + 1, 1), "width is beyond"),
    "as high": (lambda: Orthographic(1.0, 0.0, 0.0, 1, MOST_PIXELS + 1), "height is beyond"),
    "an integer without end": (lambda: Pinhole(10**31, 1.0, 0.0, 0.0, 1, 1), "fx is beyond 1e"),
    "a negative one": (lambda: Pinhole(1.0, 1.0, -(10**31), 0.0, 1, 1), "cx is beyond"),
    "depth of another shape": (lambda: CAMERA.back_project(np.ones((8, 9))), r"depth is \(8, 9\), its camera sees"),
    "points in a plane": (lambda: CAMERA.project(np.ones((4, 2))), r"points are \(4, 2\)"),
    "a number for points": (lambda: CAMERA.project(np.float64(1.0)), r"points are \(\)"),
    "a ragged image": (lambda: replace(VIEW, image=[[0.5], [0.5, 0.5]]), "rows of different lengths"),
    "a threshold in words": (lambda: roc_auc([1.0], [1.0], "one"), "threshold is 'one'"),  # type: ignore[arg-type]
    "one row of disparities": (lambda: fill_background(np.ones(3)), r"the disparity is \(3,\)"),
    "flat vertices": (lambda: Scene(np.ones((3, 2)), np.array([[0, 1, 2]])), r"give vertices \(V, 3\)"),
    "faces of four": (lambda: Scene(np.eye(3), np.zeros((1, 4), int)), r"faces \(F, 3\)"),
    "one face alone": (lambda: Scene(np.eye(3), np.array([0, 1, 2])), r"faces \(F, 3\)"),
    "no faces": (lambda: Scene(np.eye(3), np.zeros((0, 3), int)), "at least one face"),
    "a vertex nowhere": (lambda: Scene(np.eye(3) * np.nan, np.array([[0, 1, 2]])), "vertices that are finite"),
    "a vertex too many": (lambda: Scene(np.eye(3), np.array([[0, 1, 3]])), "give 0 to 2"),
    "a vertex before the first": (lambda: Scene(np.eye(3), np.array([[-1, 1, 2]])), "faces use vertices -1 to 2"),
    "albedo of vertices": (lambda: replace(TRIANGLE, albedo=np.ones(3)), "one value for each of the 1 faces"),
    "a scene of no size": (lambda: TRIANGLE.scaled_to(0.0), "longest_side is 0.0"),
    "another kind of part": (lambda: replace(TABLE, kind="tabel"), "kind is 'tabel'"),
    "a table without columns": (lambda: replace(TABLE, columns=()), "has no columns"),
    "a sweep without columns": (lambda: replace(SWEEP, columns=()), "has no columns"),
    "a table over noise": (lambda: replace(TABLE, over="gauss", values=(1.0,)), "only for a sweep"),
    "a sweep over nothing": (lambda: replace(SWEEP, over=None, values=()), "`over` and `values` for a sweep"),
    "a sweep without values": (lambda: replace(SWEEP, values=()), "`over` and `values` for a sweep"),
    "a sweep over the weather": (lambda: replace(SWEEP, over="weather"), "cannot sweep over 'weather'"),
    "panels that do not fit": (lambda: replace(PANELS, layout=(2, 1)), "does not hold 2 panels"),
    "a table in lines": (lambda: replace(TABLE, layout=(2,)), "does not hold 2 panels"),
    "an unknown champion": (lambda: replace(TABLE, champion="l2"), "champion 'l2' is not one of its rows"),
    "numbers of an unknown row": (lambda: replace(TABLE, published={"l2": (1.0,)}), "numbers of 'l2' match no row"),
    "numbers too many": (lambda: replace(TABLE, published={"l1": (1.0, 2.0)}), "or not its columns"),
    "a model of nothing": (lambda: replace(MODEL, stand_in="cube"), "stand_in is 'cube'"),
    "a model of no size": (lambda: replace(MODEL, longest_side=0.0), "longest_side is 0.0; give a positive"),
    "no seeds": (lambda: replace(SPEC, seeds=()), "no seeds are given"),
    "two parts of a name": (lambda: replace(SPEC, parts=(TABLE, TABLE)), "two parts have the same name"),
    "a part of unknown rows": (lambda: replace(SPEC, rows={}), "names row 'l1', which does not exist"),
    "a truth of another shape": (lambda: Content("a", [RESULT], truth=np.ones((4, 3))), "give the same shape"),
    "results of two shapes": (lambda: Content("a", [RESULT, WIDER]), "must have one shape"),
    "a surface at the border": (lambda: isosurface(_ball, -0.9 * np.ones(3), 1.4 * np.ones(3), 4), "widen the box"),
    "a box without a surface": (lambda: isosurface(_ball, 5 * np.ones(3), 7 * np.ones(3), 4), "widen the box"),
    "no focal length": (lambda: Calibration(0.0, 1.0, None, None, 1.0), "focal length 0 pixels"),
    "no focal length down": (lambda: Calibration(1.0, 0.0, None, None, 1.0), "both must be positive"),
    "swapped sides": (lambda: Calibration(1.0, 1.0, None, None, -0.1), "left and right are swapped"),
    "no rasters": (lambda: assign([]), "no rasters were given"),
    "a track of its own": (lambda: replace(TRACK, track="spiral"), "track is 'spiral'"),
    "noise of no kind": (lambda: replace(TRACK, noise=("pink", 1.0)), "give one of "),
    "less than no noise": (lambda: replace(TRACK, noise=("gauss", -0.1)), "a level of at least 0"),
    "views without a middle": (lambda: replace(TRACK, views=2), "give an odd number of views"),
    "views at one place": (lambda: replace(TRACK, spacing=0), "at least 1 apart"),
    "no baseline": (lambda: replace(TRACK, baseline=0.0), "give positive numbers"),
    "an image of no size": (lambda: replace(TRACK, scale=0.0), "give positive numbers"),
    "a larger image": (lambda: replace(TRACK, scale=1.01), "scale at most 1"),
    **{
        f"penalties {given}": (lambda given=given: McCnn(penalties=Penalties(*given)), "give 0 < small <= large step")  # type: ignore[misc]
        for given in (
            (0, 1, 1, 1, 1, 1),
            (2, 1, 1, 1, 1, 1),
            (1, 1, 0.9, 1, 1, 1),
            (1, 1, 2, 1, 1, 1),
            (1, 1, 1, 1, 0.9, 1),
            (1, 1, 1, 1, 1, 0),
        )
    },
    "fewer than no aggregations": (lambda: McCnn(aggregations=-1), "aggregations = -1, arm = 5; give at least 0 and 1"),
    "no arm": (lambda: McCnn(arm=0), "aggregations = 2, arm = 0; give at least 0 and 1"),
    "a pair of two sizes": (lambda: StereoFrame(np.ones((4, 5)), np.ones((5, 4))), "give one size"),  # type: ignore[arg-type]
    "two colours": (lambda: grey_bytes(np.ones((4, 5, 2), np.float32)), r"an image is \(4, 5, 2\)"),
    "a row for an image": (lambda: grey_bytes(np.ones(4, np.float32)), r"an image is \(4,\)"),
    "an image without rows": (lambda: grey_bytes(np.ones((0, 4), np.float32)), r"an image is \(0, 4\)"),
    "an unknown resampling": (lambda: Options(resampling="cubik"), "resampling is 'cubik'"),
    "workers of two kinds": (lambda: Options(workers=2, scheduler="tcp://x"), "give only one of them"),
    "no tolerance": (lambda: Options(tolerance=0.0), "tolerance is 0.0"),
    "any gap": (lambda: Options(tolerance=1.0), "tolerance is 1.0"),
    "no iterations": (lambda: Options(iterations=0), "iterations is 0"),
    "weights and sigma": (
        lambda: _row(Path("list.json"), {"heights": "a.tif", "weights": "w", "sigma": "s"}, 1, ()),
        "a.tif has weights and sigma; give one",
    ),
    "EXR in place of a bundle's": (lambda: _replaced("bundle", "a/b.exr"), "write it as .npy"),
    "TIFF in place of nerfstudio's": (lambda: _replaced("nerfstudio", "a/b.tif"), "pass --write bundle"),
    "an array in place of a PNG": (lambda: _replaced("scannet", "a/b.npy"), "pass --write bundle"),
}
FINE: dict[str, Callable[[], Any]] = {
    "the largest image": lambda: Pinhole(1.0, 1.0, 0.0, 0.0, MOST_PIXELS, MOST_PIXELS),
    "the largest integer": lambda: Pinhole(int(LARGEST), 1.0, -int(LARGEST), 0.0, 1, 1),
    "one point": lambda: CAMERA.project(np.array([0.0, 0.0, 1.0])),
    "a whole threshold": lambda: roc_auc([1.0], [1.0], 1),
    "a grey face": lambda: replace(TRIANGLE, albedo=np.ones(1)),
    "a tiny scene": lambda: TRIANGLE.scaled_to(1e-9),
    "a sweep": lambda: SWEEP,
    "panels in two lines": lambda: replace(PANELS, layout=(1, 1)),
    "surfaces without columns": lambda: replace(PANELS, kind="surfaces", layout=()),
    "a champion": lambda: replace(TABLE, champion="auto", published={"l1": (1.0,)}),
    "an experiment": lambda: SPEC,
    "a page": lambda: Content("a", [RESULT], truth=np.ones((3, 4), np.float32)),
    "a box around its surface": lambda: isosurface(_ball, -1.4 * np.ones(3), 1.4 * np.ones(3), 4),
    "a calibration": lambda: Calibration(1e-9, 1e-9, None, None, 1e-9),
    "a track": lambda: replace(TRACK, noise=("gauss", 0.0), views=1, spacing=1, baseline=1e-9, scale=1e-3),
    "a small model": lambda: replace(MODEL, stand_in="city", longest_side=1e-3),
    "the least penalties": lambda: McCnn(penalties=Penalties(1e-9, 1e-9, 1, 1, 1, 1e-9), aggregations=0, arm=1),
    "a grey pair": lambda: StereoFrame(np.ones((4, 5)), np.ones((4, 5, 3))),  # type: ignore[arg-type]
    "one pixel": lambda: grey_bytes(np.ones((1, 1, 3), np.float32)),
    "a cluster": lambda: Options(scheduler="tcp://x", iterations=1, tolerance=0.999, alpha=(1e-9, 1e-9)),
    "a bundle's PFM": lambda: _replaced("bundle", "a/b.PFM"),
    "nerfstudio's array": lambda: _replaced("nerfstudio", "a/b.npy"),
    "a PNG": lambda: _replaced("scannet", "a/b.PNG"),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_a_mistake_has_its_own_sentence(name: str) -> None:
    make, says = WRONG[name]
    with pytest.raises(CFusionError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", list(FINE))
def test_the_nearest_good_value_is_taken(name: str) -> None:
    assert FINE[name]() is not None


@pytest.mark.parametrize(
    ("name", "count"), [("at", 3), ("parallax", 2), ("hidden", 3), ("places", 0), ("part", 1), ("moved", 1)]
)
def test_registered_maps_have_no_poses_to_ask_for(name: str, count: int) -> None:
    with pytest.raises(CFusionError, match="registered depth maps"):
        getattr(Registered(Stack(np.ones((2, 3, 4)))), name)(*[None] * count)
