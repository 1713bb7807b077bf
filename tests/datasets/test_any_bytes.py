"""Whatever the bytes, a reader returns a map or says in one line why not."""

import io
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cfusion.datasets import read
from cfusion.errors import CFusionError, FileError
from cfusion.io.maps import read_map

MANY = settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])


def npy_bytes() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.ones((2, 3), np.float32))
    return stream.getvalue()


def refuses_or_reads(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        values = read_map(path, scale=0.5)
    except FileError as error:
        assert path.name in str(error)
        assert "\n" not in str(error)
    else:
        assert values.ndim == 2
        assert values.dtype == np.float32


@MANY
@given(
    kind=st.sampled_from(["npy", "pfm", "png"]),
    changes=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.integers(0, 20),
)
def test_valid_files_with_a_few_bytes_changed(
    tmp_path: Path, png_bytes: Callable[..., bytes], kind: str, changes: list[tuple[int, int]], cut: int
) -> None:
    content = {
        "npy": npy_bytes(),
        "pfm": b"Pf\n3 2\n-1.0\n" + struct.pack("<6f", 1, 2, 3, 4, 5, 6),
        "png": png_bytes(3, 2, [struct.pack(">3H", 1, 2, 3)] * 2),
    }[kind]
    harmed = bytearray(content)
    for place, value in changes:
        harmed[place % len(harmed)] = value
    refuses_or_reads(tmp_path / f"a.{kind}", bytes(harmed[: len(harmed) - cut]))


@MANY
@given(kind=st.sampled_from(["npy", "pfm", "png"]), content=st.binary(max_size=80), magic=st.booleans())
def test_noise(tmp_path: Path, kind: str, content: bytes, magic: bool) -> None:
    first = {"npy": b"\x93NUMPY\x01\x00", "pfm": b"Pf\n", "png": b"\x89PNG\r\n\x1a\n"}[kind]
    refuses_or_reads(tmp_path / f"a.{kind}", first + content if magic else content)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = ["name", "depth", "scale", "camera", "pose", "image", "confidence", "confidence_scale"]


@MANY
@given(changes=st.dictionaries(st.sampled_from(KEYS), ANY_JSON, min_size=1, max_size=3))
def test_any_value_under_any_key(tmp_path: Path, changes: dict[str, Any]) -> None:
    np.save(tmp_path / "d.npy", np.ones((2, 3), np.float32))
    camera = {"type": "pinhole", "fx": 5, "fy": 5, "cx": 1, "cy": 1, "width": 3, "height": 2}
    view = {"depth": "d.npy", "camera": camera, "pose": np.eye(4).tolist()} | changes
    content = {"format": "cfusion-bundle", "version": 1, "views": [view]}
    (tmp_path / "bundle.json").write_text(json.dumps(content))
    try:
        views = read(tmp_path)
    except CFusionError as error:
        assert "\n" not in str(error)
    else:
        assert len(views) == 1


@pytest.mark.parametrize("top", [None, 3, "x", [], {"format": {}, "version": []}])
def test_any_json_at_all(tmp_path: Path, top: Any) -> None:
    (tmp_path / "bundle.json").write_text(json.dumps(top))
    with pytest.raises(FileError, match=r"bundle\.json"):
        read(tmp_path)
