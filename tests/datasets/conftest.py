"""Files laid down byte by byte, so that readers are not tested against our own writers."""

import os
import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from cfusion.arrays import Matrix
from cfusion.errors import CFusionError
from cfusion.geometry import Pinhole, Pose, View

PngMaker = Callable[..., bytes]


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


@pytest.fixture
def png_bytes() -> PngMaker:
    """A PNG from rows of raw bytes (each gets filter byte 0), with any bit depth and colour type."""

    def make(
        width: int,
        height: int,
        rows: list[bytes],
        *,
        bits: int = 16,
        colour: int = 0,
        palette: bytes = b"",
        interlaced: int = 0,
    ) -> bytes:
        header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, interlaced)
        packed = zlib.compress(b"".join(b"\0" + row for row in rows))
        return (
            b"\x89PNG\r\n\x1a\n"
            + _chunk(b"IHDR", header)
            + (_chunk(b"PLTE", palette) if palette else b"")
            + _chunk(b"IDAT", packed)
            + _chunk(b"IEND", b"")
        )

    return make


QUARTER_TURN = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])  # about y; its inverse is another
PLACE = np.array([1.0, 2.0, 3.0])
WORLD_FROM_CAMERA = np.block([[QUARTER_TURN, PLACE[:, None]], [np.zeros((1, 3)), np.ones((1, 1))]])


@pytest.fixture
def pose() -> Matrix:
    """A camera-to-world matrix that no usual confusion leaves alone; as a quaternion w = y = sqrt(1/2)."""
    return WORLD_FROM_CAMERA.copy()


@pytest.fixture
def depth_png(png_bytes: PngMaker) -> Callable[[list[list[int]]], bytes]:
    """A 16-bit grey PNG of counts, row by row."""

    def make(counts: list[list[int]]) -> bytes:
        return png_bytes(len(counts[0]), len(counts), [struct.pack(f">{len(row)}H", *row) for row in counts])

    return make


@pytest.fixture
def some_views() -> list[View]:
    """Three small views with holes, images and confidences, turned and moved."""
    rng = np.random.default_rng(5)
    views = []
    for number in range(3):
        camera = Pinhole(50.25 + number, 51.0, 3.25, 2.5, 7, 5)
        depth = rng.uniform(1, 2, camera.shape).astype(np.float32)
        depth[number, 2] = np.nan
        image = (rng.integers(0, 256, (*camera.shape, 3)) / 255).astype(np.float32)
        tilt = 0.1 * number
        small = np.array([[np.cos(tilt), 0, np.sin(tilt)], [0, 1, 0], [-np.sin(tilt), 0, np.cos(tilt)]])
        place = PLACE + rng.normal(size=3) * 0.1
        views.append(
            View(depth, camera, Pose(QUARTER_TURN @ small, place), image, rng.uniform(0, 3, camera.shape), f"v{number}")
        )
    return views


@pytest.fixture
def same_views() -> Callable[..., None]:
    """Whether two sets of views agree in depth (within a step), pose, camera, image and confidence."""

    def compare(
        found: Sequence[View],
        expected: Sequence[View],
        *,
        step: float = 0.0,
        confidence: bool = False,
        camera: bool = True,
    ) -> None:
        assert len(found) == len(expected)
        for after, before in zip(found, expected, strict=True):
            np.testing.assert_allclose(after.depth, before.depth, atol=0.5001 * step, rtol=0)
            np.testing.assert_allclose(after.pose.matrix(), before.pose.matrix(), atol=1e-7)
            if camera:
                assert isinstance(after.camera, Pinhole)
                assert isinstance(before.camera, Pinhole)
                np.testing.assert_allclose(after.camera.matrix, before.camera.matrix, rtol=1e-12)
                assert after.shape == before.shape
            assert after.image is not None
            assert before.image is not None
            np.testing.assert_allclose(after.image, before.image, atol=1e-6)
            if confidence:
                np.testing.assert_allclose(after.confidence, before.confidence, rtol=1e-6)

    return compare


@pytest.fixture
def harm() -> Callable[[Path, Callable[[], object]], None]:
    """Change or cut every file of a data set in turn: reading it then returns, or says in one line why not."""

    def damage(folder: Path, read_all: Callable[[], object]) -> None:
        rng = np.random.default_rng(11)
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            whole = file.read_bytes()
            for attempt in range(24):
                harmed = bytearray(whole)
                for place in rng.integers(0, max(len(harmed), 1), 1 + attempt % 4):
                    if harmed:
                        harmed[int(place) % min(len(harmed), 300)] = int(rng.integers(0, 256))
                keep = len(harmed) if attempt % 3 else int(rng.integers(0, len(harmed) + 1))
                file.write_bytes(bytes(harmed[:keep]))
                try:
                    read_all()
                except CFusionError as error:
                    assert "\n" not in str(error)
                    assert len(str(error)) < 700
            file.write_bytes(whole)
        read_all()

    return damage


@pytest.fixture
def real_data() -> Callable[[str], Path]:
    """A folder of the public test data: in CFUSION_DATA, or in ../shared/data beside the repository."""

    def find(name: str) -> Path:
        beside = Path(__file__).resolve().parents[3] / "shared" / "data"
        folder = Path(os.environ.get("CFUSION_DATA", beside)) / name
        if not folder.exists():
            pytest.skip(f"needs {name} in the folder that CFUSION_DATA names")
        return folder

    return find
