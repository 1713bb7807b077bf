"""Aligned height rasters (GeoTIFF): each is the view of a camera far above, all on one grid.

depth = top - height, with top a little above the highest point. The grids have to be equal; whether coordinates refer
to pixel corners or centres (AREA_OR_POINT) is taken into account.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.datasets.dataset import Dataset, LazyViews
from cfusion.datasets.reader_tools import named_view
from cfusion.errors import FileError, InputError
from cfusion.geometry import Orthographic, Pose, View
from cfusion.io.codecs.geotiff import SAME, Grid, grid_of, read_heights

SUFFIXES = (".tif", ".tiff")
DOWN = np.diag([1.0, -1.0, -1.0])  # image x is east, image y south, depth downwards
HEADROOM = 1.0  # pixels between the highest point and the camera


@dataclass(frozen=True)
class Options:
    """Options of the format."""

    band: int = 1

    def __post_init__(self) -> None:
        if self.band < 1:
            raise InputError(f"band is {self.band}; bands count from 1")


def recognises(path: Path) -> bool:
    """A GeoTIFF, or a folder with some."""
    return bool(_files(path))


def read(path: Path, options: Options | None = None) -> Dataset:
    """One view per raster, all from one position above the centre of the grid."""
    chosen = options or Options()
    files, grid = _aligned(path, chosen)
    camera = _camera(grid)
    top = max(float(np.nanmax(heights)) for heights in (read_heights(file, chosen.band) for file in files))
    pose = Pose(DOWN, np.array([0.0, 0.0, top + HEADROOM * grid.pixel[0]]))

    def load(number: int) -> View:
        depth = depth_of_height(read_heights(files[number], chosen.band), pose)
        return named_view(files[number], depth, camera, pose, name=files[number].stem)

    sentence = (
        f"GeoTIFF: {len(files)} rasters on one grid of {grid.width} x {grid.height}, nodata = unknown, heights seen "
        f"from {pose.translation[2]:.6g} above, x and y from the grid's middle"
    )
    return Dataset(LazyViews.reading(load, len(files)), unit="unit of the raster", sentence=sentence)


def depth_of_height(heights: NDArray[np.floating], pose: Pose) -> NDArray[np.float32]:
    """top - x: depth of height, and height of depth."""
    depth: NDArray[np.float32] = (pose.translation[2] - heights.astype(np.float64)).astype(np.float32)
    return depth


def _files(path: Path) -> list[Path]:
    if path.suffix.lower() in SUFFIXES and path.is_file():
        return [path]
    return sorted(file for file in path.glob("*") if file.suffix.lower() in SUFFIXES) if path.is_dir() else []


def _aligned(path: Path, options: Options) -> tuple[Sequence[Path], Grid]:
    files = _files(path)
    if not files:
        raise FileError(f"{path} holds no GeoTIFF (*.tif); give a folder with some")
    first = grid_of(files[0], options.band)
    for file in files[1:]:
        difference = first.difference(grid_of(file, options.band))
        if difference:
            raise FileError(f"{file} {difference} ({files[0].name}); resample them to one grid first")
    return files, first


def _camera(grid: Grid) -> Orthographic:
    along, down = grid.pixel
    a, b, _, d, e, _ = grid.transform
    if abs(along - down) > SAME * along or not (a > 0 > e) or b != 0 or d != 0:
        raise FileError(
            f"the grid's pixels are {along:g} x {down:g} (or rotated); resample to square pixels with north up"
        )
    return Orthographic(along, (grid.width - 1) / 2, (grid.height - 1) / 2, grid.width, grid.height)
