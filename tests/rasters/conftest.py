"""Small height models to write and fuse."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

rasterio = pytest.importorskip("rasterio")
from rasterio.transform import from_origin  # noqa: E402

UTM_31 = "EPSG:32631"
CORNER = (500_000.0, 4_900_000.0)
Writer = Callable[..., Path]


def write_tif(file: Path, heights: Any, corner: tuple[float, float] = CORNER, pixel: float = 0.5, **said: Any) -> Path:
    """A GeoTIFF with north up; `said` goes to rasterio, `tags`, `units`, `scales`, `offsets` to the band."""
    values = np.asarray(heights)
    after = {name: said.pop(name) for name in ("tags", "units", "scales", "offsets") if name in said}
    profile = {
        **{"driver": "GTiff", "height": values.shape[0], "width": values.shape[1], "count": 1, "dtype": values.dtype},
        **{"nodata": -9999, "crs": UTM_31, "transform": from_origin(*corner, pixel, pixel)},
        **said,
    }
    with rasterio.open(file, "w", **profile) as raster:
        if "tags" in after:
            raster.update_tags(**after["tags"])
        for name in ("units", "scales", "offsets"):
            if name in after:
                setattr(raster, name, (after[name],))
        raster.write(values, 1)
    return file


def ground(rows: int, columns: int, seed: int = 0) -> Any:
    """Rolling terrain with houses whose walls are steps."""
    v, u = np.mgrid[:rows, :columns]
    heights = 100 + 4 * np.sin(u / 23) * np.cos(v / 17) + 0.03 * u
    rng = np.random.default_rng(seed)
    for _ in range(max(2, rows * columns // 4000)):
        height, width = rng.integers(10, 24, 2)
        top, left = rng.integers(0, rows - 24), rng.integers(0, columns - 24)
        heights[top : top + height, left : left + width] = heights[top, left] + rng.uniform(3, 8)
    return heights.astype(np.float32)


def surveys(folder: Path, truth: Any, count: int, noise: float = 0.5, seed: int = 1) -> list[Path]:
    """The same ground, measured a few times."""
    rng = np.random.default_rng(seed)
    return [
        write_tif(folder / f"s{k}.tif", (truth + rng.normal(0, noise, truth.shape)).astype(np.float32))
        for k in range(count)
    ]


def read_tif(file: Path) -> Any:
    with rasterio.open(file) as raster:
        return raster.read(1)
