"""Height models: how near to the truth a mosaic comes, and what a megapixel costs.

    python -m benchmarks.mosaic quality [side]             RMSE against mean, median, weighted mean; noise of many kinds
    python -m benchmarks.mosaic bound [side]               what could be gained at most where errors are correlated
    python -m benchmarks.mosaic size SIDE [tile] [folder]  memory and time per megapixel, next to a median by windows

The ground is that of `benchmarks/terrain.py`. Scores of rasters with offsets are after the median error was taken
out, of every method alike: nobody can know the common part of the offsets.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.terrain import terrain
from cfusion import fuse_rasters
from cfusion.rasters.noise import noise_scales

NOISE = 0.4  # metres
VIEWS = 4
IN_MEMORY = 2000  # pixels, side of what a peer is asked to hold
WALL = 2.0  # metres: a step of the ground that is a wall
CORNER = (500_000.0, 4_900_000.0)


def write(file: Path, heights: Any) -> Path:
    import rasterio
    from rasterio.transform import from_origin

    profile = {"driver": "GTiff", "height": heights.shape[0], "width": heights.shape[1], "count": 1, "dtype": "float32"}
    with rasterio.open(
        file, "w", **profile, nodata=-9999, crs="EPSG:32631", transform=from_origin(*CORNER, 0.5, 0.5)
    ) as raster:
        raster.write(np.where(np.isnan(heights), -9999, heights).astype(np.float32), 1)
    return file


def correlated(rng: np.random.Generator, side: int, length: float) -> Any:
    """Unit noise, alike over about so many pixels."""
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None, :])
    sigma = length / 2.355
    smooth = np.fft.rfft2(rng.normal(size=(side, side))) * np.exp(-2 * (np.pi * sigma * frequency) ** 2)
    noise = np.fft.irfft2(smooth, s=(side, side))
    return noise / noise.std()


def cases(side: int) -> dict[str, Any]:
    """(K, H, W) errors of every kind."""
    rng = np.random.default_rng(7)
    white = NOISE * rng.normal(size=(VIEWS, side, side))
    blunders = white.copy()
    for k in range(VIEWS):
        for _ in range(side * side // 4000):
            rows, columns = rng.integers(4, 16, 2)
            top, left = rng.integers(0, side - 16, 2)
            blunders[k, top : top + rows, left : left + columns] += rng.uniform(3, 20) * rng.choice([-1, 1])
    return {
        "white": white,
        "correlated 5 px": NOISE * np.stack([correlated(rng, side, 5) for _ in range(VIEWS)]),
        "correlated 20 px": NOISE * np.stack([correlated(rng, side, 20) for _ in range(VIEWS)]),
        "white + correlated 10 px": white + 0.5 * NOISE * np.stack([correlated(rng, side, 10) for _ in range(VIEWS)]),
        "blunders in patches": blunders,
        "rasters 1 : 4 in noise": white * np.array([0.5, 1, 1, 2])[:, None, None],
        "offsets": white + NOISE * rng.normal(size=(VIEWS, 1, 1)),
        "two rasters": white[:2],
        "holes": np.where(rng.random(white.shape) < 0.4, np.nan, white),
    }


def rmse(found: Any, truth: Any, centred: bool) -> float:
    error = found - truth
    return float(np.sqrt(np.nanmean((error - (np.nanmedian(error) if centred else 0)) ** 2)))


def walls_in_place(found: Any, truth: Any) -> float:
    """Share of walls, along rows, whose half height is crossed within a pixel of where it should."""
    step = np.diff(truth, axis=1)
    rows, columns = np.nonzero(np.abs(step) > WALL)
    inner = (columns >= 3) & (columns < truth.shape[1] - 4)
    rows, columns = rows[inner], columns[inner]
    half = (truth[rows, columns] + truth[rows, columns + 1]) / 2
    sign = np.sign(step[rows, columns])
    before = sign * (found[rows, columns - 1] - half)  # one pixel before the wall it is below, one behind it above
    behind = sign * (found[rows, columns + 2] - half)
    known = np.isfinite(before) & np.isfinite(behind)
    return float(np.mean((before < 0)[known] & (behind > 0)[known]))


def quality(side: int = 384) -> None:
    truth = terrain(slice(1000, 1000 + side), slice(3000, 3000 + side))
    print("| errors | mean | median | weighted | auto | over the best | walls | within sigma, 2 sigma |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, errors in cases(side).items():
        heights = (truth + errors).astype(np.float32)
        centred = name == "offsets"
        weights = (~np.isnan(heights)) / np.square(noise_scales(heights))[:, None, None]
        weighted = np.nansum(heights * weights, axis=0) / np.maximum(weights.sum(axis=0), 1e-12)
        weighted = np.where((weights > 0).any(axis=0), weighted, np.nan)
        plain = [np.nanmean(heights, axis=0), np.nanmedian(heights, axis=0), weighted]
        with tempfile.TemporaryDirectory() as folder:
            files = [write(Path(folder) / f"r{k}.tif", each) for k, each in enumerate(heights)]
            made = fuse_rasters(files, coregister="offset" if centred else None, backend="cpu")
        scores = [rmse(each, truth, centred) for each in (*plain, made.maps["height"])]
        error = made.maps["height"] - truth
        sure = np.abs(error - (np.nanmedian(error) if centred else 0)) / made.maps["sigma"]
        sure = sure[np.isfinite(sure)]
        print(
            f"| {name} | " + " | ".join(f"{score:.3f}" for score in scores)
            + f" | {scores[3] / min(scores[:3]):.2f} | {walls_in_place(made.maps['height'], truth):.1%} | "
            f"{np.mean(sure <= 1):.0%}, {np.mean(sure <= 2):.0%} |",
            flush=True,
        )  # fmt: skip


def bound(side: int = 192, seeds: int = 4) -> None:
    """Correlated errors: `auto` beside what nobody can know. All over the RMSE of the mean.

    hindsight: the best alpha of a ladder, knowing the truth. oracle: the best linear estimate (Wiener's) of ground
    without houses from the mean of the rasters, knowing the spectra of ground and errors exactly,
    sqrt(sum S N / (S + N) / sum N).
    """
    print("| errors | ground | auto | hindsight | oracle, no houses |")
    print("| --- | --- | --- | --- | --- |")
    for length in (5, 10, 20):
        known = _oracle(length)
        for seed in range(seeds):
            truth = terrain(slice(1000, 1000 + side), slice(3000, 3000 + side), 1000 * seed)
            rng = np.random.default_rng(seed)
            errors = NOISE * np.stack([correlated(rng, side, length) for _ in range(VIEWS)])
            heights = (truth + errors).astype(np.float32)
            best = min(rmse(each(heights, axis=0), truth, False) for each in (np.mean, np.median))
            with tempfile.TemporaryDirectory() as folder:
                files = [write(Path(folder) / f"r{k}.tif", each) for k, each in enumerate(heights)]
                found = rmse(fuse_rasters(files, backend="cpu").maps["height"], truth, False)
                fits = [
                    fuse_rasters(files, backend="cpu", alpha=(alpha, 2 * alpha)) for alpha in (0.1, 0.2, 0.4, 0.8, 1.6)
                ]
            hindsight = min(rmse(each.maps["height"], truth, False) for each in fits)
            print(f"| {length} px | {seed} | {found / best:.2f} | {hindsight / best:.2f} | {known:.2f} |", flush=True)


def _oracle(length: float, side: int = 512, samples: int = 24) -> float:
    """Of the RMSE of the mean, what the best linear filter leaves on ground without houses."""
    from benchmarks import terrain as ground

    rng = np.random.default_rng(0)
    window = np.outer(np.hanning(side), np.hanning(side))
    v, u = np.mgrid[:side, :side] - side / 2
    power = np.zeros((2, side, side // 2 + 1))
    for seed, (top, left) in enumerate(rng.integers(0, 20_000, (samples, 2))):
        rows, columns = slice(top, top + side), slice(left, left + side)
        bare = terrain(rows, columns, seed) - ground.houses(rows, columns, seed)
        bare = bare - bare.mean()
        bare -= (bare * v).sum() / (v * v).sum() * v + (bare * u).sum() / (u * u).sum() * u
        noise = NOISE * correlated(rng, side, length) / np.sqrt(VIEWS)
        power += [np.abs(np.fft.rfft2(each * window)) ** 2 for each in (bare, noise)]
    twice = np.full(power[0].shape, 2.0)  # every frequency but those of the first and the last column is there twice
    twice[:, [0, -1]] = 1
    left_over = power[0] * power[1] / (power[0] + power[1])
    return float(np.sqrt((twice * left_over).sum() / (twice * power[1]).sum()))


def big(files: list[Path], side: int) -> None:
    """The rasters of the big mosaic, written by windows."""
    import rasterio
    from rasterio.transform import from_origin

    profile = {"driver": "GTiff", "height": side, "width": side, "count": 1, "dtype": "float32", "nodata": -9999}
    tiled = {"tiled": True, "blockxsize": 512, "blockysize": 512, "BIGTIFF": "IF_SAFER", "crs": "EPSG:32631"}
    with ExitStack() as stack:
        rasters = [
            stack.enter_context(rasterio.open(file, "w", **profile, **tiled, transform=from_origin(*CORNER, 0.5, 0.5)))
            for file in files
        ]
        for top in range(0, side, 512):
            for left in range(0, side, 512):
                rows, columns = slice(top, min(top + 512, side)), slice(left, min(left + 512, side))
                part = terrain(rows, columns)
                for number, raster in enumerate(rasters):
                    noise = np.random.default_rng([number, top, left]).standard_normal(part.shape, np.float32)
                    window = ((rows.start, rows.stop), (columns.start, columns.stop))
                    raster.write(part + np.float32(NOISE) * noise, 1, window=window)


def median_by_windows(files: list[Path], out: Path, side: int) -> float:
    """Seconds of CPU of the plainest mosaic: read a window of all, take the median, write it."""
    import rasterio

    began = time.process_time()
    opened = [rasterio.open(file) for file in files]
    with rasterio.open(out, "w", **opened[0].profile) as raster:
        for top in range(0, side, 512):
            for left in range(0, side, 512):
                window = ((top, min(top + 512, side)), (left, min(left + 512, side)))
                stack = np.stack([each.read(1, window=window) for each in opened])
                raster.write(np.median(stack, axis=0), 1, window=window)
    for each in opened:
        each.close()
    return time.process_time() - began


def geoutils_merge(files: list[Path]) -> float:
    """Seconds of CPU of geoutils' mean of rasters, in memory; nan where it is not installed."""
    try:
        import geoutils
        from geoutils.raster import merge_rasters
    except ImportError:
        return float("nan")
    began = time.process_time()
    merge_rasters([geoutils.Raster(str(file)) for file in files], merge_algorithm=np.nanmean)
    return time.process_time() - began


def size(side: int, tile: int = 1024, folder: str | None = None) -> None:
    """Time and memory of one size; run it for two sizes to see that time is linear.

    In a folder that is named, rasters and work in progress stay: the same command goes on where it was ended.
    """
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(folder or temporary)
        place.mkdir(exist_ok=True)
        files = [place / f"r{k}.tif" for k in range(VIEWS)]
        if not all(file.exists() for file in files):
            drafts = [file.with_suffix(".draft.tif") for file in files]
            big(drafts, side)
            for draft, file in zip(drafts, files, strict=True):
                draft.rename(file)
        pixels = side * side / 1e6
        before = _peak()
        stages: dict[str, float] = {}
        last: list[Any] = [time.process_time(), "planning"]

        def listen(step: Any) -> None:
            now = time.process_time()
            stages[last[1]] = stages.get(last[1], 0.0) + now - last[0]
            last[:] = [now, step.stage]

        began = time.process_time()
        made = fuse_rasters(
            files, place / "out.tif", tile=tile, backend="cpu", overwrite=True, progress=listen, say=_show
        )
        cpu = time.process_time() - began
        stages["report, copies and picture"] = cpu - sum(stages.values())
        print(
            f"{side} x {side} x {VIEWS}, tiles of {tile}: {made.seconds:.0f} s by the clock, {cpu:.0f} s of CPU, "
            f"{cpu / pixels:.2f} a megapixel; {made.iterations} iterations, gap {made.gap:.1e}, factor "
            f"{made.certificate.factor:.6f}; memory at most {_peak():.2f} GB ({before:.2f} before)"
        )
        fixed = sum(stages.pop(name, 0.0) for name in ("planning", "choosing from a sample"))
        each = ", ".join(f"{name} {seconds / pixels:.2f}" for name, seconds in stages.items())
        print(f"  plan and choices {fixed:.0f} s of CPU; a megapixel: {each}", flush=True)
        error = _error(place / "out.tif", min(side, IN_MEMORY))
        median = median_by_windows(files, place / "median.tif", side)
        print(
            f"  RMSE {error:.3f} m, of the median {_error(place / 'median.tif', min(side, IN_MEMORY)):.3f}; median by "
            f"windows {median / pixels:.2f} s of CPU a megapixel",
            flush=True,
        )
        if side <= IN_MEMORY:
            print(f"  geoutils' mean {geoutils_merge(files) / pixels:.2f} s of CPU a megapixel, in memory")


def _show(sentence: str) -> None:
    print(f"  {sentence}", flush=True)


def _peak() -> float:
    """Gigabytes that this process held at most; getrusage's would start at what its parent held."""
    held = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return float(held.split()[1]) / 1e6


def _error(file: Path, side: int) -> float:
    """RMSE of the last corner of a mosaic."""
    import rasterio

    with rasterio.open(file) as raster:
        start = raster.width - side
        found = raster.read(1, window=((start, start + side), (start, start + side)))
    return rmse(found, terrain(slice(start, start + side), slice(start, start + side)), centred=False)


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["size"]:
        size(int(arguments[1]), *(int(each) for each in arguments[2:3]), *arguments[3:4])
    elif arguments[:1] == ["bound"]:
        bound(*(int(each) for each in arguments[1:3]))
    else:
        quality(*(int(each) for each in arguments[1:2]))


if __name__ == "__main__":
    main(sys.argv[1:])
