"""The page of a scene (its middle view with its neighbours) and of a mosaic (its heights)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from cfusion.cli.report import PAGE, command_line

if TYPE_CHECKING:
    from cfusion.rasters.mosaic import Mosaic
    from cfusion.rasters.report import RasterReport
    from cfusion.scene.job import Job
    from cfusion.scene.whole import Report
    from cfusion.view.view_figures import ViewFigures

LARGEST = 60_000_000  # pixels of a mosaic that is read into memory for its page


def write_scene_page(job: Job, report: Report) -> Path | None:
    """Write OUT/report.html of the middle one of the fused views; None if all failed."""
    from cfusion.scene.job import open_job
    from cfusion.view.scene_page import write_view_page

    records = [record for record in report.records if not record.failure]
    if not records:
        return None
    view, output = records[len(records) // 2].view, Path(job.output)
    return write_view_page(output, view, output / PAGE, dataset=open_job(job).views, command=command_line())


def mosaic_page(output: Path) -> Path:
    """The page of a mosaic: report.html beside height.tif, NAME_report.html beside NAME.tif."""
    return output.with_name(PAGE if output.stem == "height" else f"{output.stem}_{PAGE}")


def raster_figures(rasters: Sequence[RasterReport]) -> tuple[ViewFigures, ...]:
    """Every raster compared with the fused ground, and its offset with those of others; odd ones get a sentence."""
    from math import hypot, nan
    from statistics import median

    from cfusion.view.view_figures import OF_RASTERS, ViewFigures, judged

    usual = median(each.placement.offset for each in rasters)
    rows = [
        ViewFigures(each.name, each.noise, each.placement.offset - usual, each.kept, hypot(*each.placement.shift), nan)
        for each in rasters
    ]
    return judged(rows, OF_RASTERS)


def write_mosaic_page(made: Mosaic, output: Path) -> Path | None:
    """Write the page of the heights and their sigma; None if the mosaic is too large for memory."""
    import numpy as np

    from cfusion.geometry import Orthographic
    from cfusion.io.codecs.geotiff import read_heights
    from cfusion.view import write_page

    rows, columns = made.grid.height, made.grid.width
    if rows * columns > LARGEST:
        return None
    heights, sigma = (read_heights(made.files[kind]) for kind in ("height", "sigma"))
    provenance = np.nan_to_num(read_heights(made.files["provenance"]), nan=-1).astype(np.int16)
    size = abs(float(made.grid.pixel[0]))
    degrees = size < 1e-2 and abs(float(made.grid.pixel[1])) < 1e-2  # not a length: the page scales such grids itself
    shown = SimpleNamespace(
        depth=heights,
        sigma=sigma,
        provenance=provenance,
        camera=None if degrees else Orthographic(size, columns / 2, rows / 2, columns, rows),
        method="auto",
        gap=made.gap,
        seconds=made.seconds,
        iterations=made.iterations,
        parameters=made.parameters,
    )
    return write_page(
        mosaic_page(output),
        shown,
        title=output.stem,
        heights=True,
        notes=[made.status, *made.sentences],
        source=", ".join(str(each.name) for each in made.rasters),
        figures=raster_figures(made.rasters),
        command=command_line(),
    )
