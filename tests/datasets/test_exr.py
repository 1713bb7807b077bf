import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cfusion.datasets import write_result
from cfusion.datasets.read_result import read_depth
from cfusion.errors import FileError
from cfusion.io.codecs.exr import read_exr, write_exr
from cfusion.io.maps import read_map

pytest.importorskip("OpenEXR")
INF = float("inf")


def attribute(name: str, kind: str, value: bytes) -> bytes:
    return name.encode() + b"\0" + kind.encode() + b"\0" + struct.pack("<i", len(value)) + value


def exr_bytes(channels: dict[str, list[list[float]]], window: tuple[int, int, int, int] | None = None) -> bytes:
    """An uncompressed scan-line file from its definition: attributes, offsets, then a block a row."""
    rows = next(iter(channels.values()))
    height, width = len(rows), len(rows[0])
    names = sorted(channels)
    listed = b"".join(name.encode() + b"\0" + struct.pack("<iB3xii", 2, 0, 1, 1) for name in names) + b"\0"
    box = struct.pack("<4i", *(window or (0, 0, width - 1, height - 1)))
    header = b"\x76\x2f\x31\x01" + struct.pack("<i", 2)
    header += attribute("channels", "chlist", listed) + attribute("compression", "compression", b"\0")
    header += attribute("dataWindow", "box2i", box) + attribute("displayWindow", "box2i", box)
    header += attribute("lineOrder", "lineOrder", b"\0") + attribute("pixelAspectRatio", "float", struct.pack("<f", 1))
    header += attribute("screenWindowCenter", "v2f", struct.pack("<2f", 0, 0))
    header += attribute("screenWindowWidth", "float", struct.pack("<f", 1)) + b"\0"
    size = 4 * width * len(names)
    first = len(header) + 8 * height
    offsets = b"".join(struct.pack("<Q", first + row * (8 + size)) for row in range(height))
    blocks = b"".join(
        struct.pack("<ii", row, size) + b"".join(struct.pack(f"<{width}f", *channels[name][row]) for name in names)
        for row in range(height)
    )
    return header + offsets + blocks


Z = [[1.0, 2.5, INF], [4.0, 1e10, 6.0]]
CONFIDENCE = [[0.5, 3.0, 0.0], [1.0, 0.0, 2.0]]
EXPECTED = np.array([[1, 2.5, np.nan], [4, np.nan, 6]], np.float32)


def test_depth_confidence_and_what_renderers_did_not_hit(tmp_path: Path) -> None:
    path = tmp_path / "a.exr"
    path.write_bytes(exr_bytes({"Z": Z, "confidence": CONFIDENCE}))
    depth, confidence = read_exr(path)
    np.testing.assert_array_equal(depth, EXPECTED)
    np.testing.assert_array_equal(confidence, np.array(CONFIDENCE, np.float32))
    np.testing.assert_allclose(read_map(path, 0.5), EXPECTED / 2)


@pytest.mark.parametrize("name", ["Z", "View Layer.Depth.Z", "R", "V", "anything"])
def test_names_of_the_channel(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.exr").write_bytes(exr_bytes({name: Z}))
    depth, confidence = read_exr(tmp_path / "a.exr")
    np.testing.assert_array_equal(depth, EXPECTED)
    assert confidence is None


def test_channels_none_of_which_is_depth(tmp_path: Path) -> None:
    (tmp_path / "a.exr").write_bytes(exr_bytes({"A": Z, "B": Z}))
    with pytest.raises(FileError, match="has channels A, B; save depth in channel Z"):
        read_exr(tmp_path / "a.exr")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not an .exr"),
        (b"\x89PNG", "not an .exr"),
        (exr_bytes({"Z": Z})[:60], "damaged"),
        (exr_bytes({"Z": Z})[:-3], "damaged"),
        (exr_bytes({"Z": Z}, (0, 0, 31622, 31622)), "claims 31623 x 31623 pixels|damaged"),
    ],
)
def test_files_that_are_none(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "a.exr").write_bytes(content)
    with pytest.raises(FileError, match=words) as caught:
        read_exr(tmp_path / "a.exr")
    assert "\n" not in str(caught.value)


def test_round_trip(tmp_path: Path) -> None:
    confidence = np.array(CONFIDENCE, np.float32)
    write_exr(tmp_path / "a.exr", EXPECTED, confidence)
    depth, found = read_exr(tmp_path / "a.exr")
    np.testing.assert_array_equal(depth, EXPECTED)
    np.testing.assert_array_equal(found, confidence)


def test_results_as_exr(tmp_path: Path, result: Any) -> None:
    write_result(result, tmp_path / "out", ["exr"])
    depth, camera = read_depth(tmp_path / "out")
    np.testing.assert_array_equal(depth, result.depth)
    assert camera == result.camera


def test_any_bytes(tmp_path: Path, harm: Callable[..., None]) -> None:
    (tmp_path / "a.exr").write_bytes(exr_bytes({"Z": Z, "confidence": CONFIDENCE}))
    harm(tmp_path, lambda: read_exr(tmp_path / "a.exr"))


@pytest.mark.parametrize("compression", ["PIZ_COMPRESSION", "ZIPS_COMPRESSION"])
def test_a_picture_of_depths_packed_as_only_the_library_can(tmp_path: Path, compression: str) -> None:
    """Depth in R, the same in G and B, as some tools export it: each channel is read on its own."""
    import OpenEXR

    depth = np.random.default_rng(0).uniform(1, 2, (6, 9)).astype(np.float32)
    header = {"compression": getattr(OpenEXR, compression), "type": OpenEXR.scanlineimage}
    with OpenEXR.File(header, {"R": depth, "G": depth + 1, "B": depth + 2}) as file:
        file.write(str(tmp_path / "a.exr"))
    np.testing.assert_array_equal(read_exr(tmp_path / "a.exr")[0], depth)


@pytest.mark.parametrize("packing", ["NO_COMPRESSION", "ZIPS_COMPRESSION", "ZIP_COMPRESSION"])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (2, 3), (15, 7), (16, 2), (17, 5), (33, 1), (48, 64)])
def test_lines_of_the_library_are_read_whatever_stands_beside(
    tmp_path: Path, packing: str, height: int, width: int
) -> None:
    """Channels of two and four bytes before, between and after; blocks of 1 and of 16 lines, whole and cut."""
    import OpenEXR

    rng = np.random.default_rng(height)
    shape = (height, width)
    depth, confidence = rng.uniform(1, 2, shape).astype(np.float32), np.round(rng.random(shape), 1).astype(np.float32)
    if height > 20:
        depth[:, :] = np.round(depth, 1)  # so that packing gains something
    channels = {
        "A": rng.random(shape).astype(np.float16),
        "Z": depth,
        "confidence": confidence,
        "id": rng.integers(0, 9, shape).astype(np.uint32),
        "zz": rng.random(shape).astype(np.float16),
    }
    with OpenEXR.File({"compression": getattr(OpenEXR, packing), "type": OpenEXR.scanlineimage}, channels) as file:
        file.write(str(tmp_path / "a.exr"))
    found = read_exr(tmp_path / "a.exr")
    np.testing.assert_array_equal(found[0], depth)
    np.testing.assert_array_equal(found[1], confidence)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.uint32])
def test_depths_of_every_type(tmp_path: Path, kind: type) -> None:
    import OpenEXR

    depth = np.arange(1, 36).reshape(5, 7).astype(kind)
    header = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
    with OpenEXR.File(header, {"Z": depth}) as file:
        file.write(str(tmp_path / "a.exr"))
    np.testing.assert_array_equal(read_exr(tmp_path / "a.exr")[0], depth)


def test_channels_beside_the_depth_count_where_the_library_decodes_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it may decode along is bounded by the file's own size."""
    import OpenEXR

    from cfusion.io.codecs import exr

    depth = np.ones((40, 50), np.float32)
    header = {"compression": OpenEXR.PIZ_COMPRESSION, "type": OpenEXR.scanlineimage}
    with OpenEXR.File(header, {"Z": depth, **{f"A{k}": depth for k in range(9)}}) as file:
        file.write(str(tmp_path / "a.exr"))
    assert (read_exr(tmp_path / "a.exr")[0] == 1).all()
    others = 9 * 4 * 40 * 50
    assert exr.DENSEST * (tmp_path / "a.exr").stat().st_size < others
    monkeypatch.setattr(exr, "BESIDE", others)
    assert (read_exr(tmp_path / "a.exr")[0] == 1).all()
    monkeypatch.setattr(exr, "BESIDE", others - 1)
    with pytest.raises(FileError, match="claims 10 channels of 50 x 40 pixels"):
        read_exr(tmp_path / "a.exr")
