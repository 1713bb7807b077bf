"""Neighbours chosen from the depth maps themselves: by shared surface, angle and resolution.

The score of view j as a neighbour of view i is the mean over the cells of i's sketch of

    shared(p) . angle(p) . resolution(p)

shared: j's sketch has the same depth at p, and p's normal faces j; angle: 1 while the rays from i and j to p differ by
at most ANGLE, then a Gaussian; resolution: 1 where j's pixels are no larger than i's, else the ratio of their sizes.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import CFusionError
from cfusion.geometry import View
from cfusion.scene.graph import Graph, ranked
from cfusion.scene.sketch import Sketch, sketch, towards_camera

Floats = NDArray[np.float64]

LEAST = 0.02  # score below which a view is not a neighbour
APART = 0.05  # relative difference of depth up to which two views see the same surface
SIGMAS = 3.0  # of the cells' noise, added to that
ANGLE, FALL = np.radians(20.0), np.radians(25.0)
CANDIDATES = 96  # views compared with each view; all of them if there are no more


def by_surface(
    views: Sequence[View],
    *,
    failed: Callable[[int, CFusionError], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Graph:
    """The useful neighbours of every view, best first; each view is read once.

    A view that cannot be read has no neighbours and is none; `failed` is called with its error (else it is raised).
    """
    sketches: list[Sketch | None] = []
    for number in range(len(views)):
        try:
            sketches.append(sketch(views[number]))
        except CFusionError as error:
            if failed is None:
                raise
            failed(number, error)
            sketches.append(None)
        if progress is not None:
            progress(number + 1)
    return graph_of(sketches)


def graph_of(sketches: Sequence[Sketch | None]) -> Graph:
    """The graph of sketches; a view whose sketch is None is no neighbour."""
    scored: list[list[tuple[float, int]]] = []
    near = _near(sketches)
    for number, one in enumerate(sketches):
        if one is None or len(one.points) == 0:
            scored.append([])
            continue
        others = [(other, each) for other in near(number) if (each := sketches[other]) is not None]
        values = scores(one, [each for _, each in others])
        scored.append(
            [(float(value), other) for value, (other, _) in zip(values, others, strict=True) if value >= LEAST]
        )
    return ranked(scored, "shared surface")


def scores(one: Sketch, others: Sequence[Sketch]) -> Floats:
    """Usefulness (C,) of each of the others for fusion into `one`, from 0 to 1."""
    if not others:
        return np.zeros(0)
    depth, found, pixel = (np.stack(each) for each in zip(*(_seen_by(one, each) for each in others), strict=True))
    noise = SIGMAS * (one.noise + np.array([other.noise for other in others]))
    towards = np.stack([towards_camera(other.camera, other.pose, one.points) for other in others])
    with np.errstate(invalid="ignore"):
        shared = np.abs(found - depth) <= APART * np.abs(depth) + noise[:, None]
        facing = ~(np.einsum("nx,cnx->cn", one.normals, towards) <= 0)  # NaN: a cell without a normal counts as facing
    cosine = np.einsum("nx,cnx->cn", towards_camera(one.camera, one.pose, one.points), towards)
    angle = np.arccos(np.clip(cosine, -1.0, 1.0))
    finer = np.minimum(1.0, one.pixel_at(one.depths) / pixel)
    worth = np.exp(-((np.maximum(angle - ANGLE, 0.0) / FALL) ** 2)) * finer
    return np.asarray(np.where(shared & facing, worth, 0.0).sum(axis=1) / len(one.points))


def _seen_by(one: Sketch, other: Sketch) -> tuple[Floats, Floats, Floats]:
    """Of one's points: depth in the other's frame, depth of the other's map (NaN outside), size of its pixels."""
    local = (one.points - other.pose.translation) @ other.pose.rotation
    u, v, z = other.camera.project(local)
    height, width = other.depth.shape
    with np.errstate(invalid="ignore"):
        inside = (u >= -0.5) & (v >= -0.5) & (u < width - 0.5) & (v < height - 0.5)
    column, row = np.where(inside, u + 0.5, 0).astype(np.int64), np.where(inside, v + 0.5, 0).astype(np.int64)
    found = np.where(inside, other.depth[row, column], np.nan)
    return z, found, other.pixel_at(np.where(inside, z, 1.0))


def _near(sketches: Sequence[Sketch | None]) -> Callable[[int], Iterable[int]]:
    """The candidates to compare with a view: all others, or the CANDIDATES nearest by position and centre of view."""
    count = len(sketches)
    if count <= CANDIDATES + 1:
        return lambda number: (other for other in range(count) if other != number)
    nowhere = np.full(3, np.inf)
    middles = np.array([nowhere if each is None or not len(each.points) else _middle(each) for each in sketches])
    places = np.array([nowhere if each is None else each.pose.translation for each in sketches])

    def nearest(number: int) -> Iterable[int]:
        with np.errstate(invalid="ignore"):
            apart = np.linalg.norm(middles - middles[number], axis=1) + np.linalg.norm(places - places[number], axis=1)
        apart[number] = np.nan
        order = np.argsort(apart, kind="stable")[:CANDIDATES]  # NaN last
        return (int(other) for other in order if np.isfinite(apart[other]))

    return nearest


def _middle(one: Sketch) -> NDArray[np.float64]:
    return np.asarray(np.median(one.points, axis=0))
