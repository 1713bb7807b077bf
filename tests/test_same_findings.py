"""What is found of fixed data stays what it was: `auto` on other data, scenes, height models, checks, matchers.

As `test_same_bits.py`, for what its two scenes never reach. `same_findings.json` holds a hash of every finding per kind
of machine, with the versions of the libraries that take part, and for any other machine a few coarse figures. Who moves
one on purpose writes it again, and says so in the changelog:

    python -m tests.test_same_findings
"""

import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from tests.test_same_bits import CAMERA, _ball, _hash, _plane, machine

import cfusion
from cfusion import BrownConrady, Orthographic, Pinhole, Pose, Stack, View, fuse, fuse_stack
from cfusion.auto import Auto
from cfusion.auto.settings import Settings
from cfusion.cli import compiling, parts
from cfusion.cli.main import main
from cfusion.datasets import write_views
from cfusion.datasets.check import align_scales, check, view_scales
from cfusion.datasets.check.reprojection import Samples
from cfusion.metrics import ause, evaluate, roc_auc
from cfusion.rasters.effort import Effort
from cfusion.view.page import write_page

STORE = Path(__file__).with_name("same_findings.json")
ADAPTIVE = ("rof-adapt", "l1-adapt", "adapt-hprior", "adapt-hprior-g")
FORESEEN = (  # written out, so that another method moves no finding
    *("input", "mean", "median", "rof", "l1", "tgv-fusion", "l1-heuristic"),
    *(name + suffix for name in ADAPTIVE for suffix in ("", ":ama", ":pdhg")),
    "auto",
)
LIBRARIES = ("opencv-python-headless", "opencv-python", "rasterio", "scikit-image", "scipy", "pillow")
Noise = Callable[[np.ndarray, np.random.Generator, int], np.ndarray]
Finding = dict[str, Any]  # arrays, numbers and sentences by name


def seen(noise: Noise, count: int = 5, camera: Pinhole = CAMERA, seed: int = 0) -> list[View]:
    """A wall, a nearer wall on the left, and a ball, from places along a line."""
    rng = np.random.default_rng(seed)
    out = []
    for k in range(count):
        centre = np.array([0.35 * (k - count // 2), 0.05 * k, 0.04 * k])
        y, x = np.mgrid[: camera.height, : camera.width]
        rays = np.stack([(x - camera.cx) / camera.fx, (y - camera.cy) / camera.fy, np.ones(x.shape)], axis=-1)
        near, wall = (
            _plane(rays, centre, np.array(normal), d) for normal, d in (((0, 0, 1.0), 6.5), ((0.2, -0.1, 1.0), 9.0))
        )
        depth = np.where(centre[0] + near * rays[..., 0] < -1.2, near, wall)
        depth = np.fmin(depth, _ball(rays, centre, np.array([0.9, 0.3, 5.0]), 1.1))
        image = np.clip(0.5 + 0.3 * np.sin(3 * depth) + 0.1 * np.sin(x / 2) * np.cos(y / 3), 0, 1)
        out.append(View(noise(depth, rng, k), camera, Pose(np.eye(3), centre), image=image, name=f"view {k}"))
    return out


def white(size: float) -> Noise:
    return lambda depth, rng, k: depth + rng.laplace(0, size, depth.shape)


def shared(depth: np.ndarray, rng: np.random.Generator, k: int) -> np.ndarray:
    """Errors that neighbours have in common, as a matcher's, and one loud view."""
    rough = rng.normal(0, 1, (depth.shape[0] + 6, depth.shape[1] + 6))
    smooth = sum(rough[a : a + depth.shape[0], b : b + depth.shape[1]] for a in range(6) for b in range(6)) / 6
    return depth + (0.2 if k == 1 else 0.03) * smooth


def waves(depth: np.ndarray, rng: np.random.Generator, k: int) -> np.ndarray:
    """Errors that reach far across the image, as a network's."""
    y, x = np.mgrid[: depth.shape[0], : depth.shape[1]]
    one, other = rng.uniform(0, 6, 2)
    return depth * (1 + 0.02 * (np.sin(x / 6 + one) + np.cos(y / 7 + other))) + rng.normal(0, 0.005, depth.shape)


def rounded(depth: np.ndarray, rng: np.random.Generator, k: int) -> np.ndarray:
    """Disparities in steps, holes beside edges, a few gross errors."""
    steps = np.round(8 * 60 / (depth + rng.normal(0, 0.02, depth.shape))) / 8
    out = np.where(np.abs(np.diff(depth, axis=1, append=depth[:, -1:])) > 0.5, np.nan, 60 / steps)
    return np.where(rng.random(depth.shape) < 0.02, rng.uniform(3, 12, depth.shape), out)


def sparse(depth: np.ndarray, rng: np.random.Generator, k: int) -> np.ndarray:
    """Pixels here and there, as a lidar's."""
    return np.where(rng.random(depth.shape) < 0.3, depth + rng.normal(0, 0.02, depth.shape), np.nan)


def displaced(views: list[View]) -> list[View]:
    """The same with one view out of place and one too deep."""
    turn = Pose(np.array([[1, 0, 0.01], [0, 1, 0], [-0.01, 0, 1.0]]), np.array([0.03, 0.02, 0.0]))
    views[0] = replace(views[0], pose=views[0].pose @ turn)
    views[3] = replace(views[3], depth=views[3].depth * np.float32(1.015))
    return views


def fused(views: list[View], **settings: Any) -> Finding:
    result = fuse(views, Auto(settings=Settings(**settings)), backend="cpu")
    maps = {name: getattr(result, name) for name in ("depth", "confidence", "sigma", "provenance")}
    told = result.iterations, result.gap, result.energies, sorted(result.parameters.items()), result.views
    return {**maps, "told": numbers_in(repr(told))}


def of_outlines(noise: str, first: int = 0, last: int = 7) -> Finding:
    """Houses and posts before a distant wall: what outlines, rods and gaps become under such errors of the maps."""
    from tests.laws import test_outlines as street

    rng, step = np.random.default_rng(5), street.STEP
    maps = [street.seen_from(step * (k - street.MIDDLE)) for k in range(street.COUNT)]
    for k, depth in enumerate(maps):
        for place, near, wide in ((-2.0, 6.0, 1), (0.8, 5.0, 2), (2.2, 7.0, 1)):
            column = round(70 / near * (place - step * (k - street.MIDDLE)) + 39.5)
            depth[10 * wide :, max(column, 0) : max(column + wide, 0)] = near
        depth += rng.normal(0, 1, depth.shape) * np.sqrt(depth / 10) * (0 if noise == "none" else street.NOISE)
    if noise == "jagged":
        maps[street.MIDDLE] = street.jagged(maps[street.MIDDLE], 1)
    elif noise == "shared":
        maps = [depth + np.kron(rng.normal(0, 0.2, (15, 20)), np.ones((4, 4))) for depth in maps]
        maps[street.MIDDLE][20:40] = street.jagged(maps[street.MIDDLE], 1)[20:40]
    elif noise == "blobs":
        maps[street.MIDDLE][20:26, 5:11] += 4
    return fused(street.views_of(maps)[first:last], min_confidence=0.0)


def by_other_cameras(_: Path) -> Finding:
    """`auto` through a lens and without perspective, with confidences, on what views of one place measured."""
    lens = BrownConrady(40.0, 41.0, 19.0, 15.0, 40, 30, k1=-0.1, k2=0.02, p1=0.004, p2=-0.003, k3=0.01)
    views, out = seen(rounded), {}
    sure = np.random.default_rng(6).uniform(0.2, 1, (5, *CAMERA.shape)).astype(np.float32)
    for name, camera in (("lens", lens), ("flat", Orthographic(0.12, 19.5, 14.5, 40, 30))):
        given = [replace(view, camera=camera, confidence=each) for view, each in zip(views, sure, strict=True)]
        out |= {f"{name} {part}": each for part, each in fused(given).items()}
    stack = Stack(np.stack([view.depth for view in seen(white(0.05), 6)]), None, CAMERA, image=views[0].image)
    result = fuse_stack(stack, "auto", backend="cpu")
    return {**out, "still": result.depth, "still confidence": result.confidence, "still sigma": result.sigma}


def numbers_in(text: str) -> str:
    """Every number to six digits: the last ones depend on the kernels that BLAS chooses."""
    found = re.findall(r"(?<![\w#])-?\d+(?:\.\d+)?(?:e-?\d+)?", text)
    return " ".join(f"{float(each) if abs(float(each)) > 1e-9 else 0:.6g}" for each in found)


def scores(_: Path) -> Finding:
    rng = np.random.default_rng(2)
    (view,) = seen(white(0.0), 1)
    depth, error = view.depth + rng.normal(0, 0.05, CAMERA.shape), np.abs(rng.normal(0, 1, 500))
    trust = 1 / (error + rng.uniform(0.1, 1, 500))
    return {
        "scores": repr(evaluate(depth, view.depth, CAMERA)),
        "ranks": np.array([ause(error, trust), roc_auc(error, trust, 1.0)]),
    }


def checked(_: Path) -> Finding:
    """What the check says of data as stated, and of usual mistakes."""
    camera = Pinhole(80.0, 80.0, 39.5, 29.5, 80, 60)
    good = seen(white(0.01), 6, camera)
    turned = [replace(view, pose=Pose(view.pose.rotation, 3 * view.pose.translation)) for view in good]
    factors = (1.0, 1.3, 0.8, 1.1, 0.9, 1.0)
    scaled = [replace(view, depth=view.depth * np.float32(a)) for view, a in zip(good, factors, strict=True)]
    shifted = [
        replace(view, depth=view.depth * np.float32(a) + np.float32(a - 1))
        for view, a in zip(good, factors, strict=True)
    ]
    found = [check(each, samples=3000) for each in (good, turned, scaled, shifted)]
    told = [*found, *(each.sentence for each in found), view_scales(Samples(scaled, 3000))]
    aligned = np.stack([view.depth for view in align_scales(scaled)])
    return {"aligned": aligned, "told": numbers_in(repr(told))}


def by_any_method(_: Path) -> Finding:
    """The paper's methods with parameters that are not theirs; cameras with a lens, and without perspective."""
    lens = BrownConrady(40.0, 41.0, 19.0, 15.0, 40, 30, k1=-0.1, k2=0.02, p1=0.004, p2=-0.003, k3=0.01)
    views, flat = seen(white(0.1)), Orthographic(0.12, 19.5, 14.5, 40, 30)
    given: dict[str, dict[str, Any]] = {
        "l1-adapt": {"order": 3, "iterations": 60},
        "rof": {"order": 1, "lam": 0.3},
        "l1": {"fill_radius": 3, "tolerance": 1e-2},
    }
    out = {name: fuse(views, name, backend="numpy", **parameters).depth for name, parameters in given.items()}
    for name, camera in (("lens", lens), ("flat", flat)):
        out[name] = fuse([replace(view, camera=camera) for view in views], "median", backend="numpy").depth
    return out


def on_a_page(folder: Path) -> Finding:
    """The numbers of a page beside its maps."""
    views = displaced(seen(rounded))
    results = [fuse(views, "auto", backend="cpu", keep_views=True), fuse(views, "l1", backend="cpu")]
    (first, *others) = [replace(result, seconds=1.0) for result in results]
    text = write_page(folder / "page.html", first, others=others, views=views, reference=2).read_text()
    shown = re.sub(r"(?s)<(script|style).*?</\1>|base64,[^\"]*", "", text.replace(cfusion.__version__, ""))
    return {"numbers": numbers_in(shown)}


def merged(folder: Path) -> Finding:
    """Cloud and mesh of fused maps, and their neighbours."""
    pytest.importorskip("skimage")
    from cfusion.scene import cloud, mesh
    from cfusion.scene.fused_view import FusedView
    from cfusion.scene.neighbours import by_surface

    views = seen(white(0.01), 4)
    rng, out = np.random.default_rng(3), {}
    for name, sigma in (("fine", 0.01), ("noisy", 0.2)):
        maps = [
            FusedView(
                view.depth,
                (sigma * rng.uniform(0.5, 2, CAMERA.shape)).astype(np.float32),
                CAMERA,
                view.pose,
                measured=view.depth + rng.normal(0, 0.02, CAMERA.shape).astype(np.float32),
            )
            for view in views
        ]
        pieces = [cloud.merged(maps.__getitem__, k, [j for j in range(4) if j != k]) for k in range(4)]
        out |= {f"{name} {part}": np.concatenate([getattr(each, part) for each in pieces]) for part in ("points",)}
        volume = mesh.volume_for(maps)
        for each in maps:
            volume.integrate(mesh.to_integrate(volume, each))
        made = mesh.extract(volume)
        out |= {f"{name} vertices": made.vertices, f"{name} faces": made.faces}
    return {**out, "graph": repr(by_surface(views))}


def whole_scene(folder: Path) -> Finding:
    """What `cfusion scene` writes beside data whose views do not all see each other."""
    views = seen(shared, 6)
    views[5] = replace(views[5], pose=Pose(np.diag([-1.0, 1, -1]), views[5].pose.translation))
    write_views(views, folder / "data", "bundle")
    out = folder / "out"
    assert main(["scene", str(folder / "data"), "-o", str(out), "--backend", "cpu", "--quiet"]) == 0
    maps = {file.stem: np.load(file) for file in sorted((out / "depth").glob("*.npy"))}
    (cloud,) = out.glob("*.ply")
    rows = [{**row, "seconds": 0} for row in json.loads((out / "cfusion" / "summary.json").read_text())]
    graph = {**json.loads((out / "cfusion" / "neighbours.json").read_text()), "key": ""}
    return {**maps, "cloud": np.frombuffer(cloud.read_bytes(), np.uint8), "told": numbers_in(repr((rows, graph)))}


def foreseen(_: Path) -> Finding:
    """The seconds that commands are expected to take on a typical machine of one and of eight threads."""
    methods, told = [*FORESEEN, "another"], []
    for threads in ("1", "8"):
        with patch.dict("os.environ", {"NUMBA_NUM_THREADS": threads}):
            for page in (False, True):
                told += [parts.of_fuse(name, 3e5, 7, page=page) for name in methods]
                told += [
                    parts.of_sequence("auto", 9, 12, 3e5, page=page),
                    parts.of_demo(["auto", "l1"], 3e5, page=page),
                ]
                told += [parts.of_scene("auto", 20, 1e6, cloud=page, mesh=page, page=page)]
                told += [parts.of_stereo(matcher, page=page) for matcher in ("sgm", "mc-cnn")]
                told += [parts.of_mosaic(page=page)]
    told += [compiling.seconds_for([name]) for name in methods] + [compiling.seconds_for(methods)]
    told += [compiling.in_round_numbers(seconds) for seconds in (0.1, 7.6, 19.0, 20.0, 26.0)]
    effort = Effort(4, 0.5, 30.0, 33.0, 2)
    told += [effort.ahead(), effort.choosing(3), effort.choosing(20), effort.writing(0.4, 2)]
    told += [effort.iterating(50, 200, certificates) for certificates in (0.0, 1.0, 2.0)]
    return {"told": numbers_in(repr(told))}


def height_model(folder: Path) -> Finding:
    """Surveys of one ground: shifted by part of a pixel, with an offset, of half the resolution, with blunders."""
    pytest.importorskip("rasterio")
    from tests.rasters.conftest import CORNER, ground, write_tif

    from cfusion import fuse_rasters

    truth, rng = ground(64, 72), np.random.default_rng(4)
    moved = 0.6 * truth[:, :-1] + 0.4 * truth[:, 1:]
    coarse = truth.reshape(32, 2, 36, 2).mean(axis=(1, 3))
    moved = np.pad(moved, ((0, 0), (0, 1)), "edge")
    given = [(truth, 0.5, 0.0), (truth, 0.5, 1.5), (moved, 0.5, 0.0), (coarse, 1.0, 0.0)]
    files = []
    for k, (heights, pixel, offset) in enumerate(given):
        noisy = heights + offset + rng.normal(0, 0.2 + 0.2 * (k == 1), heights.shape)
        noisy[rng.random(noisy.shape) < 0.01] += 30
        noisy[10:20, 5:12] = -9999
        files.append(write_tif(folder / f"s{k}.tif", noisy.astype(np.float32), CORNER, pixel))
    out: Finding = {}
    for how in (None, "tilt"):
        said: list[str] = []
        made = fuse_rasters(files, backend="cpu", coregister=how, tile=48, say=said.append)
        out |= {f"{how} {name}": each for name, each in made.maps.items()}
        out[f"{how} told"] = numbers_in(repr((said, made.rasters)).replace(str(folder), ""))
    return out


def matched(_: Path) -> Finding:
    """Disparities with their confidence, filled; motions of a camera."""
    pytest.importorskip("cv2")
    from tests.frontends.conftest import MOVED, RIG, corridor, corridor_frame, step_pair

    from cfusion.frontends.direct_odometry import direct_motion
    from cfusion.frontends.filling import filled
    from cfusion.frontends.odometry import motion
    from cfusion.frontends.stereo import match

    frame, _ = step_pair()
    out: Finding = {}
    for name in ("sgm", "elas"):
        found = match(frame.left, frame.right, name, disparities=32)
        out |= {name: found.disparity, f"{name} confidence": found.confidence}
        out[f"{name} filled"] = filled(found.disparity, frame.left)
    here, depth = corridor(Pose.identity())
    there, _ = corridor(MOVED)
    direct = direct_motion(here, depth, there, RIG.camera)
    out["direct"] = direct.previous_from_current.matrix()
    out["features"] = motion(corridor_frame(Pose.identity()), corridor_frame(MOVED), RIG).previous_from_current.matrix()
    return out


FINDINGS: dict[str, Callable[[Path], Finding]] = {
    "quiet views": lambda _: fused(seen(white(1e-4))),
    "shared errors": lambda _: fused(seen(shared, 6)),
    "errors that reach far": lambda _: fused(seen(waves, 7)),
    "rounded disparities": lambda _: fused(seen(rounded)),
    "sparse": lambda _: fused(seen(sparse, 9)),
    "a view out of place": lambda _: fused(displaced(seen(white(0.02))), keep_views=True),
    "one view": lambda _: fused(seen(white(0.05), 1)),
    "two views": lambda _: fused(seen(rounded, 2)),
    "outlines": lambda _: of_outlines("white"),
    "outlines of three": lambda _: of_outlines("white", 2, 5),
    "outlines without noise": lambda _: of_outlines("none", 1, 6),
    "jagged outlines": lambda _: of_outlines("jagged"),
    "jagged outlines of three": lambda _: of_outlines("jagged", 2, 5),
    "outlines under shared errors": lambda _: of_outlines("shared"),
    "blobs": lambda _: of_outlines("blobs"),
    "beside the others": lambda _: of_outlines("white", 3, 7),
    "other cameras": by_other_cameras,
    "scores": scores,
    "check": checked,
    "cloud and mesh": merged,
    "any method": by_any_method,
    "page": on_a_page,
    "scene": whole_scene,
    "seconds foreseen": foreseen,
    "height model": height_model,
    "matchers": matched,
}


def hashes(found: Finding) -> dict[str, str]:
    return {
        name: hashlib.sha256(each.encode()).hexdigest()[:16] if isinstance(each, str) else _hash(np.asarray(each))
        for name, each in found.items()
    }


def figures(found: Finding) -> dict[str, float]:
    """What any machine should find, to a few per cent."""
    arrays = {name: np.asarray(each) for name, each in found.items() if not isinstance(each, str)}
    floats = {name: each for name, each in arrays.items() if each.dtype.kind == "f" and each.size}
    return {name: round(float(np.nanmean(np.abs(each))), 4) for name, each in floats.items()}


def version_of(name: str) -> str:
    """Of a library, empty where it is missing."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def here() -> str:
    versions = [version_of(name) for name in LIBRARIES]
    kernels = os.environ.get("OPENBLAS_CORETYPE", "")  # of BLAS, which decide the last digits of matrices
    return hashlib.sha256(repr((machine(), versions, kernels)).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", FINDINGS)
def test_what_is_found_stays_what_it_was(name: str, tmp_path: Path) -> None:
    store, found = json.loads(STORE.read_text()), FINDINGS[name](tmp_path)
    known = store["machines"].get(here())
    if known is not None:
        assert hashes(found) == known[name], "moved; on purpose? then python -m tests.test_same_findings"
    assert figures(found) == pytest.approx(store["figures"][name], rel=0.1, abs=0.1)


def test_nothing_is_stored_of_findings_that_are_gone() -> None:
    store = json.loads(STORE.read_text())
    for kept in (store["figures"], *store["machines"].values()):
        assert sorted(kept) == sorted(FINDINGS)


def rewrite() -> None:
    """Take what is found now as what should be found, here and (coarsely) everywhere."""
    exact, coarse = {}, {}
    for name, find in FINDINGS.items():
        with TemporaryDirectory() as folder:
            found = find(Path(folder))
        exact[name], coarse[name] = hashes(found), figures(found)
    STORE.write_text(json.dumps({"figures": coarse, "machines": {here(): exact}}, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    rewrite()
