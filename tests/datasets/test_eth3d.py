import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cfusion import read
from cfusion.arrays import Matrix
from cfusion.datasets.readers.eth3d import _read_depth, _undistorted
from cfusion.errors import FileError, InputError
from cfusion.geometry import Pinhole
from cfusion.geometry.fisheye import thin_prism_fisheye
from cfusion.io.codecs.colmap_model import ModelCamera

POSE = "0.7071067811865476 0 -0.7071067811865476 0 3 -2 -1"  # world-to-camera of the pose in conftest
LENS = "6 4 5 5 3.0 2.0 0.1 0 0 0 0 0 0 0"  # 6 x 4 pixels, f = 5, k1 = 0.1
DEPTH = [float("inf") if place % 5 == 0 else 1.0 + place for place in range(24)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Both calibrations, as the archives unpack side by side; the depth is that of the distorted image."""
    for name, camera in (("jpg", f"1 THIN_PRISM_FISHEYE {LENS}"), ("undistorted", "1 PINHOLE 4 2 5 5 2.0 1.0")):
        place = tmp_path / f"dslr_calibration_{name}"
        place.mkdir()
        (place / "cameras.txt").write_text(f"# cameras\n{camera}\n")
        end = "" if name == "jpg" else "_undistorted"
        (place / "images.txt").write_text(f"# images\n1 {POSE} 1 dslr_images{end}/DSC_0001.JPG\n\n")
    depths = tmp_path / "ground_truth_depth" / "dslr_images"
    depths.mkdir(parents=True)
    (depths / "DSC_0001.JPG").write_bytes(struct.pack("<24f", *DEPTH))
    return tmp_path


def test_distorted_depth_is_brought_onto_the_pinhole(folder: Path, pose: Matrix) -> None:
    """The ray of each pinhole pixel, bent by the lens, falls into the pixel whose depth is taken."""
    views = read(folder)
    assert len(views) == 1
    view = views[0]
    assert view.camera == Pinhole(5.0, 5.0, 1.5, 0.5, 4, 2)  # K less half a pixel
    np.testing.assert_allclose(view.pose.matrix(), pose, atol=1e-12)
    held = np.reshape(DEPTH, (4, 6))
    for row in range(2):
        for column in range(4):
            x, y = (column - 1.5) / 5, (row - 0.5) / 5
            theta = np.arctan(np.hypot(x, y))
            scale = theta * (1 + 0.1 * theta**2) / np.hypot(x, y)
            u, v = 5 * x * scale + 3.0, 5 * y * scale + 2.0  # in K's frame, where pixel i spans i to i + 1
            expected = held[int(v), int(u)]
            found = view.depth[row, column]
            assert (np.isnan(found) and np.isinf(expected)) or found == np.float32(expected)


def test_the_lens_alone() -> None:
    parameters = (5.0, 6.0, 3.0, 2.0, 0.1, 0.02, 0.003, -0.004, 0.05, 0.006, 0.007, -0.008)
    u, v = thin_prism_fisheye(parameters, np.array([0.0, 0.3]), np.array([0.0, -0.4]))
    assert (u[0], v[0]) == (3.0, 2.0)
    theta = np.arctan(0.5)
    a, b, q = 0.6 * theta, -0.8 * theta, theta**2
    radial = 0.1 * q + 0.02 * q**2 + 0.05 * q**3 + 0.006 * q**4
    across = a + a * radial + 2 * 0.003 * a * b - 0.004 * (q + 2 * a * a) + 0.007 * q
    down = b + b * radial + 2 * -0.004 * a * b + 0.003 * (q + 2 * b * b) - 0.008 * q
    np.testing.assert_allclose([u[1], v[1]], [5 * across + 3, 6 * down + 2], rtol=1e-12)


def test_shrinking_takes_the_median_of_what_is_known(folder: Path) -> None:
    whole, half = read(folder)[0], read(folder, options={"shrink": 2})[0]
    assert half.shape == (1, 2)
    assert half.camera == Pinhole(2.5, 2.5, 0.5, 0.0, 2, 1)
    for column in range(2):
        known = np.sort(whole.depth[:, 2 * column : 2 * column + 2].ravel())
        known = known[np.isfinite(known)]
        assert half.depth[0, column] == known[(known.size - 1) // 2]
    with pytest.raises(InputError, match="shrink is 0"):
        read(folder, options={"shrink": 0})


def test_maps_of_the_wrong_size_are_refused(folder: Path) -> None:
    file = folder / "ground_truth_depth" / "dslr_images" / "DSC_0001.JPG"
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(FileError, match="holds 23 floats, expected 6 x 4"):
        read(folder)[0]


def test_any_bytes(folder: Path, harm: Callable[..., None]) -> None:
    harm(folder, lambda: list(read(folder, format="eth3d")))


def test_the_photo_of_an_undistorted_depth_is_read(folder: Path) -> None:
    """With the pinhole's calibration alone, the depth is of the photo as it is."""
    for file in (folder / "dslr_calibration_jpg").iterdir():
        file.unlink()
    (folder / "dslr_calibration_jpg").rmdir()
    grey = np.linspace(0, 1, 8).reshape(2, 4)
    (folder / "ground_truth_depth" / "dslr_images" / "DSC_0001.JPG").write_bytes(struct.pack("<8f", *range(1, 9)))
    photo = folder / "images" / "dslr_images_undistorted" / "DSC_0001.JPG"
    photo.parent.mkdir(parents=True)
    pillow = pytest.importorskip("PIL.Image")
    pillow.fromarray(np.rint(255 * grey).astype(np.uint8)).save(photo, quality=100)
    view = read(folder)[0]
    assert view.depth.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert view.image is not None
    shown = view.image if view.image.ndim == 2 else view.image[..., 0]
    np.testing.assert_allclose(shown, grey, atol=0.03)


def test_a_lens_without_its_pinhole_keeps_its_intrinsics(folder: Path) -> None:
    """With the distorted calibration alone, the pinhole is the lens without its distortion."""
    for file in (folder / "dslr_calibration_undistorted").iterdir():
        file.unlink()
    (folder / "dslr_calibration_undistorted").rmdir()
    assert read(folder)[0].camera == Pinhole(5.0, 5.0, 2.5, 1.5, 6, 4)


def test_depth_comes_from_every_pixel_of_the_lens_and_from_none_beside() -> None:
    """A wide pinhole behind a lens without distortion but its own: all of the lens is seen, and more."""
    lens = ModelCamera("THIN_PRISM_FISHEYE", 6, 4, (5.0, 5.0, 3.0, 2.0, *[0.0] * 8))
    depth = np.arange(1, 25, dtype=np.float32).reshape(4, 6)
    found = _undistorted(depth, lens, Pinhole(8.0, 8.0, 7.5, 5.5, 16, 12))
    assert set(found[np.isfinite(found)].tolist()) == set(range(1, 25))
    assert np.isnan(found[[0, -1]]).all()


@pytest.mark.parametrize("shape", [(5, 3), (3, 5)], ids=["upright", "lying"])
def test_depth_is_read_whole_and_not_beyond(tmp_path: Path, shape: tuple[int, int]) -> None:
    (tmp_path / "a").write_bytes(np.arange(1, 16, dtype="<f4").tobytes())
    np.testing.assert_array_equal(_read_depth(tmp_path / "a", shape), np.arange(1, 16).reshape(shape))
    (tmp_path / "a").write_bytes(bytes(61))
    with pytest.raises(FileError, match="expected"):
        _read_depth(tmp_path / "a", shape)
