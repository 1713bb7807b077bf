"""The record of every view against the fused surface, and a sentence about what is odd."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cfusion.auto.assess import Assessment
from cfusion.auto.fit import Fit
from cfusion.auto.halves import refit
from cfusion.auto.reading import read_surface
from cfusion.auto.surface import local_slope
from cfusion.auto.uncertainty import registration_error, spread
from cfusion.kernels.contract import Backend, Floats
from cfusion.solvers import ViewEvidence
from cfusion.source import Source

NOISIER = 2.0  # times the median noise
AS_WELL = 1.02  # times the residuals of a corrected pose: a scale that leaves no more explains them too
LEAST_SCALE = 0.004  # of the depth: smaller scale errors may as well be a pose's
OFF_SCALE = 0.01  # of the depth, and
MISPLACED = 1.0  # pixels, and
OUTLYING = 4.0  # times the median deviation of views from their median, is odd
EXPLAINED = 0.8  # of the residuals that remain once depths are scaled
FEWER = 0.5  # of the median share that supports the surface, of views that do


def report(found: Fit, assessed: Assessment, source: Source, backend: Backend) -> tuple[ViewEvidence, ...]:
    """The evidence and the record of each view."""
    evidence, growth, depth = assessed.evidence, assessed.growth, found.depth
    unit = growth.unit(depth)
    slope = local_slope(depth, growth)
    deviation, _ = spread(evidence.residual / unit, backend)
    records, motions = [], source.motions
    for k, scale in enumerate(assessed.scales):
        residual, support = evidence.residual[k], evidence.support[k]
        (bias,), (known,) = backend.medians(residual[None])
        ratio = _ratio(residual + depth, depth, backend)
        moved = motions is not None and bool(motions.numbers[k].any())
        scaled = _own_scale(source, k, depth, backend) if moved else None
        near = np.where(support, residual / unit, np.float32(np.nan))[None]
        records.append(
            ViewEvidence(
                support,
                evidence.contradiction[k],
                residual,
                noise=float(scale),
                bias=float(bias),
                scale_factor=ratio if scaled is None else scaled,
                registration=registration_error(near, slope, deviation),
                share_kept=float(support.sum()) / max(known, 1),
                effect=_effect(found, k),
                turned=motions.degrees(k) if motions else 0.0,
                shifted=motions.distance(k) if motions else 0.0,
                rescaled=scaled is not None,
            )
        )
    sentences = _sentences(records, source.names)
    return tuple(replace(record, sentence=sentence) for record, sentence in zip(records, sentences, strict=True))


def _ratio(measured: Floats, depth: Floats, backend: Backend) -> float:
    """The median of measured over fused depth; NaN if depths divided by it differ no less: of another surface."""
    (ratio,), _ = backend.medians((measured / depth)[None])
    if abs(ratio - 1) <= OFF_SCALE or ratio == 0:
        return float(ratio)
    (before,), (after,) = (backend.medians(abs(each - depth)[None])[0] for each in (measured, measured / ratio))
    return float(ratio) if ratio > 0 and after < EXPLAINED * before else float("nan")


def _own_scale(source: Source, k: int, depth: Floats, backend: Backend) -> float | None:
    """The factor on a view's depths that leaves as small residuals as moving it did; None if there is none.

    A view whose depths are slightly too large looks like one that is slightly too near, and was moved.
    """
    factor = 1.0
    for _ in range(2):
        read = read_surface(source.as_given(k, 1 / factor, backend), depth, backend)
        factor *= _ratio(read.reading.depths[1], depth, backend)
    as_moved, as_scaled = (
        read_surface(each, depth, backend).scales[1]
        for each in (source.part([source.reference, k]), source.as_given(k, 1 / factor, backend))
    )
    return factor if as_scaled <= AS_WELL * as_moved and abs(factor - 1) > LEAST_SCALE else None


def _effect(found: Fit, k: int) -> float:
    """Root mean square change of the surface, in the unit of depth, where it stays known without view k."""
    stack = found.task.stack.in_memory_of(found.task.backend)
    if stack.views == 1:
        return float("nan")
    depths = stack.depths.copy()
    depths[k] = np.nan
    weights = None if stack.weights is None else stack.weights.copy()
    if weights is not None:
        weights[k] = 0
    if not bool((~np.isnan(depths)).any()):
        return float("nan")
    without = refit(found, stack.with_depths(depths, weights))
    if found.task.energy.inverse:
        without = 1 / np.where(without > 0, without, np.nan)
    change = without - found.depth
    change = change[~np.isnan(change)]
    return float(np.sqrt(np.mean(np.square(change, dtype=np.float64)))) if change.size else float("nan")


def _sentences(records: Sequence[ViewEvidence], names: Sequence[str]) -> list[str]:
    """What is odd about each view, compared with the others; empty if nothing is, or there is no comparison."""
    if len(records) < 3:
        return [""] * len(records)
    noise = _usual([record.noise for record in records])
    factors = np.array([record.scale_factor for record in records])
    shifts = np.array([record.registration for record in records])
    kept = _usual([record.share_kept for record in records if record.share_kept > 0])
    out = []
    for record, name, off, shift in zip(records, names, _outlying(factors), _outlying(shifts), strict=True):
        odd = []
        percent = 100 * (record.scale_factor - 1)
        elsewhere = record.share_kept < FEWER * kept
        if record.rescaled or (off and abs(percent) > 100 * OFF_SCALE):
            odd.append(f"its depths are {abs(percent):.1f} % too {'large' if percent > 0 else 'small'}")
        if record.rescaled:
            odd.append("it was scaled and moved to make up for that")
        elif record.noise > NOISIER * noise > 0 and not elsewhere:
            odd.append(f"it is {record.noise / noise:.1f} times as noisy as the others")
        if shift and not elsewhere and record.registration > MISPLACED:
            odd.append(f"it lies about {record.registration:.1f} pixels beside them, so check its pose")
        if not record.rescaled and (record.turned or record.shifted):
            odd.append(f"its pose was off by {record.turned:.2f} degrees and {record.shifted:.3g}, and was mended")
        if elsewhere:
            odd.append(f"only {100 * record.share_kept:.0f} % of it supports the surface")
        out.append(f"{name}: {'; '.join(odd)}" if odd else "")
    return out


def _usual(values: Sequence[float]) -> float:
    known = [value for value in values if np.isfinite(value)]
    return float(np.median(known)) if known else float("inf")


def _outlying(values: Floats) -> list[bool]:
    """Which values are further from the median of all than is usual."""
    away = np.abs(values - np.nanmedian(values))
    return [bool(each > OUTLYING * max(float(np.nanmedian(away)), 1e-9)) for each in away]
