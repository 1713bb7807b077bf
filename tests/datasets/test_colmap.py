import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cfusion import BrownConrady, read
from cfusion.arrays import Matrix
from cfusion.datasets import write_views
from cfusion.errors import FileError, InputError, PoseError
from cfusion.geometry import Pinhole, Pose, View
from cfusion.io.codecs.colmap_map import read_colmap_map, write_colmap_map
from cfusion.io.codecs.colmap_model import read_model
from cfusion.io.codecs.colmap_points import Tracks, tracks

HALF = 0.7071067811865476
# world-to-camera of the pose in conftest: R^T and -R^T t; its quaternion has w = HALF, y = -HALF
QUATERNION, PLACE = (HALF, 0.0, -HALF, 0.0), (3.0, -2.0, -1.0)
DEPTH = b"3&2&1&" + struct.pack("<6f", 1, 2, 3, 0, 5, 6)
MATH = (50.0, 51.0, 1.5, 1.0)


def text_model(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "cameras.txt").write_text(
        "# Camera list with one line of data per camera:\n7 PINHOLE 3 2 50 51 1.5 1.0\n8 SIMPLE_PINHOLE 3 2 50 1.5 1\n"
    )
    pose = " ".join(str(value) for value in (*QUATERNION, *PLACE))
    (folder / "images.txt").write_text(
        f"# Image list\n# IMAGE_ID, QW, QX, QY, QZ, TX, TY, TZ, CAMERA_ID, NAME\n1 {pose} 7 b 2.png\n\n"
        f"2 {pose} 8 a 10.png\n1.5 0.5 -1 2.0 1.0 17\n"
    )


def binary_model(folder: Path) -> None:
    folder.mkdir(parents=True)
    cameras = struct.pack("<Q", 2) + struct.pack("<iiQQ4d", 7, 1, 3, 2, *MATH)
    (folder / "cameras.bin").write_bytes(cameras + struct.pack("<iiQQ3d", 8, 0, 3, 2, 50.0, 1.5, 1.0))
    images = struct.pack("<Q", 2)
    images += struct.pack("<i7di", 1, *QUATERNION, *PLACE, 7) + b"b 2.png\0" + struct.pack("<Q", 0)
    images += struct.pack("<i7di", 2, *QUATERNION, *PLACE, 8) + b"a 10.png\0"
    images += struct.pack("<Q2dq2dq", 2, 1.5, 0.5, -1, 2.0, 1.0, 17)
    (folder / "images.bin").write_bytes(images)


@pytest.fixture(params=[text_model, binary_model], ids=["text", "binary"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    request.param(tmp_path / "dense" / "sparse")
    maps = tmp_path / "dense" / "stereo" / "depth_maps"
    maps.mkdir(parents=True)
    for name in ("a 10.png", "b 2.png"):
        (maps / f"{name}.geometric.bin").write_bytes(DEPTH)
    (maps / "b 2.png.photometric.bin").write_bytes(b"3&2&1&" + struct.pack("<6f", *[9] * 6))
    return tmp_path / "dense"


def test_qw_first_world_to_camera_and_whole_pixels(folder: Path, pose: Matrix) -> None:
    views = read(folder)
    assert [view.name for view in views] == ["b 2.png", "a 10.png"]
    for view in views:
        np.testing.assert_array_equal(view.depth, np.array([[1, 2, 3], [np.nan, 5, 6]], np.float32))
        np.testing.assert_allclose(view.pose.matrix(), pose, atol=1e-12)
    assert views[0].camera == Pinhole(*MATH, 3, 2)  # as COLMAP back-projects, though K means (0.5, 0.5)
    assert views[1].camera == Pinhole(50.0, 50.0, 1.5, 1.0, 3, 2)
    assert read(folder, options={"pixel_centre": "half"})[0].camera == Pinhole(50.0, 51.0, 1.0, 0.5, 3, 2)
    assert read(folder, options={"maps": "photometric"})[0].depth[0, 0] == 9
    for bad in ({"maps": "fused"}, {"pixel_centre": "corner"}):
        with pytest.raises(InputError, match="choose one of: "):
            read(folder, options=bad)


def test_maps_smaller_than_the_images_scale_k(folder: Path) -> None:
    small = b"1&1&1&" + struct.pack("<f", 4)
    (folder / "stereo" / "depth_maps" / "b 2.png.geometric.bin").write_bytes(small)
    camera = read(folder)[0].camera
    np.testing.assert_allclose(camera.matrix, [[50 / 3, 0, 0.5], [0, 51 / 2, 0.5], [0, 0, 1]])


def test_channels_come_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "n.bin").write_bytes(b"2&1&3&" + struct.pack("<6f", 1, 2, 3, 4, 5, 6))
    np.testing.assert_array_equal(read_colmap_map(tmp_path / "n.bin"), [[[1, 3, 5], [2, 4, 6]]])
    write_colmap_map(tmp_path / "m.bin", read_colmap_map(tmp_path / "n.bin"))
    assert (tmp_path / "m.bin").read_bytes() == (tmp_path / "n.bin").read_bytes()


def test_a_map_is_written_as_colmap_lays_it_out(tmp_path: Path) -> None:
    write_colmap_map(tmp_path / "d.bin", np.array([[1, 2, 3], [np.nan, 5, 6]]))
    assert (tmp_path / "d.bin").read_bytes() == DEPTH


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a COLMAP map"),
        (b"3&2&", "not a COLMAP map"),
        (b"31623&31623&1&" + bytes(24), "truncated"),  # a thousand million pixels
        (b"0&2&1&", "may be zero"),
        (DEPTH[:-1], "truncated"),
        (DEPTH + b"0", "too long"),
    ],
)
def test_maps_that_are_none(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "d.bin").write_bytes(content)
    with pytest.raises(FileError, match=r"d\.bin") as caught:
        read_colmap_map(tmp_path / "d.bin")
    assert words in str(caught.value)


def test_models_that_are_none(tmp_path: Path) -> None:
    folder = tmp_path / "sparse"
    text_model(folder)
    images, cameras = (folder / "images.txt").read_text(), (folder / "cameras.txt").read_text()
    for text, words, kind in (
        (images.replace(" 7 b", " 9 b"), "camera 9", FileError),
        (images.replace("1 0.7071067811865476 0.0 -0.7071067811865476", "1 0.1 0.0 0.0"), "quaternion", PoseError),
        (images.replace(" 7 b 2.png", ""), "is not `IMAGE_ID", FileError),
    ):
        (folder / "images.txt").write_text(text)
        with pytest.raises(kind, match=words):
            read_model(folder)
    (folder / "images.txt").write_text(images)
    for text, words in (
        (cameras.replace("PINHOLE 3 2 50 51", "PINHOLE 3 2 50"), "not a known model"),
        (cameras.replace("7 PINHOLE 3 2", "7 PINHOLE 0 2"), "has an empty size"),
        (cameras.replace("7 PINHOLE 3 2", "7 PINHOLE 3"), "with 3 parameters|is not `CAMERA_ID"),
    ):
        (folder / "cameras.txt").write_text(text)
        with pytest.raises(FileError, match=words):
            read_model(folder)


def test_distorted_cameras_and_names_that_lead_out(folder: Path) -> None:
    sparse = folder / "sparse"
    for file in sparse.iterdir():
        file.unlink()
    sparse.rmdir()
    text_model(sparse)
    cameras = (sparse / "cameras.txt").read_text()
    bent = cameras.replace("PINHOLE 3 2 50 51 1.5 1.0", "SIMPLE_RADIAL 3 2 50 1.5 1.0 0.1", 1)
    (sparse / "cameras.txt").write_text(bent)
    assert read(folder)[0].camera == BrownConrady(50.0, 50.0, 1.5, 1.0, 3, 2, k1=0.1)
    opencv = cameras.replace("PINHOLE 3 2 50 51 1.5 1.0", "OPENCV 3 2 50 51 1.5 1.0 0.1 0.2 0.3 0.4", 1)
    (sparse / "cameras.txt").write_text(opencv)
    assert read(folder)[0].camera == BrownConrady(50.0, 51.0, 1.5, 1.0, 3, 2, k1=0.1, k2=0.2, p1=0.3, p2=0.4)
    (sparse / "cameras.txt").write_text(bent.replace("SIMPLE_RADIAL", "SIMPLE_RADIAL_FISHEYE"))
    with pytest.raises(FileError, match="image_undistorter"):
        read(folder)[0]
    (sparse / "cameras.txt").write_text(cameras)
    images = (sparse / "images.txt").read_text()
    (sparse / "images.txt").write_text(images.replace("b 2.png", "../../../b 2.png"))
    with pytest.raises(FileError, match="leads out of"):
        read(folder)


def test_any_bytes(folder: Path, harm: Callable[..., None]) -> None:
    harm(folder, lambda: list(read(folder, format="colmap")))


def test_round_trip(tmp_path: Path, some_views: list[View], same_views: Callable[..., None]) -> None:
    write_views(some_views, tmp_path / "out", "colmap")
    same_views(read(tmp_path / "out"), some_views)
    line = (tmp_path / "out" / "sparse" / "images.txt").read_text().splitlines()[0].split()
    np.testing.assert_allclose([abs(float(word)) for word in line[1:5]], [HALF, 0, HALF, 0], atol=1e-9)  # qw first
    normal = read_colmap_map(tmp_path / "out" / "stereo" / "normal_maps" / "000000.png.geometric.bin")
    assert normal.shape == (5, 7, 3)
    assert (np.einsum("ijk,ijk->ij", normal, some_views[0].camera.rays()) <= 1e-6).all()  # towards the camera


def test_a_point_is_tracked_where_both_maps_have_it_up_to_the_outermost_pixels() -> None:
    """Two maps from one place, which differ by 1 % above and by 3 % below; every pixel is a point."""
    rows, columns = np.indices((8, 16))
    depth = np.random.default_rng(3).integers(4, 40, (8, 16)) / 4.0
    camera = Pinhole(64.0, 64.0, 8.0, 4.0, 16, 8)
    maps = (depth, depth * np.where(rows < 4, 1.01, 1.03))
    found = tracks([View(each, camera, Pose.identity()) for each in maps])
    np.testing.assert_array_equal(found.u, np.tile(columns[:4].ravel(), (2, 2)))
    np.testing.assert_array_equal(found.v, np.tile(rows[:4].ravel(), (2, 2)))
    np.testing.assert_allclose(found.points[:64, 2], depth[:4].ravel())


def test_every_point_has_its_line_and_names_who_sees_it_as_which_of_their_points() -> None:
    """Views count from 1, points of a view from 0, in the order of its line in images.txt."""
    u = np.array([[1.5, np.nan, 3.0], [np.nan, 2.0, 4.25]])
    found = Tracks(np.array([[0.5, 1.0, 2.0], [-1.0, 0.0, 4.0], [0.1, 0.2, 0.3]]), u, 10 * u)
    assert found.point_lines() == [
        "1 0.5 1.0 2.0 128 128 128 1 1 0",
        "2 -1.0 0.0 4.0 128 128 128 1 2 0",
        "3 0.1 0.2 0.3 128 128 128 1 1 1 2 1",
    ]
    assert found.image_line(0) == "1.500000 15.000000 1 3.000000 30.000000 3"
    assert found.image_line(1) == "2.000000 20.000000 2 4.250000 42.500000 3"


@pytest.mark.data
def test_points_of_the_real_workspace_agree_between_views(real_data: Callable[[str], Path]) -> None:
    """Sparse points, which COLMAP found without depth maps, lie on the maps; and views agree with one another."""
    path = real_data("colmap") / "toy_cars"
    views = read(path)
    assert len(views) == 15
    assert views[0].name == "image01.jpg"
    assert views[9].name == "image010.jpg"
    assert views[0].image is not None
    assert _residual(views[0], views[1]) < 0.005
    assert _residual(views[3], views[8]) < 0.01
    assert read(path, options={"maps": "photometric"})[0].depth.shape == views[0].depth.shape
    points = _sparse_points(path / "sparse" / "points3D.bin")
    errors = []
    for view in views:
        u, v, z = view.camera.project(view.pose.inverse().apply(points))
        inside = (u >= 0) & (v >= 0) & (u < view.shape[1] - 0.5) & (v < view.shape[0] - 0.5)
        found = view.depth[np.rint(v[inside]).astype(int), np.rint(u[inside]).astype(int)]
        errors.append(np.abs(found / z[inside] - 1))
    assert np.nanmedian(np.concatenate(errors)) < 0.02


def _sparse_points(file: Path) -> Matrix:
    """Points of points3D.bin: id, xyz, rgb, error, then a track."""
    data, place, points = file.read_bytes(), 8, []
    for _ in range(struct.unpack_from("<Q", data)[0]):
        _, x, y, z, _, _, _, _, length = struct.unpack_from("<Q3d3BdQ", data, place)
        points.append((x, y, z))
        place += 51 + 8 * length
    return np.array(points)


def _residual(view: View, other: View) -> float:
    points = (other.pose.inverse() @ view.pose).apply(view.camera.back_project(view.depth).reshape(-1, 3))
    u, v, z = other.camera.project(points)
    inside = (u >= 0) & (v >= 0) & (u < other.shape[1] - 0.5) & (v < other.shape[0] - 0.5)
    measured = other.depth[np.rint(v[inside]).astype(int), np.rint(u[inside]).astype(int)]
    return float(np.nanmedian(np.abs(measured / z[inside] - 1)))


@pytest.mark.parametrize(
    ("size", "words"),
    [
        *(("16384 16384", ""), ("16384 16385", "claims 16384 x 16385"), ("16385 16384", "claims 16385 x 16384")),
        *(("0 2", "has an empty size"), ("3 0", "has an empty size"), ("-3 -2", "has an empty size")),
    ],
)
def test_an_image_has_a_size_and_not_any(tmp_path: Path, size: str, words: str) -> None:
    text_model(tmp_path / "sparse")
    file = tmp_path / "sparse" / "cameras.txt"
    file.write_text(file.read_text().replace("PINHOLE 3 2 50 51", f"PINHOLE {size} 50 51"))
    if not words:
        assert read_model(tmp_path / "sparse").cameras[7].width == 16384
        return
    with pytest.raises(FileError, match=rf"cameras\.txt: camera 7 {words}"):
        read_model(tmp_path / "sparse")


def test_what_a_damaged_workspace_lacks(tmp_path: Path, some_views: list[View]) -> None:
    write_views(some_views, tmp_path, "colmap")
    maps = tmp_path / "stereo" / "depth_maps"
    for file in list(maps.iterdir()):
        file.rename(maps / file.name.replace("geometric", "photometric"))
    with pytest.raises(FileError, match="holds photometric maps only; pass --option maps=photometric"):
        read(tmp_path)
    assert len(read(tmp_path, options={"maps": "photometric"})) == len(some_views)
    shutil.rmtree(tmp_path / "sparse")
    with pytest.raises(FileError, match="is a COLMAP workspace without a model; copy the one"):
        read(tmp_path)
