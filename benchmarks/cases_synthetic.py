"""Meshes and rooms, seven kinds of noise, from one view to thirty-one: what `auto` makes of them, and its peers.

python -m benchmarks.cases_synthetic [--part design|closed|built-in] [--size 640x480] [--views 1,3,11,31]
    [--scenes NAMES] [--noises NAMES] [--peers] [--jobs 1]

Meshes lie on the paper's orbit (5 degrees apart, distance 3, longest side 2); a room is the same object before walls,
on a floor. A bundle of fewer views is a part of the larger one, with the same noise. Errors are those of the pixels
that every row of the case knows. Designed on bunny, dragon, chef and parasaurolophus; the others were opened once.
"""

from __future__ import annotations

import argparse
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.scenes import data_folder
from cfusion import View, fuse
from cfusion.arrays import DepthMap, Mask
from cfusion.geometry import Pinhole, Pose
from cfusion.synthetic import (
    PAPER_CAMERA,
    Blobs,
    Gauss,
    Kinect,
    Laplace,
    Noise,
    Scene,
    blob,
    disturbed,
    load_mesh,
    orbit,
    room,
)
from cfusion.synthetic.render import RayCaster
from cfusion.synthetic.track import ORBIT_DISTANCE, ORBIT_REFERENCE

MESHES = {
    "bunny": "stanford", "dragon": "stanford", "armadillo": "stanford", "happy_buddha": "stanford",
    "chef": "mian", "parasaurolophus": "mian", "chicken": "mian", "trex": "mian",
}  # fmt: skip
PARTS = {
    "design": ("bunny", "dragon", "chef", "parasaurolophus", "room-bunny", "room-chef"),
    "closed": ("armadillo", "happy_buddha", "chicken", "trex", "room-happy_buddha", "room-trex"),
    "built-in": ("blob", "room-blob"),
}
NOISES = ("laplace-0.05", "laplace-0.1", "laplace-0.6", "gauss-0.05", "kinect", "mvs", "pose")
COUNTS = (1, 3, 11, 31)
MOST = max(COUNTS)
SMALL = 0.01  # Gauss, beneath the blobs of a multi-view stereo and beneath poses that are off
POSE_DEGREES, POSE_SHARE = 0.2, 0.003
EDGE = 0.05  # of the depth, from pixel to pixel
DISTANCES = (1, 2, 4, 8)  # pixels from an edge
VOXELS = (0.01, 0.015, 0.02, 0.03, 0.045)  # units, of Open3D's TSDF; the best is chosen by the truth
TRUNCATIONS = (4.0, 8.0)  # voxels


@dataclass(frozen=True, eq=False)
class Case:
    """Views of a scene under a noise, the middle one with its truth; fewer views are the middle ones of all."""

    scene: str
    noise: str
    views: Sequence[View]
    truth: DepthMap

    def of(self, count: int) -> list[View]:
        """The `count` views in the middle."""
        middle = len(self.views) // 2
        return list(self.views[middle - count // 2 : middle + count // 2 + 1])

    @property
    def near_edges(self) -> dict[int, Mask]:
        """Pixels within so many pixels of a depth edge of the truth."""
        return {distance: _grown(_edges(self.truth), distance) for distance in DISTANCES}


def cases(
    scenes: Sequence[str], noises: Sequence[str] = NOISES, width: int = 640, counts: Sequence[int] = COUNTS
) -> Iterator[Case]:
    """Every scene under every noise, rendered once and kept in the temporary folder."""
    for scene in scenes:
        for noise in noises:
            yield make(scene, noise, width, max(counts))


def make(scene: str, noise: str, width: int = 640, count: int = MOST) -> Case:
    """One case; its noise is the same whatever the number of views."""
    camera = PAPER_CAMERA.scaled(width / PAPER_CAMERA.width)
    clean, poses = _rendered(scene, width)
    middle = MOST // 2
    views = []
    for k in range(middle - count // 2, middle + count // 2 + 1):
        rng = np.random.default_rng([zlib.crc32(f"{scene} {noise}".encode()), k])
        view = View(_noise(noise, width)(clean[k], rng), camera, poses[k], name=f"{scene}-{k:02d}")
        if noise == "pose" and k != middle:
            view = disturbed(view, POSE_DEGREES, POSE_SHARE, ORBIT_DISTANCE, rng)
        views.append(view)
    return Case(scene, noise, views, clean[middle])


def _noise(name: str, width: int) -> Noise:
    scale = width / PAPER_CAMERA.width
    if name.startswith("laplace-"):
        return Laplace(float(name.removeprefix("laplace-")))
    if name.startswith("gauss-"):
        return Gauss(float(name.removeprefix("gauss-")))
    made: Mapping[str, Noise] = {
        "kinect": Kinect(focal=PAPER_CAMERA.fx * scale),
        "mvs": Gauss(SMALL) + Blobs(0.075, 12.0 * scale),
        "pose": Gauss(SMALL),
    }
    return made[name]


@lru_cache(maxsize=4)
def _rendered(scene: str, width: int) -> tuple[np.ndarray, list[Pose]]:
    """(31, H, W) true depths along the orbit, and their poses."""
    around = orbit()
    poses = [around[(ORBIT_REFERENCE + k - MOST // 2) % len(around)] for k in range(MOST)]
    kept = Path(tempfile.gettempdir()) / "cfusion-cases" / f"{scene}-{width}.npy"
    if not kept.exists():
        caster = RayCaster(_scene(scene))
        camera = PAPER_CAMERA.scaled(width / PAPER_CAMERA.width)
        depths = np.stack([caster.render(camera, pose) for pose in poses])
        kept.parent.mkdir(parents=True, exist_ok=True)
        draft = kept.with_suffix(".part.npy")
        np.save(draft, depths)
        draft.replace(kept)
    return np.load(kept), poses


def _scene(name: str) -> Scene:
    if name.startswith("room-"):
        return room(_scene(name.removeprefix("room-")))
    if name == "blob":
        return blob()
    mesh = load_mesh(data_folder() / MESHES[name] / f"{name}.ply")
    return (mesh.upright() if MESHES[name] == "mian" else mesh).centred().scaled_to(2.0)


def _edges(truth: DepthMap) -> Mask:
    """Pixels beside a jump, or beside nothing."""
    out = np.zeros(truth.shape, np.bool_)
    limit = EDGE * np.nan_to_num(truth, nan=1.0)
    for axis in (0, 1):
        step = np.abs(np.diff(np.nan_to_num(truth, nan=np.inf), axis=axis))
        jump = ~(step <= np.minimum(*_both(limit, axis))) & ~np.isnan(step)
        first, second = _both(out, axis)
        first |= jump
        second |= jump
    return out & ~np.isnan(truth)


def _both(array: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    return (array[:-1], array[1:]) if axis == 0 else (array[:, :-1], array[:, 1:])


def _grown(mask: Mask, distance: int) -> Mask:
    """Pixels within distance - 1 of the mask, along rows and columns: distance 1 is the mask itself."""
    out = mask.copy()
    for _ in range(distance - 1):
        wider = out.copy()
        wider[1:] |= out[:-1]
        wider[:-1] |= out[1:]
        wider[:, 1:] |= out[:, :-1]
        wider[:, :-1] |= out[:, 1:]
        out = wider
    return out


@dataclass(frozen=True)
class Score:
    """Errors in the unit of depth, shares in percent."""

    rmse: float
    mean: float
    off_2: float
    off_5: float
    edges: tuple[float, ...]  # RMSE within DISTANCES of an edge
    density: float

    @staticmethod
    def of(depth: DepthMap, case: Case, where: Mask) -> Score:
        error = np.abs(depth.astype(np.float64) - case.truth)
        relative = error[where] / case.truth[where]
        near = [error[where & mask] for mask in case.near_edges.values()]
        known = ~np.isnan(case.truth)
        return Score(
            _rms(error[where]), float(error[where].mean()),
            100 * float((relative > 0.02).mean()), 100 * float((relative > 0.05).mean()),
            tuple(_rms(each) for each in near),
            100 * float(np.isfinite(depth[known]).mean()),
        )  # fmt: skip

    def line(self) -> str:
        edges = " ".join(f"{each:7.4f}" for each in self.edges)
        return f"{self.rmse:7.4f} {self.mean:7.4f} {self.off_2:6.2f} {self.off_5:6.2f}  {edges}  {self.density:5.1f}"


HEADING = "   RMSE    mean   >2 %   >5 %   RMSE within 1 2 4 8 px of an edge  known %"


def _rms(error: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(error)))) if error.size else float("nan")


def common(case: Case, depths: Sequence[DepthMap]) -> Mask:
    """Pixels that the truth and all of these know."""
    known = ~np.isnan(case.truth)
    for depth in depths:
        known &= np.isfinite(depth)
    return known


def tsdf(views: Sequence[View], voxel: float, truncation: float) -> DepthMap:
    """Open3D's TSDF, its surface extracted as a mesh and seen from the middle view."""
    import open3d as o3d

    core = o3d.core
    grid = o3d.t.geometry.VoxelBlockGrid(
        ("tsdf", "weight"), (core.float32, core.float32), ((1), (1)), voxel, 16, 50_000
    )
    for view in views:
        image = o3d.t.geometry.Image(np.nan_to_num(view.depth, nan=0.0)[..., None].copy())
        extrinsic = core.Tensor(view.pose.inverse().matrix())
        matrix = _intrinsic(view, 0.5)  # it truncates pixel coordinates
        blocks = grid.compute_unique_block_coordinates(image, matrix, extrinsic, 1.0, 100.0, truncation)
        grid.integrate(blocks, image, matrix, extrinsic, 1.0, 100.0, truncation)
    mesh = grid.extract_triangle_mesh(min(3.0, len(views)) - 0.5)
    middle = views[len(views) // 2]
    if len(mesh.triangle.indices) == 0:
        return np.full(middle.shape, np.nan, np.float32)
    seen = Scene(mesh.vertex.positions.numpy(), mesh.triangle.indices.numpy(), "tsdf")
    return RayCaster(seen).render(middle.camera, middle.pose)


def _intrinsic(view: View, shift: float):  # type: ignore[no-untyped-def]
    import open3d as o3d

    camera = view.camera
    assert isinstance(camera, Pinhole)
    return o3d.core.Tensor(
        np.array([[camera.fx, 0, camera.cx + shift], [0, camera.fy, camera.cy + shift], [0, 0, 1.0]])
    )


def best_tsdf(case: Case, count: int, where: Mask) -> tuple[str, DepthMap]:
    """The TSDF with the smallest RMSE among those that know at least 90 % of these pixels (else the densest)."""
    tried = []
    for voxel in VOXELS:
        for truncation in TRUNCATIONS:
            depth = tsdf(case.of(count), voxel, truncation)
            both = where & np.isfinite(depth)
            dense = both.sum() >= 0.9 * where.sum()
            rmse = _rms(depth[both].astype(np.float64) - case.truth[both]) if both.any() else np.inf
            tried.append((not dense, rmse if dense else -int(both.sum()), f"{voxel:g} x {truncation:g}", depth))
    _, _, name, depth = min(tried, key=lambda each: each[:2])
    return name, depth


def rows(case: Case, counts: Sequence[int], *, peers: bool) -> dict[str, DepthMap]:
    """`auto` at every number of views, and the median of them."""
    out = {f"auto {count:2d}": fuse(case.of(count)).depth for count in counts}
    if peers:
        out |= {f"median {count:2d}": fuse(case.of(count), "median").depth for count in counts if count > 1}
    return out


def table(case: Case, counts: Sequence[int], *, peers: bool, show: Callable[[str], None] = print) -> dict[str, Score]:
    """One case: every row on the pixels that all of `auto` know; the TSDF beside `auto` on those both know."""
    depths = rows(case, counts, peers=peers)
    where = common(case, [depth for name, depth in depths.items() if name.startswith("auto")])
    scores = {name: Score.of(depth, case, where & np.isfinite(depth)) for name, depth in depths.items()}
    show(f"\n{case.scene}, {case.noise}{HEADING:>87}")
    for name, score in scores.items():
        show(f"{name:24} {score.line()}")
    for count in [count for count in counts if peers and count > 1]:
        name, depth = best_tsdf(case, count, where)
        both = where & np.isfinite(depth)
        scores[f"tsdf {count:2d}"] = Score.of(depth, case, both)
        scores[f"auto {count:2d} where tsdf"] = Score.of(depths[f"auto {count:2d}"], case, both)
        show(f"{f'tsdf {count:2d} ({name})':24} {scores[f'tsdf {count:2d}'].line()}")
        show(f"{f'auto {count:2d} there':24} {scores[f'auto {count:2d} where tsdf'].line()}")
    return scores


def verdict(scores: Mapping[tuple[str, str], Mapping[str, Score]], counts: Sequence[int]) -> list[str]:
    """What the laws say: never worse than the reference alone or fewer views, the median, the TSDF."""
    lines = []
    alone, fewer, median, peer, peer_mean, total = [], [], [], [], [], 0
    for (scene, noise), row in scores.items():
        for before, count in zip(counts, counts[1:], strict=False):
            total += 1
            now, where = row[f"auto {count:2d}"], f"{scene} {noise} K={count}"
            if now.rmse > 1.02 * row[f"auto {counts[0]:2d}"].rmse:
                alone.append(f"{where} ({now.rmse / row[f'auto {counts[0]:2d}'].rmse:.2f})")
            if now.rmse > 1.02 * row[f"auto {before:2d}"].rmse:
                fewer.append(f"{where} ({now.rmse / row[f'auto {before:2d}'].rmse:.2f})")
            if f"median {count:2d}" in row and now.rmse > row[f"median {count:2d}"].rmse:
                median.append(where)
            if f"tsdf {count:2d}" in row:
                here, other = row[f"auto {count:2d} where tsdf"], row[f"tsdf {count:2d}"]
                if here.rmse > other.rmse:
                    peer.append(f"{where} ({here.rmse / other.rmse:.2f})")
                if here.mean > other.mean:
                    peer_mean.append(f"{where} ({here.mean / other.mean:.2f})")
    said = (
        (f"worse than {counts[0]} view by > 2 %", alone),
        ("worse than fewer views by > 2 %", fewer),
        ("worse than the median", median),
        ("RMSE above TSDF's best with hindsight", peer),
        ("mean error above that TSDF's", peer_mean),
    )
    lines += [f"{what}: {len(found)} of {total}  {'; '.join(found)}" for what, found in said]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--part", choices=tuple(PARTS), default="design")
    add("--size", default="640x480")
    add("--views", default=",".join(map(str, COUNTS)))
    add("--scenes", default="")
    add("--noises", default=",".join(NOISES))
    add("--peers", action="store_true")
    given = parser.parse_args()
    width = int(given.size.split("x")[0])
    counts = [int(each) for each in given.views.split(",")]
    scenes = given.scenes.split(",") if given.scenes else list(PARTS[given.part])
    print(f"{given.part} half, {given.size}, views {given.views}; errors on the pixels that all rows of auto know")
    scores = {}
    for case in cases(scenes, given.noises.split(","), width, counts):
        scores[case.scene, case.noise] = table(case, counts, peers=given.peers)
    print("\n" + "\n".join(verdict(scores, counts)))


if __name__ == "__main__":
    main()
