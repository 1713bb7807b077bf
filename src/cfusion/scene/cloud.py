"""One cloud of all fused maps: points merged where maps agree, dropped where others see through them.

A point p of view i with normal n is compared with the map of each view j that shares surface with i, at the pixel it
falls on, whose own point is q:

    agrees           |n . (q - p)| <= sqrt(sigma_i^2 + sigma_j^2) + half a pixel
    is seen through  j's depth lies behind p by more than sqrt(sigma_i^2 + sigma_j^2) and a pixel, along j's ray

Where maps agree p moves along n to the mean weighted by 1 / sigma^2. (Not by 1 / (c sigma)^2, c = |n . ray|, as an
error along the ray would have it: in a fused map the surface is off, and most where it is seen obliquely.) Then they
are asked again, about the point that has moved and with the sigma it has now: a pixel between two surfaces is so unsure
that it agrees with both, and the mean of both is in the air.
The view with the smaller pixels owns the point: another leaves its own out if it lies within half a pixel of that
view's, along the surface, but where it samples the surface more densely. (Half of its own pixel, not of that view's:
what all see obliquely is sampled too sparsely by any one of them.) Points that as many views see through as agree with,
or that nobody is near to although others look there, are dropped, and so are those whose sigma is 20 times the usual:
maps that share their inputs agree on what floats between two surfaces, and say by their sigma that it does. A pixel
that covers several pixels' length of the surface, and that no view sees better, becomes several points; the last pixel
of a surface ends at its border, half a pixel on, where no other view has a surface or sees through. Each
view's piece needs only its neighbours: pieces are made wherever views are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Points
from cfusion.errors import FileError
from cfusion.geometry import Pinhole
from cfusion.io.codecs.ply_table import write_table
from cfusion.scene.fused_view import FusedView, read_fused
from cfusion.scene.graph import Graph
from cfusion.scene.job import FOLDER, Job, Task, open_job
from cfusion.scene.keys import digest
from cfusion.scene.placing import placing
from cfusion.scene.progress import Listener, Teller
from cfusion.scene.record import Record, folder_of, read_record, require_record, write_record
from cfusion.scene.runner import Runner
from cfusion.scene.slopes import on_plane

POINT = np.dtype(
    [
        *(("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("nx", "<f4"), ("ny", "<f4"), ("nz", "<f4")),
        *(("red", "u1"), ("green", "u1"), ("blue", "u1"), ("sigma", "<f4"), ("views", "<u2")),
    ]
)
SIGMAS, PIXELS = 1.0, 0.5
ROUNDS = 2  # the others are asked again, about the point that has moved
DENSER = 1.02  # spacing of points, of another view to a view's own, up to which the other can stand for it
NEAR = 0.5  # pixels of a view, along the surface, within which another's point can stand for its own
UNSURE = 20.0  # times the view's usual sigma (and half a pixel): what is off by so much floats in the air
GRAZING = 0.2  # |n . ray| below which a surface is seen too obliquely to tell
GREY = 160
STEPS = 2  # to the octave, by which pixel sizes are told apart: nearly equal ones go by number
FILE, RECORD = "cloud.npy", "cloud.json"
AROUND = tuple((down, across) for down in (-1, 0, 1) for across in (-1, 0, 1) if (down, across) != (0, 0))
Floats = NDArray[np.float64]
Places = NDArray[np.int64] | Floats


@dataclass(frozen=True, eq=False)
class Cloud:
    """Points of one view's map, in the world."""

    points: Points  # (n, 3)
    normals: Points  # (n, 3)
    sigma: Floats  # (n,) along the normal
    views: NDArray[np.int64]  # (n,) maps that agree, its own included
    pixels: NDArray[np.int64]  # (n,) where they lie in the map, flat

    def only(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> Cloud:
        """Some of the points."""
        return Cloud(self.points[which], self.normals[which], self.sigma[which], self.views[which], self.pixels[which])

    def with_more(self, other: Cloud) -> Cloud:
        """The points of both."""
        return Cloud(*(np.concatenate([vars(self)[name], vars(other)[name]]) for name in vars(self)))


def merged(views: Callable[[int], FusedView], number: int, others: Sequence[int]) -> Cloud:
    """The points that a view owns, merged with those of the others."""
    own = views(number)
    normal = own.normals.astype(np.float64)
    facing = np.abs(np.einsum("hwx,hwx->hw", normal, own.camera.rays()))
    with np.errstate(invalid="ignore"):
        usable = np.isfinite(own.depth) & np.isfinite(own.sigma) & (facing > GRAZING)
    pixels = np.flatnonzero(usable)
    points = own.pose.apply(own.camera.back_project(own.depth)[usable])
    normals_ = own.pose.turn(normal[usable])
    pixel = _pixel_size(own, own.depth[usable])
    size = pixel / facing[usable]
    sigma = np.maximum(own.sigma[usable].astype(np.float64), 1e-9 * np.abs(own.depth[usable]))
    ahead = {other for other in others if (_rank(views(other)), other) < (_rank(own), number)}
    shift, claimed = np.zeros(len(points)), sigma
    for _ in range(ROUNDS):
        place = points + normals_ * shift[:, None]
        votes = _asked(views, others, ahead, place, normals_, claimed, size, pixel)
        weight = 1 / sigma**2 + votes.weight
        shift = (votes.moved + votes.weight * shift) / weight
        claimed = (1 / sigma + votes.sigmas) / weight
    points = points + normals_ * shift[:, None]
    usual = float(np.median(sigma)) if sigma.size else 0.0
    sure = claimed <= np.maximum(UNSURE * usual, PIXELS * pixel)
    confirmed = (votes.near > 0) | (votes.looked == 0)
    kept = votes.owned & sure & (votes.through < np.maximum(votes.agree, 1)) & confirmed
    whole = Cloud(points, normals_, claimed, 1 + votes.agree, pixels).only(kept)
    # slopes of a map whose usual sigma is more than half a pixel are those of its noise
    smooth = usual <= PIXELS * (float(np.median(pixel)) if pixel.size else 0.0)
    if not smooth:
        return whole
    rim = _rim(own, whole)
    said = _asked(views, others, set(), rim.points, rim.normals, rim.sigma, 2 * _size_at(own, rim), _size_at(own, rim))
    rim = rim.only((said.agree == 0) & (said.through == 0))
    return _divided(whole, _towards(own, whole.points), pixel[kept]).with_more(rim)


def _rim(own: FusedView, cloud: Cloud) -> Cloud:
    """The borders of pixels beside which nothing is known, on their planes: towards each of eight such neighbours."""
    row, column = np.divmod(cloud.pixels, own.depth.shape[1])
    known = np.pad(np.isfinite(own.depth) & np.isfinite(own.sigma), 1, constant_values=True)
    of, points = [], []
    for down, across in AROUND:
        at = np.flatnonzero(~known[row + 1 + down, column + 1 + across])
        here = row[at], column[at]
        v, u = here[0] + 0.5 * down, here[1] + 0.5 * across
        border = _points_at(own, v, u, on_plane(own, u, v, *here))
        middle = _points_at(own, *here, own.depth[here].astype(np.float64))
        of.append(at)
        points.append(cloud.points[at] + border - middle)
    rim = cloud.only(np.concatenate(of))
    return Cloud(np.concatenate(points), rim.normals, rim.sigma, np.ones_like(rim.views), rim.pixels)


def _size_at(view: FusedView, cloud: Cloud) -> Floats:
    """The size of the pixels that points lie in."""
    return _pixel_size(view, view.depth.reshape(-1)[cloud.pixels])


def _divided(cloud: Cloud, towards: Points, pixel: Floats) -> Cloud:
    """Several points for a pixel that covers several pixels' length of the surface, spread along that length.

    A pixel seen at the cosine c covers 1 / c pixels: below 1/2 it becomes three points, below 1/4 five.
    Only those are left here that no view sees better.
    """
    cosine = np.maximum(np.einsum("nx,nx->n", cloud.normals, towards), GRAZING)
    parts = 1 + 2 * np.floor(0.5 / cosine).astype(np.int64)
    of = np.repeat(np.arange(len(parts)), parts)
    part = np.arange(len(of)) - np.repeat(np.cumsum(parts) - parts, parts)
    along = towards - cosine[:, None] * cloud.normals
    along /= np.maximum(np.linalg.norm(along, axis=-1, keepdims=True), np.finfo(np.float64).tiny)
    offset = ((part + 0.5) / parts[of] - 0.5) * (pixel / cosine)[of]
    points = cloud.points[of] + offset[:, None] * along[of]
    return Cloud(points, cloud.normals[of], cloud.sigma[of], cloud.views[of], cloud.pixels[of])


@dataclass(frozen=True, eq=False)
class _Votes:
    """What the others say about points, one value each."""

    moved: Floats  # sum of their distances along the normal, each by its weight 1 / sigma^2
    weight: Floats  # sum of their weights
    sigmas: Floats  # sum of their sigmas, by weight
    agree: NDArray[np.int64]  # maps
    through: NDArray[np.int64]
    near: NDArray[np.int64]  # those that agree, or would if they saw it less obliquely
    looked: NDArray[np.int64]  # maps that have a depth there
    owned: NDArray[np.bool_]


def _asked(
    views: Callable[[int], FusedView],
    others: Sequence[int],
    ahead: set[int],
    points: Points,
    normals_: Points,
    sigma: Floats,
    size: Floats,
    pixel: Floats,
) -> _Votes:
    """All others asked about points; those `ahead` may own them."""
    moved, weights, sigmas = (np.zeros(len(points)) for _ in range(3))
    agree, through, near, looked = (np.zeros(len(points), np.int64) for _ in range(4))
    owned = np.ones(len(points), bool)
    for other in others:
        seen = _compared(views(other), points, normals_, sigma, size)
        at = seen.at
        looked[at] += 1
        near[at[seen.near]] += 1
        through[at[seen.through]] += 1
        same = at[seen.agrees]
        agree[same] += 1
        their_weight = 1 / seen.sigma[seen.agrees] ** 2
        moved[same] += their_weight * seen.apart[seen.agrees]
        weights[same] += their_weight
        sigmas[same] += their_weight * seen.sigma[seen.agrees]
        if other in ahead:
            beside, spacing = seen.beside[seen.agrees], seen.size[seen.agrees]
            owned[same[(beside <= NEAR * pixel[same]) & (spacing <= DENSER * size[same])]] = False
    return _Votes(moved, weights, sigmas, agree, through, near, looked, owned)


@dataclass(frozen=True, eq=False)
class _Seen:
    """What another view has at points: only those that fall on a measured pixel of it."""

    at: NDArray[np.int64]  # which points
    apart: Floats  # along the point's normal
    sigma: Floats  # along the normal
    size: Floats  # of its pixels on the surface
    beside: Floats  # how far its point lies from the point, along the surface
    near: NDArray[np.bool_]  # as far as it can tell, which at a grazing angle is not far
    agrees: NDArray[np.bool_]
    through: NDArray[np.bool_]


def _compared(other: FusedView, points: Points, normals_: Points, sigma: Floats, size: Floats) -> _Seen:
    u, v, z = other.camera.project(other.pose.inverse().apply(points))
    height, width = other.depth.shape
    with np.errstate(invalid="ignore"):
        at = np.flatnonzero((u >= -0.5) & (v >= -0.5) & (u < width - 0.5) & (v < height - 0.5))
    row, column = np.rint(v[at]).astype(np.int64), np.rint(u[at]).astype(np.int64)
    depth, their_sigma = other.depth[row, column].astype(np.float64), other.sigma[row, column].astype(np.float64)
    known = np.isfinite(depth) & np.isfinite(their_sigma)
    at, row, column, depth, their_sigma = at[known], row[known], column[known], depth[known], their_sigma[known]
    theirs = _points_at(other, row, column, depth)
    away = _towards(other, points[at])
    facing = np.einsum("nx,nx->n", normals_[at], away)
    cosine = np.maximum(np.abs(facing), GRAZING)
    along = np.maximum(their_sigma, 1e-9 * np.abs(depth))
    between = theirs - points[at]
    apart = np.einsum("nx,nx->n", normals_[at], between)
    beside = np.sqrt(np.maximum(np.einsum("nx,nx->n", between, between) - apart**2, 0.0))
    their_size = _pixel_size(other, depth) / cosine
    spread = SIGMAS * np.sqrt(sigma[at] ** 2 + along**2)
    limit = spread + PIXELS * np.maximum(size[at], their_size)
    usable = facing > GRAZING  # a pixel that is a point of its own view
    near = np.abs(apart) <= limit
    agrees = near & usable & np.isfinite(other.normals[row, column, 0])
    # along j's own ray, on which a surface seen obliquely is further away
    through = ~near & (depth - z[at] > spread / cosine + _pixel_size(other, depth))
    return _Seen(at, apart, along, their_size, beside, near, agrees, through)


def _points_at(view: FusedView, row: Places, column: Places, depth: Floats) -> Points:
    """The points in the world of some pixels, or places between them."""
    camera = view.camera
    across, down = (column - camera.cx).astype(np.float64), (row - camera.cy).astype(np.float64)
    if isinstance(camera, Pinhole):
        x, y = across / camera.fx * depth, down / camera.fy * depth
    else:
        x, y = across * camera.pixel_size, down * camera.pixel_size
    return view.pose.apply(np.stack([x, y, depth], axis=-1))


def _towards(view: FusedView, points: Points) -> Points:
    """Unit directions (n, 3) from points to the camera."""
    if not isinstance(view.camera, Pinhole):
        return np.broadcast_to(-view.pose.rotation[:, 2], points.shape)
    away = view.pose.translation - points
    return np.asarray(away / np.maximum(np.linalg.norm(away, axis=-1, keepdims=True), np.finfo(np.float64).tiny))


def _pixel_size(view: FusedView, depth: NDArray[np.floating]) -> Floats:
    """Across the ray, in the unit of depth."""
    camera = view.camera
    if isinstance(camera, Pinhole):
        return depth.astype(np.float64) / min(camera.fx, camera.fy)
    return np.full(depth.shape, camera.pixel_size)


def _rank(view: FusedView) -> int:
    """The size of a view's pixels at its median depth, in half octaves.

    Who owns a point is settled between two views, not two pixels: else both might leave a point to the other.
    """
    known = view.depth[np.isfinite(view.depth)]
    size = _pixel_size(view, np.median(known, keepdims=True)) if known.size else np.ones(1)
    return int(np.floor(STEPS * np.log2(max(float(size[0]), 1e-30))))


def piece(job: Job, task: Task) -> Record:
    """A view's piece of the cloud, written beside its maps."""
    there = _there(job, task)
    if there is not None:
        return there
    folder = folder_of(job.folder, task.view)
    found = merged(lambda view: read_fused(job.folder, view), task.view, task.neighbours)
    table = np.zeros(len(found.points), POINT)
    for axis, name in enumerate("xyz"):
        table[name], table[f"n{name}"] = found.points[:, axis], found.normals[:, axis]
    for channel, name in enumerate(("red", "green", "blue")):
        table[name] = _colours(job, task.view)[found.pixels, channel]
    table["sigma"], table["views"] = found.sigma, found.views
    record = Record(task.view, require_record(folder).name, task.key, task.neighbours, points=len(table))
    with placing(Path(job.output)) as draft:
        inside = folder_of(draft / FOLDER, task.view)
        inside.mkdir(parents=True)
        np.save(inside / FILE, table)
        write_record(inside, record, RECORD)
    return record


def _there(job: Job, task: Task) -> Record | None:
    """The record of a piece that is there already."""
    folder = folder_of(job.folder, task.view)
    return read_record(folder, task.key, RECORD) if (folder / FILE).is_file() else None


def _colours(job: Job, view: int) -> NDArray[np.uint8]:
    """(H W, 3) levels of the view's image; grey where it has none."""
    image = open_job(job).views[view].image
    shape = read_fused(job.folder, view).depth.size
    if image is None:
        return np.full((shape, 3), GREY, np.uint8)
    levels = np.rint(255 * image).astype(np.uint8)
    return np.ascontiguousarray(
        np.broadcast_to(levels[..., None], (*levels.shape, 3)) if levels.ndim == 2 else levels
    ).reshape(-1, 3)


def cloud_tasks(job: Job, graph: Graph, fused: Sequence[int]) -> tuple[Task, ...]:
    """One task a fused view: its key is made of the keys of the maps it looks at."""
    keys = {view: require_record(folder_of(job.folder, view)).key for view in fused}
    tasks = []
    for view in fused:
        others = tuple(sorted(other for other in graph.both_ways(view) if other in keys))
        tasks.append(
            Task("cloud", view, others, digest(["cloud", keys[view], others, [keys[each] for each in others]]))
        )
    return tuple(tasks)


def write_cloud(job: Job, graph: Graph, fused: Sequence[int], runner: Runner, listener: Listener | None = None) -> int:
    """OUT/scene.ply from the pieces of all views; how many points."""
    tasks = cloud_tasks(job, graph, fused)
    records = [each for task in tasks if (each := _there(job, task)) is not None]
    done = {record.view for record in records}
    todo = [task for task in tasks if task.view not in done]
    told = Teller(listener, len(todo), "cloud of view")
    for record in runner.run(job, todo):
        if record.failure:
            raise FileError(f"the cloud of view {record.name} failed: {record.failure}")
        records.append(record)
        told.finished()
    records.sort(key=lambda each: each.view)

    def chunks() -> Iterator[NDArray[np.void]]:
        for record in records:
            yield np.load(folder_of(job.folder, record.view) / FILE)

    count = sum(record.points for record in records)
    with placing(Path(job.output)) as draft:
        write_table(draft / "scene.ply", POINT, count, chunks())
    return count
