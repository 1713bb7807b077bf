"""Every command of the tutorials is run, in their order, on small data of the kind that each is about."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cfusion import Pinhole, Pose, View
from cfusion.cli.main import main
from cfusion.datasets.write_views import write_views

TUTORIALS = Path(__file__).parent.parent / "docs" / "tutorials"
WIDTH, HEIGHT = 64, 48


def views(count: int) -> list[View]:
    """A slanted wall with a step, seen from a camera that moves sideways; images with texture."""
    rng = np.random.default_rng(0)
    camera = Pinhole(60.0, 60.0, WIDTH / 2, HEIGHT / 2, WIDTH, HEIGHT)
    row, column = np.mgrid[:HEIGHT, :WIDTH]
    found = []
    for k in range(count):
        x = 0.03 * k
        slope = (column - WIDTH / 2) / 60
        depth = (3 + 0.3 * x) / (1 - 0.3 * slope)  # z = 3 + 0.3 X with X = x + slope z
        depth = depth + rng.laplace(0, 0.004, depth.shape)
        across = x + slope * depth
        image = 0.5 + 0.3 * np.sin(9 * across) * np.cos(row / 4)
        pose = Pose(np.eye(3), np.array([x, 0.0, 0.0]))
        found.append(View(depth, camera, pose, image=image.astype(np.float32), name=f"{k:06d}"))
    return found


def rgbd(folder: Path) -> None:
    write_views(views(22), folder / "DATA", "open3d")


def colmap(folder: Path) -> None:
    write_views(views(5), folder / "WORKSPACE", "colmap")


def depth_network(folder: Path) -> None:
    write_views(views(5), folder / "network", "bundle")
    np.save(folder / "truth.npy", views(5)[2].depth)


def height_models(folder: Path) -> None:
    rasterio = pytest.importorskip("rasterio")
    from rasterio.transform import from_origin

    rng = np.random.default_rng(1)
    hill = 100 + 5 * np.sin(np.arange(96) / 9)[:, None] * np.cos(np.arange(96) / 11)[None]
    about = {"driver": "GTiff", "width": 96, "height": 96, "count": 1, "dtype": "float32", "crs": "EPSG:32633"}
    (folder / "FOLDER").mkdir()
    for name in ("A.tif", "B.tif", "C.tif", "FOLDER/1.tif", "FOLDER/2.tif", "FOLDER/3.tif"):
        with rasterio.open(folder / name, "w", transform=from_origin(5e5, 5e6, 10, 10), **about) as written:
            written.write((hill + rng.laplace(0, 0.5, hill.shape)).astype(np.float32), 1)


def stereo(folder: Path) -> None:
    pytest.importorskip("cv2")
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(2)
    texture = np.kron(rng.random((40, 100)), np.ones((4, 4))) + 0.3 * rng.random((160, 400))
    for name, shift in (("LEFT", 0), ("RIGHT", 12)):
        shown = np.roll(texture, -shift, axis=1)[:, :360]
        image.fromarray((255 * np.clip(shown / 1.3, 0, 1)).astype(np.uint8)).save(folder / f"{name}.png")
    camera = "[300 0 180; 0 300 80; 0 0 1]"
    lines = (f"cam0={camera}", f"cam1={camera}", "doffs=0", "baseline=100", "width=360", "height=160", "ndisp=64")
    (folder / "calib.txt").write_text("\n".join(lines))


DATA: dict[str, Callable[[Path], None]] = {
    "rgbd": rgbd,
    "colmap": colmap,
    "depth-network": depth_network,
    "height-models": height_models,
    "stereo": stereo,
}
ELSEWHERE = ("kitti2012/",)  # public data that no generated pair stands in for
ENDS = {"view": ["--seconds", "0.3", "--port", "18600"]}  # it would serve until it is ended


def test_every_tutorial_has_data_here() -> None:
    assert {page.stem for page in TUTORIALS.glob("*.md")} == set(DATA)


@pytest.mark.parametrize("name", DATA)
def test_the_commands_run_in_their_order(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("PIL")
    DATA[name](tmp_path)
    monkeypatch.chdir(tmp_path)
    page = (TUTORIALS / f"{name}.md").read_text()
    lines = [line for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL) for line in block.splitlines()]
    assert lines
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        if any(place in line for place in ELSEWHERE):
            continue
        if words[0] == "view":
            pytest.importorskip("viser")
        if "--mesh" in words:
            pytest.importorskip("skimage")
        assert main([*words, *ENDS.get(words[0], [])]) == 0, line
    for out in re.findall(r"`([A-Z]+/[\w/.]+)`", page):
        assert (tmp_path / out).exists(), f"the page promises {out}"
