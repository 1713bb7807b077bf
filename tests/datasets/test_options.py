"""Options of every reader: the last value taken and the first refused, what is left out; photos in another camera."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cfusion import BrownConrady, Pinhole, View
from cfusion.datasets import WRITERS, read, write_views
from cfusion.datasets.read import READERS
from cfusion.errors import CFusionError, InputError
from cfusion.io.codecs.photo import resized, seen_by

NAN, TINY = float("nan"), 1e-9
CAMERA = (500.0, 500.0, 320.0, 240.0)
LIMITS: list[tuple[str, str, tuple[Any, ...], tuple[Any, ...]]] = [
    ("nerfstudio", "depth_unit_scale_factor", (TINY, None), (0.0, -1.0, NAN)),
    ("colmap", "maps", ("geometric", "photometric"), ("other", "")),
    ("colmap", "pixel_centre", ("whole", "half"), ("other", "")),
    ("eth3d", "shrink", (1, 4), (0, -1)),
    ("tum", "camera", (CAMERA, (*CAMERA, 0.1, 0.0, 0.0, 0.0, 0.0), None), (CAMERA[:3], (*CAMERA, 0.1))),
    ("tum", "units_per_metre", (TINY, 1000.0), (0.0, -1.0, NAN)),
    ("tum", "seconds_apart", (0.0, 1.0), (-TINY, NAN)),
    ("scannet", "units_per_metre", (TINY, 1000.0), (0.0, -1.0, NAN)),
    ("stereo", "farthest", (TINY, None), (0.0, -1.0)),
    ("kitti", "frames", (1, 9), (0, -1)),
    ("kitti", "farthest", (TINY, 100.0), (0.0, -1.0)),
    ("kitti-odometry", "farthest", (TINY, 100.0), (0.0, -1.0)),
    ("middlebury", "focal", (TINY, None), (0.0, -1.0)),
    ("middlebury", "baseline", (TINY, 0.5), (0.0, -1.0)),
    ("open3d", "units_per_metre", (TINY, 1000.0), (0.0, -1.0, NAN)),
    ("open3d", "camera", (CAMERA, None), (CAMERA[:3], (*CAMERA, 0.1))),
    ("geotiff", "band", (1, 3), (0, -1)),
]


@pytest.mark.parametrize(("format", "name", "taken", "refused"), LIMITS, ids=[f"{f}-{n}" for f, n, _, _ in LIMITS])
def test_limits(format: str, name: str, taken: tuple[Any, ...], refused: tuple[Any, ...]) -> None:
    options = READERS[format].load().Options
    for value in taken:
        assert getattr(options(**{name: value}), name) == value
    for value in refused:
        with pytest.raises(InputError):
            options(**{name: value})
            pytest.fail(f"{name} = {value!r} was taken")


@pytest.mark.parametrize("format", [name for name in WRITERS if name != "bundle"])
def test_images_are_left_out_where_they_are_not_wanted(tmp_path: Path, some_views: list[View], format: str) -> None:
    """And nothing else is: depth, camera and pose are the same."""
    write_views(some_views, tmp_path, format)
    for one, other in zip(read(tmp_path), read(tmp_path, options={"images": False}), strict=True):
        assert one.image is not None
        assert other.image is None
        np.testing.assert_array_equal(one.depth, other.depth)
        np.testing.assert_array_equal(one.pose.matrix(), other.pose.matrix())
        assert one.camera == other.camera


@pytest.mark.parametrize("format", [name for name in WRITERS if name != "bundle"])
def test_one_lens_among_views_is_refused_where_none_can_be_stored(
    tmp_path: Path, some_views: list[View], format: str
) -> None:
    camera = some_views[0].camera
    assert isinstance(camera, Pinhole)
    bent = BrownConrady(camera.fx, camera.fy, camera.cx, camera.cy, camera.width, camera.height, k1=0.1)
    mixed = [*some_views[1:], View(some_views[0].depth, bent, some_views[0].pose)]
    assert len(mixed) > 1
    with pytest.raises(InputError, match="cannot store lens distortion"):
        write_views(mixed, tmp_path / "out", format)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("format", ["mvsnet", "openmvs"])
def test_confidence_is_left_out_where_it_is_not_wanted(tmp_path: Path, some_views: list[View], format: str) -> None:
    write_views(some_views, tmp_path, format)
    for one, other in zip(read(tmp_path), read(tmp_path, options={"confidence": False}), strict=True):
        assert one.confidence is not None
        assert other.confidence is None


@pytest.mark.parametrize("channels", [(), (3,)])
def test_a_photo_is_seen_by_another_camera_at_the_same_place(channels: tuple[int, ...]) -> None:
    """Pixel by pixel: the nearest that its ray meets, the border's where it meets none."""
    own, other = Pinhole(10.0, 12.0, 3.2, 2.1, 8, 6), Pinhole(7.0, 5.0, 4.0, 3.5, 11, 9)
    image = np.random.default_rng(0).random((6, 8, *channels)).astype(np.float32)
    found = seen_by(image, own, other)
    assert found.shape == (9, 11, *channels)
    for row in range(9):
        for column in range(11):
            u = own.fx * (column - other.cx) / other.fx + own.cx
            v = own.fy * (row - other.cy) / other.fy + own.cy
            expected = image[min(max(round(v), 0), 5), min(max(round(u), 0), 7)]
            np.testing.assert_array_equal(found[row, column], expected)


@pytest.mark.parametrize("channels", [(), (3,)])
def test_a_photo_of_half_the_size_has_the_mean_of_four_pixels(channels: tuple[int, ...]) -> None:
    image = np.random.default_rng(1).random((6, 8, *channels)).astype(np.float32)
    found = resized(image, (3, 4))
    np.testing.assert_allclose(found, image.reshape(3, 2, 4, 2, *channels).mean(axis=(1, 3)), atol=1e-6)
    assert resized(image, (6, 8)) is image
    larger = resized(image, (12, 16))
    assert larger.shape == (12, 16, *channels)
    assert image.min() - 1e-6 <= larger.min() <= larger.max() <= image.max() + 1e-6


@pytest.mark.parametrize("focal", ["-50.25", "0.0", "nan", "1e400"])
@pytest.mark.parametrize("format", ["bundle", "colmap", "mvsnet", "open3d", "nerfstudio"])
def test_a_camera_that_cannot_be_is_refused_with_its_file(
    tmp_path: Path, some_views: list[View], format: str, focal: str
) -> None:
    """The first view's focal length is 50.25: wherever a format writes that, something else stands now."""
    write_views(some_views, tmp_path / "data", format)
    changed = 0
    for file in (tmp_path / "data").rglob("*"):
        if file.suffix in (".txt", ".json"):
            text = file.read_text()
            changed += "50.25" in text
            file.write_text(text.replace("50.25", focal.replace("nan", "NaN") if file.suffix == ".json" else focal))
    assert changed
    with pytest.raises(CFusionError, match=str(tmp_path)) as caught:
        list(read(tmp_path / "data", format))
    assert "\n" not in str(caught.value)
