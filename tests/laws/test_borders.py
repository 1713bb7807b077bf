"""What crosses a border is right or refused: files, pages, weights, points at the camera, matches, motions."""

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from cfusion import Orthographic, Pinhole, Pose, Stack, View
from cfusion.errors import InputError
from cfusion.frontends.consistency import agreeing, disagreement
from cfusion.frontends.features import Circle
from cfusion.frontends.odometry import motion_of_matches
from cfusion.frontends.rig import Rig
from cfusion.report.columns import Column
from cfusion.report.paper_checks import Plain, Verdict
from cfusion.report.paper_page import Chapter, paper_page
from cfusion.report.tables import Table

CAMERA = Pinhole(200.0, 200.0, 119.5, 59.5, 240, 120)


# Writes into a folder, and dies after so many renames, as by a signal that nothing can hold back.
WRITE_AND_DIE = """
import os, sys
from pathlib import Path
from cfusion.io.atomic import filling
folder, after, inside = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "inside"
if inside:
    os.chdir(folder)  # so that the folder itself cannot be exchanged
done = []
def dying(move):
    def moved(*places, **options):
        if len(done) == after:
            os._exit(9)
        done.append(places)
        return move(*places, **options)
    return moved
with filling(folder) as draft:
    (draft / "sub").mkdir()
    for name in ("a.npy", "index.json", "sub/b.npy", "z.png"):
        (draft / name).write_text("new")
    os.rename, os.replace = dying(os.rename), dying(os.replace)
"""


@pytest.mark.parametrize("where", ["inside", "outside"])
def test_a_list_of_files_is_never_beside_files_of_another_time(where: str, tmp_path: Path) -> None:
    """Killed after any number of moves: where there is a JSON, all that it names are as old as it is."""
    names = ["a.npy", "index.json", "sub/b.npy", "z.png"]
    ends = set()
    for after in range(12):
        folder = tmp_path / str(after)
        (folder / "sub").mkdir(parents=True)
        for name in names:
            (folder / name).write_text("old")
        code = subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(folder), str(after), where]).returncode
        ends.add(code)
        written = {(folder / name).read_text() for name in names if (folder / name).exists()}
        assert len(written) <= 1
        assert not (folder / "index.json").exists() or all((folder / name).exists() for name in names)
        assert code == 9 or written == {"new"}
        if code == 0:
            break
    assert 0 in ends
    assert where == "outside" or 9 in ends


class _Tags(HTMLParser):
    """The names of all tags and attributes, the places that are named and those that are linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.places: set[str | None] = set()
        self.links: set[str | None] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names += [tag, *(name for name, _ in attrs)]
        self.places |= {f"#{value}" for name, value in attrs if name == "id"}
        self.links |= {value for name, value in attrs if name == "href"}


def test_no_text_becomes_markup() -> None:
    """Names of methods, files and experiments are the user's: whatever they hold is shown as it is."""
    count = iter(range(100))

    def evil() -> str:
        return f"<evil{next(count)}> &amp; \"'<evil{next(count)} x=1>"

    table = Table([{"name": evil(), "score": 1.0}], [Column("name", evil()), Column("score", evil(), ".2f")])
    shown = Plain(evil(), evil(), table, verdicts=(Verdict(evil(), True, (evil(),)),))
    chapter = Chapter(evil(), evil(), evil(), [evil()], [shown])
    text = paper_page(evil(), [evil()], [chapter], evil())
    tags = _Tags(text)
    assert not [name for name in tags.names if "evil" in name]
    assert text.count("&lt;evil") >= 20
    assert tags.links
    assert tags.links <= tags.places


@pytest.mark.parametrize("bad", [-1.0, -1e-30, np.inf, np.nan])
def test_weights_are_not_negative(bad: float) -> None:
    depth = np.ones((2, 3), np.float32)
    weights = np.ones((2, 3), np.float32)
    weights[1, 2] = bad
    with pytest.raises(InputError, match="negative or not finite at 1 of 6"):
        View(depth, Pinhole(1.0, 1.0, 1.0, 0.5, 3, 2), Pose.identity(), confidence=weights)
    with pytest.raises(InputError, match="negative or not finite at 1 of 6"):
        Stack(depth[None], weights[None])


def test_points_at_the_camera_are_not_in_front() -> None:
    """z = 0 projects nowhere by a pinhole, as what is behind; parallel rays see any depth."""
    points = np.array([[0.1, 0.2, 0.0], [0.0, 0.0, 0.0], [0.1, 0.2, -1.0], [0.1, 0.2, 1e-9]])
    with np.errstate(all="raise"):
        u, v, z = CAMERA.project(points)
    assert np.isnan(u).tolist() == np.isnan(v).tolist() == [True, True, True, False]
    assert z.tolist() == points[:, 2].tolist()
    assert np.isfinite(Orthographic(0.1, 1.0, 1.0, 4, 4).project(points)).all()


def test_a_disparity_that_points_outside_the_other_image_is_confirmed_by_nothing() -> None:
    disparity = np.full((4, 20), 6.0, np.float32)
    apart = disagreement(disparity, disparity)
    assert np.isnan(apart[:, :6]).all()
    assert (apart[:, 6:] == 0).all()
    assert np.array_equal(np.isnan(agreeing(disparity, apart, 1e9)), np.isnan(apart))


def test_a_match_lies_in_both_images() -> None:
    """Of stripes that repeat every 12 pixels, one match lies left of the image, and is not taken."""
    stereo = pytest.importorskip("cfusion.frontends.stereo")
    pytest.importorskip("cv2")
    stripes = np.tile(np.where(np.arange(96) % 12 < 6, 200, 50).astype(np.uint8), (40, 1))
    found = stereo._one_way(stripes, np.roll(stripes, -9, axis=1), 32)
    assert np.isfinite(found).any()
    assert not (found > np.arange(96)[None, :]).any()
    assert not (found < 0).any()


@pytest.mark.parametrize("seed", range(6))
def test_the_motion_is_the_one_most_features_agree_on(seed: int) -> None:
    """Half of the features moved with something else, so most proposals, the first among them, are of neither."""
    rng = np.random.default_rng(seed)
    points = np.column_stack([rng.uniform(-3, 3, 100), rng.uniform(-1.5, 1.5, 100), rng.uniform(6, 20, 100)])
    rig = Rig(CAMERA, 0.5)
    true, other = Pose(np.eye(3), np.array([0.05, 0.02, 0.6])), Pose(np.eye(3), np.array([0.6, 0.3, -0.5]))
    places = []
    for moved in (False, True):
        now = np.where(np.arange(100)[:, None] < 55, true.inverse().apply(points), other.inverse().apply(points))
        for shift in (0.0, rig.baseline):
            u, v, _ = CAMERA.project((now if moved else points) - np.array([shift, 0, 0]))
            places.append(np.column_stack([u, v]).astype(np.float32))
    found = motion_of_matches(Circle(*places), rig, seed)
    assert found.inliers == 55
    np.testing.assert_allclose(found.previous_from_current.translation, true.translation, atol=1e-3)
