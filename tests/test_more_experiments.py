"""Stereo bundles as experiments, exhibits made of stored lines, and runs that fail: without any data."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cfusion import Pinhole, Pose, View
from cfusion.errors import InputError, MissingDependency
from cfusion.experiments import conditions, provenance, runner, summary
from cfusion.experiments.conditions import BoxImage, KittiBundle
from cfusion.experiments.matches import Matches
from cfusion.experiments.models import Model
from cfusion.experiments.store import Store
from cfusion.experiments.whole_files import write_whole
from cfusion.report import paper_maps
from cfusion.report.columns import Column
from cfusion.report.paper_checks import Plain, Verdict
from cfusion.report.paper_maps import Gallery, Panel, Panels
from cfusion.report.tables import Table

BUNDLE = KittiBundle("training", 27, "gm", "sgm")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that a bundle is known by."""
    (tmp_path / "training" / "image_0").mkdir(parents=True)
    (tmp_path / "localization").mkdir()
    (tmp_path / "training" / "image_0" / "000027_10.png").write_bytes(b"left")
    (tmp_path / "training" / "image_0" / "000028_10.png").write_bytes(b"another's")
    (tmp_path / "localization" / "bundle_loc_gm_training.mat").write_bytes(b"poses")
    monkeypatch.setenv("CFUSION_DATA", str(tmp_path))
    return tmp_path


class TestBundles:
    def test_where_its_files_are(self, data: Path) -> None:
        assert BUNDLE.scene == "000027"
        assert BUNDLE.place == data / "training"
        assert BUNDLE.poses == data / "localization" / "bundle_loc_gm_training.mat"
        assert BUNDLE.matched
        assert not replace(BUNDLE, matching=str(data)).matched

    def test_what_cannot_be_varied(self) -> None:
        for fixed in (BUNDLE, BoxImage((8, 8), 1.0, ())):
            assert fixed.seeded(3) is fixed
            assert fixed.scaled(0.5) is fixed
            with pytest.raises(InputError, match="cannot be varied over 'noise'"):
                fixed.varied("noise", 1.0)
        assert BoxImage((8, 8), 1.0, ()).missing() is None
        assert BoxImage((8, 8), 1.0, ()).checksum() == "drawn"

    def test_it_is_known_by_its_own_files(self, data: Path) -> None:
        before = BUNDLE.checksum()
        (data / "training" / "image_0" / "000028_10.png").write_bytes(b"changed, and not its own")
        assert BUNDLE.checksum() == before
        (data / "training" / "image_0" / "000027_10.png").write_bytes(b"changed")
        changed = BUNDLE.checksum()
        assert changed != before
        (data / "localization" / "bundle_loc_gm_training.mat").write_bytes(b"other poses")
        assert BUNDLE.checksum() not in (before, changed)

    def test_maps_of_a_folder_count_where_they_are_used(self, data: Path, tmp_path: Path) -> None:
        maps = tmp_path / "maps"
        maps.mkdir()
        own = replace(BUNDLE, matching=str(maps))
        assert own.missing() == f"no disparity maps 000027_* in {maps}"
        (maps / "000027_10.png").write_bytes(b"one")
        before = own.checksum()
        (maps / "000027_10.png").write_bytes(b"another")
        assert own.checksum() != before

    def test_why_it_cannot_run(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[str] = []
        monkeypatch.setattr(conditions, "require_matcher", asked.append)
        monkeypatch.setattr(conditions, "opencv", lambda: None)
        assert BUNDLE.missing() is None
        assert asked == ["sgm"]

        def lacking() -> None:
            raise MissingDependency("matching needs OpenCV")

        monkeypatch.setattr(conditions, "opencv", lacking)
        assert BUNDLE.missing() == "matching needs OpenCV"
        BUNDLE.poses.unlink()
        assert "localisation" in str(BUNDLE.missing())

    def test_matched_once_and_judged_where_both_cameras_see(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        camera = Pinhole(10.0, 11.0, 2.0, 1.5, 5, 4)
        image = np.full((4, 5), 0.5, np.float32)
        trust = np.full((4, 5), 0.25, np.float32)
        given = [
            View(
                np.full((4, 5), 2.0 + k), camera, Pose(np.eye(3), np.array([k, 0.0, 0.0])), image, trust if k else None
            )
            for k in range(3)
        ]
        calls: list[Any] = []

        class Found(list[View]):
            reference = 2

        def views(*asked: Any) -> Any:
            calls.append(asked)
            return Found(given)

        monkeypatch.setattr("cfusion.frontends.kitti.kitti_bundle_views", views)
        opened = SimpleNamespace(
            truth=lambda occluded: np.full((4, 5), 4.0 if occluded else 2.0, np.float32),
            calibration=SimpleNamespace(focal_baseline=8.0, baseline=0.5),
        )
        monkeypatch.setattr(conditions, "open_bundle", lambda place, number: opened)
        store = Store(data / "cache")
        seen, again = BUNDLE.observe(store), BUNDLE.observe(store)
        assert calls == [(data / "training", 27, "sgm", "gm")]
        assert (seen.reference, seen.baseline) == (2, 0.5)
        assert (seen.truth == 4).all()
        assert (seen.every == 2).all()
        for one, other, view in zip(seen.views, again.views, given, strict=True):
            np.testing.assert_array_equal(one.depth, view.depth)
            np.testing.assert_array_equal(one.depth, other.depth)
            np.testing.assert_allclose(one.pose.matrix(), view.pose.matrix())
            assert one.camera == camera
        assert (seen.views[0].confidence == 1).all()
        assert (seen.views[1].confidence == 0.25).all()
        assert [view.image is None for view in seen.views] == [True, True, False]
        (data / "maps").mkdir()
        maps = replace(BUNDLE, matching=str(data / "maps"))
        Matches(data / "other").make(maps)
        assert calls[-1][2] == data / "maps"


def test_a_mesh_stands_as_its_track_expects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []

    class Mesh:
        def centred(self) -> "Mesh":
            done.append("centred")
            return self

        def scaled_to(self, side: float) -> "Mesh":
            done.append(side)
            return self

        def upright(self) -> "Mesh":
            done.append("upright")
            return self

    monkeypatch.setattr("cfusion.experiments.models.load_mesh", lambda path: Mesh())
    monkeypatch.setenv("CFUSION_DATA", str(tmp_path))
    (tmp_path / "a.ply").write_bytes(b"")
    for model, expected in (
        (Model("a", "blob", "a.ply"), []),
        (Model("a", "blob", "a.ply", longest_side=2.0), ["centred", 2.0]),
        (Model("a", "blob", "a.ply", upright=True, longest_side=2.0), ["centred", 2.0, "upright"]),
    ):
        done.clear()
        assert isinstance(model.load(), Mesh)
        assert done == expected


class TestExhibits:
    PART: Any = SimpleNamespace(name="boxes", caption="Boxes.", layout=(1, 1), rows=("l1", "rof"))

    @staticmethod
    def maps(key: str) -> Mapping[str, Any]:
        return {"depth": np.full((3, 4), float(key))}

    def test_panels_and_what_became_of_their_boxes(self) -> None:
        kept = [{"side": 9, "contrast": 0.5, "retained": 0.9, "predicted": True}]
        lost = [{"side": 9, "contrast": 0.5, "retained": 0.25, "predicted": True}]
        lines: list[Any] = [{"row": "l1", "key": "1", "boxes": kept}, {"row": "rof", "key": "2", "boxes": lost}]
        panels, check = summary._panels(None, self.PART, lines, self.maps)  # type: ignore[arg-type]
        assert isinstance(panels, Panels)
        assert [(panel.title, panel.depth[0, 0], panel.camera) for panel in panels.panels] == [
            *(("l1", 1.0, None), ("rof", 2.0, None)),
        ]
        assert panels.layout == (1, 1)
        assert isinstance(check, Plain)
        assert check.name == "boxes-check"
        told = check.text().splitlines()
        assert "9 (+0.5)" in told[0]
        assert told[-2].split()[-2:] == ["0.90", "yes"]
        assert told[-1].split()[-2:] == ["0.25", "no"]
        (verdict,) = check.verdicts
        assert not verdict.holds
        assert verdict.details == ("rof, side 9: 0.25 left",)
        assert len(summary._panels(None, self.PART, lines[:1], self.maps)) == 2  # type: ignore[arg-type]
        (alone,) = summary._panels(None, self.PART, [{"row": "l1", "key": "1"}], self.maps)  # type: ignore[arg-type]
        assert isinstance(alone, Panels)

    def test_a_box_survives_above_its_limit(self) -> None:
        limit = summary.SURVIVES
        for retained, predicted, holds in ((limit, False, True), (limit + 1e-6, True, True), (limit, True, False)):
            box = {"side": 3, "contrast": -1.0, "retained": retained, "predicted": predicted}
            found = summary._survivors(self.PART, [{"row": "l1", "boxes": [box]}])  # type: ignore[arg-type]
            assert found.verdicts[0].holds is holds

    def test_traces_scene_by_scene(self) -> None:
        point = {"iterations": 24, "seconds": 0.5, "energy": 3.0, "gap": None}
        lines: list[Any] = [{"row": "l1", "scene": scene, "trace": [point, point]} for scene in ("a", "b")]
        both = summary._traces(None, self.PART, lines, self.maps)  # type: ignore[arg-type]
        assert [each.name for each in both] == ["boxes-a", "boxes-b"]
        (one,) = summary._traces(None, self.PART, lines[:1], self.maps)  # type: ignore[arg-type]
        assert one.name == "boxes"
        series = one.series["l1"]  # type: ignore[attr-defined]
        assert (series["iterations"], series["energy"]) == ([24.0, 24.0], [3.0, 3.0])
        assert np.isnan(series["gap"]).all()

    def test_a_panel_has_the_camera_of_its_line(self) -> None:
        camera = {"type": "pinhole", "fx": 5.0, "fy": 6.0, "cx": 1.0, "cy": 1.0, "width": 4, "height": 3}
        found = summary._panel({"key": "7", "camera": camera}, "l1", self.maps)
        assert found is not None
        assert found.camera == Pinhole(5.0, 6.0, 1.0, 1.0, 4, 3)
        assert found.depth[0, 0] == 7
        assert summary._panel(None, "l1", self.maps) is None

    def test_pictures(self) -> None:
        pytest.importorskip("matplotlib")
        near, far = np.full((6, 8), 1.0), np.full((6, 8), 2.0)
        near[0, 0] = np.nan
        near[5, 7] = 3.0
        panels = Panels("p", "Panels.", tuple(Panel(f"{k}", each) for k, each in enumerate((near, far, far))), (2, 1))
        assert panels.text() == ""
        files = panels.files()
        assert list(files) == ["p.png"]
        assert files["p.png"].startswith(b"\x89PNG")

    def test_a_gallery_shows_the_surfaces_that_there_are(self) -> None:
        """One method on two scenes, of which it has the second only; and one without a camera."""
        pictures = pytest.importorskip("PIL.Image")
        pytest.importorskip("matplotlib")
        surface = Panel("b", np.full((6, 8), 2.0, np.float32), Pinhole(8.0, 8.0, 3.5, 2.5, 8, 6))
        inked = []
        for panels in ((None, surface), (None, None), (None, Panel("b", surface.depth))):
            drawn = Gallery("g", "Gallery.", ("", ""), {"": panels}).png()
            alpha = np.asarray(pictures.open(BytesIO(drawn)).convert("RGBA"))[..., 3] > 0
            inked.append([half.mean() for half in np.array_split(alpha, 2, axis=1)])
        assert inked[0][1] > 0.5
        assert inked[1] == inked[2]
        assert inked[1][0] == inked[0][0] < 0.1

    def test_a_gallery_names_scenes_above_and_methods_beside(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("matplotlib")
        figures: list[Any] = []
        monkeypatch.setattr(paper_maps, "png_of", lambda figure: figures.append(figure) or b"")
        Gallery("g", "", ("left", "right"), {"one": (None, None), "two": (None, None)}).png()
        assert [axes.get_title() for axes in figures[0].axes] == ["left", "right", "", ""]
        assert [[text.get_text() for text in axes.texts] for axes in figures[0].axes] == [["one"], [], ["two"], []]
        for axes in figures[0].axes[::2]:
            (across, up), (text,) = axes.texts[0].get_position(), axes.texts
            assert (text.get_transform(), text.get_rotation()) == (axes.transAxes, 90)
            assert (across < 0, up) == (True, 0.5)  # left of the picture, at its middle

    def test_a_plain_table(self) -> None:
        table = Table([{"name": "a", "x": 1.5}], [Column("name", "name"), Column("x", "x", ".2f")])
        plain = Plain("t", "A table.", table, verdicts=(Verdict("it holds", True),))
        assert plain.text() == table.text()
        (written,) = plain.files().values()
        assert written.decode().startswith(table.markdown())
        assert "it holds" in written.decode()


class TestRuns:
    def test_what_is_prepared_first(self) -> None:
        store: Any = SimpleNamespace(renders=SimpleNamespace(make="render"), matches=SimpleNamespace(make="match"))
        other = replace(BUNDLE, number=28)
        jobs: Any = [SimpleNamespace(condition=each) for each in (BUNDLE, BUNDLE, other, BoxImage((8, 8), 1.0, ()))]
        tasks = runner._preparations(store, jobs)
        assert [task[1:] for task in tasks] == [("match", BUNDLE), ("match", other)]

    def test_why_it_failed(self) -> None:
        def fails(what: str) -> None:
            raise InputError(f"no {what}")

        assert runner._prepare(fails, "data") == "no data"
        assert runner._prepare(lambda: None) is None

    def test_threads_are_as_before_afterwards(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import os

        monkeypatch.setenv("OMP_NUM_THREADS", "7")
        monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
        with runner._threads(3):
            assert {os.environ[name] for name in runner.THREAD_VARIABLES} == {"3"}
        assert os.environ["OMP_NUM_THREADS"] == "7"
        assert "MKL_NUM_THREADS" not in os.environ

    def test_the_rear_half_of_a_queue(self) -> None:
        from collections import deque

        queue: Any = deque([1, 2, 3, 4, 5])
        assert list(runner._half(queue)) == [3, 4, 5]
        assert list(queue) == [1, 2]
        assert list(runner._half(deque())) == []


def test_what_reaches_the_disk_before_its_name_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: sizes.append(os.fstat(handle).st_size))
    write_whole(tmp_path / "three", lambda stream: stream.write(b"123"))
    assert sizes == [3]


def test_the_commit_of_a_result_is_that_of_the_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None outside a repository and before its first commit; + where src/ differs from the commit."""

    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        return subprocess.run(["git", *who, *words], cwd=tmp_path, capture_output=True, text=True).stdout.strip()

    def found() -> str | None:
        provenance.commit.cache_clear()
        return provenance.commit()

    monkeypatch.setattr(provenance, "REPOSITORY", tmp_path)
    try:
        assert found() is None
        git("init")
        assert found() is None
        (tmp_path / "src").mkdir()
        (tmp_path / "src" / "a.py").write_text("a = 1\n")
        git("add", "src")
        git("commit", "-m", "first")
        assert found() == git("rev-parse", "--short=12", "HEAD")
        (tmp_path / "src" / "a.py").write_text("a = 2\n")
        assert found() == git("rev-parse", "--short=12", "HEAD") + "+"
    finally:
        provenance.commit.cache_clear()


@pytest.mark.parametrize(("given", "told"), [("3", "3"), (None, "all")])
def test_a_result_says_how_many_threads_made_it(monkeypatch: pytest.MonkeyPatch, given: str | None, told: str) -> None:
    if given is None:
        monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("NUMBA_NUM_THREADS", given)
    job: Any = SimpleNamespace(backend="numpy", condition=SimpleNamespace(checksum=lambda: "sum"))
    origin = provenance.provenance(job)
    assert (origin["threads"], origin["data"]) == (told, "sum")
