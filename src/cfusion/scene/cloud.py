"""One point cloud of all fused maps: points are merged where maps agree and dropped where other maps contradict them.

A point p of view i with normal n is compared with the map of each view j that shares surface with i. Let q be the point
of j's map at the pixel that p projects to:

    agrees        |n . (q - p)| <= sqrt(sigma_i^2 + sigma_j^2) + half a pixel
    contradicts   j's depth lies behind p, along j's ray, by more than sqrt(sigma_i^2 + sigma_j^2) and a pixel

0. The depth of every map is the mean of the planes of its pixels (`mean_of_planes`), moved towards what the view itself
   measured (`towards_measured`).
1. p moves along n to the mean over agreeing maps, weighted by (c / sigma)^2, c = |n . ray|, as in the volume: a fused
   map's error is its surface's, largest at oblique angles. In noisy maps, whose slopes are noise, c = 1.
2. The comparison is repeated once with the moved p and its new sigma: a pixel between two surfaces has so large a
   sigma that it agrees with both, and their mean lies on neither.
3. The view with the smaller pixels owns the point. Another view drops its own point within half of its own pixel of
   q, along the surface, unless it samples the surface more densely. (Its own pixel, not the owner's: a surface that
   all views see obliquely is sampled too sparsely by each of them.)
4. Dropped are points that as many maps contradict as agree with; points that no map is near to although others
   measure there; points whose sigma is 20 times the median: maps that share their inputs agree on points that float
   between two surfaces, but give them a large sigma.
5. Between points of neighbouring pixels that lie more than a pixel and a half apart on one surface there are more
   points, on the line that joins them: a plane of one pixel is as wrong as its slope, the more the more oblique it is.
6. A surface extends to the border of its last pixel, half a pixel beyond the centre, where no other map agrees with or
   contradicts that point. Another map must agree with the pixel itself, if one measures there.

The piece of a view needs only its neighbours' maps, so pieces are computed wherever views are fused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import SMALL, Points
from cfusion.errors import FileError
from cfusion.geometry import Pinhole
from cfusion.geometry.camera import pixel_size
from cfusion.io.codecs.ply import COLOUR, NORMAL, POSITION, fine_enough, table_of, write_table
from cfusion.io.to_json import digest
from cfusion.scene.fused_view import FusedView, read_fused, read_to_merge
from cfusion.scene.graph import Graph
from cfusion.scene.job import FOLDER, Job, Task, open_job
from cfusion.scene.placing import placing
from cfusion.scene.progress import ProgressCallback, TaskProgress
from cfusion.scene.record import Record, folder_of, read_record, require_record, write_record
from cfusion.scene.runner import Runner
from cfusion.scene.sight import landing
from cfusion.scene.sketch import towards_camera
from cfusion.scene.slopes import ONE_SURFACE, on_plane

POINT = np.dtype([*POSITION, *NORMAL, *COLOUR, ("sigma", "<f4"), ("views", "<u2")])
SIGMAS, PIXELS = 1.0, 0.5
COMPARISONS = 2  # the second one uses the moved points
MAX_SPACING_RATIO = 1.02  # another view's point spacing over the own one, up to which the other's point replaces it
NEAR = 0.5  # pixels, along the surface, within which another view's point replaces the view's own
MAX_SIGMA_RATIO = 20.0  # to the view's median sigma (and at least half a pixel): beyond, points float in the air
GRAZING = 0.2  # |n . ray| below which a surface is seen too obliquely to be compared
APART, MOST_BETWEEN = 1.5, 4  # pixels between neighbouring points with points between them, and most of these
GREY = 160
RANKS_PER_OCTAVE = 2  # per octave of pixel size, the classes of `_rank`: views of one class are ordered by number
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
    views: NDArray[np.int64]  # (n,) agreeing maps, its own included
    pixels: NDArray[np.int64]  # (n,) flat index of the pixel in the map

    def only(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> Cloud:
        """Some of the points."""
        return Cloud(self.points[which], self.normals[which], self.sigma[which], self.views[which], self.pixels[which])

    def with_more(self, other: Cloud) -> Cloud:
        """The points of both."""
        return Cloud(*(np.concatenate([vars(self)[name], vars(other)[name]]) for name in vars(self)))


def merged(views: Callable[[int], FusedView], number: int, others: Sequence[int]) -> Cloud:
    """The points that view `number` owns, merged with the maps of the `others`."""

    def levelled(view: int) -> FusedView:
        return views(view).levelled

    own = levelled(number)
    normal = own.normals.astype(np.float64)
    facing = np.abs(np.einsum("hwx,hwx->hw", normal, own.camera.rays()))
    with np.errstate(invalid="ignore"):
        usable = np.isfinite(own.depth) & np.isfinite(own.sigma) & (facing > GRAZING)
    pixels = np.flatnonzero(usable)
    points = own.pose.apply(own.camera.back_project(own.depth)[usable])
    normals_ = own.pose.turn(normal[usable])
    pixel = pixel_size(own.camera, own.depth[usable])
    size = pixel / facing[usable]
    sigma = np.maximum(own.sigma[usable].astype(np.float64), 1e-9 * np.abs(own.depth[usable]))
    usual = float(np.median(sigma)) if sigma.size else 0.0
    # a map whose median sigma exceeds half a pixel has the slopes of its noise
    smooth = usual <= PIXELS * (float(np.median(pixel)) if pixel.size else 0.0)
    ahead = {other for other in others if (_rank(views(other)), other) < (_rank(own), number)}
    shift, claimed = np.zeros(len(points)), sigma
    trust = (facing[usable] if smooth else 1.0) / sigma
    for _ in range(COMPARISONS):
        place = points + normals_ * shift[:, None]
        votes = _compare_all(levelled, others, ahead, place, normals_, claimed, size, pixel, by_angle=smooth)
        weight = trust**2 + votes.weight
        shift = (votes.moved + votes.weight * shift) / weight
        claimed = (trust**2 * sigma + votes.sigmas) / weight
    points = points + normals_ * shift[:, None]
    sure = claimed <= np.maximum(MAX_SIGMA_RATIO * usual, PIXELS * pixel)
    confirmed = votes.near | ~votes.looked
    kept = votes.owned & sure & (votes.through < np.maximum(votes.agree, 1)) & confirmed
    whole = Cloud(points, normals_, claimed, 1 + votes.agree, pixels).only(kept)
    if not smooth:
        return whole
    rim = _rim(own, whole.only((votes.agree > 0)[kept] | ~votes.looked[kept]))
    size_at_rim = pixel_size(own.camera, own.depth.reshape(-1)[rim.pixels])
    votes = _compare_all(levelled, others, set(), rim.points, rim.normals, rim.sigma, 2 * size_at_rim, size_at_rim)
    rim = rim.only((votes.agree == 0) & (votes.through == 0))
    return whole.with_more(_between(whole, own.depth.shape, pixel[kept])).with_more(rim)


def _rim(own: FusedView, cloud: Cloud) -> Cloud:
    """Points on the borders of pixels, on their planes, towards each of the eight neighbours that has no depth."""
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


def _between(cloud: Cloud, shape: tuple[int, ...], pixel: Floats) -> Cloud:
    """Points between those of neighbouring pixels that a surface seen obliquely sets apart: about one a pixel's length.

    Two points p, q with normals m, n are of one surface if m . n > ONE_SURFACE and each lies within half a pixel of the
    other's plane.
    """
    at = np.full(shape, -1)
    at.reshape(-1)[cloud.pixels] = np.arange(len(cloud.pixels))
    of, points = [], []
    for first, second in ((at[:, :-1], at[:, 1:]), (at[:-1], at[1:])):
        both = (first >= 0) & (second >= 0)
        p, q = first[both], second[both]
        step, size = cloud.points[q] - cloud.points[p], np.maximum(pixel[p], pixel[q])
        one = np.einsum("nx,nx->n", cloud.normals[p], cloud.normals[q]) > ONE_SURFACE
        for end in (p, q):
            one &= np.abs(np.einsum("nx,nx->n", cloud.normals[end], step)) <= PIXELS * size
        more = np.floor(np.linalg.norm(step, axis=-1) / size + 1 - APART).astype(np.int64)
        more = np.where(one, np.clip(more, 0, MOST_BETWEEN), 0)
        pair = np.repeat(np.arange(len(more)), more)
        place = np.arange(len(pair)) - np.repeat(np.cumsum(more) - more, more)
        share = (place + 1) / (more[pair] + 1)
        of.append(np.where(share <= 0.5, p[pair], q[pair]))
        points.append(cloud.points[p[pair]] + share[:, None] * step[pair])
    ends = cloud.only(np.concatenate(of))
    return Cloud(np.concatenate(points), ends.normals, ends.sigma, ends.views, ends.pixels)


@dataclass(frozen=True, eq=False)
class _Votes:
    """Sums over the other maps, one value per point."""

    moved: Floats  # sum of w_j n . (q - p), w_j = (c_j / sigma_j)^2
    weight: Floats  # sum of w_j
    sigmas: Floats  # sum of w_j sigma_j
    agree: NDArray[np.int64]  # number of agreeing maps
    through: NDArray[np.int64]  # number of contradicting maps
    near: NDArray[np.bool_]  # a map agrees, or would at a less oblique angle
    looked: NDArray[np.bool_]  # a map has a depth at the point
    owned: NDArray[np.bool_]  # no view that is `ahead` has a point that replaces it


def _compare_all(
    views: Callable[[int], FusedView],
    others: Sequence[int],
    ahead: set[int],
    points: Points,
    normals_: Points,
    sigma: Floats,
    size: Floats,
    pixel: Floats,
    *,
    by_angle: bool = True,
) -> _Votes:
    """Compare the points with every other map; only views `ahead` (with smaller pixels) may own a point instead.

    by_angle: maps weigh less where they see the surface obliquely, else c = 1.
    """
    moved, weights, sigmas = (np.zeros(len(points)) for _ in range(3))
    agree, through = (np.zeros(len(points), np.int64) for _ in range(2))
    near, looked = (np.zeros(len(points), np.bool_) for _ in range(2))
    owned = np.ones(len(points), bool)
    for other in others:
        seen = _compare(views(other), points, normals_, sigma, size)
        at = seen.at
        looked[at] = True
        near[at[seen.near]] = True
        through[at[seen.through]] += 1
        same = at[seen.agrees]
        agree[same] += 1
        cosine = seen.cosine[seen.agrees] if by_angle else 1.0
        their_weight = (cosine / seen.sigma[seen.agrees]) ** 2
        moved[same] += their_weight * seen.apart[seen.agrees]
        weights[same] += their_weight
        sigmas[same] += their_weight * seen.sigma[seen.agrees]
        if other in ahead:
            beside, spacing = seen.beside[seen.agrees], seen.size[seen.agrees]
            owned[same[(beside <= NEAR * pixel[same]) & (spacing <= MAX_SPACING_RATIO * size[same])]] = False
    return _Votes(moved, weights, sigmas, agree, through, near, looked, owned)


@dataclass(frozen=True, eq=False)
class _Seen:
    """Comparison of points with one other map, for the n points that project to a measured pixel of it."""

    at: NDArray[np.int64]  # (n,) indices of the points
    apart: Floats  # n . (q - p), along the point's normal
    sigma: Floats  # sigma_j, along the normal
    cosine: Floats  # |n . ray| of j, at least GRAZING
    size: Floats  # of j's pixels on the surface
    beside: Floats  # distance of q from p along the surface
    near: NDArray[np.bool_]  # |n . (q - p)| is within the limit, at any angle
    agrees: NDArray[np.bool_]
    through: NDArray[np.bool_]


def _compare(other: FusedView, points: Points, normals_: Points, sigma: Floats, size: Floats) -> _Seen:
    at, row, column, (_, _, z) = landing(other, points)
    depth, their_sigma = other.depth[row, column].astype(np.float64), other.sigma[row, column].astype(np.float64)
    known = np.isfinite(depth) & np.isfinite(their_sigma)
    at, row, column, depth, their_sigma = at[known], row[known], column[known], depth[known], their_sigma[known]
    theirs = _points_at(other, row, column, depth)
    away = towards_camera(other.camera, other.pose, points[at])
    facing = np.einsum("nx,nx->n", normals_[at], away)
    cosine = np.maximum(np.abs(facing), GRAZING)
    along = np.maximum(their_sigma, 1e-9 * np.abs(depth))
    between = theirs - points[at]
    apart = np.einsum("nx,nx->n", normals_[at], between)
    beside = np.sqrt(np.maximum(np.einsum("nx,nx->n", between, between) - apart**2, 0.0))
    their_size = pixel_size(other.camera, depth) / cosine
    spread = SIGMAS * np.sqrt(sigma[at] ** 2 + along**2)
    limit = spread + PIXELS * np.maximum(size[at], their_size)
    usable = facing > GRAZING  # as in `merged`: only such pixels become points of view j
    near = np.abs(apart) <= limit
    agrees = near & usable & np.isfinite(other.normals[row, column, 0])
    # compared along j's ray, where an obliquely seen surface is further away
    through = ~near & (depth - z[at] > spread / cosine + pixel_size(other.camera, depth))
    return _Seen(at, apart, along, cosine, their_size, beside, near, agrees, through)


def _points_at(view: FusedView, row: Places, column: Places, depth: Floats) -> Points:
    """Points (n, 3) in the world of the given pixels, or of places between them."""
    camera = view.camera
    across, down = (column - camera.cx).astype(np.float64), (row - camera.cy).astype(np.float64)
    if isinstance(camera, Pinhole):
        x, y = across / camera.fx * depth, down / camera.fy * depth
    else:
        x, y = across * camera.pixel_size, down * camera.pixel_size
    return view.pose.apply(np.stack([x, y, depth], axis=-1))


def _rank(view: FusedView) -> int:
    """The pixel size of a view at its median depth, in half octaves: the view of lower rank owns shared points.

    Ownership is decided per view, not per pixel: otherwise two views could each leave the same point to the other.
    """
    return int(np.floor(RANKS_PER_OCTAVE * np.log2(max(_usual_pixel(view), SMALL))))


def _usual_pixel(view: FusedView) -> float:
    """The pixel size of a view at its median depth; 1 if no depth is known."""
    known = view.depth[np.isfinite(view.depth)]
    return float(pixel_size(view.camera, np.median(known, keepdims=True))[0]) if known.size else 1.0


def piece(job: Job, task: Task) -> Record:
    """Compute a view's piece of the cloud and write it beside the view's maps."""
    written = _written_piece(job, task)
    if written is not None:
        return written
    folder = folder_of(job.folder, task.view)
    found = merged(lambda view: read_to_merge(job, view), task.view, task.neighbours)
    colours = _colours(job, task.view)[found.pixels]
    columns = fine_enough(POINT, found.points, _usual_pixel(read_fused(job.folder, task.view)))
    table = table_of(columns, found.points, found.normals, colours, found.sigma, found.views)
    record = Record(task.view, require_record(folder).name, task.key, task.neighbours, points=len(table))
    with placing(Path(job.output)) as draft:
        inside = folder_of(draft / FOLDER, task.view)
        inside.mkdir(parents=True)
        np.save(inside / FILE, table)
        write_record(inside, record, RECORD)
    return record


def _written_piece(job: Job, task: Task) -> Record | None:
    """The record of a piece written by an earlier run; None if there is none."""
    folder = folder_of(job.folder, task.view)
    return read_record(folder, task.key, RECORD) if (folder / FILE).is_file() else None


def _colours(job: Job, view: int) -> NDArray[np.uint8]:
    """Image levels (H W, 3) of a view; grey if it has no image."""
    image = open_job(job).views[view].image
    shape = read_fused(job.folder, view).depth.size
    if image is None:
        return np.full((shape, 3), GREY, np.uint8)
    levels = np.rint(255 * image).astype(np.uint8)
    return np.ascontiguousarray(
        np.broadcast_to(levels[..., None], (*levels.shape, 3)) if levels.ndim == 2 else levels
    ).reshape(-1, 3)


def cloud_tasks(job: Job, graph: Graph, fused: Sequence[int]) -> tuple[Task, ...]:
    """One task per fused view; its key is a digest of the keys of all maps it reads."""
    keys = {view: require_record(folder_of(job.folder, view)).key for view in fused}
    tasks = []
    for view in fused:
        others = tuple(sorted(other for other in graph.both_ways(view) if other in keys))
        tasks.append(
            Task("cloud", view, others, digest(["cloud", keys[view], others, [keys[each] for each in others]]))
        )
    return tuple(tasks)


def write_cloud(job: Job, graph: Graph, fused: Sequence[int], runner: Runner, callback: ProgressCallback | None) -> int:
    """Write OUT/scene.ply from the pieces of all views; return the number of points."""
    tasks = cloud_tasks(job, graph, fused)
    records = [each for task in tasks if (each := _written_piece(job, task)) is not None]
    done = {record.view for record in records}
    todo = [task for task in tasks if task.view not in done]
    progress = TaskProgress(callback, len(todo), "cloud of view")
    for record in runner.run(job, todo):
        if record.failure:
            raise FileError(f"the cloud of view {record.name} failed: {record.failure}")
        records.append(record)
        progress.finished()
    records.sort(key=lambda each: each.view)

    pieces = [folder_of(job.folder, record.view) / FILE for record in records if record.points]
    kinds = [np.load(each, mmap_mode="r").dtype for each in pieces]
    columns = max(kinds, key=lambda kind: kind.itemsize, default=POINT)  # double precision if any piece needs it
    count = sum(record.points for record in records)
    with placing(Path(job.output)) as draft:
        write_table(draft / "scene.ply", columns, count, map(np.load, pieces))
    return count
