"""A library that is not installed is named before any computation, with the extra to install."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cfusion import Pinhole, Pose, View
from cfusion.cli.main import main
from cfusion.datasets import write_bundle
from cfusion.errors import MissingDependency
from cfusion.frontends.stereo import require_matcher
from cfusion.report.figures import require_pictures
from cfusion.scene.cluster import require_dask
from cfusion.scene.mesh import require_libraries

NEEDED: list[tuple[Callable[[], None], str, str]] = [
    (require_pictures, "matplotlib.figure", "report"),
    (require_libraries, "skimage.measure", "mesh"),
    (require_libraries, "trimesh", "mesh"),
    (require_dask, "distributed", "cluster"),
    (lambda: require_matcher("sgm"), "cv2", "frontends"),
]
COMMANDS = {
    "reproduce objects --quick": ("matplotlib.figure", "report"),
    "scene DATA --mesh": ("trimesh", "mesh"),
    "scene DATA --workers 2": ("distributed", "cluster"),
}


@pytest.mark.parametrize(("require", "library", "extra"), NEEDED)
def test_the_extra_is_named(
    require: Callable[[], None], library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingDependency, match=rf"pip install 'cfusion\[{extra}\]'"):
        require()


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_ask_before_they_compute(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    library, extra = COMMANDS[command]
    camera, data, out = Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4), tmp_path / "data", tmp_path / "out"
    write_bundle([View(np.full((4, 5), 2.0), camera, Pose.identity(), name=name) for name in "abc"], data)
    monkeypatch.setitem(sys.modules, library, None)
    given = [str(data) if word == "DATA" else word for word in command.split()]
    assert main([*given, "-o", str(out)]) == 2
    assert f"[{extra}]'" in capsys.readouterr().err
    assert not list(out.rglob("*"))
