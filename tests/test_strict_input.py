"""What has the wrong type, unit or meaning is refused at birth, not read as something else."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cfusion import Pinhole, Pose, Stack, View, fuse_stack
from cfusion.confidence.edges import grey
from cfusion.datasets.reader_tools import pose_or_lost
from cfusion.datasets.readers import openmvs
from cfusion.errors import CameraError, CFusionError, InputError, PoseError
from cfusion.frontends.stereo import grey_bytes
from cfusion.io.codecs.colmap_model import read_model
from cfusion.io.codecs.kitti_poses import read_odometry_poses
from cfusion.io.codecs.trajectory import read_trajectory
from cfusion.rasters.grids import Grid
from cfusion.synthetic import Scene

CAMERA = Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4)
ONES = np.ones((4, 5))


def test_a_matrix_is_no_pose() -> None:
    with pytest.raises(InputError, match=r"pose is ndarray; make one with Pose\.from_matrix"):
        View(ONES, CAMERA, np.eye(4))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="camera is tuple"):
        View(ONES, (10, 10, 2, 1.5), Pose.identity())  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [{"width": 7.0}, {"height": "4"}, {"width": True}, {"width": None}, {"height": 0}])
def test_sizes_are_whole_numbers(size: dict[str, Any]) -> None:
    with pytest.raises(CameraError, match="whole number"):
        Pinhole(**({"fx": 1.0, "fy": 1.0, "cx": 0.0, "cy": 0.0, "width": 5, "height": 4} | size))
    assert Pinhole(1, 1, 0, 0, np.int64(5), np.int32(4)).shape == (4, 5)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", ["10", None, [10.0], 1j, np.array([1.0]), True])
def test_intrinsics_are_numbers(number: Any) -> None:
    for name in ("fx", "fy", "cx", "cy"):
        with pytest.raises(CameraError, match=f"{name} is "):
            Pinhole(**({"fx": 1.0, "fy": 1.0, "cx": 0.0, "cy": 0.0, "width": 5, "height": 4} | {name: number}))


@pytest.mark.parametrize("kind", ["uint8", "uint16", ">u2", "int16", "int32", "bool"])
def test_counts_are_no_lengths(kind: str) -> None:
    counts = np.ones((4, 5), kind)
    with pytest.raises(InputError, match=r"depth / 1000\.0 for millimetres"):
        View(counts, CAMERA, Pose.identity())
    with pytest.raises(InputError, match=r"depth / 1000\.0 for millimetres"):
        Stack(counts[None])
    for unstated in ("int64", "uint64"):  # of `(1000 * depth).astype(int)`; in a stack the heights of some rasters
        with pytest.raises(InputError, match=r"depth / 1000\.0 for millimetres"):
            View(counts.astype(unstated), CAMERA, Pose.identity())
    assert View([[1] * 5] * 4, CAMERA, Pose.identity()).depth.dtype == np.float32  # type: ignore[arg-type]
    assert Stack([[[1, 2], [3, 4]]]).shape == (2, 2)  # type: ignore[arg-type] # what people type


@pytest.mark.parametrize("kind", ["complex64", "datetime64[s]", "timedelta64[s]", "S3", "U3", "O"])
def test_what_is_no_real_number(kind: str) -> None:
    given = np.ones((4, 5), dtype="i8").astype(kind)
    for make in (
        lambda: View(given, CAMERA, Pose.identity()),
        lambda: Stack(given[None]),
        lambda: Stack(ONES[None], weights=given[None]),
        lambda: View(ONES, CAMERA, Pose.identity(), confidence=given),
        lambda: View(ONES, CAMERA, Pose.identity(), image=given),
    ):
        with pytest.raises(InputError, match="real numbers"):
            make()
    with pytest.raises(PoseError, match="real numbers"):
        Pose(given[:3, :3], np.zeros(3))
    with pytest.raises(PoseError, match="rows of equal length"):
        Pose.from_matrix([[1, 2], [3]])


def test_masks_are_honoured() -> None:
    hidden = np.zeros((1, 4, 5), bool)
    hidden[0, 1, 2] = True
    depths = np.ma.masked_array(np.where(hidden, -9999.0, 2.0), hidden)
    stack = Stack(depths)
    np.testing.assert_array_equal(np.isnan(stack.depths), hidden)
    assert float(np.nanmin(stack.depths)) == 2.0
    view = View(depths[0], CAMERA, Pose.identity(), confidence=np.ma.masked_array(ONES, hidden[0]))
    assert np.isnan(view.depth[1, 2])
    assert view.confidence is not None
    assert view.confidence[1, 2] == 0
    weights = Stack(np.full((1, 4, 5), 2.0), weights=np.ma.masked_array(np.ones((1, 4, 5)), hidden)).weights
    assert weights is not None
    assert weights[0, 1, 2] == 0
    integers = np.ma.masked_array(np.where(hidden, -9999, 2), hidden)  # int64, as some rasters come
    np.testing.assert_array_equal(np.isnan(Stack(integers).depths), hidden)
    with pytest.raises(InputError, match="masked pixels"):
        View(ONES, CAMERA, Pose.identity(), image=np.ma.masked_array(ONES, hidden[0]))


@pytest.mark.parametrize("size", [3e38, 1e20, 1e-20])
def test_units_beyond_reason(size: float) -> None:
    rng = np.random.default_rng(0)
    for make in (
        lambda: View(size * ONES, CAMERA, Pose.identity()),
        lambda: fuse_stack(Stack(size * rng.uniform(0.9, 1, (3, 4, 5))), "l1", backend="numpy"),
    ):
        with pytest.raises(InputError, match="choose a unit"):
            make()
    with pytest.raises(InputError, match="infinite"):
        View(1e300 * ONES, CAMERA, Pose.identity())


class Tensor:
    """An array of another library, on the host, that cannot be lent."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        raise self.error


@pytest.mark.parametrize(
    "error",
    [
        BufferError("Can't export tensors that require gradient, use tensor.detach()"),
        RuntimeError("Unsupported dtype bfloat16\nmore"),
        TypeError("Got unsupported ScalarType BFloat16"),
    ],
)
def test_tensors_that_cannot_be_lent(error: Exception) -> None:
    with pytest.raises(CFusionError, match="detach") as caught:
        Stack(Tensor(error))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_the_lock_names_hashes_and_no_hosts() -> None:
    lock = (Path(__file__).parent.parent / "requirements.lock").read_text()
    pinned = [line for line in lock.splitlines() if "==" in line and not line.startswith((" ", "#"))]
    assert len(pinned) > 20
    assert all(line.endswith("\\") for line in pinned)  # hashes follow
    assert "://" not in lock
    assert {"numpy", "numba", "pillow", "rasterio"} <= {line.split("==")[0] for line in pinned}


def _mesh(vertices: np.ndarray) -> Any:
    return Scene(vertices, np.array([[0, 1, 2]]))


def _dmap(rotation: np.ndarray, centre: np.ndarray) -> Any:
    pose = SimpleNamespace(rotation=rotation, centre=centre)
    return openmvs.DepthData.pose.fget(pose)  # type: ignore[attr-defined]


def _model(folder: Path, numbers: np.ndarray) -> Any:
    (folder / "cameras.txt").write_text("1 PINHOLE 5 4 " + " ".join(map(str, numbers)) + "\n")
    (folder / "images.txt").write_text("")
    return read_model(folder)


def _line(read: Callable[[Path], Any]) -> Callable[[Path, np.ndarray], Any]:
    """What a reader makes of a file of one line."""

    def pose(folder: Path, numbers: np.ndarray) -> Any:
        (folder / "poses.txt").write_text(" ".join(map(str, numbers)) + "\n")
        return read(folder / "poses.txt")

    return pose


EVERY_ENTRY = {
    "a mesh": (lambda _, array: _mesh(array), np.eye(3)),
    "a rotation": (lambda _, array: Pose(array, np.zeros(3)), np.eye(3)),
    "a translation": (lambda _, array: Pose(np.eye(3), array), np.zeros(3)),
    "an image to match": (lambda _, array: grey_bytes(array), np.full((2, 3), 0.5)),
    "an image with edges": (lambda _, array: grey(array), np.full((2, 3), 0.5)),
    "a camera of COLMAP": (_model, np.array([10.0, 10.0, 2.0, 1.5])),
    "the transform of a raster": (lambda _, array: Grid(tuple(array), 5, 4, None), np.array([0.5, 0, 0, 0, -0.5, 0])),
}
LOST = {
    "a pose in a file": (lambda _, array: pose_or_lost(array, "here"), np.eye(4)),
    "a rotation of OpenMVS": (lambda _, array: _dmap(array, np.zeros(3)), np.eye(3)),
    "a centre of OpenMVS": (lambda _, array: _dmap(np.eye(3), array), np.zeros(3)),
    "a line of KITTI": (_line(lambda file: read_odometry_poses(file)[0]), np.eye(3, 4).ravel()),
    "a line of TUM": (_line(lambda file: read_trajectory(file)[1][0]), np.array([1.0, 0, 0, 0, 0, 0, 0, 1])),
}


@pytest.mark.parametrize("what", [*EVERY_ENTRY, *LOST])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_one_number_among_others_that_is_not_finite_is_enough(tmp_path: Path, what: str, bad: float) -> None:
    """To be refused, or to be a pose that was lost."""
    make, good = {**EVERY_ENTRY, **LOST}[what]
    assert make(tmp_path, good) is not None
    for place in np.ndindex(good.shape):
        if what == "a line of TUM" and place == (0,):
            continue  # its time
        array = good.copy()
        array[place] = bad
        if what in LOST:
            assert make(tmp_path, array) is None
        else:
            with pytest.raises(CFusionError):
                make(tmp_path, array)
