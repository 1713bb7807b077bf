"""OpenCV's files, read by ourselves: as OpenCV writes them, and damaged in every way."""

from pathlib import Path

import numpy as np
import pytest

from cfusion.errors import CFusionError, FileError
from cfusion.frontends.calibration import read_rig
from cfusion.frontends.opencv_file import read_matrices

MATRICES = {
    "K1": np.diag([1000.5, 1e-3, 1.0]),
    "D1": np.array([[1e-17, -2.5, 0.0, 0.0, 3.0]]),
    "K2": np.eye(3),
    "D2": np.zeros((1, 14)),
    "R": np.eye(3),
    "T": np.array([[-0.1], [0.0], [0.0]]),
}


def written(file: Path) -> Path:
    cv2 = pytest.importorskip("cv2")
    storage = cv2.FileStorage(str(file), cv2.FILE_STORAGE_WRITE)
    storage.write("note", "hello: there")
    for name, matrix in MATRICES.items():
        storage.write(name, matrix)
    storage.write("error", 0.25)
    storage.release()
    return file


@pytest.mark.parametrize("ending", ["yml", "yaml", "xml", "json"])
def test_as_opencv_writes_them(tmp_path: Path, ending: str) -> None:
    found = read_matrices(written(tmp_path / f"rig.{ending}"))
    assert set(found) == set(MATRICES)
    for name, matrix in MATRICES.items():
        np.testing.assert_array_equal(found[name], matrix)
    rig = read_rig(tmp_path / f"rig.{ending}")
    np.testing.assert_array_equal(rig.translation, [-0.1, 0, 0])


@pytest.mark.parametrize("ending", ["yml", "xml", "json"])
def test_damage_is_a_sentence(tmp_path: Path, ending: str) -> None:
    """OpenCV's own reader wrote beyond what it had reserved for some of these."""
    whole = written(tmp_path / f"rig.{ending}").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(300):
        harmed = bytearray(whole)
        for _ in range(int(rng.integers(1, 4))):
            harmed[int(rng.integers(0, len(harmed)))] = int(rng.integers(32, 127))
        (tmp_path / f"rig.{ending}").write_bytes(harmed[: int(rng.integers(1, len(harmed)))])
        try:
            read_rig(tmp_path / f"rig.{ending}")
        except CFusionError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("rows", "data", "says"),
    [
        ("3", "1, 2", "3 x 1 with 2 numbers"),
        ("99999999", "1", "with 1 numbers"),
        ("-3", "1, 2, 3", "with 3 numbers"),
        ("3", "1, .Nan, 2", "not a number|not finite"),
        ("3", "1, nan, 2", "not finite"),
        ("x", "1", "not a whole number"),
    ],
)
def test_sizes_that_are_not_so(tmp_path: Path, rows: str, data: str, says: str) -> None:
    file = tmp_path / "rig.yml"
    file.write_text(f"%YAML:1.0\n---\nT: !!opencv-matrix\n   rows: {rows}\n   cols: 1\n   dt: d\n   data: [ {data} ]\n")
    with pytest.raises(FileError, match=says):
        read_matrices(file)
