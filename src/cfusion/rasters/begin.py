"""Everything about a mosaic that is decided before tiles are computed: its grid, and the rasters placed on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cfusion.errors import InputError
from cfusion.rasters import sample as sampling
from cfusion.rasters.align import Aligned
from cfusion.rasters.coregister import Placement, coregister
from cfusion.rasters.grids import Grid, target_grid
from cfusion.rasters.ground import barely_common, require_one_ground
from cfusion.rasters.inspect_raster import require_heights, require_inside, require_overlap
from cfusion.rasters.options import Options
from cfusion.rasters.raster import open_raster
from cfusion.rasters.roles import Input, assign
from cfusion.rasters.sample import Floats, Sample
from cfusion.rasters.units import degree_sentence, require_one_system
from cfusion.rasters.work import RasterWeights

FAR = 1.0  # pixels: a larger horizontal shift is refused
HALF = 0.5  # of a raster that its weights have to cover
HELPS = 0.7  # and taking it out leaves less than this share of the spread


@dataclass(frozen=True, eq=False)
class Plan:
    """The rasters of a mosaic on its grid, co-registered if requested."""

    inputs: tuple[Input, ...]
    rasters: tuple[Aligned, ...]
    beliefs: tuple[RasterWeights, ...] | None  # stated weights or sigmas
    placements: tuple[Placement, ...]  # corrections applied
    grid: Grid
    sample: Sample
    unit: str
    sentences: tuple[str, ...]

    @property
    def files(self) -> list[Path]:
        return [file for each in self.inputs for file in each.files]

    def believed(self, factors: tuple[float, ...]) -> tuple[RasterWeights, ...] | None:
        """The weights of every pixel; None if all are equal."""
        if self.beliefs is not None:
            return self.beliefs
        if all(factor == 1 for factor in factors):
            return None
        return tuple(RasterWeights(None, factor=factor) for factor in factors)

    def sample_weights(self) -> Floats | None:
        """Weights (K, H, W) of the sample; None if none were stated."""
        if self.beliefs is None:
            return None
        parts = []
        for window, part in zip(self.sample.windows, self.sample.parts, strict=True):
            parts.append(
                np.stack([each.weights(*window, heights) for each, heights in zip(self.beliefs, part, strict=True)])
            )
        return np.nan_to_num(self.sample.stacked(parts))


def plan_mosaic(paths: Sequence[Path], options: Options) -> Plan:
    """Open and check the rasters, choose the grid and place the rasters on it."""
    roles = assign(paths, options.weights, options.sigma, options.band, options.nodata)
    inputs = roles.inputs
    heights = [each.heights for each in inputs]
    sentences = [*roles.sentences, *require_one_system(heights)]
    like = None if options.like is None else open_raster(options.like).grid
    grids = [each.grid for each in heights]
    lattice = target_grid([(like or grids[0])], like, options.resolution)
    require_overlap(heights, [each.footprint_on(lattice) for each in grids])  # else their union is a huge grid
    grid = target_grid(grids, like, options.resolution, options.bounds)
    for each in heights:
        require_heights(each)
    rasters = [Aligned(each, grid, options.resampling) for each in heights]
    require_inside(rasters)
    rasters, placements, sample, more = _coregistered(rasters, options, grid)
    sentences += [each.sentence for each in rasters if each.sentence]
    sentences += more
    if degree_sentence(grid):
        sentences.append(degree_sentence(grid))
    beliefs = _stated_weights(inputs, rasters, sample)
    unit = next((each.unit for each in heights if each.unit), "")
    return Plan(inputs, tuple(rasters), beliefs, tuple(placements), grid, sample, unit, tuple(sentences))


def _coregistered(
    rasters: list[Aligned], options: Options, grid: Grid
) -> tuple[list[Aligned], list[Placement], Sample, list[str]]:
    """The rasters, co-registered if requested, and refused if they need it and it was not."""
    sample = sampling.take(rasters, grid)
    names = [each.raster.name for each in rasters]
    asked = options.coregister
    keep = options.keep_offsets
    require_one_ground(names, sample.stacked(), keep_offsets=keep or asked is not None, keep_units=keep)
    nothing = [Placement() for _ in rasters]
    if len(rasters) < 2:
        return rasters, nothing, sample, []
    few = barely_common(names, sample.stacked())
    if asked is None:
        if not options.keep_offsets:
            _require_in_place(rasters, sample)
        said = [f"{name}: {what}, too few to see another datum or unit, or a shift" for name, what in few.items()]
        return rasters, nothing, sample, said
    for name, what in few.items():
        raise InputError(f"{name} has {what}, too few for --coregister; leave it out, or place it and --keep-offsets")
    moved, placements = coregister(rasters, sample.windows, asked)
    sentences = [
        f"{name}: offset {found.offset:+.4g} removed"
        + (f", shift {found.shift[0]:+.2f} columns {found.shift[1]:+.2f} rows" if any(found.shift) else "")
        + (f", tilt {found.tilt[0]:+.3g} per column {found.tilt[1]:+.3g} per row" if any(found.tilt) else "")
        for name, found in zip(names[1:], placements[1:], strict=True)
    ]
    return moved, placements, Sample(sample.windows, sampling.parts_of(moved, sample.windows)), sentences


def _require_in_place(rasters: list[Aligned], sample: Sample) -> None:
    """Refuse a raster that is horizontally displaced from its stated coordinates."""
    _, placements = coregister(rasters, sample.windows, "shift")
    for raster, found in zip(rasters[1:], placements[1:], strict=True):
        if np.hypot(*found.shift) > FAR and found.spread < HELPS * found.spread_before:
            raise InputError(
                f"{raster.raster.name} lies {found.shift[0]:+.1f} columns, {found.shift[1]:+.1f} rows off "
                f"{rasters[0].raster.name}: the spread falls from {found.spread_before:.3g} to {found.spread:.3g} "
                "without that shift; pass --coregister to remove it, or --keep-offsets to fuse as it is"
            )


def _require_cover(stated: Aligned, heights: Aligned) -> None:
    """Refuse weights or sigmas of another place: heights without a weight are unknown."""
    (left, top, right, bottom), own = stated.footprint(), heights.footprint()
    shared = max(min(right, own[2]) - max(left, own[0]), 0) * max(min(bottom, own[3]) - max(top, own[1]), 0)
    share = shared / ((own[2] - own[0]) * (own[3] - own[1]))
    if share < HALF:
        raise InputError(
            f"{stated.raster.name} covers {share:.0%} of {heights.raster.name}, whose other heights would be left out; "
            "give weights or sigmas in the order of the rasters"
        )


def _stated_weights(
    inputs: tuple[Input, ...], rasters: Sequence[Aligned], sample: Sample
) -> tuple[RasterWeights, ...] | None:
    """Weights and sigmas on the grid of their heights, scaled so that the median is 1."""
    if not any(each.weights or each.sigma for each in inputs):
        return None
    if not all(each.weights for each in inputs) and not all(each.sigma for each in inputs):
        raise InputError("give weights for all rasters, or sigmas for all; they are given for some, or mixed")
    found: list[tuple[Aligned, bool]] = []
    for each, heights in zip(inputs, rasters, strict=True):
        extra = each.sigma if each.sigma is not None else each.weights
        assert extra is not None
        stated = Aligned(extra, heights.target, heights.resampling, heights.shift)
        _require_cover(stated, heights)
        found.append((stated, each.sigma is not None))
    values = [aligned.read(*window) for aligned, _ in found for window in sample.windows]
    positive = np.concatenate([part[np.isfinite(part) & (part > 0)] for part in values])
    if positive.size == 0:
        raise InputError(
            "no stated weight (or sigma) is positive where the rasters overlap; check the files given for them"
        )
    scale = float(np.median(positive))
    return tuple(RasterWeights(aligned, is_sigma, scale) for aligned, is_sigma in found)
