"""Places of simple shapes (a corridor, a street, poles, ...) by three motions under eight noises: one view to eleven.

python -m benchmarks.places [--part design|closed|wide] [--scenes NAMES] [--motions NAMES] [--noises NAMES] [--jobs 1]
python -m benchmarks.places --part closed --noises exact,quiet,lines,network

Rows: RMSE and mean error of `auto` with 1, 3 and 11 views, of the median of 11 and of the noisy view itself, on pixels
that all know; coverage of sigma; errors beyond 5 % of the depth, and of those kept at a confidence of 0.8. Marks: R
above `auto` of the reference alone, K above that of three views, M above the median (RMSE, by 2 %). 160 x 120 pixels.
`auto` was designed on the first half; the closed half was run once, for the commits before and after; so was `wide`,
which was added then, since no closed place has a wide range of depths.
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from cfusion import Pinhole, Pose, View, fuse

Floats = NDArray[np.float64]
Shape = Callable[[Floats, Floats], Floats]  # distance along rays (H, W, 3) from an origin (3,), inf without a hit
CAMERA = Pinhole(fx=140.0, fy=140.0, cx=79.5, cy=59.5, width=160, height=120)
SHAPE = (CAMERA.height, CAMERA.width)
MOTIONS = ("lateral", "forward", "orbit")
NOISES = ("gauss", "laplace", "kinect", "stereo", "mvs", "holes", "scale", "pose")
MORE_NOISES = ("exact", "quiet", "lines", "network")  # named in --noises: rendered maps, a lidar's, a network's
COUNTS = (1, 3, 11)
UNITS = {"street": 8.0, "corridor": 1.5, "hall": 4.0, "avenue": 8.0}  # size of noise and motion; 1 elsewhere
PARTS = {
    "design": ("corridor", "poles", "street", "steps", "balls", "window"),
    "closed": ("stairs", "table", "slats", "relief", "roof", "plain"),
    "wide": ("hall", "avenue"),
}


def plane(*numbers: float) -> Shape:
    """Points p with n . p = d, for numbers (n, d)."""
    normal, distance = np.array(numbers[:3]), numbers[3]

    def hit(origin: Floats, rays: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return _in_front((distance - origin @ normal) / (rays @ normal))

    return hit


def box(low: tuple[float, ...], high: tuple[float, ...], *, inside: bool = False) -> Shape:
    """An upright box, seen from outside or, as a room, from inside."""

    def hit(origin: Floats, rays: Floats) -> Floats:
        rays = np.where(np.abs(rays) < 1e-12, 1e-12, rays)
        ends = (np.array(low) - origin) / rays, (np.array(high) - origin) / rays
        enter, leave = np.minimum(*ends).max(-1), np.maximum(*ends).min(-1)
        return _in_front(leave if inside else np.where(enter < leave, enter, np.inf))

    return hit


def ball(centre: NDArray[np.float64] | tuple[float, ...], radius: float, axes: tuple[int, ...] = (0, 1, 2)) -> Shape:
    """A ball; with two axes an endless cylinder along the third."""

    def hit(origin: Floats, rays: Floats) -> Floats:
        away, along = (origin - np.array(centre))[list(axes)], rays[..., list(axes)]
        square, mixed = (along * along).sum(-1), along @ away
        root = mixed * mixed - square * (away @ away - radius * radius)
        return _in_front(np.where(root > 0, (-mixed - np.sqrt(np.maximum(root, 0))) / square, np.inf))

    return hit


def relief(depth: float, height: float, period: float) -> Shape:
    """A wall in waves."""

    def hit(origin: Floats, rays: Floats) -> Floats:
        t = (depth - origin[2]) / rays[..., 2]
        for _ in range(60):
            x, y, z = np.moveaxis(origin + t[..., None] * rays, -1, 0)
            wave = height * np.sin(2 * np.pi * x / period) * np.cos(2 * np.pi * y / (1.3 * period))
            t = t + 0.7 * (depth + wave - z) / rays[..., 2]
        return _in_front(t)

    return hit


def _in_front(distance: Floats) -> Floats:
    return np.where(distance > 1e-6, distance, np.inf)


def scenes() -> dict[str, list[Shape]]:
    """All places: x to the right, y down, z ahead; the reference's camera is at the origin."""
    rng = np.random.default_rng(5)
    houses = ((-9, 12, 4, 8), (5, 16, 4, 9), (-12, 30, 6, 10), (6, 36, 6, 12), (-2, 22, 1.8, 1.5), (2, 12, 1.7, 1.5))
    things = ((-0.7, 2.5, 0.4), (-0.2, 2.9, 0.25), (0.3, 2.4, 0.55), (0.55, 2.9, 0.3))
    frame = (((-4, -4), (-0.5, 4)), ((0.5, -4), (4, 4)), ((-4, -4), (4, -0.45)), ((-4, 0.35), (4, 4)))
    return {
        "corridor": [box((-1.2, -1.1, -5), (1.2, 1.2, 14), inside=True), box((-1.2, -0.2, 6), (-0.7, 1.2, 6.6))],
        "poles": [plane(0.1, 0, 1, 4.2)]
        + [
            ball((x, 0, 3 + 0.3 * np.sin(7 * x)), 0.025 + 0.02 * (i % 3), (0, 2))
            for i, x in enumerate(np.linspace(-1.3, 1.3, 8))
        ],
        "street": [plane(0, 1, 0, 1.6)] + [box((x, 1.6 - h, z), (x + w, 1.7, z + 5)) for x, z, w, h in houses],
        "steps": [
            box((-4 + 0.35 * i, -4, 3 + 0.04 * (i * 7 % 11)), (-4 + 0.35 * (i + 1), 4, 9)) for i in range(24)
        ],
        "balls": [plane(0, 0, 1, 5.0)]
        + [ball(rng.uniform((-1.4, -1.1, 2.2), (1.4, 1.1, 4.2)), rng.uniform(0.12, 0.4)) for _ in range(18)],
        "window": [box((*low, 2.6), (*high, 2.8)) for low, high in frame]
        + [box((-5, -3, -6), (5, 2, 7), inside=True), ball((0.1, 0.2, 4.5), 0.3)],
        "stairs": [
            box((-3, 1.2 - 0.25 * k, 3 + 0.45 * k), (3, 1.3 - 0.25 * (k - 1), 9)) for k in range(9)
        ]
        + [box((-3.5, -3, -6), (3.5, 1.2, 8), inside=True)],
        "table": [box((-2.5, -2, -5), (2.5, 1.4, 4.5), inside=True), box((-0.9, 0.45, 2.2), (0.9, 0.55, 3.4))]
        + [box((x, 0.45 - h, z), (x + 0.2, 0.45, z + 0.2)) for x, z, h in things]
        + [ball((0, 0.3, 2.4), 0.15)],
        "slats": [plane(0, 0, 1, 4.0)] + [box((-2, y, 2.9), (2, y + 0.1, 2.95)) for y in np.linspace(-1.4, 1.3, 12)],
        "relief": [relief(3.0, 0.15, 0.8)],
        "roof": [plane(0.6, 0, 0.8, 3.2), plane(-0.6, 0, 0.8, 3.4), plane(0, 0.7, 0.7, 3.4)],
        "plain": [plane(0.2, 0.1, 1, 3.0)],
        "hall": [box((-6, -3, -9), (6, 1.6, 30), inside=True), box((-2, 0.9, 8), (1, 1.6, 9.5))]
        + [ball((x, 0, z), 0.3, (0, 2)) for x in (-3, 3) for z in (6, 11, 16, 21, 26)],
        "avenue": [plane(0, 1, 0, 1.6), plane(0, 0, 1, 60)]
        + [ball((x, 0, z), 0.25, (0, 2)) for x in (-4, 3.5) for z in (7, 13, 20, 28, 37, 47)],
    }  # fmt: skip


def pose(motion: str, step: int, unit: float) -> Pose:
    """The pose of the view so many steps from the reference."""
    if motion == "lateral":
        return Pose(np.eye(3), np.array([0.06 * unit * step, 0.012 * unit * step * (-1) ** step, 0.0]))
    if motion == "forward":
        return Pose(np.eye(3), np.array([0.01 * step, 0.0, 0.08 * unit * step]))
    angle, centre = np.radians(4.0 * step), np.array([0, 0, 3.0 * unit])
    turn = np.array([[np.cos(angle), 0, -np.sin(angle)], [0, 1, 0], [np.sin(angle), 0, np.cos(angle)]])
    return Pose(turn, centre - turn @ centre)


def render(shapes: list[Shape], at: Pose) -> Floats:
    """The depth (H, W), NaN where nothing is hit."""
    rows, columns = np.mgrid[: SHAPE[0], : SHAPE[1]]
    rays = np.stack([(columns - CAMERA.cx) / CAMERA.fx, (rows - CAMERA.cy) / CAMERA.fy, np.ones(SHAPE)], -1)
    matrix = at.matrix()
    depth = np.min([hit(matrix[:3, 3], rays @ matrix[:3, :3].T) for hit in shapes], axis=0)
    return np.where(depth < np.inf, depth, np.nan)


def noisy(depth: Floats, noise: str, unit: float, rng: np.random.Generator) -> Floats:
    """A measurement of a depth map."""
    white = rng.normal(size=SHAPE)
    if noise == "gauss":
        return np.maximum(depth + 0.02 * unit * white, 1e-3)
    if noise == "laplace":
        return np.maximum(depth + rng.laplace(0, 0.05 * unit, SHAPE), 1e-3)
    if noise == "kinect":  # axial and lateral noise, and steps of an eighth of a pixel
        far = depth + white * (0.0012 * unit + 0.0019 * (2 * depth / unit - 0.4) ** 2 * unit / 2)
        row, column = (np.rint(at + rng.normal(0, 0.5, SHAPE)).astype(int) for at in np.mgrid[: SHAPE[0], : SHAPE[1]])
        far = far[np.clip(row, 0, SHAPE[0] - 1), np.clip(column, 0, SHAPE[1] - 1)]
        return CAMERA.fx * 0.15 * unit / (np.rint(8 * CAMERA.fx * 0.15 * unit / far) / 8)
    if noise == "stereo":  # a quarter of a pixel, shared by neighbours; three in a hundred anywhere
        focal, error = CAMERA.fx * 0.15 * unit, gaussian_filter(white, 1.5)
        found = focal / np.maximum(focal / depth + 0.25 * error / error.std(), 0.3)
        anywhere = focal / rng.uniform(1, focal / np.nanmin(depth), SHAPE)
        return np.where(rng.random(SHAPE) < 0.03, anywhere, found)
    if noise == "mvs":  # a tenth of the pixels in blobs, off by 15 %
        blobs, error = gaussian_filter(rng.normal(size=SHAPE), 4), gaussian_filter(rng.normal(size=SHAPE), 6)
        wrong = blobs > np.quantile(blobs, 0.9)
        return depth * (1 + 0.004 * white) * np.where(wrong, 1 + 0.15 * error / error.std(), 1)
    if noise == "holes":  # a third of the image
        holes = gaussian_filter(rng.normal(size=SHAPE), 5)
        return np.where(holes > np.quantile(holes, 0.65), np.nan, depth + 0.01 * unit * white)
    if noise in ("exact", "quiet"):
        return depth * (1 + (1e-4 if noise == "quiet" else 0.0) * white)
    if noise == "lines":  # every fourth row, a tenth of it missing
        measured = (np.arange(SHAPE[0])[:, None] % 4 == rng.integers(4)) & (rng.random(SHAPE) < 0.9)
        return np.where(measured, depth + 0.01 * unit * white, np.nan)
    if noise == "network":  # blurred edges, and errors of 2 % that reach far
        error, known = gaussian_filter(rng.normal(size=SHAPE), 15), np.isfinite(depth)
        share = np.maximum(gaussian_filter(known.astype(float), 1.5), 1e-6)
        blurred = np.where(known, gaussian_filter(np.where(known, depth, 0), 1.5) / share, np.nan)
        return blurred * (1 + 0.02 * error / error.std() + 0.003 * white)
    return depth * (1 + rng.normal(0, 0.01) if noise == "scale" else 1) + 0.005 * unit * white


def misplaced(at: Pose, unit: float, rng: np.random.Generator) -> Pose:
    """A pose off by a quarter of a degree and 0.006 units."""
    x, y, z = rng.normal(0, np.radians(0.25), 3)
    turn, sign = np.linalg.qr(np.eye(3) + np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]))
    matrix = at.matrix()
    turned = turn * np.sign(np.diag(sign)) @ matrix[:3, :3]
    return Pose(turned, matrix[:3, 3] + rng.normal(0, 0.006 * unit, 3))


@dataclass(frozen=True)
class Row:
    """Errors of one case, RMSE and mean each: of `auto` by number of views, of the median, of the view itself."""

    errors: dict[str, tuple[float, float]]
    cover: tuple[float, float]
    gross: float
    kept: float

    @property
    def marks(self) -> str:
        rmse = {name: 1.02 * error[0] for name, error in self.errors.items()}
        most = self.errors["11"][0]
        return "".join(mark for mark, name in (("R", "1"), ("K", "3"), ("M", "median")) if most > rmse[name])


def row_of(case: tuple[str, str, str]) -> Row:
    """Run one case."""
    warnings.simplefilter("ignore")
    scene, motion, noise = case
    unit, rng = UNITS.get(scene, 1.0), np.random.default_rng(zlib.crc32("".join(case).encode()))
    shapes, middle, views = scenes()[scene], max(COUNTS) // 2, []
    truth = render(shapes, pose(motion, 0, unit))
    for k in range(max(COUNTS)):
        at = pose(motion, k - middle, unit)
        measured = noisy(render(shapes, at), noise, unit, rng).astype(np.float32)
        views.append(View(measured, CAMERA, misplaced(at, unit, rng) if noise == "pose" and k != middle else at))
    fused = {count: fuse(views[middle - count // 2 : middle + count // 2 + 1], min_confidence=0.0) for count in COUNTS}
    depths = {str(count): result.depth for count, result in fused.items()}
    depths["median"] = fuse(views, "median", reference=middle).depth
    known = np.isfinite(truth) & np.logical_and.reduce([np.isfinite(each) for each in depths.values()])
    depths["view"] = views[middle].depth
    errors = {}
    for name, depth in depths.items():
        off = np.abs(depth - truth)[known & np.isfinite(depth)]
        errors[name] = float(np.sqrt((off**2).mean())), float(off.mean())
    best = fused[max(COUNTS)]
    off = np.abs(best.depth - truth)
    ratio = (off / best.sigma)[np.isfinite(off / best.sigma)]
    wrong, seen = off > 0.05 * truth, np.isfinite(off)
    kept = seen & (best.confidence >= 0.8)
    cover = float((ratio < 1).mean()), float((ratio < 1.96).mean())
    return Row(errors, cover, float(wrong[seen].mean()), float(wrong[kept].mean()))


def cases(given: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    for scene in given.scenes.split(",") if given.scenes else PARTS[given.part]:
        for motion in given.motions.split(","):
            for noise in given.noises.split(","):
                yield scene, motion, noise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, default="design")
    parser.add_argument("--scenes", default="")
    parser.add_argument("--motions", default=",".join(MOTIONS))
    parser.add_argument("--noises", default=",".join(NOISES))
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    rows: list[tuple[tuple[str, str, str], Row]] = []
    print(
        f"{'':26}{'RMSE of 1':>10}{'3':>8}{'11':>8}{'median':>8}{'view':>8}{'mean of 1':>11}{'3':>8}{'11':>8}", end=""
    )
    print(f"{'median':>8}   68 / 95 %  > 5 %  kept")
    with ProcessPoolExecutor(given.jobs) as pool:
        todo = list(cases(given))
        for case, row in zip(todo, pool.map(row_of, todo), strict=True):
            rows.append((case, row))
            errors = [row.errors[name] for name in ("1", "3", "11", "median", "view")]
            numbers = "".join(f"{error[0]:8.4f}" for error in errors), "".join(f"{e[1]:8.4f}" for e in errors[:4])
            tail = (
                f"{100 * row.cover[0]:6.0f} / {100 * row.cover[1]:.0f}  {100 * row.gross:5.2f}  {100 * row.kept:4.2f}"
            )
            print(f"{case[0]:10}{case[1]:9}{case[2]:9}{numbers[0]}  {numbers[1]}  {tail}  {row.marks}", flush=True)
    for name in ("1", "3", "11", "median"):
        mean = [float(np.exp(np.mean([np.log(row.errors[name][i]) for _, row in rows]))) for i in (0, 1)]
        print(f"geometric mean of {name:>6}: RMSE {mean[0]:.4f}, mean error {mean[1]:.4f}")
    for mark, what in (("R", "the reference alone"), ("K", "three views"), ("M", "the median")):
        print(f"eleven views above {what}: {sum(mark in row.marks for _, row in rows)} of {len(rows)}")


if __name__ == "__main__":
    main()
