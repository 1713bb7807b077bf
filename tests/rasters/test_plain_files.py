"""A raster holds its own heights: what points at other files, or at an address, is not opened."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.rasters.conftest import ground, surveys, write_tif

from cfusion.errors import FileError
from cfusion.io.codecs.geotiff import read_heights
from cfusion.rasters.begin import plan_mosaic
from cfusion.rasters.options import Options
from cfusion.rasters.raster import open_raster

TRUTH = ground(40, 48)
VRT = """<VRTDataset rasterXSize="48" rasterYSize="40"><SRS>EPSG:32631</SRS>
<GeoTransform>500000,0.5,0,4900000,0,-0.5</GeoTransform><Metadata><MDI key="INTERNAL_MASK_FLAGS_1">2</MDI></Metadata>
<VRTRasterBand dataType="Float32" band="1"><SimpleSource><SourceFilename relativeToVRT="0">{source}</SourceFilename>
<SourceBand>1</SourceBand></SimpleSource></VRTRasterBand></VRTDataset>"""


@pytest.fixture
def address() -> Iterator[tuple[str, list[str]]]:
    """A server on this machine, and what it was asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *rest: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"/vsicurl/http://127.0.0.1:{server.server_port}/x.tif", asked
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("b.tif", VRT, "b.tif is not a GeoTIFF.*VRT points elsewhere"),
        ("s0.tif.msk", VRT, "s0.tif.msk is read with a raster and is not a TIFF"),
        ("s0.tif.ovr", VRT, "s0.tif.ovr is read with a raster and is not a TIFF"),
        (
            "s0.tif.aux.xml",
            '<PAMDataset><Metadata domain="OVERVIEWS"><MDI key="OVERVIEW_FILE">{source}</MDI></Metadata></PAMDataset>',
            "s0.tif.aux.xml refers to another file",
        ),
    ],
)
def test_nothing_beside_or_in_place_of_a_raster_reaches_an_address(
    tmp_path: Path, address: tuple[str, list[str]], name: str, content: str, sentence: str
) -> None:
    source, asked = address
    (first,) = surveys(tmp_path, TRUTH, 1)
    (tmp_path / name).write_text(content.format(source=source))
    with pytest.raises(FileError, match=sentence) as caught:
        plan_mosaic([first, tmp_path / name] if name == "b.tif" else [first], Options())
    assert "\n" not in str(caught.value)
    with pytest.raises(FileError):
        read_heights(tmp_path / name if name == "b.tif" else first)
    assert asked == []


def test_a_mask_that_is_a_tiff_and_notes_that_hold_numbers_are_taken(tmp_path: Path) -> None:
    first = write_tif(tmp_path / "s0.tif", TRUTH, nodata=None)
    known = np.full(TRUTH.shape, 255, np.uint8)
    known[:10] = 0
    write_tif(tmp_path / "s0.tif.msk", known, nodata=None, tags={"INTERNAL_MASK_FLAGS_1": "2"})
    (tmp_path / "s0.tif.aux.xml").write_text("<PAMDataset><Metadata><MDI key='made'>2026</MDI></Metadata></PAMDataset>")
    assert np.isnan(open_raster(first).heights(0, 0, 48, 40)).sum() == 480


def test_a_description_names_files_inside_its_folder(tmp_path: Path) -> None:
    (first,) = surveys(tmp_path, TRUTH, 1)
    (tmp_path / "inner").mkdir()
    described = tmp_path / "inner" / "mosaic.json"
    for name in ("../s0.tif", str(first), "/vsicurl/http://127.0.0.1/x.tif"):
        described.write_text(json.dumps({"rasters": [{"heights": name}]}))
        with pytest.raises(FileError, match="leads out of"):
            plan_mosaic([described], Options())
    (tmp_path / "mosaic.json").write_text(json.dumps({"rasters": [{"heights": "s0.tif"}]}))
    assert len(plan_mosaic([tmp_path / "mosaic.json"], Options()).rasters) == 1


def test_an_ascii_grid_is_a_plain_file(tmp_path: Path) -> None:
    rows = "\n".join(" ".join(f"{value:.3f}" for value in row) for row in TRUTH)
    head = "ncols 48\nnrows 40\nxllcorner 500000\nyllcorner 4899980\ncellsize 0.5\nNODATA_value -9999\n"
    (tmp_path / "a.asc").write_text(head + rows)
    heights = open_raster(tmp_path / "a.asc").heights(0, 0, 48, 40)
    np.testing.assert_allclose(heights, TRUTH, atol=1e-3)
