import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cfusion import read
from cfusion.datasets.readers.middlebury import read_calibration, write_disparity
from cfusion.errors import FileError
from cfusion.geometry import Pinhole, View
from cfusion.io.codecs.pfm import read_pfm

CALIBRATION = """cam0=[1000 0 1.25; 0 1000 0.5; 0 0 1]
cam1=[1000 0 11.25; 0 1000 0.5; 0 0 1]
doffs=10
baseline=200
width=3
height=2
ndisp=64
isint=0
"""
INF = float("inf")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Disparities with the bottom row first, as PFM has it."""
    (tmp_path / "calib.txt").write_text(CALIBRATION)
    (tmp_path / "disp0.pfm").write_bytes(b"Pf\n3 2\n-1.0\n" + struct.pack("<6f", 40, 30, INF, 10, INF, 90))
    return tmp_path


def test_offset_rows_from_the_bottom_and_infinity(folder: Path) -> None:
    views = read(folder)
    assert (len(views), views.unit, views.reference) == (1, "millimetre", 0)
    np.testing.assert_allclose(views[0].depth, [[10000, np.nan, 2000], [4000, 5000, np.nan]], rtol=1e-6)
    assert views[0].camera == Pinhole(1000.0, 1000.0, 1.25, 0.5, 3, 2)


def test_the_right_view_sees_the_same_points(folder: Path) -> None:
    """A point at column u of the left image is at u - d of the right one, with the same depth."""
    right = struct.pack("<6f", 1, 1, 1, 1, 1, 1)
    (folder / "disp1.pfm").write_bytes(b"Pf\n3 2\n-1.0\n" + right)
    left_view, right_view = read(folder)
    assert right_view.camera == Pinhole(1000.0, 1000.0, 11.25, 0.5, 3, 2)
    points = left_view.pose.apply(left_view.camera.back_project(left_view.depth))
    u, v, z = right_view.camera.project(right_view.pose.inverse().apply(points))
    disparity = np.array([[10, np.nan, 90], [40, 30, np.nan]])
    np.testing.assert_allclose(u, np.arange(3) - disparity, atol=1e-3)
    np.testing.assert_allclose(z, left_view.depth)
    np.testing.assert_allclose(v[np.isfinite(v)], np.nonzero(np.isfinite(v))[0], atol=1e-6)


def test_2003_counts_four_a_pixel(tmp_path: Path, png_bytes: Callable[..., bytes]) -> None:
    row = bytes([0, 4, 211]) + bytes(447)
    for name in ("disp2", "disp6", "im2", "im6"):
        (tmp_path / f"{name}.png").write_bytes(png_bytes(450, 4, [row] * 4, bits=8, colour=0))
    views = read(tmp_path, options={"focal": 500.0, "baseline": 0.2})
    assert all(view.camera == Pinhole(500.0, 500.0, 224.5, 1.5, 450, 4) for view in views)
    np.testing.assert_allclose(views[0].depth[0, :3], [np.nan, 100, 100 / 52.75], rtol=1e-6)
    np.testing.assert_allclose(views[1].pose.translation, [0.2, 0, 0])
    assert "no calibration" in read(tmp_path).sentence
    for name in ("disp2", "im2"):
        (tmp_path / f"{name}.png").write_bytes(png_bytes(900, 1, [row + row], bits=8, colour=0))
    (tmp_path / "disp6.png").unlink()
    assert read(tmp_path, options={"focal": 500.0, "baseline": 0.2})[0].depth[0, 1] == pytest.approx(50)
    (tmp_path / "disp2.png").write_bytes(png_bytes(450, 1, [bytes([0, 4, 211]) * 450], bits=8, colour=2))
    with pytest.raises(FileError, match=r"disp2\.png is a colour image"):
        read(tmp_path)


def test_disparities_are_read_back(tmp_path: Path) -> None:
    disparity = np.array([[1.5, np.nan], [3, 64.25]], np.float32)
    write_disparity(tmp_path / "disp0.pfm", disparity)
    np.testing.assert_array_equal(read_pfm(tmp_path / "disp0.pfm"), disparity)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("doffs=10", "", "has no doffs"),
        ("cam0=[1000 0 1.25; 0 1000 0.5; 0 0 1]", "cam0=[1000 0]", "cam0 has 2 numbers"),
        ("baseline=200", "baseline=wide", "'wide' is not a number"),
    ],
)
def test_calibrations_that_are_none(folder: Path, before: str, after: str, words: str) -> None:
    (folder / "calib.txt").write_text(CALIBRATION.replace(before, after))
    with pytest.raises(FileError, match=words):
        read_calibration(folder / "calib.txt")


def test_any_bytes(folder: Path, harm: Callable[..., None]) -> None:
    harm(folder, lambda: list(read(folder, format="middlebury")))


@pytest.mark.data
def test_left_and_right_of_teddy_agree(real_data: Callable[[str], Path]) -> None:
    left, right = read(real_data("middlebury") / "teddy")
    assert left.shape == (375, 450)
    assert np.isnan(left.depth).mean() < 0.05
    assert np.quantile(_residuals(left, right), 0.8) < 0.01


@pytest.mark.data
def test_motorcycle_in_the_layout_of_2014(real_data: Callable[[str], Path], tmp_path: Path) -> None:
    """Its disparities laid down as calib.txt and PFM: depth is f B / (d + doffs)."""
    disparity = np.load(real_data("middlebury") / "motorcycle" / "motorcycle_disp.npz", allow_pickle=False)["arr_0"]
    height, width = disparity.shape
    known = np.where(np.isfinite(disparity), disparity, np.inf).astype("<f4")
    (tmp_path / "disp0.pfm").write_bytes(f"Pf\n{width} {height}\n-1\n".encode() + known[::-1].tobytes())
    (tmp_path / "calib.txt").write_text(
        "cam0=[994.978 0 311.193; 0 994.978 254.877; 0 0 1]\ncam1=[994.978 0 342.279; 0 994.978 254.877; 0 0 1]\n"
        f"doffs=31.086\nbaseline=193.001\nwidth={width}\nheight={height}\nndisp=70\n"
    )
    depth = read(tmp_path)[0].depth
    expected = 994.978 * 193.001 / (disparity + 31.086)
    np.testing.assert_allclose(
        depth, np.where(np.isfinite(expected) & np.isfinite(disparity), expected, np.nan), rtol=1e-5
    )
    assert 2000 < np.nanmin(depth) < np.nanmedian(depth) < np.nanmax(depth) < 6500  # millimetres, a garage


def _residuals(view: View, other: View) -> np.ndarray:
    points = (other.pose.inverse() @ view.pose).apply(view.camera.back_project(view.depth).reshape(-1, 3))
    u, v, z = other.camera.project(points)
    inside = (u >= 0) & (v >= 0) & (u < other.shape[1] - 0.5) & (v < other.shape[0] - 0.5)
    measured = other.depth[np.rint(v[inside]).astype(int), np.rint(u[inside]).astype(int)]
    residual = np.abs(measured / z[inside] - 1)
    return residual[np.isfinite(residual)]
