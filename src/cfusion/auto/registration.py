"""Poses and scales refined against the surface: a slightly misplaced view blurs what the others agree on.

A view with its camera at c, whose points X, in the reference's frame, move by D = w x X + t + s (X - c), measures a
surface of normal n further away along the reference's ray r, by n . D / (n . r). Least squares over the surface give
the motion m = (w, t, s) that removes its residuals, relative to the reference's; blocks of pixels give its covariance
C, whatever the noise. s is the change of scale: a rigid motion that makes up for a wrong one misplaces thin parts. It
is none where a rigid motion does the same but for less than a surface may be off, as in front of a plane.

A view is moved only if m' C^-1 m is significant, against the reference and against most other views: errors common to a
sensor or the surface move all views alike, and are no motion. It is moved by the expected motion, given the usual size
of pose errors: not at all along directions that the data do not determine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cfusion.arrays import TINY, DepthMap, stride_for
from cfusion.auto.noise import least_scale
from cfusion.auto.reading import Read, read_surface
from cfusion.auto.removal import LARGEST, removal
from cfusion.auto.surface import count_known
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.numpy.cameras import slopes
from cfusion.kernels.one_pass import one_pass
from cfusion.source import Motions, Source

SAMPLES = (2_500, 12_000)  # pixels used: at first, and if that finds something
FEWEST = 150  # of them, for a view to be moved
BLOCKS = 150  # approximate number: errors of pixels within one are correlated
ROUNDS = 2  # readings of the views
CURVED = 4.0  # times the median second difference, and larger than noise, is an edge: no plane to register to
HINT, SURE, LIKELY = 13.5, 52.0, 13.5  # chi-square, seven degrees of freedom: 14.1 once in 20
WORTH = 0.3  # of a view's residuals, that a motion must explain
PIXEL = 0.1  # pixels: residuals count as at least the change of the surface over this distance
LEAST = 1e-6  # typical error of a motion, in the units of LARGEST
TOGETHER = 16  # views that BLAS sums in one thread: the same bits for any number of threads
USUAL = tuple(0.016 / 2**k for k in range(8))  # in the same units: typical sizes of pose errors that are tried
LEAST_SCALE = 0.002  # typical error of scales, below which they are left: a sensor's distortion looks like it


@dataclass(frozen=True)
class Reach:
    """Limits of the used places: cosine of ray and normal, cosine of both views' rays, share of the samples."""

    flattest: float
    widest: float
    share: float


# beyond these, misreading is systematic and would look like a motion
NEAR, FAR = Reach(0.3, 0.75, 0.25), Reach(0.5, 0.5, 0.15)


@dataclass(frozen=True, eq=False)
class _Places:
    """Smooth places of a surface, in the reference's frame."""

    smooth: Mask  # (h, w) which samples are smooth
    ray: Floats  # (3, n)
    point: Floats  # (3, n)
    normal: Floats  # (3, n)
    effect: Floats  # (7, n) of w, t, and s about the reference's camera, along the normal
    blocks: tuple[Floats, Floats]  # (n,) index of the block, and of one of twice the side
    scaled: bool  # whether views may have a scale: not if heights are fused


@dataclass(frozen=True, eq=False)
class _Told:
    """The motions found by one comparison of the views with the surface."""

    motions: Motions
    known: Mask  # (K,) views with enough places
    small: Mask  # (K,) those of a motion small enough to be undone
    hint: float  # largest chi-square of a view that might be moved


def register(
    source: Source, surface: DepthMap, backend: Backend, read: Read | None = None, *, to_reference: bool = False
) -> Source:
    """The source with views moved to fit the surface; distant views only if most poses are wrong.

    `read` is the result of `read_surface`, if there is one already. Depths get the median scale of the views, or stay
    at the reference's.
    """
    read, still = read or read_surface(source, surface, backend), Motions.none(source.n_views)
    if not _told(source, surface, read, SAMPLES[0], NEAR, still, backend, asked_for_hint=True).hint > HINT:
        return source
    moved, motions = source, still
    for _ in range(ROUNDS):
        read = read if moved is source else read_surface(moved, surface, backend)
        told = _told(moved, surface, read, SAMPLES[1], NEAR, motions, backend)
        motions = told.motions
        if not motions.any():  # the next round would find the same
            moved = source
            break
        moved = source.moved(motions)
    near, known, small = np.asarray(motions.numbers.any(axis=1)), told.known, told.small
    if not known.all() and _most(near, known):
        for _ in range(ROUNDS):
            told = _told(moved, surface, read_surface(moved, surface, backend), SAMPLES[1], FAR, motions, backend)
            motions = Motions(np.where(near[:, None], motions.numbers, told.motions.numbers), motions.depth)
            moved = source.moved(motions)
        small = small | told.small
    ratio = 0.0 if to_reference else _median_scale(motions.numbers, small)
    if ratio == 0:
        return moved
    centred = _at_scale(motions.numbers, ratio, _centres(source) / motions.depth)
    return source.moved(Motions(np.where(small[:, None], centred, motions.numbers), motions.depth))


def _median_scale(numbers: Floats, told: Mask) -> float:
    """The median ratio of these views (K,): what the reference is too small by."""
    return float(np.median(numbers[told, 6])) if told.any() else 0.0


def _at_scale(numbers: Floats, ratio: float, centres: Floats) -> Floats:
    """Motions (K, 7) to a surface that is smaller by a ratio m: s - m and t - m c.

    A surface that is too large by m moves a view with its camera at c by m about the reference, so by m c besides m.
    """
    return numbers - ratio * np.concatenate([np.zeros_like(centres), centres, np.ones((len(centres), 1))], axis=1)


def _centres(source: Source) -> Floats:
    """The cameras (K, 3) in the reference's frame."""
    view_from_reference = source.places()[2]
    return -_product("kji,kj->ki", view_from_reference[:, :, :3], view_from_reference[:, :, 3])


def registered(
    source: Source, surface: DepthMap, backend: Backend, *, to_reference: bool = False
) -> tuple[Source, Read | None]:
    """The source with views moved, and their reading at the surface if none was and it is at the nearest pixels."""
    read = read_surface(source, surface, backend)
    moved = register(source, surface, backend, read, to_reference=to_reference)
    return moved, read if moved is source and not read.between else None


def _told(
    source: Source,
    surface: DepthMap,
    read: Read,
    samples: int,
    reach: Reach,
    before: Motions,
    backend: Backend,
    *,
    asked_for_hint: bool = False,
) -> _Told:
    """The motions found from the measurements at the surface, added to those of before.

    If only a hint above HINT is asked for, they are not computed where there cannot be one.
    """
    every = stride_for(int(count_known(surface)), samples)
    sample = [each[..., ::every, ::every] for each in (surface, read.reading.depths)]
    (noise,), (known_places,) = backend.medians(_sizes(*sample)[None])
    depth, measured = (backend.to_host(each).astype(np.float64) for each in sample)
    away = measured - depth
    none = np.zeros(source.n_views, np.bool_)
    nothing = _Told(before, none, none, 0.0)
    if min(depth.shape) < 2 or not known_places:  # a line has no normals
        return nothing
    places = _places(source.places()[0], depth, every, noise)
    if not places.smooth.any():
        return nothing
    usual = float(np.median(depth[places.smooth]))
    units = read.growth.unit(depth[places.smooth])
    residuals = away[:, places.smooth] / units
    _, cameras, motions_of = source.places()
    scale = np.repeat([1.0, usual, 1.0], [3, 3, 1])[:, None]
    effects = places.effect * (scale / (units * _along(places.normal, places.ray)))
    reference, centres = source.reference, _centres(source) / usual
    about = _about(centres, places.scaled & (cameras[:, 0] == 0))
    fits = [
        _fits(
            np.where(_sure(places, motions_of[some], reach), residuals[some], np.nan),
            effects,
            about[some],
            places.blocks,
            reach.share,
            max(PIXEL * read.slope, least_scale(usual, perspective=places.scaled)),
        )
        for some in _groups(source.n_views)
    ]
    steps, covariances, squares = (np.concatenate(each) for each in zip(*fits, strict=True))
    to_surface = np.where(np.arange(7) < 6, steps[reference], 0.0)
    motions = before.numbers + _at_scale(steps - to_surface, float(steps[reference, 6]), centres)
    off = _off(motions, covariances, reference)
    if asked_for_hint and not off.max() > HINT:
        return nothing
    known = np.isfinite(covariances).all(axis=(1, 2))
    motions = _expected(motions, covariances, reference, _beyond_rigid(squares[known]))
    worth = np.sqrt(np.einsum("ki,kij,kj->k", motions, squares, motions))
    own = _at_scale(motions, _median_scale(motions, known), centres)
    small = known & (np.abs(own) < LARGEST).all(axis=1)
    moved = small & (off > SURE) & (worth > WORTH)
    if _most(moved, small):
        moved = small & (off > LIKELY)
    hint = float(np.where(small & (worth > WORTH / 2), off, 0.0).max())
    return _Told(Motions(np.where(moved[:, None], motions, 0.0), usual), known, small, hint)


@one_pass
def _sizes(surface: DepthMap, depths: Floats) -> Floats:
    """Sizes (K, H, W) of the differences from a surface."""
    out: Floats = np.abs(depths.astype(np.float64) - surface)
    return out


def _most(moved: Mask, of: Mask) -> bool:
    """Whether at least half of the views besides the reference are misplaced."""
    return bool(moved.any() and 2 * moved.sum() >= of.sum() - 1)


def _places(camera: Floats, depth: Floats, every: int, noise: float) -> _Places:
    """Samples at a stride of `every` pixels where the surface bends by less than noise, or not unusually much."""
    columns, rows = np.meshgrid(*(np.arange(size) for size in depth.shape[::-1]))
    x, y = slopes(camera, columns * float(every), rows * float(every))
    zero, one, perspective = np.zeros_like(x), np.ones_like(x), camera[0] == 0
    ray = np.stack([x, y, one] if perspective else [zero, zero, one])
    point = ray * depth + (0.0 if perspective else np.stack([x, y, zero]))
    with np.errstate(invalid="ignore", divide="ignore"):
        normal = _cross(_gradient(point, 2), _gradient(point, 1))
        across, down, ahead = np.square(normal)
        normal /= np.sqrt(across + down + ahead)
        bend = np.maximum(*(np.abs(_gradient(_gradient(depth, axis), axis)) for axis in (0, 1)))
        known = bend[np.isfinite(bend)]
        usual = np.median(known) if known.size else 0.0
        smooth = np.isfinite(normal).all(0) & (bend <= max(CURVED * usual, noise))
    there = np.flatnonzero(smooth)
    side = max(1, round(np.sqrt(there.size / BLOCKS)))
    row, column = np.divmod(there, depth.shape[1])
    blocks = [row // each * ((depth.shape[1] - 1) // each + 1) + column // each for each in (side, 2 * side)]
    rays, points, normals = (each.reshape(3, -1).take(there, axis=1) for each in (ray, point, normal))
    effect = np.concatenate([_cross(points, normals), normals, _along(points, normals)[None]])
    return _Places(smooth, rays, points, normals, effect, (blocks[0], blocks[1]), bool(perspective))


def _gradient(values: Floats, axis: int) -> Floats:
    """As `np.gradient`, in a third of its time for arrays as small as these."""
    out = np.empty_like(values)
    to, of = out.swapaxes(axis, 0), values.swapaxes(axis, 0)
    to[1:-1] = (of[2:] - of[:-2]) / 2
    to[0], to[-1] = of[1] - of[0], of[-1] - of[-2]
    return out


def _cross(one: Floats, other: Floats) -> Floats:
    """Vector products of vectors (3, ...)."""
    pairs = ((1, 2), (2, 0), (0, 1))
    return np.stack([one[a] * other[b] - one[b] * other[a] for a, b in pairs])


def _groups(n_views: int) -> list[slice]:
    """Groups of views that are processed together, to limit memory; of one view only if there is one.

    BLAS sums a single one by another routine, in several threads.
    """
    ends = np.linspace(0, n_views, -(-n_views // TOGETHER) + 1).astype(int).tolist()
    return [slice(first, end) for first, end in pairwise(ends)]


def _sure(places: _Places, view_from_reference: Floats, reach: Reach) -> Mask:
    """Places (K, n) that a view has in front of it, and sees neither too flat nor from too far aside.

    The view's ray, in the reference's frame, is X - c for its camera at c.
    """
    turn, shift = view_from_reference[:, :, :3], view_from_reference[:, :, 3]
    centres, ahead = -_product("kji,kj->ki", turn, shift), turn[:, 2]
    facing, along, square = (
        _along(each, places.point) - _product("ki,in->kn", factor * centres, each)
        for each, factor in ((places.normal, 1), (places.ray, 1), (places.point, 2))
    )
    far = np.sqrt(np.maximum(square + np.square(centres).sum(axis=1)[:, None], 0))
    sure: Mask = np.abs(facing) > reach.flattest * far
    sure &= along > reach.widest * np.sqrt(_along(places.ray, places.ray)) * far
    sure &= _product("ki,in->kn", ahead, places.ray) > 0
    sure &= _product("ki,in->kn", ahead, places.point) + shift[:, 2:] > 0
    return sure


def _about(centres: Floats, scaled: Mask) -> Floats:
    """T (K, 7, 7), by which a view's effects are T times those of `_Places`: its scale is one about its own camera c.

    n . (X - c) = n . X - c . n; a view that is not `scaled` (K,) has none.
    """
    about = np.zeros((len(centres), 7, 7)) + np.diag([1.0] * 6 + [0.0])
    about[:, 6, 3:6], about[:, 6, 6] = np.where(scaled[:, None], -centres, 0.0), scaled
    return about


def _fits(
    residuals: Floats, effects: Floats, about: Floats, blocks: tuple[Floats, Floats], share: float, least: float
) -> tuple[Floats, Floats, Floats]:
    """The motions (K, m) that remove residuals (K, n), their covariances, and the squares S of a motion's effect.

    A view's effects are T effects, (m, n), with its T of `about` (K, m, m). sqrt(m' S m) is the effect of a motion m on
    the measurements, over the size of the remaining residuals, at least `least`. Unknown residuals are NaN.
    """
    fewest = max(FEWEST, share * residuals.shape[1])
    fit = removal(residuals, effects, about, blocks, fewest, least)
    sizes, one = fit.sizes, np.eye(len(effects))
    inverse = np.linalg.inv(fit.normals)
    chance, wide = fit.scores
    chance = chance * _shared_by_blocks(chance, wide) + one * ((sizes**2 / LARGEST) ** 2)[:, None, None]
    covariances = inverse @ chance @ inverse + one * LEAST**2
    squares = fit.squares / (np.maximum(fit.count, 1) * sizes**2)[:, None, None]
    told, seen = fit.told[:, None], fit.told[:, None, None]
    return np.where(told, fit.found, 0.0), np.where(seen, covariances, np.inf), np.where(seen, squares, 0.0)


def _shared_by_blocks(squares: Floats, wide: Floats) -> Floats:
    """The factor (K, 1, 1) on squares (K, m, m) of scores for errors that neighbouring blocks share, as a network's do.

    Scores of independent blocks add up to the same squares, r = 1, in blocks of four times the area; shared ones to up
    to r = 4. Errors that reach beyond a block reach further still: r^2.
    """
    diagonal = np.arange(squares.shape[1])
    one, four = (np.maximum(each[:, diagonal, diagonal], TINY) for each in (squares, wide))
    ratio = np.maximum((four / one).mean(axis=1), 1.0)
    factor: Floats = np.square(ratio)[:, None, None]
    return factor


def _along(one: Floats, other: Floats) -> Floats:
    """Scalar products (n,) of vectors (3, n)."""
    return _product("in,in->n", one, other)


def _product(subscripts: str, *arrays: Floats) -> Floats:
    """A sum of products in one thread, independent of the number of threads, which would cost more than the sums."""
    out: Floats = np.einsum(subscripts, *arrays)
    return out


def _off(motions: Floats, covariances: Floats, reference: int) -> Floats:
    """The significance (K,) of each view's misplacement: against the reference and three quarters of the others."""
    apart, spread = motions[:, None] - motions, covariances[:, None] + covariances
    known = np.isfinite(spread).all(axis=(2, 3)) & ~np.eye(len(motions), dtype=bool)
    spread = np.where(known[..., None, None], spread, np.eye(motions.shape[1]))
    told = np.where(known, (apart * np.linalg.solve(spread, apart[..., None])[..., 0]).sum(-1), np.nan)
    others = np.take_along_axis(np.sort(told, axis=1), np.maximum(known.sum(axis=1) - 1, 0)[:, None] // 4, axis=1)
    off: Floats = np.minimum(np.nan_to_num(told[reference]), np.nan_to_num(others[:, 0]))
    return off


def _beyond_rigid(squares: Floats) -> float:
    """What a scale of one does, in the median view, that no rigid motion makes up for: by the squares S (K, 7, 7)."""
    inverse = np.linalg.inv(squares + np.eye(7))  # a rigid motion of one, of more than no effect
    return float(np.median(1 / np.sqrt(inverse[:, 6, 6]))) if len(squares) else 0.0


def _expected(motions: Floats, covariances: Floats, reference: int, beyond_rigid: float) -> Floats:
    """The expected motions (K, m), given the typical sizes of errors of poses, and of scales, that are most likely.

    There are no scales that a rigid motion hardly differs from: errors of the surface do more than the difference.
    """
    known = [k for k in range(len(motions)) if k != reference and np.isfinite(covariances[[k, reference]]).all()]
    found, spread = motions[known], covariances[known] + covariances[reference]

    def solved(poses: Sequence[float], scales: Sequence[float]) -> tuple[Floats, Floats]:
        """Expected motions (n, K, m) for each pair of typical sizes, and how unlikely (n,) the found ones are then."""
        usual = np.square(np.stack([poses] * 6 + [scales], axis=1))[:, None]
        whole = spread + usual[..., None] * np.eye(motions.shape[1])
        weighed: Floats = np.linalg.solve(whole, np.broadcast_to(found, (len(usual), *found.shape))[..., None])[..., 0]
        return usual * weighed, np.linalg.slogdet(whole)[1].sum(axis=1) + (found * weighed).sum(axis=(1, 2))

    both = USUAL[int(np.argmin(solved(USUAL, USUAL)[1]))]
    any_scale = (0.0, *USUAL)
    scale = any_scale[int(np.argmin(solved([both] * len(any_scale), any_scale)[1]))]
    scale = scale if scale >= LEAST_SCALE and scale * beyond_rigid > WORTH else 0.0
    expected, unlikely = solved(USUAL, [scale] * len(USUAL))
    out = np.zeros_like(motions)
    out[known] = expected[int(np.argmin(unlikely))]
    return out
