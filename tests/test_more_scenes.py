"""Small promises of built-in scenes, volumes, results and reports, each by hand."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.conftest import make_result

from cfusion import Orthographic, Pinhole, Pose, kernels
from cfusion.auto import occlusion, residuals
from cfusion.auto.settings import Settings
from cfusion.cli import parts, report_of_many
from cfusion.datasets import write_result
from cfusion.datasets.readers import nerfstudio
from cfusion.datasets.write_back import LAYOUTS, FusedMap
from cfusion.geometry import View
from cfusion.io.codecs import raster_library as library
from cfusion.io.codecs.npy import read_npy
from cfusion.io.codecs.pfm import read_pfm
from cfusion.io.codecs.png import Encoding, read_png
from cfusion.io.json_object import JsonObject
from cfusion.rasters.mosaic import _MosaicRun
from cfusion.scene import slopes, volume
from cfusion.source import Posed
from cfusion.synthetic import Scene
from cfusion.synthetic.render import GREY, LIGHT, photograph
from cfusion.view.content import Content
from cfusion.view.sections import headline


def wall(turn: float) -> Scene:
    """A large square at z = 4, turned about the y axis."""
    corners = np.array([[-9.0, -9.0, 0.0], [9.0, -9.0, 0.0], [9.0, 9.0, 0.0], [-9.0, 9.0, 0.0]])
    rotation = np.array([[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]])
    return Scene(corners @ rotation.T + np.array([0.0, 0.0, 4.0]), np.array([[0, 1, 2], [0, 2, 3]]))


@pytest.mark.parametrize("turn", [-0.6, 0.0, 0.6])
def test_a_photograph_is_as_bright_as_its_surface_faces_the_light(turn: float) -> None:
    camera = Pinhole(30.0, 30.0, 9.5, 7.0, 20, 15)
    for scene in (wall(turn), Scene(wall(turn).vertices, wall(turn).faces[:, ::-1])):  # wound either way
        _, image = photograph(scene, camera, Pose.identity())
        towards = np.array([-np.sin(turn), 0.0, -np.cos(turn)])
        np.testing.assert_allclose(image, GREY * (0.5 + 0.5 * towards @ LIGHT), atol=1e-5)


class TestPlanes:
    """The depth between pixels, of the plane through a pixel's point."""

    NORMAL = np.array([0.3, -0.2, -1.0]) / np.linalg.norm([0.3, -0.2, -1.0])

    def view(self, camera: Any) -> Any:
        """Of the plane n . x = n . (0, 0, 3)."""
        v, u = np.mgrid[: camera.height, : camera.width].astype(np.float64)
        depth = self.depth(camera, u, v).astype(np.float32)
        normals = np.broadcast_to(self.NORMAL, (*camera.shape, 3))
        return SimpleNamespace(camera=camera, depth=depth, normals=normals)

    def depth(self, camera: Any, u: Any, v: Any) -> Any:
        n = self.NORMAL
        if isinstance(camera, Orthographic):
            x, y = (u - camera.cx) * camera.pixel_size, (v - camera.cy) * camera.pixel_size
            return 3 - (n[0] * x + n[1] * y) / n[2]
        return 3 * n[2] / (n[0] * (u - camera.cx) / camera.fx + n[1] * (v - camera.cy) / camera.fy + n[2])

    @pytest.mark.parametrize(
        "camera", [Pinhole(20.0, 25.0, 4.2, 3.1, 10, 8), Orthographic(0.1, 4.2, 3.1, 10, 8)], ids=["pinhole", "flat"]
    )
    def test_is_that_of_the_plane(self, camera: Any) -> None:
        row, column = np.array([1, 4, 6]), np.array([2, 3, 8])
        u, v = column + np.array([0.4, -0.3, 0.5]), row + np.array([-0.2, 0.5, 0.1])
        found = slopes.on_plane(self.view(camera), u, v, row, column)
        np.testing.assert_allclose(found, self.depth(camera, u, v), rtol=1e-6)

    def test_samples_lie_as_close_as_asked(self) -> None:
        points = np.stack(np.meshgrid(np.arange(40) * 0.1, np.arange(40) * 0.1, [1.0]), axis=-1).reshape(40, 40, 3)
        assert volume._stride(points, 0.35) == 3
        assert volume._stride(points, 0.01) == 1
        assert volume._stride(np.full((8, 8, 3), np.nan), 0.5) == 1

    def test_what_has_no_image_is_grey(self) -> None:
        grey = volume._rgb(None, (2, 3))
        assert grey.shape == (2, 3, 3)
        assert len(np.unique(grey)) == 1
        image = np.arange(6.0, dtype=np.float32).reshape(2, 3)
        np.testing.assert_array_equal(volume._rgb(image, (2, 3))[..., 1], image)
        colour = np.zeros((2, 3, 3), np.float32)
        assert volume._rgb(colour, (2, 3)).shape == (2, 3, 3)


def test_depths_beyond_the_largest_count_are_unknown_and_counted(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    depth = np.full((4, 5), 1.0, np.float32)
    encoding = Encoding(0.5)
    depth[0, :3] = encoding.largest, np.nextafter(np.float32(encoding.largest), np.float32(np.inf)), 2e9
    write_result(make_result(depth=depth), tmp_path / "out", ["png"], encoding=encoding)
    told = JsonObject.of_file(tmp_path / "out" / "result.json").object("files").object("depth").object("png")
    assert told.number("beyond") == 2
    assert told.number("scale") == 0.5


@pytest.mark.parametrize(
    ("exact", "others", "denied"), [(1.0, 2, False), (1.0, 4, True), (0.0, 1, False), (0.0, 2, True)]
)
def test_a_reference_whose_edges_are_not_in_place_is_denied_by_half_as_many(
    exact: float, others: int, denied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(residuals, "independence", lambda away, usual, least, backend: exact)
    rng = np.random.default_rng(4)
    camera = Pinhole(60.0, 60.0, 31.5, 23.5, 64, 48)
    depths = (4 + rng.laplace(0, 0.01, (others + 1, 48, 64))).astype(np.float32)
    depths[0, 24, 30] += 1.0
    views = [View(depth, camera, Pose.identity()) for depth in depths]
    found = occlusion.observe(Posed(views, 0), np.full((48, 64), 4, np.float32), Settings(), kernels.load("numpy"))
    assert bool(np.isnan(found.stack.depths[0, 24, 30])) is denied


def test_rasters_are_compared_as_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was taken out of them; against the fused ground where the sample knows anything."""
    asked: list[Any] = []

    def place(raster: Any, grounds: Any, windows: Any, upto: str) -> str:
        asked.append((raster, grounds, windows, upto))
        return "placed"

    monkeypatch.setattr("cfusion.rasters.mosaic.place", place)
    raster = SimpleNamespace(corrected=lambda plane, shift: (plane, shift), raster=SimpleNamespace(name="a"))
    sample = SimpleNamespace(windows=("w",), parts=(np.array([[[1.0, np.nan]]]),))
    plan = SimpleNamespace(sample=sample, rasters=[raster], placements=["taken"])
    making: Any = SimpleNamespace(plan=plan, listen=lambda step: None, gap=0.1, _effort=lambda: _Effort())
    state = SimpleNamespace(read=lambda *window: (np.array([[2.0, 3.0]], np.float32),))
    work: Any = SimpleNamespace(state=lambda number: state)
    settings: Any = SimpleNamespace(centre=10.0)
    (row,) = _MosaicRun._report(making, work, settings, 1, (0.5,), np.array([8]), np.array([6]))
    assert asked[0][0] == ((0.0, 0.0, 0.0), (0.0, 0.0))
    np.testing.assert_array_equal(asked[0][1][0], [[12.0, np.nan]])
    assert asked[0][3] == "tilt"
    assert (row.name, row.placement, row.taken_out) == ("a", "placed", "taken")
    assert (row.noise, row.pixels, row.kept) == (0.5, 8, 0.75)


class _Effort:
    def writing(self, *given: Any) -> float:
        return 0.5


def test_the_reason_of_an_error_is_that_of_its_cause() -> None:
    assert library.reason(ValueError("one\ntwo")) == "one"
    assert library.reason(ValueError()) == "ValueError"
    assert library.reason(ValueError("x" * 300)) == "x" * 100
    error = ValueError("see previous exception")
    error.__cause__ = OSError("truncated")
    assert library.reason(error) == "truncated"


@pytest.mark.parametrize(("pixel", "flat"), [((0.5, 0.5), True), ((1e-3, 1e-3), False), ((1e-3, 0.5), True)])
def test_a_grid_in_degrees_has_no_length(
    pixel: tuple[float, float], flat: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps = {"height": np.ones((2, 3)), "sigma": np.ones((2, 3)), "provenance": np.array([[1.0, np.nan, 2.0]] * 2)}
    monkeypatch.setattr("cfusion.io.codecs.geotiff.read_heights", maps.__getitem__)
    told: list[Any] = []
    monkeypatch.setattr("cfusion.view.write_page", lambda place, shown, **more: told.append((place, shown, more)))
    monkeypatch.setattr(report_of_many, "raster_figures", lambda rasters: ())
    grid = SimpleNamespace(width=3, height=2, pixel=pixel)
    more = {"gap": 0.1, "seconds": 1.0, "iterations": 5, "parameters": {}, "status": "done", "sentences": ["a"]}
    made: Any = SimpleNamespace(grid=grid, files={name: name for name in maps}, rasters=[], **more)
    report_of_many.write_mosaic_page(made, Path("out/dem.tif"))
    ((place, shown, rest),) = told
    assert place == Path("out/dem_report.html")
    assert shown.provenance.tolist() == [[1, -1, 2]] * 2
    assert rest["notes"] == ["done", "a"]
    expected = Orthographic(pixel[0], 1.5, 1.0, 3, 2) if flat else None
    assert shown.camera == expected
    made.grid.width = 10**9
    assert report_of_many.write_mosaic_page(made, Path("out/dem.tif")) is None


def test_maps_are_written_back_wherever_they_lay(tmp_path: Path) -> None:
    """Below any number of folders, in the scale and the encoding of the user's own."""
    pytest.importorskip("PIL")
    depth = np.array([[1.0, 2.0], [np.nan, 4.0]], np.float32)
    fused = FusedMap(depth, np.full((2, 2), 0.1, np.float32), Pinhole(5.0, 5.0, 0.5, 0.5, 2, 2))
    read = {".npy": read_npy, ".pfm": read_pfm, ".png": lambda file: read_png(file, Encoding(1.0))}
    for ending in read:
        name, draft = f"a/b/c{ending}", tmp_path / f"draft{ending}"
        listed = {"depth": name, "scale": 0.5}
        (tmp_path / "bundle.json").write_text(json.dumps({"views": [{"depth": f"x{ending}"}, listed]}))
        LAYOUTS["bundle"].write(tmp_path, tmp_path / name, draft, fused, None)
        np.testing.assert_array_equal(read[ending](draft / name), depth / 0.5)
    (tmp_path / "transforms.json").write_text(json.dumps({"frames": [], "depth_unit_scale_factor": 0.5}))
    for ending in (".png", ".npy"):
        source, options = tmp_path / f"d/e/f{ending}", nerfstudio.Options()
        LAYOUTS["nerfstudio"].write(tmp_path, source, tmp_path / "n", fused, options)
        np.testing.assert_array_equal(
            np.nan_to_num(read[ending](tmp_path / f"n/d/e/f{ending}")), np.nan_to_num(2 * depth)
        )


def test_the_first_figure_of_a_page_is_how_many_views_there_are() -> None:
    result = SimpleNamespace(depth=np.ones((2, 3)), method="l1")
    views = [View(np.ones((2, 3)), Pinhole(5.0, 5.0, 1.0, 0.5, 3, 2), Pose.identity())] * 4
    (first, count, _), (second, pixels, _), *_ = headline(Content("t", [result], views=views))
    assert (first, count, second, pixels) == ("views", "4", "pixels", "3 x 2")


def test_seconds_of_parts_on_a_usual_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """For two megapixels, on one thread."""
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")

    def seconds(planned: Any) -> list[float]:
        return [part.seconds for part in planned]

    fusing, writing, page, loading = 0.05 + 2 * (9 + 11 * 1.3), 0.05 + 2 * 1.2, 0.05 + 2 * 3.0, 0.7
    assert parts.fusing("auto", 2e6) == pytest.approx(fusing)
    assert seconds(parts.of_fuse("auto", 2e6, page=True)) == pytest.approx([loading, fusing, writing, page])
    found = seconds(parts.of_sequence("auto", 3, 40, 2e6, page=True))
    assert found == pytest.approx([0.1 * 40 * 2, loading, 3 * (fusing + writing + page)])
    found = seconds(parts.of_scene("auto", 5, 2e6, cloud=True, mesh=True, page=True))
    assert found == pytest.approx([0.1 + 0.3 * 10, loading, 5 * (fusing + writing), 20.0, 100.0, page])
    found = seconds(parts.of_demo(["auto", "l1"], 2e6, page=True))
    l1 = 0.05 + 2 * (1.2 + 11 * 0.06)
    assert found == pytest.approx([1.7 + 2.5 * 2, loading, fusing, l1, 0.05 + (2.5 + 0.9 * 2) * 2])
    assert seconds(parts.of_stereo("mc-cnn", page=True)) == [0.3, 0.3, 20.0, 1.0, 1.0]
    assert seconds(parts.of_mosaic(page=True)) == [3.0, 20.0, 12.0, 1.0]
