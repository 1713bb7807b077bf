import copy
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cfusion.datasets import READERS, read, write_bundle, write_views
from cfusion.errors import CameraError, FileError, InputError, PoseError, ShapeError
from cfusion.geometry import Orthographic, Pinhole, Pose, Stack, View

PINHOLE = {"type": "pinhole", "fx": 5, "fy": 5.0, "cx": 1.0, "cy": 0.5, "width": 3, "height": 2}
POSE = [[1, 0, 0, 0.5], [0, 0, -1, 0], [0, 1, 0, 2], [0, 0, 0, 1]]
CONTENT: dict[str, Any] = {
    "format": "cfusion-bundle",
    "version": 1,
    "unit": "metre",
    "views": [{"name": "left", "depth": "depth/0.npy", "camera": PINHOLE, "pose": POSE}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A bundle of one view, laid down by hand."""
    (tmp_path / "depth").mkdir()
    np.save(tmp_path / "depth" / "0.npy", np.array([[1, 2, 3], [4, np.nan, 6]], np.float32))
    (tmp_path / "bundle.json").write_text(json.dumps(CONTENT))
    return tmp_path


def changed(folder: Path, **changes: Any) -> Path:
    """The bundle with keys of its one view changed (None: removed)."""
    content = copy.deepcopy(CONTENT)
    content["views"][0] |= changes
    content["views"][0] = {key: value for key, value in content["views"][0].items() if value is not None}
    (folder / "bundle.json").write_text(json.dumps(content))
    return folder


def test_reads_what_was_laid_down(folder: Path) -> None:
    for path in (folder, folder / "bundle.json", str(folder)):
        views = read(path)
        assert len(views) == 1
        assert (views.reference, views.unit, views[0].name) == (None, "metre", "left")
        assert views.sentence == "bundle: unit metre, camera-to-world; 1 view"
        assert views[0].camera == Pinhole(5.0, 5.0, 1.0, 0.5, 3, 2)
        np.testing.assert_array_equal(views[0].depth, np.array([[1, 2, 3], [4, np.nan, 6]], np.float32))
        np.testing.assert_array_equal(views[0].pose.matrix(), POSE)


def test_round_trip(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    cameras = (Pinhole(500.25, 501.0, 3.0, 2.0, 7, 5), Orthographic(0.1, 3.0, 2.0, 7, 5))
    views = []
    for number, camera in enumerate(cameras):
        depth = rng.uniform(1, 2, camera.shape)
        depth[0, number] = np.nan
        image = (rng.integers(0, 256, (*camera.shape, 3)) / 255).astype(np.float32)
        confidence = rng.uniform(0, 3, camera.shape)
        views.append(View(depth, camera, Pose(np.eye(3), rng.normal(size=3)), image, confidence, f"v{number}"))
    write_bundle(views, tmp_path / "out" / "bundle", reference=1, unit="foot")
    found = read(tmp_path / "out" / "bundle")
    assert (found.reference, found.unit) == (1, "foot")
    for before, after in zip(views, found, strict=True):
        np.testing.assert_array_equal(after.depth, before.depth)
        np.testing.assert_array_equal(after.confidence, before.confidence)
        np.testing.assert_allclose(after.image, before.image, atol=1e-6)
        np.testing.assert_array_equal(after.pose.matrix(), before.pose.matrix())
        assert (after.camera, after.name) == (before.camera, before.name)


def test_a_copy_of_a_data_set_keeps_unit_and_reference(tmp_path: Path) -> None:
    camera = Pinhole(5, 5, 1, 1, 3, 2)
    views = [View(np.full((2, 3), 2000.0), camera, Pose.identity()) for _ in range(3)]
    write_bundle(views, tmp_path / "a", unit="millimetre", reference=2)
    write_views(read(tmp_path / "a"), tmp_path / "b")
    assert (read(tmp_path / "b").unit, read(tmp_path / "b").reference) == ("millimetre", 2)
    write_bundle(read(tmp_path / "a"), tmp_path / "c", unit="mm", reference=0)
    assert (read(tmp_path / "c").unit, read(tmp_path / "c").reference) == ("mm", 0)


def test_formats_and_scales_side_by_side(folder: Path, png_bytes: Callable[..., bytes]) -> None:
    counts = [struct.pack(">3H", 1000, 2000, 3000), struct.pack(">3H", 4000, 0, 6000)]
    (folder / "d.png").write_bytes(png_bytes(3, 2, counts))
    (folder / "d.pfm").write_bytes(b"Pf\n3 2\n-1\n" + struct.pack("<6f", 4000, float("inf"), 6000, 1000, 2000, 3000))
    expected = np.array([[1, 2, 3], [4, np.nan, 6]], np.float32)
    for name in ("d.png", "d.pfm"):
        views = read(changed(folder, depth=name, scale=0.001))
        np.testing.assert_allclose(views[0].depth, expected, rtol=1e-6)


def test_confidence_of_a_png_is_one_at_full_scale(folder: Path, png_bytes: Callable[..., bytes]) -> None:
    rows = [struct.pack(">3H", 0, 65535, 13107), struct.pack(">3H", 65535, 65535, 65535)]
    (folder / "c.png").write_bytes(png_bytes(3, 2, rows))
    views = read(changed(folder, confidence="c.png"))
    np.testing.assert_allclose(views[0].confidence, [[0, 1, 0.2], [1, 0, 1]], atol=1e-6)
    views = read(changed(folder, confidence="c.png", confidence_scale=1))
    assert views[0].confidence is not None
    assert views[0].confidence.max() == 65535


def test_confidence_of_eight_bits(folder: Path, png_bytes: Callable[..., bytes]) -> None:
    """ARKit's 0, 1 and 2; depth of eight bits is refused."""
    (folder / "c.png").write_bytes(png_bytes(3, 2, [bytes([0, 1, 2]), bytes([2, 2, 255])], bits=8))
    views = read(changed(folder, confidence="c.png", confidence_scale=0.5))
    np.testing.assert_array_equal(views[0].confidence, [[0, 0.5, 1], [1, 0, 127.5]])
    views = read(changed(folder, confidence="c.png"))
    np.testing.assert_allclose(views[0].confidence, np.array([[0, 1, 2], [2, 0, 255]]) / 255, rtol=1e-6)
    with pytest.raises(FileError, match=r"c\.png is a 8-bit grey PNG; save depth as 16-bit grey"):
        read(changed(folder, depth="c.png", scale=0.001))
    (folder / "c.png").write_bytes(png_bytes(3, 2, [bytes(9)] * 2, bits=8, colour=2))
    with pytest.raises(FileError, match=r"c\.png is a 8-bit colour PNG; save a confidence as 8- or 16-bit grey"):
        read(changed(folder, confidence="c.png"))


def test_png_without_a_scale_is_refused(folder: Path, png_bytes: Callable[..., bytes]) -> None:
    (folder / "d.png").write_bytes(png_bytes(3, 2, [struct.pack(">3H", 1, 2, 3)] * 2))
    with pytest.raises(FileError, match="give its scale"):
        read(changed(folder, depth="d.png"))


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"depth": None}, FileError, "has no 'depth'"),
        ({"depth": 3}, FileError, "depth is 3, expected text"),
        ({"depth": "none.npy"}, FileError, "none.npy does not exist"),
        ({"depth": "depth"}, FileError, "ends in ''"),
        ({"depth": "bundle.json"}, FileError, "ends in '.json'"),
        ({"depth": "../depth/0.npy"}, FileError, "leads out of"),
        ({"depth": "/etc/passwd.npy"}, FileError, "leads out of"),
        ({"depth": "depth/../../x.npy"}, FileError, "leads out of"),
        ({"depth": "a\0.npy"}, FileError, "leads out of"),
        ({"depth": "\ud800.npy"}, FileError, "leads out of"),
        ({"depth": "a" * 5000 + ".npy"}, FileError, "are too many for a file"),
        ({"confidence": "../c.npy"}, FileError, "leads out of"),
        ({"image": "../c.png"}, FileError, "leads out of"),
        ({"scale": 0}, FileError, "give a positive scale"),
        ({"scale": "1mm"}, FileError, "expected a number"),
        ({"scale": True}, FileError, "scale is True"),
        ({"confidance": "c.npy"}, FileError, "unknown key 'confidance'"),
        ({"camera": 7}, FileError, "expected an object"),
        ({"camera": {**PINHOLE, "type": "fisheye"}}, FileError, "'fisheye'"),
        ({"camera": {**PINHOLE, "width": 3.5}}, FileError, "camera.width is 3.5"),
        ({"camera": {**PINHOLE, "skew": 0}}, FileError, "unknown key 'skew'"),
        ({"camera": {**PINHOLE, "fx": 0}}, CameraError, "fx is 0"),
        ({"camera": {**PINHOLE, "fx": float("nan")}}, FileError, "finite"),
        ({"camera": {**PINHOLE, "fx": 10**400}}, FileError, "expected a number"),
        ({"camera": {**PINHOLE, "width": 4}}, ShapeError, "depth is (2, 3)"),
        ({"pose": None}, FileError, "has no 'pose'"),
        ({"pose": [[1, 2], [3]]}, FileError, "4 rows of 4"),
        ({"pose": [[1, 2], [3, "a"]]}, FileError, "4 rows of 4"),
        ({"pose": [[1, 2], [3, 4]]}, PoseError, "4x4"),
        ({"pose": [[2, 0, 0, 0], [0, 2, 0, 0], [0, 0, 2, 0], [0, 0, 0, 1]]}, PoseError, "not rigid"),
        ({"name": 5}, FileError, "name is 5"),
    ],
)
def test_each_mistake_has_its_line(folder: Path, changes: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        read(changed(folder, **changes))
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    if "depth" not in changes or changes["depth"] is None:
        assert "views[0]" in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ('{"format": "cfusion-bundle",\n "version": 1,\n oops}', "line 3"),
        ("[1, 2]", "write an object"),
        ("[" * 200_000, "bundle.json"),
        ('{"format": "other"}', "expected 'cfusion-bundle'"),
        ('{"format": "cfusion-bundle", "version": 2, "views": []}', "version 2"),
        ('{"format": "cfusion-bundle", "version": 1}', "has no 'views'"),
        ('{"format": "cfusion-bundle", "version": 1, "views": []}', "lists no views"),
        ('{"format": "cfusion-bundle", "version": 1, "views": {}}', "expected a list"),
        ('{"format": "cfusion-bundle", "version": 1, "views": [3]}', "views[0] is 3"),
    ],
)
def test_files_that_are_not_bundles(folder: Path, text: str, words: str) -> None:
    (folder / "bundle.json").write_text(text)
    with pytest.raises(FileError) as caught:
        read(folder)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 400


def test_bytes_that_are_not_text(folder: Path) -> None:
    (folder / "bundle.json").write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(FileError, match="UTF-8"):
        read(folder)


def test_a_link_out_of_the_folder_is_refused(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside") / "secret.npy"
    np.save(outside, np.ones((2, 3), np.float32))
    (folder / "link.npy").symlink_to(outside)
    with pytest.raises(FileError, match="leads out of"):
        read(changed(folder, depth="link.npy"))


def test_reference_has_to_be_a_view(folder: Path) -> None:
    for reference in (1, -1):
        (folder / "bundle.json").write_text(json.dumps(CONTENT | {"reference": reference}))
        with pytest.raises(InputError, match=f"reference is {reference}"):
            read(folder)


def test_formats_are_named_or_recognised(folder: Path, tmp_path: Path) -> None:
    assert len(read(folder, format="bundle")) == 1
    with pytest.raises(InputError, match="did you mean 'bundle'"):
        read(folder, format="bundel")
    with pytest.raises(FileError, match="does not exist"):
        read(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match="has no known format"):
        read(tmp_path / "empty")
    with pytest.raises(TypeError):
        READERS["mine"] = READERS["bundle"]  # type: ignore[index]


def test_depth_of_zero_names_the_view(folder: Path) -> None:
    np.save(folder / "depth" / "0.npy", np.zeros((2, 3), np.float32))
    with pytest.raises(InputError, match=r"views\[0\].*use NaN for unknown"):
        read(folder)


def test_a_data_set_and_its_views_print_as_one_line(tmp_path: Path) -> None:
    depth = np.full((3, 4), 2.5, np.float32)
    depth[0, :3] = np.nan
    write_bundle([View(depth, Pinhole(5, 5, 1.5, 1, 4, 3), Pose.identity(), name="left")], tmp_path / "data")
    views = read(tmp_path / "data")
    assert repr(views) == "Dataset(1 views, metre, 'bundle: unit metre, camera-to-world; 1 view')"
    assert repr(views[0]) == "View('left', 4 x 3, known 75.0%, depth 2.5 to 2.5, Pinhole)"
    assert repr(Stack(np.ones((2, 3, 4)))) == "Stack(2 maps, 4 x 3)"
    assert repr(Stack(np.ones((2, 3, 4)), np.ones((2, 3, 4)))) == "Stack(2 maps, 4 x 3, weighed)"
    assert "known 0.0%, Pinhole" in repr(View(np.full((3, 4), np.nan), Pinhole(5, 5, 1.5, 1, 4, 3), Pose.identity()))
