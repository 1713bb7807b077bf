"""Written back, whole: the user's own files byte for byte, new depth in the format's own units, read by us again."""

import filecmp
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from walls import FORMATS, QUICK, lay, run, walk

from cfusion import Pinhole, fuse, normals, read
from cfusion.datasets.check import align_scales, scales
from cfusion.datasets.write_back import LAYOUTS, FusedMap
from cfusion.errors import InputError
from cfusion.io.codecs.colmap_map import read_colmap_map
from cfusion.scene import convert, whole
from cfusion.scene.fused_view import read_fused

STEP = {"7-scenes": 0.001, "scannet": 0.001, "open3d": 0.001, "tum": 0.0002, "replica": 1 / 6553.5}
NEW = ("depth", "normal_maps", "confidence", ".dmap")


def own(data: Path) -> list[Path]:
    """Files that are not depth maps (or what goes with them)."""
    files = [path.relative_to(data) for path in data.rglob("*") if path.is_file()]
    return [path for path in files if not any(word in str(path) for word in NEW) or path.name in ("depth.txt",)]


@pytest.mark.parametrize("format", FORMATS)
def test_the_users_own_files_and_new_depth(format: str, tmp_path: Path) -> None:
    views = walk(4)
    data, out = lay(views, tmp_path / "data", format), tmp_path / "out"
    options = ("--option", "camera=(40.0,40.0,15.5,11.5)") if format == "tum" else ()
    assert run(data, "-o", out, *QUICK, *options) == 0
    assert own(data)
    for path in own(data):
        assert filecmp.cmp(data / path, out / path, shallow=False), path
    chosen = {"camera": (40.0, 40.0, 15.5, 11.5)} if format == "tum" else None
    before, after = read(data, format=format, options=chosen), read(out, format=format, options=chosen)
    assert len(after) == len(before) == 4
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        fused = read_fused(out / "cfusion", number)
        assert new.name == old.name
        assert new.camera == old.camera
        np.testing.assert_array_equal(new.pose.matrix(), old.pose.matrix())
        np.testing.assert_allclose(new.depth, fused.depth, rtol=1e-6, atol=0.51 * STEP.get(format, 0.0))
        assert not np.array_equal(new.depth, old.depth)
    assert (out / "scene.ply").is_file()
    assert set(LAYOUTS) >= set(FORMATS)


def test_every_format_says_what_is_new() -> None:
    assert all(layout.new and layout.kept for layout in LAYOUTS.values())


def test_images_are_links_and_models_copies(tmp_path: Path) -> None:
    data, out = lay(walk(3), tmp_path / "data", "colmap"), tmp_path / "out"
    (data / "fused.ply").write_text("of the old maps")
    run(data, "-o", out, *QUICK)
    assert os.path.samefile(data / "images" / "000000.png", out / "images" / "000000.png")
    assert not os.path.samefile(data / "sparse" / "cameras.txt", out / "sparse" / "cameras.txt")
    assert not (out / "fused.ply").exists()
    photo, model = (data / "images" / "000000.png").read_bytes(), (data / "sparse" / "images.txt").read_bytes()
    (out / "sparse" / "images.txt").write_text("edited in place")
    assert (data / "sparse" / "images.txt").read_bytes() == model
    assert (data / "images" / "000000.png").read_bytes() == photo


def test_normals_of_the_new_surface_go_with_it(tmp_path: Path) -> None:
    data, out = lay(walk(3), tmp_path / "data", "colmap"), tmp_path / "out"
    run(data, "-o", out, *QUICK)
    fused = read_fused(out / "cfusion", 1)
    held = read_colmap_map(out / "stereo" / "normal_maps" / "000001.png.geometric.bin")
    np.testing.assert_array_equal(held, np.nan_to_num(normals(fused.depth, fused.camera)))


def test_other_kinds_of_maps_stay(tmp_path: Path) -> None:
    data, out = lay(walk(3), tmp_path / "data", "colmap"), tmp_path / "out"
    maps = data / "stereo" / "depth_maps"
    (maps / "000000.png.photometric.bin").write_bytes((maps / "000000.png.geometric.bin").read_bytes())
    run(data, "-o", out, *QUICK)
    photometric = "stereo/depth_maps/000000.png.photometric.bin"
    assert filecmp.cmp(data / photometric, out / photometric, shallow=False)


def test_depth_beyond_the_largest_count_is_unknown(tmp_path: Path) -> None:
    from cfusion.datasets.readers import seven_scenes
    from cfusion.io.codecs.png import Encoding, read_png

    data = lay(walk(1), tmp_path / "data", "7-scenes")
    source = data / "frame-000000.depth.png"
    view = walk(1)[0]
    depth = view.depth.copy()
    depth[0, :3] = 65.534, 65.535, 70.0
    fused = FusedMap(depth, np.full_like(depth, 0.01), view.camera)
    LAYOUTS["7-scenes"].write(data, source, tmp_path / "draft", fused, seven_scenes.Options())
    held = read_png(tmp_path / "draft" / source.name, Encoding(0.001))
    assert held[0, 0] == pytest.approx(65.534)
    assert np.isnan(held[0, 1:3]).all()


def test_confidence_is_the_chance_to_be_right_to_a_percent() -> None:
    view = walk(1)[0]
    depth = np.full_like(view.depth, 2.0)
    sigma = np.full_like(depth, 0.02)
    sigma[0, :3] = 0.02 / 1.959964, 1e-9, np.nan
    confidence = FusedMap(depth, sigma, view.camera).confidence
    np.testing.assert_allclose(confidence[0, :4], [0.95, 1.0, 0.0, 0.6826895], atol=1e-5)


def test_other_formats_are_converted(tmp_path: Path) -> None:
    data, out = lay(walk(3), tmp_path / "data", "7-scenes"), tmp_path / "out"
    assert run(data, "-o", out, "--write", "colmap", *QUICK) == 0
    views = read(out, format="colmap")
    for number, view in enumerate(views):
        np.testing.assert_array_equal(view.depth, read_fused(out / "cfusion", number).depth)
    assert not list(out.glob("frame-*"))
    assert json.loads((out / "cfusion" / "scene.json").read_text())["written"] == "colmap"


def test_openmvs_keeps_its_header_and_gets_confidence(tmp_path: Path) -> None:
    from cfusion.datasets.readers.openmvs import read_dmap

    data, out = lay(walk(3), tmp_path / "data", "openmvs"), tmp_path / "out"
    (data / "scene.mvs").write_bytes(b"MVSI, the user's own")
    assert run(data, "-o", out, *QUICK) == 0
    old, new = read_dmap(data / "depth0001.dmap"), read_dmap(out / "depth0001.dmap")
    assert (new.image_name, new.image_shape) == (old.image_name, old.image_shape)
    np.testing.assert_array_equal(new.intrinsics, old.intrinsics)
    assert old.confidence is None
    assert new.confidence is not None
    assert 0 < new.confidence.max() <= 1
    assert (out / "scene.mvs").read_bytes() == b"MVSI, the user's own"


def test_pycolmap_takes_the_workspace_over(tmp_path: Path) -> None:
    pycolmap = pytest.importorskip("pycolmap", reason="pycolmap is not installed")
    views = walk(5)
    data, out = lay(views, tmp_path / "data", "colmap"), tmp_path / "out"
    assert run(data, "-o", out, *QUICK) == 0
    options = pycolmap.StereoFusionOptions()
    options.min_num_pixels = 3
    fused = pycolmap.stereo_fusion(tmp_path / "fused.ply", out, output_type="PLY", options=options)
    assert len(fused.points3D) > 300
    points = np.array([point.xyz for point in fused.points3D.values()])
    truth = np.abs(points @ np.array([0.1, 0.05, -1.0]) + 2.0) / np.linalg.norm([0.1, 0.05, -1.0])
    assert np.median(truth) < 0.01
    assert fuse(views, "median", reference=0, backend="numpy").depth.shape == views[0].shape


@pytest.mark.parametrize(("suffix", "step"), [(".png", 0.001), (".PNG", 0.001), (".npy", 0.0)])
def test_nerfstudios_maps_are_written_in_the_counts_of_its_file(tmp_path: Path, suffix: str, step: float) -> None:
    """Whole counts in a PNG, float32 in an .npy; unknown is 0 in both."""
    from cfusion.datasets.readers.nerfstudio import Options
    from cfusion.io.codecs.png import Encoding, read_png

    (tmp_path / "data" / "depth").mkdir(parents=True)
    (tmp_path / "data" / "transforms.json").write_text('{"depth_unit_scale_factor": 0.001, "frames": []}')
    depth = np.array([[1.2345, np.nan, 70.0]], np.float32)
    fused = FusedMap(depth, np.ones_like(depth), Pinhole(5.0, 5.0, 1.0, 0.0, 3, 1))
    source = tmp_path / "data" / "depth" / f"a{suffix}"
    LAYOUTS["nerfstudio"].write(tmp_path / "data", source, tmp_path / "draft", fused, Options())
    file = tmp_path / "draft" / "depth" / f"a{suffix}"
    if suffix == ".npy":
        np.testing.assert_allclose(np.load(file), [[1234.5, 0, 70_000]], rtol=1e-6)
        return
    found = read_png(file, Encoding(0.001))
    assert found[0, 0] == pytest.approx(1.2345, abs=0.51 * step)
    assert np.isnan(found[0, 1:]).all()  # unknown, and beyond 65.535 m


@pytest.mark.parametrize(("sigmas", "share"), [(0.0, 0.0), (0.5, 0.3829), (1.0, 0.6827), (2.0, 0.9545), (9.0, 1.0)])
def test_confidence_is_the_chance_of_an_error_below_a_hundredth(sigmas: float, share: float) -> None:

    depth = np.array([[4.0, 4.0, np.nan]], np.float32)
    sigma = np.array([[0.04 / max(sigmas, 1e-9), np.nan, 0.1]], np.float32)
    found = FusedMap(depth, sigma, Pinhole(5.0, 5.0, 1.0, 0.0, 3, 1)).confidence
    np.testing.assert_allclose(found, [[share, 0, 0]], atol=1e-4)


@pytest.mark.parametrize(("named", "kept"), [(None, None), (4, 1), (3, None)])
def test_the_reference_of_a_scene_is_that_of_what_is_written(
    named: int | None, kept: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its place among the views that were fused, if it is one of them."""
    dataset = SimpleNamespace(reference=named, unit="foot")
    monkeypatch.setattr(convert, "open_job", lambda job: SimpleNamespace(dataset=dataset))
    job: Any = SimpleNamespace()
    made = convert.fused_views(job, [2, 4, 5])
    assert (len(made), made.reference, made.unit) == (3, kept, "foot")


class Unread(list[int]):
    """Views that nobody reads."""

    def __getitem__(self, place: Any) -> Any:
        pytest.fail("it was read")


def test_too_many_views_are_not_brought_to_one_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pair is compared; refused before any is, and by a scene before any view is read."""
    monkeypatch.setattr(scales, "MOST_VIEWS", 2)
    views = walk(3)
    with pytest.raises(InputError, match="3 views are too many to align; give at most 2"):
        align_scales(views)
    assert len(align_scales(views[:2])) == 2
    job: Any = SimpleNamespace()
    monkeypatch.setattr(whole, "open_job", lambda job: SimpleNamespace(views=Unread([0, 1, 2])))
    with pytest.raises(InputError, match="too many to align"):
        whole.with_aligned_scales(job)
