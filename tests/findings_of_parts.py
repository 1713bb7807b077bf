"""Findings of parts that no command reaches with small data, for `test_same_files.py`."""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from tests.test_same_findings import Finding, displaced, fused, numbers_in, rounded, seen, shared, white

from cfusion import METHODS, Pinhole, Pose, fuse, synthetic
from cfusion.arrays import lower_median, median_of, some_columns
from cfusion.auto import sample
from cfusion.confidence import Appearance, edge_weight, nagel_enkelmann
from cfusion.confidence.edges import blur
from cfusion.datasets import read, write_result
from cfusion.datasets.check import check
from cfusion.energy import L1, TGV, Energy
from cfusion.io.codecs.png import write_image
from cfusion.methods import SinglePass
from cfusion.scene.neighbours import by_surface
from cfusion.solvers import PDHG
from cfusion.source import Splat
from cfusion.tiles import fuse_in_tiles


def relative_maps(_: Path) -> Finding:
    """Scales and shifts of maps that are known up to these, in each of three variables."""
    from tests.datasets.test_check_shifts import seen_as

    out: Finding = {}
    for meaning in ("inverse depth", "value"):
        found = check(seen_as(meaning)[:4], 1000)
        told = numbers_in(repr((found.scales, found.sentence)))
        out[meaning] = " ".join(f"{float(each):.3g}" for each in told.split())
    return out


def large_frames(_: Path) -> Finding:
    """Choices of `auto` from a sample of tiles; a frame fused in tiles; mosaics from windows."""
    from tests.test_tiles import SHAPE, running, wavy_stack

    camera = Pinhole(160.0, 160.0, 79.5, 59.5, 160, 120)
    with patch.object(sample, "ENOUGH", 6000), patch.object(sample, "TILE", 24):
        out = {f"sampled {name}": each for name, each in fused(seen(shared, 4, camera)).items()}
    stack, _ = wavy_stack()
    for name in ("l1", "median"):
        out[f"tiled {name}"] = fuse_in_tiles(SHAPE, METHODS[name], running(stack, 27_000)).depth
    maps = np.where(np.random.default_rng(1).random((4, 30, 41)) < 0.2, np.nan, stack.depths[:4, :30, :41])
    return {**out, "median": median_of(maps), "lower": lower_median(maps), "columns": some_columns(maps, 300)}


def sampled_mosaic(folder: Path) -> Finding:
    """What is chosen for a mosaic from windows of it; rasters with roles that a description states."""
    pytest.importorskip("rasterio")
    from tests.rasters.conftest import CORNER, ground, write_tif

    from cfusion import fuse_rasters
    from cfusion.rasters import sample as windows

    rng, truth = np.random.default_rng(8), ground(90, 110)
    rows, out = [], Finding()
    for k in range(3):
        noisy = (truth + rng.normal(0, 0.1 + 0.1 * k, truth.shape)).astype(np.float32)
        noisy[:, : 20 * k] = -7
        heights = write_tif(folder / f"h{k}.tif", noisy, CORNER, 0.5)
        sure = write_tif(folder / f"w{k}.tif", rng.uniform(0.2, 1, truth.shape).astype(np.float32), CORNER, 0.5)
        rows.append({"heights": heights.name, "sigma": sure.name, "nodata": -7})
    (folder / "mosaic.json").write_text(json.dumps({"rasters": rows}))
    files = [folder / f"h{k}.tif" for k in range(3)]
    with patch.object(windows, "WHOLE", 60 * 60), patch.object(windows, "SIDE", 40):
        made = {
            "plain": fuse_rasters(files, backend="cpu", nodata=(-7.0,), tile=64),
            "described": fuse_rasters([folder], backend="cpu"),
        }
    for name, each in made.items():
        out |= {f"{name} {layer}": found for layer, found in each.maps.items()}
        out[f"{name} told"] = numbers_in(repr(each.rasters).replace(str(folder), ""))
    return out


def edges_of_images(_: Path) -> Finding:
    """Weights and tensors from an image, and what is smoothed with them."""
    views = seen(white(0.1))
    image = views[2].image
    assert image is not None
    colour = np.stack([image, image**2, 1 - image], axis=2)
    out: Finding = {
        "weight": edge_weight(colour),
        "tensor": nagel_enkelmann(image, 3.0, 1.2),
        "blurred": blur(image, 1.3),
    }
    for name, rule in (("weighted", edge_weight), ("along", nagel_enkelmann)):
        energy = Energy(L1(), TGV(2, (0.3, 0.6), edge=rule))
        method = SinglePass(name, name, Splat(), Appearance(), energy, PDHG(iterations=200))
        out[name] = fuse(views, method, backend="cpu").depth
    return out


def without_ray_caster(_: Path) -> Finding:
    """Faces as NumPy finds them."""
    pytest.importorskip("trimesh")
    camera, out = Pinhole(30.0, 30.0, 15.5, 11.5, 32, 24), Finding()
    scenes = {"room": synthetic.room(), "step": synthetic.step(), "blob": synthetic.blob(20)}
    with patch.dict(sys.modules, {"embreex": None}):
        sys.modules.pop("trimesh.ray.ray_pyembree", None)
        for name, scene in scenes.items():
            pose = Pose.identity() if name == "step" else synthetic.orbit()[3]
            depth, image = synthetic.photograph(scene, camera, pose)
            out |= {f"{name} depth": np.round(depth, 5), f"{name} image": np.round(image, 5)}
    return out


def a_drive(folder: Path) -> Finding:
    """A folder of stereo pairs as a data set, with motions of our own; calibrations of all kinds."""
    pytest.importorskip("cv2")
    from tests.frontends.conftest import CAMERA, MOVED, corridor_frame

    from cfusion.frontends.calibration import read_rig

    pose = Pose.identity()
    for number in range(3):
        frame = corridor_frame(pose)
        for side in ("left", "right"):
            (folder / "drive" / side).mkdir(parents=True, exist_ok=True)
            write_image(folder / "drive" / side / f"{side}_{number:02d}.png", getattr(frame, side))
        pose = pose @ MOVED
    rows = [f"{CAMERA.fx} 0 {CAMERA.cx} {shift} 0 {CAMERA.fy} {CAMERA.cy} 0 0 0 1 0" for shift in (0, -100.0)]
    (folder / "drive" / "calib.txt").write_text("".join(f"P{k}: {row}\n" for k, row in enumerate(rows)))
    out: Finding = {}
    for k, view in enumerate(read(folder / "drive")):
        assert view.confidence is not None
        out |= {f"{k} depth": view.depth, f"{k} confidence": view.confidence, f"{k} pose": view.pose.matrix()}
    seeds = pytest.importorskip("fuzz.seeds", reason="a rig in every spelling")
    seeds.calibrations(folder / "rigs")
    files = sorted(each for each in (folder / "rigs").rglob("*.*") if each.is_file())
    return {**out, "rigs": numbers_in(repr([read_rig(file) for file in files]))}


def coloured_points(folder: Path) -> Finding:
    """Points of the viewer, coloured by every quantity, near the origin."""
    from cfusion.view.clouds import colours_of, limits_of, points_and_colours
    from cfusion.view.frames import near_origin, open_frames

    views = displaced(seen(rounded))
    there = Pose(np.eye(3), np.array([500000.0, 5400000.0, 300.0]))
    for number in (1, 3):
        result = fuse(views, "auto", reference=number, backend="cpu", min_confidence=0.3)
        write_result(replace(result, pose=there @ views[number].pose), folder / "out" / f"{number:06d}", ("npy",))
    frames, out = near_origin(open_frames(folder / "out")), Finding()
    out["limits"] = repr([limits_of(frames, name) for name in ("depth", "sigma", "views", "confidence")])
    for frame in frames:
        maps = frame.maps()
        for colour in colours_of(maps, image=True):
            image = np.asarray(views[0].image) if colour == "image" else None
            points, colours = points_and_colours(frame, maps, colour, 2, limits=limits_of(frames, colour), image=image)
            out |= {f"{frame.name} {colour}": colours, f"{frame.name} {colour} points": points}
    return out


def blind(folder: Path) -> Finding:
    """Views that know nothing, or a single pixel, among others, and as the reference."""
    views, out = seen(rounded, 5), Finding()
    nothing = np.full_like(views[0].depth, np.nan)
    spot = nothing.copy()
    spot[12, 20] = 6.0
    for name, depth in (("nothing", nothing), ("a pixel", spot)):
        for place in (0, 2):
            given = [replace(view, depth=depth) if k == place else view for k, view in enumerate(views)]
            for method in ("auto", "l1-adapt", "median"):
                more = {"keep_views": True} if method == "auto" else {}
                result = fuse(given, method, reference=2, backend="cpu", **more)
                out[f"{method}, {name} at {place}"] = result.depth
                if method == "auto":
                    page = result.report(folder / "page.html").read_text()
                    told = (
                        repr((result.views, result.parameters)),
                        re.sub(r"(?s)<script.*?</script>|base64,[^\"]*", "", page),
                    )
                    out[f"told of {name} at {place}"] = numbers_in(re.sub(r"\d+(?:\.\d+)? s\b", "", " ".join(told)))
            out[f"checked, {name} at {place}"] = numbers_in(repr(check(given, 1500)))
            out[f"neighbours, {name} at {place}"] = repr(by_surface(given))
    return out


PARTS: dict[str, Callable[[Path], Finding]] = {
    "relative maps": relative_maps,
    "large frames": large_frames,
    "a sampled mosaic": sampled_mosaic,
    "edges of images": edges_of_images,
    "without a ray caster": without_ray_caster,
    "a drive": a_drive,
    "coloured points": coloured_points,
    "blind views": blind,
}
