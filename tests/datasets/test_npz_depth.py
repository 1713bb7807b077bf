import io
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cfusion import read
from cfusion.arrays import Matrix
from cfusion.errors import FileError
from cfusion.geometry import Pinhole

K = np.array([[50, 0, 1.5], [0, 51, 0.5], [0, 0, 1]], np.float32)


def npy(array: Any) -> bytes:
    """An array as .npy, laid out by hand: magic, version, length of the header, header, values."""
    array = np.ascontiguousarray(array)
    header = f"{{'descr': '{array.dtype.str}', 'fortran_order': False, 'shape': {array.shape!r}, }}"
    padded = header + " " * (-(10 + len(header) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded.encode() + array.tobytes()


def archive(path: Path, members: dict[str, bytes], kind: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", kind) as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return path


@pytest.fixture
def arrays(pose: Matrix) -> dict[str, Any]:
    depth = np.arange(1, 19, dtype=np.float32).reshape(3, 2, 3)
    depth[0, 0, 1] = 0
    extrinsics = np.stack([np.linalg.inv(pose)[:3]] * 3).astype(np.float32)
    extrinsics[1] = np.nan
    conf = np.full((3, 2, 3), 2.0, np.float32)
    conf[0, 1, 2], conf[2, 0, 0] = 500.0, 1.0
    return {"depth": depth, "conf": conf, "extrinsics": extrinsics, "intrinsics": np.stack([K] * 3)}


@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_world_to_camera_and_unbounded_confidence(
    tmp_path: Path, arrays: dict[str, Any], pose: Matrix, kind: int
) -> None:
    archive(tmp_path / "results.npz", {name: npy(array) for name, array in arrays.items()}, kind)
    for path in (tmp_path / "results.npz", tmp_path):
        views = read(path)
        assert [view.name for view in views] == ["0000", "0002"]
        assert "1 lost frame skipped" in views.sentence
        np.testing.assert_array_equal(views[0].depth, np.array([[1, np.nan, 3], [4, 5, 6]], np.float32))
        np.testing.assert_allclose(views[0].pose.matrix(), pose, atol=1e-6)
        assert views[0].camera == Pinhole(50.0, 51.0, 1.5, 0.5, 3, 2)
        assert views[0].confidence is not None
        np.testing.assert_allclose(views[0].confidence, [[1, 0, 1], [1, 1, 250]])  # the median weighs 1
        assert views[1].confidence is not None
        assert views[1].confidence[0, 0] == 0.5


def test_vggts_names_and_shapes(tmp_path: Path, arrays: dict[str, Any]) -> None:
    members = {
        "depth": npy(arrays["depth"][..., None]),
        "depth_conf": npy(arrays["conf"]),
        "extrinsic": npy(arrays["extrinsics"]),
        "intrinsic": npy(arrays["intrinsics"]),
        "images": npy(np.linspace(0, 1, 54, dtype=np.float32).reshape(3, 3, 2, 3)),
        "world_points": npy(np.zeros((3, 2, 3, 3), np.float32)),
    }
    view = read(archive(tmp_path / "predictions.npz", members))[1]
    assert view.depth[0, 0] == 13
    assert view.image is not None
    assert view.image.shape == (2, 3, 3)
    np.testing.assert_allclose(view.image[0, 0], np.array([36, 42, 48]) / 53, atol=1e-6)


def test_bytes_as_images_and_4x4_extrinsics(tmp_path: Path, arrays: dict[str, Any], pose: Matrix) -> None:
    whole = np.stack([np.linalg.inv(pose)] * 3)
    levels = np.arange(54, dtype=np.uint8).reshape(3, 2, 3, 3)
    members = {name: npy(array) for name, array in (arrays | {"extrinsics": whole, "image": levels}).items()}
    views = read(archive(tmp_path / "a.npz", members))
    assert len(views) == 3
    assert views[0].image is not None
    np.testing.assert_allclose(views[0].image[0, 1], np.array([3, 4, 5]) / 255, atol=1e-7)


def test_a_pickle_is_refused_and_not_run(tmp_path: Path, arrays: dict[str, Any]) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "ran",)

    stream = io.BytesIO()
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117) + b"\n"
    stream.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + pickle.dumps([Trap()]))
    members = {name: npy(array) for name, array in arrays.items()} | {"depth": stream.getvalue()}
    with pytest.raises(FileError, match="depth holds pickled Python objects"):
        read(archive(tmp_path / "a.npz", members))
    assert not (tmp_path / "ran").exists()


def test_claims_beyond_what_is_held(tmp_path: Path, arrays: dict[str, Any]) -> None:
    members = {name: npy(array) for name, array in arrays.items()}
    members["depth"] = members["depth"].replace(b"(3, 2, 3), }", b"(31623, 31623), }")[: len(members["depth"])]
    with pytest.raises(FileError, match=r"depth (claims|has a damaged header)"):
        read(archive(tmp_path / "a.npz", members))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"depth": None}, "has no depth"),
        ({"extrinsics": None}, "has no extrinsics"),
        ({"intrinsics": np.zeros((2, 3, 3))}, "intrinsics is (2, 3, 3), expected (3, 3, 3)"),
        ({"extrinsics": np.zeros((3, 2, 2))}, "expected (3, 3, 4)"),
        ({"depth": np.zeros((3, 2))}, "expected (N, H, W)"),
        ({"conf": np.zeros((3, 2, 2))}, "conf is (3, 2, 2)"),
        ({"depth": np.zeros((3, 2, 3), complex)}, "not real numbers"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path: Path, arrays: dict[str, Any], changes: dict[str, Any], words: str) -> None:
    kept = {name: npy(array) for name, array in (arrays | changes).items() if array is not None}
    with pytest.raises(FileError) as caught:
        list(read(archive(tmp_path / "a.npz", kept), format="npz"))
    assert words in str(caught.value)


def test_any_bytes(tmp_path: Path, arrays: dict[str, Any], harm: Callable[..., None]) -> None:
    members = {name: npy(array) for name, array in arrays.items()}
    for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        file = archive(tmp_path / "a.npz", members, kind)
        harm(tmp_path, lambda: list(read(file)))  # noqa: B023


def stored(path: Path, arrays: dict[str, Any]) -> Path:
    return archive(path, {name: npy(array) for name, array in arrays.items()})


@pytest.mark.parametrize("shape", [(3, 2, 3), (3, 2, 3, 1), (1, 3, 2, 3), (1, 3, 2, 3, 1)])
def test_a_batch_of_one_and_a_channel_of_one_are_no_axes(
    tmp_path: Path, arrays: dict[str, Any], shape: tuple[int, ...]
) -> None:
    plain = read(stored(tmp_path / "a.npz", arrays))
    changed = arrays | {name: arrays[name].reshape(shape) for name in ("depth", "conf")}
    if len(shape) == 5:
        changed |= {name: arrays[name][None] for name in ("extrinsics", "intrinsics")}
    found = read(stored(tmp_path / "b.npz", changed))
    for one, other in zip(plain, found, strict=True):
        np.testing.assert_array_equal(one.depth, other.depth)
        np.testing.assert_array_equal(one.confidence, other.confidence)
        np.testing.assert_array_equal(one.pose.matrix(), other.pose.matrix())


@pytest.mark.parametrize("shape", [(3, 2, 3, 2), (2, 3, 2, 3), (2, 3, 2, 3, 1), (1, 1, 3, 2, 3, 1), (3, 0, 3)])
def test_other_axes_are_refused(tmp_path: Path, arrays: dict[str, Any], shape: tuple[int, ...]) -> None:
    with pytest.raises(FileError, match=r"expected \(N, H, W\)"):
        read(stored(tmp_path / "a.npz", arrays | {"depth": np.ones(shape, np.float32)}), format="npz")


@pytest.mark.parametrize(
    ("images", "held"),
    [
        (np.zeros((3, 3, 2, 3), np.float32), True),
        (np.zeros((3, 2, 3, 3), np.float32), True),
        (np.zeros((1, 3, 3, 2, 3), np.float32), True),
        (np.zeros((2, 3, 2, 3), np.float32), False),  # one too few for the last frame
        (np.zeros((3, 2, 3), np.float32), False),  # no colours
        (np.zeros((3, 3, 4, 6), np.float32), False),  # of another size
        (np.zeros((3, 3, 3, 2), np.float32), False),  # turned
        (np.zeros((3, 3, 2, 3), bool), False),
    ],
)
def test_images_that_fit_are_held_and_others_are_not(
    tmp_path: Path, arrays: dict[str, Any], images: Any, held: bool
) -> None:
    last = read(stored(tmp_path / "a.npz", arrays | {"images": images}))[-1]
    assert (last.image is not None) == held


def test_grey_values_are_shares(tmp_path: Path, arrays: dict[str, Any]) -> None:
    pixels = np.full((3, 2, 3, 3), 0.5, np.float32)
    pixels[0, 0, 0] = [-1.0, 7.0, np.nan]
    image = read(stored(tmp_path / "a.npz", arrays | {"images": pixels}))[0].image
    assert image is not None
    np.testing.assert_array_equal(image[0, 0], [0, 1, 0])
    assert (image[1] == 0.5).all()


def test_what_is_not_wanted_is_not_read(tmp_path: Path, arrays: dict[str, Any]) -> None:
    file = stored(tmp_path / "a.npz", arrays | {"images": np.zeros((3, 3, 2, 3), np.float32)})
    view = read(file)[0]
    assert view.image is not None
    assert view.confidence is not None
    bare = read(file, options={"confidence": False, "images": False})
    assert (bare[0].image, bare[0].confidence) == (None, None)
    assert "median" not in bare.sentence
    assert bare.unit == "model unit"


def test_confidence_is_in_units_of_the_typical_one_and_never_below_none(tmp_path: Path, arrays: dict[str, Any]) -> None:
    conf = np.full((3, 2, 3), 4.0, np.float32)
    conf[0] = [[np.nan, -3, 0], [np.inf, 8, 4]]
    view = read(stored(tmp_path / "a.npz", arrays | {"depth": np.ones((3, 2, 3), np.float32), "conf": conf}))[0]
    np.testing.assert_array_equal(view.confidence, [[0, 0, 0], [0, 2, 1]])
    nothing = read(stored(tmp_path / "b.npz", arrays | {"conf": np.zeros((3, 2, 3), np.float32)}))[0]
    assert not nothing.confidence.any()  # type: ignore[union-attr]


def test_two_archives_are_none(tmp_path: Path, arrays: dict[str, Any]) -> None:
    for name in ("a.npz", "b.npz"):
        stored(tmp_path / name, arrays)
    with pytest.raises(FileError, match="does not hold exactly one"):
        read(tmp_path, format="npz")


@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("shape", [b"(3, 2, 2), }", b"(3, 2, 4), }", b"(3, 1, 3), }"])
def test_a_header_says_as_many_bytes_as_there_are(
    tmp_path: Path, arrays: dict[str, Any], kind: int, shape: bytes
) -> None:
    """Fewer or more by a few: neither is read as if it were right."""
    members = {name: npy(array) for name, array in arrays.items()}
    members["conf"] = members["conf"].replace(b"(3, 2, 3), }", shape)
    with pytest.raises(FileError, match=r"conf claims \d+ bytes and holds 72"):
        list(read(archive(tmp_path / "a.npz", members, kind), format="npz"))
