"""A result in a notebook: a line, a picture with a table, points, a folder, an xarray data set."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from html import escape
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import on_host, share_of
from cfusion.errors import InputError, optional_module
from cfusion.io.colour_pictures import depth_colours, png_bytes
from cfusion.io.to_json import to_json
from cfusion.view.document import number

if TYPE_CHECKING:
    from cfusion.result import Result

PICTURE_WIDTH = 320  # approximate width of the picture in pixels
UNITS = {"depth": "unit of depth", "sigma": "unit of depth", "confidence": "1", "provenance": "views"}


def facts(result: Result) -> dict[str, str]:
    """The main figures of a result, as text."""
    if not on_host(result.depth):
        return {"method": result.method, "pixels": "x".join(map(str, reversed(result.depth.shape))), "where": "GPU"}
    rows, columns = result.depth.shape
    found = {"method": result.method, "pixels": f"{columns} x {rows}"}
    found["known"] = f"{100 * float(np.isfinite(result.depth).mean()):.1f} %"
    known = result.sigma[np.isfinite(result.sigma)]
    if known.size:
        found["median sigma"] = number(float(np.median(known)))
    if math.isfinite(result.gap):
        found["gap"] = f"{result.gap:.1e}"
        found["iterations"] = str(result.iterations)
    found["seconds"] = f"{result.seconds:.2f}"
    found["backend"] = result.backend
    found["status"] = result.status.name
    return found


def one_line(result: Result) -> str:
    """`Result(auto, 640 x 480, known 99.4 %, ...)`."""
    first, second, *rest = facts(result).items()
    return f"Result({first[1]}, {second[1]}, {', '.join(f'{name} {value}' for name, value in rest)})"


def as_html(result: Result) -> str:
    """The coloured depth beside the figures."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in facts(result).items()
    )
    picture = ""
    if on_host(result.depth):
        every = share_of(result.depth.shape[1], PICTURE_WIDTH)
        png = base64.b64encode(png_bytes(depth_colours(result.depth[::every, ::every]))).decode("ascii")
        picture = f'<img alt="fused depth" src="data:image/png;base64,{png}" style="max-width:{PICTURE_WIDTH}px">'
    return f'<div style="display:flex;gap:1em;align-items:center">{picture}<table>{rows}</table></div>'


def points_of(result: Result) -> NDArray[np.float64]:
    """The observed pixels as points (N, 3), row by row; in the world if the pose is known."""
    if result.camera is None:
        raise InputError("this result has no camera and so no points; give Stack(depths, camera=...) to fuse_stack")
    observed = np.isfinite(result.depth) & (result.provenance != 0)
    points = result.camera.back_project(result.depth)[observed]
    return points if result.pose is None else result.pose.apply(points)


def save(result: Result, folder: str | PathLike[str], formats: Sequence[str], unit: str, *, overwrite: bool) -> None:
    """Write the result as `cfusion fuse` does, without a page."""
    from cfusion.datasets import write_result

    write_result(result, folder, formats, unit=unit, overwrite=overwrite)


def as_dataset(result: Result) -> Any:
    """An `xarray.Dataset` whose attributes can be stored in NetCDF."""
    xarray = optional_module("xarray", missing="to_xarray needs xarray: pip install xarray, or 'cfusion[xarray]'")
    maps = {
        name: (("row", "column"), np.asarray(getattr(result, name)), {"units": unit}) for name, unit in UNITS.items()
    }
    rows, columns = result.depth.shape
    attributes = {
        **{name: str(to_json(getattr(result, name))) for name in ("method", "status", "parameters", "backend")},
        **{name: float(getattr(result, name)) for name in ("gap", "seconds", "iterations")},
    }
    return xarray.Dataset(maps, coords={"row": np.arange(rows), "column": np.arange(columns)}, attrs=attributes)
