"""Real data, every table: accuracy at equal pixels and at equal density, and whether confidence and sigma mean it.

python -m benchmarks.real [walk | room | cars | kitti ..] [--closed]; the data lie where CFUSION_DATA says.

7-Scenes is judged by a consensus of the frames around a window (`benchmarks/consensus.py`), toy cars by the view that
was left out, KITTI by its lidar. Without --closed: what choices were made on; with it: opened once, after them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks import trust
from benchmarks.cases_real import CLOSED, DESIGN, Case, kitti, seven_scenes, toy_cars
from benchmarks.tsdf import Setting, fused, grid
from cfusion import Result, fuse, kernels
from cfusion.arrays import DepthMap
from cfusion.metrics import fill_background
from cfusion.source import Posed

DENSITIES = (0.6, 0.7, 0.8, 0.9, 0.97, 1.0)
EDGE = 1.05  # ratio of depths of neighbouring pixels at an edge
ALIKE, MOST = 0.01, 0.9  # of the depth; of the frames: what these measured alike
METRE = 2.0  # median depth over that is what the TSDF counts as a metre, where the unit is arbitrary
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Run:
    """What every method made of a case."""

    case: Case
    auto: Result  # with nothing left unknown
    least: float  # the confidence below which it would leave pixels unknown
    others: dict[str, DepthMap] = field(default_factory=dict)

    def ranks(self) -> dict[str, NDArray[np.float64]]:
        """What `auto` says about itself, larger is better."""
        sigma = np.where(np.isnan(self.auto.sigma), np.inf, self.auto.sigma)
        return {"confidence": self.auto.confidence.astype(np.float64), "sigma": -sigma / self.auto.depth}


def main() -> None:
    closed = "--closed" in sys.argv
    named = [each for each in sys.argv[1:] if not each.startswith("--")]
    split = CLOSED if closed else DESIGN
    print("closed half: opened once, after every choice" if closed else "design half: choices were made on these")
    for name in [each for each in split if not named or each in named]:
        runs = [_run(case, name) for case in _cases(name, split)]
        print(f"\n== {name}: {', '.join(run.case.name for run in runs)}", flush=True)
        (_stereo if name == "kitti" else _depth)(runs)
        trust.report(name, [(run.case, run.auto) for run in runs])


def _cases(name: str, split: dict[str, tuple[int, ...]]) -> Iterator[Case]:
    numbers = split[name]
    if name == "cars":
        return toy_cars(numbers)
    return kitti(numbers) if name == "kitti" else seven_scenes(numbers, name)


def _run(case: Case, name: str) -> Run:
    """Fuse a case by every method; progress goes to stderr."""
    print(case.name, file=sys.stderr, flush=True)
    auto = fuse(case.views, reference=case.reference, min_confidence=0.0)
    least = fuse_default()
    others = {"median": fuse(case.views, "median", reference=case.reference).depth}
    if name == "kitti":
        return Run(case, auto, least, {"matcher": case.views[case.reference].depth, **others})
    unit = 1.0 if name in ("walk", "room") else float(np.nanmedian(case.truth)) / METRE
    settings = list(dict.fromkeys([Setting(unit * Setting().voxel), *grid(unit)]))
    others |= {
        "TSDF defaults" if k == 0 else each.name: depth
        for k, (each, depth) in enumerate(fused(case.views, case.reference, settings))
        if np.isfinite(depth).any()
    }
    return Run(case, auto, least, others)


def fuse_default() -> float:
    """What `min_confidence` is where nobody sets it."""
    from cfusion.auto.settings import Settings

    return Settings().min_confidence


def _depth(runs: Sequence[Run]) -> None:
    names = list(runs[0].others)
    names = [name for name in names if all(name in run.others for run in runs)]
    gross = {name: _mean([_shares(run, run.others[name])[0] for run in runs]) for name in names}
    tsdf = [name for name in names if name.startswith("TSDF")]
    best = min(tsdf, key=lambda name: gross[name]) if tsdf else None
    print("same pixels       median %   90th %    > 2 %    > 5 %  first pixel at an edge > 2 %  density %")
    shown = dict.fromkeys(["auto", "median", *(["TSDF defaults"] if tsdf else []), *([best] if best else [])])
    for name in shown:
        rows = []
        for run in runs:
            depths = {"auto": run.auto.depth, **{each: run.others[each] for each in shown if each != "auto"}}
            common = np.isfinite([run.case.truth, *depths.values()]).all(axis=0)
            rows.append(_row(run, depths[name], common))
        median, ninety, two, five, edge, density = _mean(rows)
        best_ = " (best with hindsight)" if name == best and name != "TSDF defaults" else ""
        print(
            f"{name + best_:17} {median:8.3f} {ninety:8.3f} {two:8.3f} {five:8.3f} {edge:29.2f} {density:10.1f}",
            flush=True,
        )
    print("at equal density  its density %  its > 2 %  > 5 %   auto by confidence > 2 %  > 5 %  ratio")
    for name in ["median", *tsdf]:
        print(f"{name:17} {_equal_density(runs, name)}", flush=True)
    for rank in runs[0].ranks():
        cells = [_mean([_ranked(run, rank, density) for run in runs])[0] for density in DENSITIES]
        print(f"> 2 % at {DENSITIES} by {rank}:", " ".join(f"{cell:.3f}" for cell in cells))
    wrong, alike = _mean([_alike(run, 0.97) for run in runs])
    print(f"of {wrong:.3f} at 0.97 by confidence, wrong alike in nine of ten frames and right in none: {alike:.3f}")
    kept = []
    for run in runs:
        depth = np.where(run.auto.confidence >= run.least, run.auto.depth, np.nan)
        kept.append((*_shares(run, depth), 100 * _density(run, depth)))
    two, five, density = _mean(kept)
    print(f"auto from min_confidence {runs[0].least:g}: > 2 % {two:.3f}, > 5 % {five:.3f}, {density:.1f} % known")


def _equal_density(runs: Sequence[Run], name: str) -> str:
    """A rival as it is, and `auto` where it is surest on as many true pixels."""
    rows = []
    for run in runs:
        depth = run.others[name]
        density = _density(run, depth)
        keep = _surest(run, run.ranks()["confidence"], density)
        rows.append((100 * density, *_shares(run, depth), *_shares(run, np.where(keep, run.auto.depth, np.nan))))
    density, two, five, ours_two, ours_five = _mean(rows)
    ratio = f"{ours_two / max(two, 1e-9):5.2f} / {ours_five / max(five, 1e-9):5.2f}"
    return f"{density:13.1f} {two:10.3f} {five:6.3f} {ours_two:26.3f} {ours_five:6.3f}  {ratio}"


def _surest(run: Run, rank: NDArray[np.float64], density: float) -> Mask:
    """The surest pixels of `auto`, so many of the true ones; what it does not know comes last."""
    true = np.isfinite(run.case.truth)
    order = np.where(np.isfinite(run.auto.depth), rank, -np.inf)
    wanted = round(density * true.sum())
    places = np.flatnonzero(true)[np.argsort(-order[true], kind="stable")[:wanted]]
    keep = np.zeros(true.size, np.bool_)
    keep[places] = True
    return keep.reshape(true.shape)


def _ranked(run: Run, rank: str, density: float) -> tuple[float]:
    """Percent off by more than 2 % among the surest, so many of those that `auto` knows."""
    known = _density(run, run.auto.depth)
    keep = _surest(run, run.ranks()[rank], density * known)
    return (_shares(run, np.where(keep, run.auto.depth, np.nan))[0],)


def _alike(run: Run, density: float) -> tuple[float, float]:
    """Percent off by more than 2 % among the surest, and those of them that no ranking by agreement can find.

    These are measured alike, to 1 %, in nine of ten frames that look there, and as it is true in none.
    """
    case, depth = run.case, run.auto.depth
    keep = _surest(run, run.ranks()["confidence"], density * _density(run, depth))
    backend = kernels.load("cpu")
    source = Posed.of(case.views, case.reference, backend)
    measured = source.at(depth, [0.0] * source.n_views, backend).depths
    with np.errstate(invalid="ignore"):
        same, true = (np.abs(measured / each - 1) <= ALIKE for each in (depth, case.truth))
        wrong = keep & (case.error(depth) > 0.02)
    found = (same.sum(axis=0) >= MOST * np.isfinite(measured).sum(axis=0)) & ~true.any(axis=0)
    known = max(int((keep & np.isfinite(depth)).sum()), 1)
    return 100 * int(wrong.sum()) / known, 100 * int((wrong & found).sum()) / known


def _shares(run: Run, depth: DepthMap) -> tuple[float, float]:
    """Percent of the known true pixels that are off by more than 2 and 5 %."""
    error = run.case.error(depth)
    error = error[np.isfinite(error)]
    return tuple(100 * float((error > limit).mean()) for limit in (0.02, 0.05))  # type: ignore[return-value]


def _density(run: Run, depth: DepthMap) -> float:
    true = np.isfinite(run.case.truth)
    return float(np.isfinite(depth[true]).mean())


def _row(run: Run, depth: DepthMap, common: Mask) -> tuple[float, ...]:
    error = run.case.error(depth)
    here, edge = error[common], error[common & edges(run.case.truth)]
    return (
        100 * float(np.median(here)),
        100 * float(np.percentile(here, 90)),
        100 * float((here > 0.02).mean()),
        100 * float((here > 0.05).mean()),
        100 * float((edge > 0.02).mean()) if edge.size else float("nan"),
        100 * _density(run, depth),
    )


def edges(truth: DepthMap) -> Mask:
    """Pixels beside which the true depth jumps."""
    out = np.zeros(truth.shape, np.bool_)
    for axis in (0, 1):
        for reach in (1, 2):
            near, far = (np.roll(truth, shift, axis) for shift in (reach, -reach))
            for other in (near, far):
                with np.errstate(invalid="ignore"):
                    out |= (other > EDGE * truth) | (truth > EDGE * other)
    return out


def _stereo(runs: Sequence[Run]) -> None:
    """Percent off by more than 3 pixels of the surest true pixels; holes filled by KITTI's rule come last."""
    print("out-3 noc at     " + " ".join(f"{100 * density:6.0f} %" for density in DENSITIES) + "   known %")
    for run in runs:
        print(run.case.name)
        reference = run.case.views[run.case.reference]
        assert reference.confidence is not None
        _curve(run, "matcher", reference.depth, reference.confidence)
        for name, rank in run.ranks().items():
            _curve(run, f"auto, {name}", run.auto.depth, rank)
        _curve(run, "median", run.others["median"], None)
        kept = np.where(run.auto.confidence >= run.least, run.auto.depth, np.nan)
        _curve(run, f"auto from {run.least:g}", kept, None)


def _curve(run: Run, name: str, depth: DepthMap, rank: NDArray[np.floating] | None) -> None:
    case = run.case
    assert case.baseline is not None
    true, factor = np.isfinite(case.truth), case.camera.fx * case.baseline
    error = np.abs(fill_background(factor / depth)[true] - factor / case.truth[true])
    cells = ["       -"] * len(DENSITIES)
    if rank is not None:
        order = np.where(np.isfinite(depth), rank, -np.inf)[true]
        off = (error > 3)[np.argsort(-order, kind="stable")]
        cells = [f"{100 * off[: int(density * off.size)].mean():8.2f}" for density in DENSITIES]
    cells[-1] = f"{100 * (error > 3).mean():8.2f}"
    print(f"  {name:15}" + " ".join(cells) + f"  {100 * np.isfinite(depth[true]).mean():7.1f}", flush=True)


def _mean(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(np.nanmean(np.array(rows, np.float64), axis=0)) if np.ndim(rows) > 1 else (float(np.nanmean(rows)),)


if __name__ == "__main__":
    main()
