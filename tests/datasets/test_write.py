import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cfusion import Result
from cfusion.datasets import write_result
from cfusion.datasets.read_result import read_depth
from cfusion.errors import FileError, InputError
from cfusion.io.codecs.npy import read_npy
from cfusion.io.codecs.pfm import read_pfm
from cfusion.io.codecs.png import Encoding, read_png


def read_json(path: Path) -> dict[str, object]:
    """Strictly: Python's reader takes NaN, which is no JSON."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return dict(json.loads(path.read_text(), parse_constant=refuse))


def test_every_format_holds_the_same_map(tmp_path: Path, result: Result) -> None:
    write_result(result, tmp_path)
    files = read_json(tmp_path / "result.json")["files"]
    for name, expected in (("depth", result.depth), ("confidence", result.confidence)):
        np.testing.assert_array_equal(np.load(tmp_path / files[name]["npy"]["file"]), expected)
        np.testing.assert_array_equal(read_pfm(tmp_path / files[name]["pfm"]["file"]), expected)
        png = files[name]["png"]
        encoding = Encoding(png["scale"], png["offset"])
        found = read_png(tmp_path / png["file"], encoding, zero_is_unknown=name == "depth")
        np.testing.assert_allclose(found, expected, atol=0.51 * encoding.scale)


def test_provenance_keeps_its_three_kinds(tmp_path: Path, result: Result) -> None:
    write_result(result, tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "provenance.npy"), result.provenance)
    counts = read_png(tmp_path / "provenance.png", Encoding(1.0, -1.0), zero_is_unknown=False)
    np.testing.assert_array_equal(counts, result.provenance)


def test_json_says_how_it_came_about(tmp_path: Path, result: Result) -> None:
    write_result(result, tmp_path, source="data/set", unit="foot")
    found = read_json(tmp_path / "result.json")
    assert found["method"] == "l1"
    assert found["parameters"] == {"lam": 0.5, "alpha": [1.0, 2.0], "order": 2}
    assert found["status"] == result.status.value
    assert found["history"] == [{"energy": 2.0, "gap": None, "iterations": 10}]
    assert found["energies"] == {"regulariser": 1.0, "fidelity": 1.0, "prior": None, "total": 2.0}
    assert (found["input"], found["unit"], found["gap"], found["seconds"]) == ("data/set", "foot", 1e-3, 0.25)
    assert set(found["versions"]) == {"python", "numpy", "numba", "cfusion"}
    np.testing.assert_array_equal(found["pose"], result.pose.matrix())


def test_points_stand_in_the_world(tmp_path: Path, result: Result) -> None:
    write_result(result, tmp_path, ["ply"])
    body = (tmp_path / "points.ply").read_bytes().split(b"end_header\n")[1]
    points = np.array([row[:3] for row in struct.iter_unpack("<3f3Bf", body)])
    assert points.shape == (18, 3)  # the unknown pixel is left out, and the filled one
    observed = np.isfinite(result.depth) & (result.provenance > 0)
    np.testing.assert_allclose(points[:, 2], result.depth[observed] + 7.0, rtol=1e-6)
    across = (np.nonzero(observed)[1] - 2.0) / 10
    np.testing.assert_allclose(points[:, 0], across * result.depth[observed], rtol=1e-6)


def test_formats_that_were_not_asked_for_are_not_written(tmp_path: Path, result: Result) -> None:
    write_result(result, tmp_path / "a", ["pfm"])
    assert {path.name for path in (tmp_path / "a").iterdir()} == {
        "confidence.pfm",
        "depth.pfm",
        "result.json",
        "sigma.pfm",
    }
    with pytest.raises(InputError, match="'jpg'"):
        write_result(result, tmp_path / "b", ["jpg"])
    assert not (tmp_path / "b").exists()


def test_heights_below_zero_survive(tmp_path: Path, result: Result) -> None:
    result = replace(result, depth=result.depth - 1.5, camera=None, pose=None)
    write_result(result, tmp_path, ["png"])
    depth, camera = read_depth(tmp_path)
    assert camera is None
    np.testing.assert_allclose(depth, result.depth, atol=1e-4)


@pytest.mark.parametrize("format", ["npy", "pfm", "png"])
def test_a_written_result_can_be_judged_again(tmp_path: Path, result: Result, format: str) -> None:
    write_result(result, tmp_path, [format])
    for path in (tmp_path, tmp_path / "result.json"):
        depth, camera = read_depth(path)
        np.testing.assert_allclose(depth, result.depth, atol=1e-4)
        assert camera == result.camera
    with pytest.raises(FileError, match=r"result\.json"):
        read_depth(tmp_path.parent)


def test_sigma_is_written_with_its_unknowns(tmp_path: Path, result: Result) -> None:
    write_result(result, tmp_path, ["npy"])
    np.testing.assert_array_equal(read_npy(tmp_path / "sigma.npy"), result.sigma)


def test_a_result_that_cannot_be_written_changes_nothing(tmp_path: Path, result: Result) -> None:
    write_result(result, tmp_path, ["npy"])
    before = (tmp_path / "depth.npy").read_bytes()
    broken = replace(result, depth=result.depth + 1, provenance=None)  # fails after depth was drafted
    with pytest.raises(ValueError, match="Object arrays"):
        write_result(broken, tmp_path, ["npy", "png"])
    assert (tmp_path / "depth.npy").read_bytes() == before
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_files_of_others_are_not_written_over(tmp_path: Path, result: Result) -> None:
    """`result.save(".")` deleted the depth.txt of TUM's recordings, and a depth.npy that was its own input."""
    (tmp_path / "depth.txt").write_text("mine")
    for write in (result.save, lambda folder: write_result(result, folder, ("npy",))):
        with pytest.raises(InputError, match=r"holds depth\.txt, which no result of cfusion lists; .*overwrite=True$"):
            write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["depth.txt"]
    (tmp_path / "depth.txt").rename(tmp_path / "notes.txt")
    (tmp_path / "report.html").write_text("of Result.report")
    result.save(tmp_path)
    result.save(tmp_path, ("npy",))  # its own kind is replaced
    (tmp_path / "result.json").write_text('{"of": "another program"}')
    with pytest.raises(InputError, match=r"holds result\.json, which no result"):
        result.save(tmp_path)
    (tmp_path / "result.json").unlink()
    result.save(tmp_path, ("npy",), overwrite=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"
