"""Places drawn at random: things in a room, before a wall, on the ground or before nothing; 2 to 15 views, any motion.

python -m benchmarks.random_places FIRST LAST [--backend cpu] [--jobs 1]

One place for each seed from FIRST to before LAST: size of the world, things down to a width of a pixel, number of
views, their motion, which one is the reference, and one of twelve kinds of noise (those of `benchmarks.places`, and
views with different noises) of any strength. Rows: RMSE and mean error of `auto`, of `auto` with one and with three
views, of the median, in units of the world and on pixels that all know; coverage of sigma; errors beyond 5 % of the
depth that are kept at a confidence of 0.8, and the pixels kept. Marks: R, K, M as in `benchmarks.places`; G if more
than 0.5 % are kept. Seeds below 1000 are there to be looked at, those from 1000 on to report.
"""

from __future__ import annotations

import argparse
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.places import CAMERA, MORE_NOISES, NOISES, Shape, ball, box, misplaced, noisy, plane, render
from cfusion import Pose, View, fuse
from cfusion.geometry.pose import turned_by

KINDS = (*NOISES, *(noise for noise in MORE_NOISES if noise != "lines"), "mix")
MIXED = ("gauss", "kinect", "holes", "mvs", "stereo")
OWN_SIZE = ("kinect", "stereo", "mvs", "exact", "quiet", "network")  # noises whose size is not drawn
FEWEST = 0.2  # of the image must be seen


@dataclass(frozen=True, eq=False)
class Place:
    """A place, its views, and what is true in the reference."""

    name: str
    unit: float
    views: list[View]
    reference: int
    truth: np.ndarray


def draw(seed: int) -> Place:
    """The place of a seed."""
    rng = np.random.default_rng(seed)
    unit = float(np.exp(rng.uniform(np.log(0.3), np.log(10))))
    around = str(rng.choice(["room", "wall", "ground", "nothing"], p=[0.45, 0.25, 0.2, 0.1]))
    far = rng.uniform(2.5, 6) * unit
    shapes = _surroundings(around, far, unit, rng) + [_thing(far, unit, rng) for _ in range(rng.integers(2, 14))]
    count, noise = int(rng.integers(2, 16)), str(rng.choice(KINDS))
    step, turn, level = rng.uniform(0.02, 0.12) * unit, rng.uniform(0, 3), float(np.exp(rng.uniform(-1.2, 1.1)))
    ahead, axis = (each / np.linalg.norm(each) for each in rng.normal(size=(2, 3)))
    reference = int(rng.integers(count)) if rng.random() < 0.3 else count // 2
    views, truth = [], np.zeros(0)
    for k in range(count):
        apart, shaken = k - reference, 0.0 if k == reference else 1.0
        turned = turned_by(np.radians(turn * apart * axis + 0.4 * shaken * rng.normal(size=3)))
        at = Pose(turned, step * apart * ahead + 0.01 * unit * shaken * rng.normal(size=3))
        depth = render(shapes, at)
        truth = depth if k == reference else truth
        here = str(rng.choice(MIXED)) if noise == "mix" else noise
        measured = noisy(depth, here, unit * (1.0 if here in OWN_SIZE else level), rng)
        measured = np.where(measured > 1e-3 * unit, measured, np.nan).astype(np.float32)
        off = noise == "pose" and k != reference
        views.append(View(measured, CAMERA, misplaced(at, unit * min(level, 1), rng) if off else at))
    return Place(f"{seed:5} {around:8}{noise:8}{count:3} views", unit, views, reference, truth)


def _surroundings(around: str, far: float, unit: float, rng: np.random.Generator) -> list[Shape]:
    if around == "room":
        low, high = rng.uniform((1.2, 1, 3), (3, 2, 3)) * unit, rng.uniform((1.2, 1), (3, 2)) * unit
        return [box((-low[0], -low[1], -low[2]), (high[0], high[1], far), inside=True)]
    if around == "wall":
        return [plane(*rng.normal(0, 0.25, 2), 1, far)]
    if around == "ground":
        return [plane(0, 1, 0, rng.uniform(0.6, 1.6) * unit), plane(0, 0, 1, rng.uniform(3, 8) * far)]
    return []


def _thing(far: float, unit: float, rng: np.random.Generator) -> Shape:
    """A ball, a post or a box, between a pixel and a tenth of the image in size."""
    z, size = rng.uniform(1.5 * unit, far), np.exp(rng.uniform(np.log(0.02), np.log(0.5))) * unit
    centre = np.array([rng.uniform(-0.5, 0.5) * z, rng.uniform(-0.4, 0.4) * z, z])
    kind = rng.integers(4)
    if kind < 2:
        return ball(centre, size) if kind == 0 else ball(centre, size / 3, (0, 2))
    half = size * np.exp(rng.normal(0, 0.8, 3))
    return box(tuple(centre - half), tuple(centre + half))


@dataclass(frozen=True)
class Row:
    """Errors of one place in units of the world, RMSE and mean each, and what is kept."""

    name: str
    errors: dict[str, tuple[float, float]]
    cover: tuple[float, float]
    gross: float
    density: float

    @property
    def marks(self) -> str:
        most = self.errors["all"][0]
        above = (("R", "1"), ("K", "3"), ("M", "median"))
        return "".join(mark for mark, name in above if most > 1.02 * self.errors[name][0]) + "G" * (self.gross > 0.005)


def row_of(seed: int, backend: str) -> Row | None:
    """Fuse one place; None if it shows hardly anything."""
    warnings.simplefilter("ignore")
    place = draw(seed)
    views, reference, truth = place.views, place.reference, place.truth
    if np.isfinite(truth).mean() < FEWEST:
        return None
    near = sorted(sorted(range(len(views)), key=lambda k: (abs(k - reference), k))[:3])
    run = partial(fuse, min_confidence=0.0, backend=backend)
    best = run(views, reference=reference)
    depths = {
        "all": best.depth,
        "1": run(views[reference : reference + 1]).depth,
        "3": run([views[k] for k in near], reference=near.index(reference)).depth,
        "median": fuse(views, "median", reference=reference, backend=backend).depth,
    }
    known = np.isfinite(truth) & np.logical_and.reduce([np.isfinite(each) for each in depths.values()])
    off = {name: np.abs(depth - truth)[known] / place.unit for name, depth in depths.items()}
    errors = {name: (float(np.sqrt((each**2).mean())), float(each.mean())) for name, each in off.items()}
    away = np.abs(best.depth - truth)
    ratio = (away / best.sigma)[np.isfinite(away / best.sigma)]
    kept = np.isfinite(away) & (best.confidence >= 0.8)
    cover = float((ratio < 1).mean()), float((ratio < 1.96).mean())
    gross, density = float((away > 0.05 * truth)[kept].mean()), float(kept.sum() / np.isfinite(truth).sum())
    return Row(place.name, errors, cover, gross, density)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    names = ("all", "1", "3", "median")
    heads = "".join(f"{what:>8}{'1':>8}{'3':>8}{'median':>8}  " for what in ("RMSE", "mean"))
    print(f"{'':33}{heads} 68 / 95 %  > 5 %  kept")
    with ProcessPoolExecutor(given.jobs) as pool:
        rows = []
        for row in pool.map(partial(row_of, backend=given.backend), range(given.first, given.last)):
            if row is None:
                continue
            rows.append(row)
            rmse, mean = ("".join(f"{row.errors[name][i]:8.4f}" for name in names) for i in (0, 1))
            cover = f"{100 * row.cover[0]:6.0f} / {100 * row.cover[1]:.0f}"
            print(
                f"{row.name:33}{rmse}  {mean}{cover}  {100 * row.gross:5.2f}  {100 * row.density:4.0f}  {row.marks}",
                flush=True,
            )
    for name in names:
        mean = [float(np.exp(np.mean([np.log(max(row.errors[name][i], 1e-9)) for row in rows]))) for i in (0, 1)]
        print(f"geometric mean of {name:>6}: RMSE {mean[0]:.4f}, mean error {mean[1]:.4f}")
    for mark, what in (("R", "the reference alone"), ("K", "three views"), ("M", "the median")):
        print(f"all views above {what}: {sum(mark in row.marks for row in rows)} of {len(rows)}")
    gross = np.array([row.gross for row in rows])
    print(f"errors beyond 5 % kept: mean {100 * gross.mean():.2f} %, more than 0.5 % in {(gross > 0.005).sum()}")


if __name__ == "__main__":
    main()
