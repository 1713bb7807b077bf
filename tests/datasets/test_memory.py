"""Decoding takes at most twice what comes out, and 64 MiB: measured, in a child, on files that pack well."""

import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

if sys.platform != "linux":
    pytest.skip("the peak of a process is asked of Linux", allow_module_level=True)

from fuzz.memory import Meter

from cfusion.io.codecs import exr, geotiff, npy, npz, photo, png, png_chunks

SIDE = 3072  # 36 MiB of float32


def map_of_steps() -> np.ndarray:
    return np.repeat(np.arange(1, SIDE + 1, dtype=np.float32)[:, None], SIDE, axis=1)


def png_map(folder: Path) -> Callable[[], int]:
    png.write_png(folder / "a.png", map_of_steps(), png.Encoding(1.0))
    return lambda: png.read_png(folder / "a.png", png.Encoding(1.0)).nbytes


def image(folder: Path, name: str) -> Callable[[], int]:
    levels = np.repeat((map_of_steps() % 256).astype(np.uint8)[..., None], 3, axis=2)
    png.pillow_image().fromarray(levels).save(folder / name)

    def read() -> int:
        found = photo.read_photo(folder / name, (SIDE, SIDE))
        assert found is not None
        return found.nbytes

    return read


def raster(folder: Path, **profile: object) -> Callable[[], int]:
    rasterio = pytest.importorskip("rasterio")
    size = {"driver": "GTiff", "width": SIDE, "height": SIDE, "count": 1, "dtype": "float32", "compress": "deflate"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rasterio.open(folder / "a.tif", "w", **size, **profile) as file:
            file.write(map_of_steps(), 1)
    return lambda: geotiff.read_heights(folder / "a.tif").nbytes


def exr_map(folder: Path) -> Callable[[], int]:
    library = pytest.importorskip("OpenEXR")
    channels = {"Z": map_of_steps()} | {f"layer{n}.x": map_of_steps().astype(np.float16) for n in range(6)}
    header = {"compression": library.ZIP_COMPRESSION, "type": library.scanlineimage}
    library.File(header, channels).write(str(folder / "a.exr"))
    return lambda: exr.read_exr(folder / "a.exr")[0].nbytes


def archive(folder: Path) -> Callable[[], int]:
    np.savez_compressed(folder / "a.npz", depth=map_of_steps())
    return lambda: npz.members(folder / "a.npz")["depth"].values.nbytes


def array(folder: Path) -> Callable[[], int]:
    np.save(folder / "a.npy", map_of_steps())
    return lambda: npy.read_npy(folder / "a.npy").nbytes


CODECS: dict[str, Callable[[Path], Callable[[], int]]] = {
    "png": png_map,
    "png image": lambda folder: image(folder, "a.png"),
    "jpeg": lambda folder: image(folder, "a.jpg"),
    "geotiff": raster,
    "geotiff of one block": lambda folder: raster(folder, blockysize=SIDE),
    "exr of seven channels": exr_map,
    "npz": archive,
    "npy": array,
}


@pytest.mark.parametrize("name", list(CODECS))
def test_twice_what_comes_out_and_a_little(tmp_path: Path, name: str) -> None:
    read = CODECS[name](tmp_path)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = "died"
        try:
            warnings.simplefilter("ignore")
            meter = Meter()
            meter.start()
            said = str(meter.excess(read()))
        finally:
            os.write(writing, said.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        said = stream.read()
    os.waitpid(child, 0)
    assert said == "0", f"{said} bytes too many"


@pytest.mark.parametrize(
    ("name", "mode"),
    [("a.png", mode) for mode in ("L", "LA", "P", "RGB", "RGBA")] + [("a.jpg", mode) for mode in ("L", "RGB", "CMYK")],
)
def test_pixels_are_counted_in_the_bytes_that_they_become(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mode: str
) -> None:
    """Grey or colour, as float32: what a meter of memory takes for the claim of a header."""
    pictures = pytest.importorskip("PIL.Image")
    heard: list[int] = []

    def require(path: Path, width: int, height: int, held: int, bytes_each: int = 4) -> None:
        heard.append(width * height * bytes_each)

    monkeypatch.setattr(photo, "require_pixels", require)
    monkeypatch.setattr(png_chunks, "require_pixels", require)
    pictures.new(mode, (7, 5)).save(tmp_path / name)
    found = photo.read_photo(tmp_path / name, (5, 7))
    assert found is not None
    assert heard == [found.nbytes]
