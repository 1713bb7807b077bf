"""From raw stereo images to posed depth views, and on to the submission, on a small folder in KITTI's layout."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cfusion import Pose
from cfusion.datasets.kitti import write_disparity
from cfusion.datasets.png import Encoding, write_png

FRAMES = (9, 10, 11)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, scenes: SimpleNamespace) -> Path:
    """A training folder with one bundle of a car that drives down the corridor, without localisation."""
    place = tmp_path_factory.mktemp("kitti") / "training"
    for name in ("image_0", "image_1", "calib", "disp_noc", "disp_occ", "maps"):
        (place / name).mkdir(parents=True)
    camera, baseline = scenes.camera, scenes.rig.baseline
    rows = [
        f"{camera.fx} 0 {camera.cx} {shift} 0 {camera.fy} {camera.cy} 0 0 0 1 0" for shift in (0, -camera.fx * baseline)
    ]
    (place / "calib" / "000003.txt").write_text("".join(f"P{k}: {row}\n" for k, row in enumerate(rows)))
    pose = Pose.identity()
    for frame in FRAMES:
        seen = scenes.corridor_frame(pose)
        disparity = camera.fx * baseline / scenes.corridor(pose)[1]
        for side, image in (("image_0", seen.left), ("image_1", seen.right)):
            write_png(place / side / f"000003_{frame:02d}.png", np.rint(255 * image) + 1e-3, Encoding(scale=1.0))
        write_disparity(place / "maps" / f"000003_{frame:02d}.png", disparity)
        if frame == 10:
            write_disparity(place / "disp_noc" / "000003_10.png", disparity)
            write_disparity(place / "disp_occ" / "000003_10.png", disparity)
        pose = pose @ scenes.moved
    return place
