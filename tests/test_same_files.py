"""What commands write and say stays what it was, file by file: maps, tables, pages, data sets of every layout.

As `test_same_findings.py`, with `same_files.json`. Times, versions and keys are left out; of text all that is no number
stays free to change, so that a better sentence moves no finding. Who moves one on purpose:

    python -m tests.test_same_files
"""

import base64
import hashlib
import io
import json
import re
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from tests import test_same_findings as findings
from tests.findings_of_parts import PARTS
from tests.test_same_findings import Finding, numbers_in

import cfusion
from cfusion import BrownConrady, Pinhole, Pose, View, synthetic
from cfusion.cli.main import main
from cfusion.datasets import WRITERS, read, write_views
from cfusion.io.codecs.png import write_image

STORE = Path(__file__).with_name("same_files.json")
TEXT = {".json", ".txt", ".md", ".csv", ".log", ".html", ".toml", ".svg", ".tex"}
TIMES = r'"(?:seconds|date|time|began|duration)": *[-+.e\d]+|\d+(?:\.\d+)? (?:s|ms|min|seconds)\b|"seconds","[^"]*"'
KEY = r"\b[0-9a-f]{16,}\b"  # of the code or of files, with their times
PLACE = r"(?:/[\w.-]+){2,}"
EMBEDDED = r'base64,([A-Za-z0-9+/=]{40,})|"([A-Za-z0-9+/]{400,}={0,2})"'


def here() -> str:
    """The kind of machine, with the libraries that write."""
    versions = [findings.version_of(name) for name in ("matplotlib", "trimesh", "OpenEXR", "embreex")]
    return hashlib.sha256(repr((findings.here(), versions, zlib.ZLIB_RUNTIME_VERSION)).encode()).hexdigest()[:16]


def told(text: str) -> str:
    return numbers_in(re.sub(f"{TIMES}|{KEY}|{PLACE}", "", text.replace(cfusion.__version__, "")))


def written(folder: Path) -> Finding:
    """Every file below a folder: of text the numbers, with what is embedded in a page; of others the bytes."""
    out: Finding = {}
    for file in sorted(each for each in folder.rglob("*") if each.is_file()):
        name = file.relative_to(folder).as_posix()
        if file.suffix not in TEXT:
            out[name] = np.frombuffer(file.read_bytes(), np.uint8)
            continue
        text = file.read_text()
        if file.suffix == ".html":
            parts = [one or other for one, other in re.findall(EMBEDDED, text)]
            out[f"{name} embedded"] = np.frombuffer(b"".join(map(base64.b64decode, parts)), np.uint8)
            text = re.sub(r"(?s)<(?:style|script(?! type=\"application)).*?</(?:style|script)>", "", text)
            text = re.sub(EMBEDDED, "", text)
        out[name] = told(text)
    return out


def ran(*words: object) -> str:
    """The numbers of what a command says while all clocks stand still."""
    said, still = io.StringIO(), SimpleNamespace(perf_counter=lambda: 0.0, monotonic=lambda: 0.0, sleep=time.sleep)
    names = ["cfusion", *map(str, words)]
    with ExitStack() as stack:
        for name in ("fuse", "cli.report", "cli.sequence", "cli.scene", "scene.work", "rasters.mosaic"):
            stack.enter_context(patch.object(import_module(f"cfusion.{name}"), "time", still))
        stack.enter_context(patch.object(sys, "argv", names))
        stack.enter_context(redirect_stdout(said))
        failed = stack.enter_context(redirect_stderr(io.StringIO()))
        assert main(names[1:]) == 0, failed.getvalue()
    return told(said.getvalue())


def demo(scene: str) -> Callable[[Path], Finding]:
    def run(folder: Path) -> Finding:
        pytest.importorskip("trimesh")
        names = ("demo", "--scene", scene, "--size", "48x36", "--methods", "median,l1,auto", "--backend", "cpu")
        said = ran(*names, "-o", folder / "out", "--verbose" if scene == "city" else "--json")
        return {**written(folder / "out"), "said": said}

    return run


def some_views() -> list[View]:
    """Three views that differ in everything that a layout may store."""
    rng, camera = np.random.default_rng(9), Pinhole(30.0, 31.0, 11.25, 8.5, 24, 18)
    out = []
    for k in range(3):
        depth = rng.uniform(1, 6, camera.shape).astype(np.float32)
        depth[k : k + 3, 5:9] = np.nan
        angle = 0.1 * (k - 1)
        turn = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
        image = rng.uniform(0, 1, (*camera.shape, 3)).astype(np.float32)
        sure = np.where(np.isnan(depth), 0, rng.uniform(0.1, 1, camera.shape)).astype(np.float32)
        out.append(View(depth, camera, Pose(turn, rng.normal(0, 1, 3)), image, sure, name=f"v{k}"))
    return out


def content(views: Any) -> Finding:
    """All that is known of views, to fewer digits than codecs of images may differ by."""
    out: Finding = {}
    for k, view in enumerate(views):
        out |= {f"{k} depth": view.depth, f"{k} pose": np.round(view.pose.matrix(), 7)}
        out |= {f"{k} camera": numbers_in(repr(view.camera)), f"{k} name": numbers_in(view.name)}
        out |= {f"{k} {what}": each for what in ("image", "confidence") if (each := getattr(view, what)) is not None}
    return out


def layout(name: str) -> Callable[[Path], Finding]:
    """A data set as it is written, and as it is read again."""

    def run(folder: Path) -> Finding:
        if name in ("maps", "geotiff"):
            pytest.importorskip("OpenEXR" if name == "maps" else "rasterio")
        if name in WRITERS:
            write_views(some_views(), folder / "data", name)
        else:
            seeds = pytest.importorskip("fuzz.seeds", reason="one small data set of every format")
            seeds.OWN[name](folder / "data")
        below = "sequences/00" if name == "kitti-odometry" else ""
        again = list(read(folder / "data" / below))
        files = written(folder / "data")
        return {**{f"read {key}": each for key, each in content(again).items()}, **files}

    return run


def lens(folder: Path) -> Finding:
    """A bundle of a camera with a lens."""
    bent = BrownConrady(30.0, 31.0, 11.25, 8.5, 24, 18, k1=-0.1, k2=0.02, p1=0.004, p2=-0.003, k3=0.01)
    write_views([replace(view, camera=bent) for view in some_views()], folder / "data")
    return {**content(read(folder / "data")), **written(folder / "data")}


def made_up(_: Path) -> Finding:
    """Built-in scenes, photographs, and noise of every kind."""
    pytest.importorskip("trimesh")
    camera, out = Pinhole(40.0, 40.0, 19.5, 14.5, 40, 30), {}
    block = synthetic.city(np.random.default_rng(1))
    out |= {"city vertices": block.vertices, "city faces": block.faces, "city grey": np.asarray(block.albedo)}
    blob = synthetic.blob(24)
    out |= {"blob vertices": np.round(blob.vertices, 6), "blob faces": blob.faces}
    poses = [pose.matrix() for pose in (*synthetic.orbit(), *synthetic.nadir(5, 3.0, 200.0))]
    out["poses"] = np.round(np.stack(poses), 9)
    inside = synthetic.room(blob)
    depth, image = synthetic.photograph(inside, camera, synthetic.orbit()[5])
    out |= {"room": np.round(depth, 4), "photograph": np.round(image, 4)}
    noises = {
        "laplace": synthetic.Laplace(0.1),
        "gauss": synthetic.Gauss(0.1),
        "stereo": synthetic.Stereo(0.3, 20.0),
        "regional": synthetic.Regional(0.2, 5.0),
        "outliers": synthetic.Outliers(0.1, 1.0, 4.0),
        "holes": synthetic.Holes(0.1, 3.0),
        "kinect": synthetic.Kinect(),
        "kinect of its own": synthetic.Kinect(60.0, 4.0, 0.05),
        "blobs": synthetic.Blobs(0.1, 4.0),
        "chain": synthetic.Chain((synthetic.Gauss(0.1), synthetic.Holes(0.1, 2.0))),
    }
    for name, noise in noises.items():
        out[name] = np.round(noise(depth, np.random.default_rng(2)), 4)
    view = View(depth, camera, Pose.identity())
    moved = synthetic.disturbed(view, 0.5, 0.02, 3.0, np.random.default_rng(3))
    return {**out, "disturbed": moved.pose.matrix()}


def commands(folder: Path) -> Finding:
    """`fuse` with every file that it writes, of one window and of a sequence; `evaluate` and `check`."""
    pytest.importorskip("OpenEXR")
    views = findings.displaced(findings.seen(findings.rounded, 5))
    data = folder / "data"
    write_views(views, data, "bundle")
    one = ("-o", folder / "one", "--backend", "cpu", "--write", "npy,png,pfm,ply,exr", "--verbose")
    many = ("-o", folder / "many", "--backend", "cpu", "--method", "l1", "--every", "2", "--window", "3")
    out: Finding = {"said by fuse": ran("fuse", data, *one), "said of a sequence": ran("fuse", data, *many)}
    out |= written(folder / "one") | {f"many/{name}": each for name, each in written(folder / "many").items()}
    np.save(folder / "truth.npy", views[2].depth)
    out["scores"] = ran("evaluate", folder / "one", folder / "truth.npy")
    out["checked"] = ran("check", data)
    return out


def pair(folder: Path) -> Finding:
    """`stereo`: maps, points and page of a pair."""
    pytest.importorskip("cv2")
    from tests.frontends.conftest import step_pair

    frame, _ = step_pair()
    write_image(folder / "l.png", frame.left)
    write_image(folder / "r.png", frame.right)
    out: Finding = {}
    words = ("--disparities", "32", "--focal", "200", "--baseline", "0.5", "--verbose", "--write", "npy,png,pfm,ply")
    for matcher in ("sgm", "elas"):
        place = ("-o", folder / matcher, "--matcher", matcher)
        out[f"said by {matcher}"] = ran("stereo", folder / "l.png", folder / "r.png", *place, *words)
        out |= {f"{matcher}/{name}": each for name, each in written(folder / matcher).items()}
    return out


def whole_scene(folder: Path) -> Finding:
    """`scene` with everything that it can write."""
    pytest.importorskip("skimage")
    write_views(findings.seen(findings.white(0.02), 4), folder / "data", "mvsnet")
    how = ("-o", folder / "out", "--backend", "cpu", "--mesh", "--neighbours", "2")
    return {"said": ran("scene", folder / "data", *how), **written(folder / "out")}


def height_models(folder: Path) -> Finding:
    """`mosaic` with its maps, its page and what it says."""
    pytest.importorskip("rasterio")
    from tests.rasters.conftest import CORNER, ground, write_tif

    rng = np.random.default_rng(4)
    names = [
        write_tif(folder / f"s{k}.tif", (ground(40, 48) + rng.normal(0, 0.2, (40, 48))).astype(np.float32), CORNER, 0.5)
        for k in range(3)
    ]
    (folder / "out").mkdir()
    fine = ("--resolution", "0.8", "--resampling", "cubic")
    tiled = ("--keep-offsets", "--alpha", "0.5", "1", "--tile", "32")
    out: Finding = {}
    for name, how in {"fine": fine, "tiled": tiled}.items():
        out[f"said of {name}"] = ran("mosaic", *names, "-o", folder / "out" / f"{name}.tif", "--backend", "cpu", *how)
    return {**out, **written(folder / "out")}


OTHER_KINDS = """
[data.boxes]
kind = "boxes"
shape = [24, 30]
background = 4.0
boxes = [{ side = 5, row = 3, column = 4, contrast = -0.3 }, { side = 9, row = 10, column = 15, contrast = 1.5 }]
[rows."truth"]
method = "truth"
[rows."in a box"]
method = "l1"
parameters = { order = 1 }
confidence = { box = 1, inside = 1.0, elsewhere = 0.05 }
[[parts]]
name = "panels"
kind = "panels"
caption = "Boxes."
data = ["boxes"]
rows = ["truth", "L1", "in a box"]
layout = [2, 1]
[[parts]]
name = "sweep"
kind = "sweep"
caption = "Noise."
data = ["city"]
over = "gauss"
values = [1.0, 3.0]
rows = ["Mean", "L1"]
columns = ["z_avg", "d_avg"]
champion = "L1"
[[parts]]
name = "surfaces"
kind = "surfaces"
caption = "Surfaces."
data = ["city"]
rows = ["truth", "Median"]
"""


def paper(folder: Path) -> Finding:
    """Tables, figures and page of a small experiment with every kind of part."""
    pytest.importorskip("matplotlib")
    pytest.importorskip("trimesh")
    from tests.test_experiments import SCENES, SMALL

    from cfusion.experiments import read_spec

    (folder / "paper").mkdir()
    (folder / "paper" / "scenes.toml").write_text(SCENES)
    rows = ', rows = ["Median", "Mean", "L1", "oracle"]\ncolumns'
    small = SMALL.replace('data = ["city"]\ncolumns', f'data = ["city"]\n{rows[2:]}')
    (folder / "paper" / "objects.toml").write_text(small + OTHER_KINDS)
    with patch.object(read_spec, "paper_folder", lambda: folder / "paper"):
        said = ran("reproduce", "objects", "-o", folder / "out", "--jobs", "1", "--backend", "cpu")
    timed = (".jsonl", ".csv", "index.html")  # the page also names the version of the code
    kept = {name: each for name, each in written(folder / "out").items() if not name.endswith(timed)}
    return {**{name: each for name, each in kept.items() if not name.startswith("cache")}, "said": said}


FILES: dict[str, Callable[[Path], Finding]] = {
    **{f"demo of {scene}": demo(scene) for scene in ("object", "city", "room")},
    **{name: layout(name) for name in WRITERS},
    **{name: layout(name) for name in ("7-scenes", "scannet", "replica", "icl-nuim", "kitti", "middlebury", "npz")},
    **{name: layout(name) for name in ("geotiff", "eth3d", "maps", "colmap-binary", "kitti-odometry", "photos")},
    "a lens": lens,
    "made up": made_up,
    "commands": commands,
    "a pair": pair,
    "a scene": whole_scene,
    "height models": height_models,
    "paper": paper,
    **PARTS,
}


@pytest.mark.parametrize("name", FILES)
def test_what_is_written_stays_what_it_was(name: str, tmp_path: Path) -> None:
    store, found = json.loads(STORE.read_text()), FILES[name](tmp_path)
    known = store["machines"].get(here())
    if known is not None:
        assert findings.hashes(found) == known[name], "moved; on purpose? then python -m tests.test_same_files"
    assert sorted(found) == store["files"][name]


def test_nothing_is_stored_of_files_that_are_gone() -> None:
    store = json.loads(STORE.read_text())
    for kept in (store["files"], *store["machines"].values()):
        assert sorted(kept) == sorted(FILES)


def rewrite() -> None:
    """Take what is written now as what should be."""
    exact, names = {}, {}
    for name, find in FILES.items():
        with TemporaryDirectory() as folder:
            found = find(Path(folder))
        exact[name], names[name] = findings.hashes(found), sorted(found)
    store = {"files": names, "machines": {here(): exact}}
    STORE.write_text(json.dumps(store, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    rewrite()
