"""A city of planes and steps: sloping ground, towers, halls, courtyards and gabled houses."""

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from cfusion.synthetic.scene import Scene

LENGTH, WIDTH = 520.0, 330.0  # of the ground, metres along x and y
BLOCKS = (6, 5)  # along x and y
STREET = 14.0  # metres
GROUND_SLOPE = (0.012, -0.008)
CELLAR = 8.0  # metres below ground at which walls begin, as the ground slopes
Polygon: TypeAlias = NDArray[np.float64]  # (3 or 4, 3), corners in order


def city(rng: Generator | None = None) -> Scene:
    """A city block of 520 x 330 m, z up, roofs up to 60 m; the same unless a generator is given."""
    rng = np.random.default_rng(520330) if rng is None else rng
    x, y = np.array([-0.5, 0.5, 0.5, -0.5]) * LENGTH, np.array([-0.5, -0.5, 0.5, 0.5]) * WIDTH
    polygons = [np.column_stack([x, y, GROUND_SLOPE[0] * x + GROUND_SLOPE[1] * y])]
    greys = [0.45]
    kinds = (_tower, _hall, _courtyard, _row, _villas)
    for i, j in np.ndindex(*BLOCKS):
        x0 = (i / BLOCKS[0] - 0.5) * LENGTH + 0.5 * STREET
        y0 = (j / BLOCKS[1] - 0.5) * WIDTH + 0.5 * STREET
        x1, y1 = x0 + LENGTH / BLOCKS[0] - STREET, y0 + WIDTH / BLOCKS[1] - STREET
        kind = kinds[int(rng.integers(len(kinds)))]
        for building in kind(x0, y0, x1, y1, rng):
            polygons += building
            greys += [float(rng.uniform(0.3, 0.95))] * len(building)
    return _mesh(polygons, greys)


def _mesh(polygons: list[Polygon], greys: list[float]) -> Scene:
    """Fans of triangles; vertices are not shared, so that polygons are shaded flat."""
    faces, albedo, start = [], [], 0
    for polygon, grey in zip(polygons, greys, strict=True):
        for k in range(1, len(polygon) - 1):
            faces.append([start, start + k, start + k + 1])
            albedo.append(grey)
        start += len(polygon)
    return Scene(np.concatenate(polygons), np.array(faces), "city", np.array(albedo))


def _box(x0: float, y0: float, x1: float, y1: float, top: float) -> list[Polygon]:
    """A flat roof and four walls."""
    ring = [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
    roof = np.array([(x, y, top) for x, y in ring])
    return [roof, *(_wall(a, b, top) for a, b in zip(ring, ring[1:] + ring[:1], strict=True))]


def _gabled(x0: float, y0: float, x1: float, y1: float, eaves: float, rise: float) -> list[Polygon]:
    """A house with a pitched roof, its ridge along the longer side."""
    if x1 - x0 < y1 - y0:  # built along x, then the axes are swapped
        swapped = _gabled(y0, x0, y1, x1, eaves, rise)
        return [polygon[::-1, [1, 0, 2]] for polygon in swapped]
    middle, ridge = 0.5 * (y0 + y1), eaves + rise
    south = np.array([(x0, y0, eaves), (x1, y0, eaves), (x1, middle, ridge), (x0, middle, ridge)])
    north = np.array([(x1, y1, eaves), (x0, y1, eaves), (x0, middle, ridge), (x1, middle, ridge)])
    gables = [np.array([(x, y0, eaves), (x, y1, eaves), (x, middle, ridge)]) for x in (x0, x1)]
    return [south, north, *gables, *_box(x0, y0, x1, y1, eaves)[1:]]


def _wall(a: tuple[float, float], b: tuple[float, float], top: float) -> Polygon:
    return np.array([(*a, -CELLAR), (*b, -CELLAR), (*b, top), (*a, top)])


def _tower(x0: float, y0: float, x1: float, y1: float, rng: Generator) -> Iterator[list[Polygon]]:
    """A low base with one or two towers on it."""
    base = rng.uniform(8, 16)
    yield _box(x0, y0, x1, y1, base)
    for left, right in ((0.08, 0.42), (0.56, 0.92))[: int(rng.integers(1, 3))]:
        inset = rng.uniform(0.1, 0.3) * (y1 - y0)
        xa, xb = x0 + left * (x1 - x0), x0 + right * (x1 - x0)
        yield _box(xa, y0 + inset, xb, y1 - inset, base + rng.uniform(15, 44))


def _hall(x0: float, y0: float, x1: float, y1: float, rng: Generator) -> Iterator[list[Polygon]]:
    """A hall under a shallow pitched roof, or a flat one with small boxes on top."""
    height = rng.uniform(7, 14)
    if rng.uniform() < 0.5:
        yield _gabled(x0, y0, x1, y1, height, rng.uniform(3, 6))
        return
    yield _box(x0, y0, x1, y1, height)
    for _ in range(4):
        x, y, side = rng.uniform(x0, x1 - 10), rng.uniform(y0, y1 - 10), rng.uniform(4, 10)
        yield _box(x, y, x + side, y + side, height + rng.uniform(1.5, 4))


def _courtyard(x0: float, y0: float, x1: float, y1: float, rng: Generator) -> Iterator[list[Polygon]]:
    """Four wings around a yard."""
    wing = rng.uniform(11, 15)
    heights = rng.uniform(12, 26, 4)
    yield _box(x0, y0, x1, y0 + wing, heights[0])
    yield _box(x0, y1 - wing, x1, y1, heights[1])
    yield _gabled(x0, y0 + wing, x0 + wing, y1 - wing, heights[2] - 4, 4.0)
    yield _gabled(x1 - wing, y0 + wing, x1, y1 - wing, heights[3] - 4, 4.0)


def _row(x0: float, y0: float, x1: float, y1: float, rng: Generator) -> Iterator[list[Polygon]]:
    """Two rows of houses, each a little higher or lower than the next, gardens between."""
    depth = rng.uniform(12, 15)
    for y in (y0, y1 - depth):
        edges = np.linspace(x0, x1, 4)
        for left, right in pairwise(edges):
            yield _gabled(left, y, right, y + depth, rng.uniform(6, 11), rng.uniform(3, 6))


def _villas(x0: float, y0: float, x1: float, y1: float, rng: Generator) -> Iterator[list[Polygon]]:
    """Detached houses, turned either way."""
    for i, j in np.ndindex(3, 2):
        x, y = x0 + i * (x1 - x0) / 3, y0 + j * (y1 - y0) / 2
        length, width = (16.0, 10.0) if rng.uniform() < 0.5 else (11.0, 17.0)
        yield _gabled(x + 2, y + 2, x + 2 + length, y + 2 + width, rng.uniform(4, 8), rng.uniform(3, 6))
