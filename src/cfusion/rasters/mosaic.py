"""The pipeline of a mosaic: align, co-register, choose once, iterate by tiles, certify, write.

A pass advances every tile by some iterations, from one image of the state on disk to another. The halo of a tile holds
everything that its core depends on during a pass, so the result has the same bits for any size of tiles and any number
of workers, as if the whole mosaic had been iterated in memory.
"""

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import TINY
from cfusion.errors import CFusionError, InputError, suggestion
from cfusion.io.arguments import path_of
from cfusion.rasters.begin import Plan, plan_mosaic
from cfusion.rasters.certificate import Certificate, blocks_of, certify
from cfusion.rasters.choose import choose, weighed
from cfusion.rasters.coregister import place
from cfusion.rasters.effort import Ahead, Effort
from cfusion.rasters.grids import Grid
from cfusion.rasters.journal import Journal, alone_at_work
from cfusion.rasters.options import Options, in_keywords
from cfusion.rasters.report import RasterReport, as_json
from cfusion.rasters.runner import HERE, Crew
from cfusion.rasters.solve_tile import REACH, SPARE, Settings, host_backend, solve_sample
from cfusion.rasters.tiles import tiles
from cfusion.rasters.work import Finished, RasterWeights, Work, advance_tile, align_block, begin_tile, finish_block
from cfusion.rasters.write import Writer, files_of

PASS = 64  # iterations of a tile between reading and writing it
FLOOR_STEPS = 2000  # ulps of height error whose energy counts as zero, times a tolerance of 1e-3
BOX = 1.0  # margin of the certificate's box on both sides, in ranges of the heights
CONVERGED = "The certified duality gap of the whole mosaic fell below the tolerance."
LIMIT = "The iteration limit was reached; raise iterations or loosen the tolerance."


@dataclass(frozen=True)
class Step:
    """Progress of a mosaic."""

    stage: str
    done: float
    gap: float = float("nan")
    ahead: Ahead = ()  # the remaining stages and their expected seconds, when these change


ProgressCallback = Callable[[Step], None]
Counts = NDArray[np.int64]  # of pixels, per raster


@dataclass(frozen=True, eq=False)
class Mosaic:
    """A fused height model, its certificate and its report."""

    grid: Grid
    files: dict[str, Path]  # empty without an output
    maps: dict[str, NDArray[Any]]  # empty with an output
    certificate: Certificate
    status: str
    iterations: int
    parameters: dict[str, Any]
    rasters: tuple[RasterReport, ...]
    sentences: tuple[str, ...]
    seconds: float = 0.0

    @property
    def gap(self) -> float:
        """Certified relative duality gap of the whole mosaic."""
        return self.certificate.gap

    def __repr__(self) -> str:
        """One line instead of all pixels."""
        where = f", written to {self.files['height']}" if self.files else ""
        size = f"{self.grid.width} x {self.grid.height}"
        return f"Mosaic({len(self.rasters)} rasters, {size}, gap {self.gap:.1e}, {self.iterations} iterations{where})"


def fuse_rasters(
    paths: Sequence[str | Path],
    output: str | Path | None = None,
    *,
    progress: ProgressCallback | None = None,
    say: Callable[[str], None] | None = None,
    **options: Any,
) -> Mosaic:
    """Fuse height rasters into one GeoTIFF (or, without an output, into arrays); `Options` lists the options.

    Args:
        paths: GeoTIFF files or folders of them, with heights in metres or any one unit.
        output: a .tif; sigma, count, NMAD, provenance and source are written beside it. None: arrays in `.maps`.
        progress: called with a `Step` from time to time: the stage, and the share of it that is done, from 0 to 1.
        say: called with each sentence about a raster (role, resampling, offset removed) as soon as it is known.
        options: fields of `cfusion.rasters.options.Options`, which are the options of `cfusion mosaic`: coregister
            ("offset", "shift" or "tilt"; True is "shift"), resolution, bounds, tolerance, tile, workers and so on.

    Examples:
        >>> import numpy as np, rasterio
        >>> from cfusion import fuse_rasters
        >>> grid = {"driver": "GTiff", "width": 32, "height": 24, "count": 1, "dtype": "float32", "crs": "EPSG:32633"}
        >>> place = rasterio.transform.from_origin(5e5, 5e6, 10, 10)
        >>> for k in range(3):
        ...     with rasterio.open(f"{k}.tif", "w", transform=place, **grid) as file:
        ...         file.write(100 + np.random.default_rng(k).normal(0, 1, (24, 32)).astype("float32"), 1)
        >>> made = fuse_rasters(["0.tif", "1.tif", "2.tif"], backend="numpy")
        >>> made.maps["height"].shape, len(made.rasters)
        ((24, 32), 3)
    """
    try:
        return make_mosaic(paths, output, progress=progress, say=say, **options)
    except CFusionError as error:  # messages name the options of the command line
        told = in_keywords(str(error))
        if told == str(error):
            raise
        raise type(error)(told) from error


def make_mosaic(
    paths: Sequence[str | Path],
    output: str | Path | None,
    *,
    progress: ProgressCallback | None,
    say: Callable[[str], None] | None,
    **options: Any,
) -> Mosaic:
    """`fuse_rasters` for the command line: errors name its options, not keywords."""
    began = time.perf_counter()
    chosen = _options(options)
    host_backend(chosen.backend)  # refused before anything is written
    if isinstance(paths, str | Path):
        paths = [paths]
    if not isinstance(paths, Sequence):
        raise InputError(f"fuse_rasters needs a list of files, not {type(paths).__name__}")
    target = None if output is None else path_of(output, "output")
    listen, tell = progress or (lambda step: None), say or (lambda sentence: None)
    listen(Step("laying the rasters down", 0.0))
    plan = plan_mosaic([path_of(path, "a raster") for path in paths], chosen)
    for sentence in plan.sentences:
        tell(sentence)
    if chosen.scratch is not None and not chosen.scratch.is_dir():
        raise InputError(f"--scratch is {chosen.scratch}, which is not a folder; create it first")
    if target is not None:
        require_free(target, overwrite=chosen.overwrite)
        read = {file.resolve() for file in plan.files}
        if any(file.resolve() in read for file in files_of(target).values()):
            raise InputError(f"{target} is one of the input rasters; choose another output")
    with tempfile.TemporaryDirectory(prefix="cfusion-", dir=chosen.scratch) as temporary, _crew(chosen) as crew:
        folder = Path(temporary) / "work"
        if target is not None:
            folder = (chosen.scratch or target.resolve().parent) / f".{target.name}.work"
        with alone_at_work(folder):
            made = _MosaicRun(plan, chosen, folder, crew, listen, tell).run(target)
    return replace(made, seconds=time.perf_counter() - began)


def require_free(output: Path, *, overwrite: bool) -> None:
    """Raise before any computation if the output cannot be written."""
    if output.suffix.lower() not in (".tif", ".tiff"):
        raise InputError(f"the output is {output}; a mosaic is a GeoTIFF, give a name that ends in .tif")
    if not output.resolve().parent.is_dir():
        raise InputError(f"the folder of {output} does not exist; create it first")
    for file in files_of(output).values():
        if file.exists() and not overwrite:
            raise InputError(f"{file} exists already; pass --overwrite to replace it, or choose another output")


def _options(given: dict[str, Any]) -> Options:
    known = set(Options.__dataclass_fields__)
    for name in given:
        if name not in known:
            raise InputError(f"{name!r} is not an option of a mosaic; {suggestion(name, sorted(known))}")
    shaped = dict(given)
    if isinstance(shaped.get("coregister"), bool):
        shaped["coregister"] = "shift" if shaped["coregister"] else None
    for name in ("weights", "sigma"):
        if name in shaped:
            shaped[name] = tuple(Path(path) for path in shaped[name])
    for name in ("like", "scratch"):
        if shaped.get(name) is not None:
            shaped[name] = Path(shaped[name])
    for name in ("nodata", "bounds", "alpha"):
        if shaped.get(name) is not None:
            value = shaped[name]
            shaped[name] = tuple(float(each) for each in (value if isinstance(value, tuple | list) else (value,)))
    return Options(**shaped)


def _crew(options: Options) -> Crew:
    """The workers that compute tiles."""
    if options.scheduler is None:
        return Crew(options.workers)
    from cfusion.rasters.cluster import ClusterCrew

    return ClusterCrew(options.scheduler)


@dataclass(eq=False)
class _MosaicRun:
    """A mosaic while it is computed."""

    plan: Plan
    options: Options
    folder: Path
    crew: Crew
    listen: ProgressCallback
    say: Callable[[str], None]
    gap: float = float("nan")

    def run(self, output: Path | None) -> Mosaic:
        plan, options = self.plan, self.options
        journal = Journal(self.folder, _key(plan, options))
        if journal.resumed:
            self.say(f"continuing with {self.folder}")
        weights, parameters, trial = self._choices(journal)
        work = Work(self.folder, len(plan.rasters), plan.grid.height, plan.grid.width, weighted=weights is not None)
        for image in work.images:
            image.create()
        self.listen(Step("reading", 0.0, ahead=self._effort().ahead(min(trial["iterations"], options.iterations))))
        low, high, observations = self._aligned(journal, work, weights)
        settings = Settings(
            alpha=tuple(parameters["alpha"]),
            delta=parameters["delta"],
            centre=trial["centre"],
            step_scale=trial["step_scale"],
            slope=tuple(trial["slope"]),
            low=low - BOX * (high - low) - trial["centre"],
            high=high + BOX * (high - low) - trial["centre"],
            energy_floor=_energy_floor(tuple(parameters["alpha"]), high - low, observations, work),
            backend=parameters["backend"],
        )
        number, done, certificate = self._iterated(journal, work, settings, trial["iterations"])
        mosaic = self._finished(work, settings, number, parameters, certificate, done, output)
        journal.remove()
        return mosaic

    def _choices(self, journal: Journal) -> tuple[tuple[RasterWeights, ...] | None, dict[str, Any], dict[str, Any]]:
        """Energy, weights and steps, chosen on the sample once."""
        plan = self.plan
        effort, stage = self._effort(), "choosing from a sample"
        self.listen(Step(stage, 0.0, ahead=effort.ahead()))
        backend = host_backend(self.options.backend)
        known = journal.get("choices")
        stacked = plan.sample.stacked()
        if known is None:
            given = plan.sample_weights()
            choice = choose(
                stacked,
                given,
                backend,
                self.options.alpha,
                lambda fits: self.listen(Step(stage, effort.choosing(fits))),
            )
            weights = weighed(stacked, choice.factors) if given is None else given
            trial = solve_sample(stacked, weights, choice.alpha, choice.delta, backend, self.options.tolerance)
            solved = {name: getattr(trial, name) for name in ("centre", "step_scale", "iterations", "slope")}
            known = journal.put("choices", asdict(choice) | {"backend": backend, "trial": solved})
        return plan.believed(tuple(known["factors"])), known, known["trial"]

    def _aligned(
        self, journal: Journal, work: Work, weights: tuple[RasterWeights, ...] | None
    ) -> tuple[float, float, int]:
        jobs = [(work, tuple(self.plan.rasters), weights, block) for block in blocks_of(work)]
        found = journal.stage("align", align_block, jobs, self.crew, self._share("reading", lambda done: done))
        low, high = min(each[0] for each in found), max(each[1] for each in found)
        if not low <= high:
            raise InputError("the mosaic has no known pixel; give other rasters, bounds or nodata")
        return float(low), float(high), sum(sum(each[2]) for each in found)

    def _iterated(
        self, journal: Journal, work: Work, settings: Settings, expected: int
    ) -> tuple[int, int, Certificate]:
        """Run passes until the gap is below the tolerance; return the number of the state, iterations, certificate."""
        options = self.options
        cut, effort = tiles(work.height, work.width, options.tile), self._effort()
        named = f"tiles of {options.tile}"
        if not journal.get("begun"):
            jobs_of_start = [(work, settings, tile) for tile in cut]
            share = self._share("iterating", lambda done: 0.0)
            journal.stage(f"begin, {named}", begin_tile, jobs_of_start, self.crew, share)
            journal.put("begun", True)
        passes: list[int] = journal.get("passes") or []
        goal = journal.get("goal") or min(_rounded(expected), options.iterations)
        certificates = 0
        while True:
            while sum(passes) < goal:
                count = goal - sum(passes) if len(cut) == 1 else min(PASS, goal - sum(passes))
                jobs = [(work, settings, len(passes), count, tile) for tile in cut]
                far = partial(_after, effort, sum(passes), count, goal, certificates)
                share = self._share("iterating", far)
                journal.stage(f"pass {len(passes)} of {count}, {named}", advance_tile, jobs, self.crew, share)
                passes = journal.put("passes", [*passes, count])
            share = self._share("certifying", partial(_certified, effort, sum(passes), goal, certificates))
            certificate = certify(work, settings, len(passes), self.crew, share)
            certificates += 1
            self.gap = certificate.gap
            if certificate.gap <= options.tolerance or goal >= options.iterations:
                return len(passes), sum(passes), certificate
            goal = journal.put("goal", min(max(_rounded(1.25 * goal), goal + 2 * PASS), options.iterations))

    def _finished(
        self,
        work: Work,
        settings: Settings,
        number: int,
        parameters: dict[str, Any],
        certificate: Certificate,
        iterations: int,
        output: Path | None,
    ) -> Mosaic:
        plan, blocks = self.plan, blocks_of(work)
        noise, gain = tuple(parameters["noise"]), parameters["gain"]
        jobs = [(work, settings, number, noise, gain, block) for block in blocks]
        observed, kept = np.zeros(len(plan.rasters), np.int64), np.zeros(len(plan.rasters), np.int64)
        share = self._share("writing", lambda done: self._effort().writing(done, 0))
        share(0.0)
        summary = {name: parameters[name] for name in ("alpha", "delta", "noise", "backend")}
        summary |= {"method": "auto", "order": 2, "weights": parameters["factors"]}
        maps: dict[str, NDArray[Any]] = {}
        writer = None if output is None else Writer(output, plan.grid, plan.unit)

        def take(place: int, finished: Finished) -> None:
            np.add(observed, finished.observed, out=observed)
            np.add(kept, finished.kept, out=kept)
            if writer is not None:
                writer.write(blocks[place], finished.maps)
            for name, part in finished.maps.items() if writer is None else ():
                maps.setdefault(name, np.zeros(plan.grid.shape, part.dtype))[blocks[place].core] = part
            share((place + 1) / len(blocks))

        files: dict[str, Path] = {}
        with writer or nullcontext():
            HERE.run(finish_block, jobs, take)
            report = self._report(work, settings, number, noise, observed, kept)
            if writer is not None:
                tags = self._tags(summary, certificate, iterations)
                files = writer.publish(tags | {"CFUSION_REPORT": as_json(report)})
        status = CONVERGED if certificate.gap <= self.options.tolerance else LIMIT
        return Mosaic(plan.grid, files, maps, certificate, status, iterations, summary, report, plan.sentences)

    def _report(
        self, work: Work, settings: Settings, number: int, noise: tuple[float, ...], observed: Counts, kept: Counts
    ) -> tuple[RasterReport, ...]:
        """Compare every raster, uncorrected, with the fused ground in the windows of the sample."""
        windows = self.plan.sample.windows
        known = [np.isfinite(part).any(axis=0) for part in self.plan.sample.parts]
        grounds = [
            np.where(seen, work.state(number).read(*window)[0] + np.float32(settings.centre), np.nan)
            for seen, window in zip(known, windows, strict=True)
        ]
        rows, effort = [], self._effort()
        for k, raster in enumerate(self.plan.rasters):
            self.listen(Step("comparing the rasters with the ground", effort.writing(1.0, k), self.gap))
            found = place(raster.corrected((0.0, 0.0, 0.0), (0.0, 0.0)), grounds, windows, "tilt")
            rows.append(
                RasterReport(
                    name=raster.raster.name,
                    placement=found,
                    taken_out=self.plan.placements[k],
                    noise=noise[k],
                    pixels=int(observed[k]),
                    kept=float(kept[k] / max(int(observed[k]), 1)),
                )
            )
        return tuple(rows)

    def _tags(self, summary: dict[str, Any], certificate: Certificate, iterations: int) -> dict[str, str]:
        from cfusion import __version__

        tags = {f"CFUSION_{name.upper()}": json.dumps(value) for name, value in summary.items() if name != "method"}
        tags |= {f"CFUSION_RASTER_{k + 1}": each.raster.name for k, each in enumerate(self.plan.rasters)}
        return tags | {
            "CFUSION_VERSION": __version__,
            "CFUSION_METHOD": str(summary["method"]),
            "CFUSION_GAP": f"{certificate.gap:.6g}",
            "CFUSION_ENERGY": f"{certificate.energy:.12g}",
            "CFUSION_BOUND": f"{certificate.bound:.12g}",
            "CFUSION_ITERATIONS": str(iterations),
        }

    def _effort(self) -> Effort:
        grid, cut = self.plan.grid, tiles(self.plan.grid.height, self.plan.grid.width, self.options.tile)
        halo = REACH * PASS + SPARE
        read = sum(_area(tile.with_halo(halo)) for tile in cut)
        sample = sum(_area(window) for window in self.plan.sample.windows)
        hands = min(self.options.workers, len(cut))
        return Effort(len(self.plan.rasters), sample / 1e6, grid.height * grid.width / 1e6, read / 1e6, hands)

    def _share(self, stage: str, far: Callable[[float], float]) -> Callable[[float], None]:
        """A callback that turns the share of a stretch of work into the share of its stage."""
        return lambda done: self.listen(Step(stage, far(done), self.gap))


def _after(effort: Effort, before: int, count: int, goal: int, certificates: int, done: float) -> float:
    """Share of the iterations that is done during a pass."""
    return effort.iterating(before + done * count, goal, certificates)


def _certified(effort: Effort, iterations: int, goal: int, certificates: int, done: float) -> float:
    """Share of the iterations that is done during a certificate."""
    return effort.iterating(iterations, goal, certificates + min(done, 0.99))


def _area(window: tuple[slice, slice]) -> int:
    rows, columns = window
    return int((rows.stop - rows.start) * (columns.stop - columns.start))


def _energy_floor(alpha: tuple[float, float], spread: float, observations: int, work: Work) -> float:
    """The energy of a height error of FLOOR_STEPS ulps at every observation: a lower energy counts as zero."""
    off = FLOOR_STEPS * float(np.finfo(np.float32).eps) * spread
    return max(off * (observations + sum(alpha) * work.height * work.width), TINY)


def _rounded(count: float) -> int:
    """Rounded up to whole passes."""
    return int(-(-count // PASS)) * PASS


def _key(plan: Plan, options: Options) -> str:
    """Digest of all that must be unchanged for a run to be continued: rasters, grid, options that move a number."""
    from cfusion import __version__

    chosen = {
        name: str(value)
        for name, value in asdict(options).items()
        if name not in ("workers", "scheduler", "tile", "overwrite", "scratch")
    }
    files = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in plan.files]
    text = json.dumps([__version__, chosen, files, plan.grid.transform, plan.grid.shape], default=str)
    return hashlib.sha256(text.encode()).hexdigest()
