import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from cfusion import Pinhole, Pose, Result, View
from cfusion.metrics import NAMES, evaluate
from cfusion.report import figures
from cfusion.report.columns import COLUMNS, Column
from cfusion.report.page import Exhibit, Picture, page
from cfusion.report.scores import score_row
from cfusion.report.tables import Table

ROWS = [
    {"name": "median", "rmse": 0.5, "density": 89.0, "gap": float("nan"), "iterations": None},
    {"name": "auto", "rmse": 0.02504, "density": 90.0, "gap": 1e-3, "iterations": 120},
]
PNG = b"\x89PNG\r\n\x1a\n"


def test_text_is_aligned_and_stars_the_best() -> None:
    lines = Table(ROWS).text().splitlines()
    assert lines[0].split() == ["method", "RMSE", "density", "[%]", "gap", "iterations"]
    assert lines[2].split() == ["median", "0.5000", "89.0", "-", "-"]
    assert lines[3].split() == ["auto", "0.0250*", "90.0*", "1.0e-03", "120"]
    assert lines[2].index("0.5000") == lines[3].index("0.0250")  # the star does not push the digits


def test_columns_without_a_value_are_left_out() -> None:
    assert "D-avg" not in Table(ROWS).text()
    assert "D-avg" in Table([*ROWS, {"name": "x", "d_avg": 1.0}]).text()


def test_markdown_is_a_table_with_the_best_in_bold() -> None:
    lines = Table(ROWS).markdown().splitlines()
    assert lines[1] == "| --- | ---: | ---: | ---: | ---: |"
    assert "**0.0250**" in lines[3]
    assert all(line.count("|") == lines[0].count("|") for line in lines)


def test_best_is_judged_as_written_and_needs_a_rival() -> None:
    column = Column("a", "A", ".1f", "highest")
    table = Table([{"a": 1.04}, {"a": 1.01}, {"a": float("nan")}, {"a": 0.5}], [column])
    assert [table.is_best(row, column) for row in table.rows] == [True, True, False, False]
    assert not any(table.is_best({"a": 1.0}, column) for table in [Table([{"a": 1.0}] * 3, [column])])
    assert not Table([{"a": 1.0}], [column]).is_best({"a": 1.0}, column)


def test_an_empty_table_is_no_error() -> None:
    assert Table([]).text().strip() == ""


class Links(HTMLParser):
    """Everything a page would fetch, its open tags, and where it can jump to."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: list[str] = []
        self.anchors: set[str] = set()
        self.targets: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.sources += [found[key] or "" for key in ("src", "href") if key in found]
        self.anchors.add(found.get("id") or "")
        self.targets.add(found.get("href") or "")
        if tag not in {"meta", "img", "link"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_is_whole_and_needs_no_network() -> None:
    exhibits = [Exhibit("rof-adapt:ama", "It <converged> & stopped.", [Picture('a "depth"', PNG)])]
    rows = [{"name": "rof-adapt:ama", "rmse": 1.0}, {"name": "<b>", "rmse": 2.0}]
    html = page("A <title>", ["First & last."], Table(rows), exhibits, "cfusion 0.1.0")
    links = Links()
    links.feed(html)
    assert links.open == []
    assert all(source.startswith(("data:image/png;base64,", "#")) for source in links.sources)
    assert {target[1:] for target in links.targets if target.startswith("#")} <= links.anchors
    assert "http" not in re.sub(r"base64,[^\"]*", "", html)
    assert "@import" not in html
    assert "url(" not in html
    assert "<script" not in html
    assert "<b>" not in html
    assert "&lt;converged&gt; &amp; stopped" in html
    assert "prefers-color-scheme: dark" in html


def decoded(png: bytes) -> np.ndarray:
    image = pytest.importorskip("PIL.Image")
    return np.asarray(image.open(io.BytesIO(png)).convert("RGBA"))


class TestPictures:
    """Each says what it claims: unknown is neutral, colours follow values, scales are shared."""

    def setup_method(self) -> None:
        pytest.importorskip("matplotlib")

    def test_unknown_pixels_are_a_neutral_veil(self) -> None:
        from cfusion.report.figures import depth_picture

        depth = np.full((40, 60), 2.0, np.float32)
        depth[:, :30] = np.nan
        picture = decoded(depth_picture(depth, (1.0, 3.0)))
        unknown, known = picture[100, 75], picture[100, 300]
        assert len(set(unknown[:3].tolist())) == 1
        assert unknown[3] < 128
        assert known[3] == 255
        assert len(set(known[:3].tolist())) > 1

    def test_errors_of_either_sign_look_different_and_none_looks_pale(self) -> None:
        from cfusion.report.figures import error_picture

        truth = np.full((40, 60), 2.0, np.float32)
        error = np.repeat(np.array([-0.1, 0.0, 0.1], np.float32), 20)
        picture = decoded(error_picture(truth + error[None, :], truth, 0.1)).astype(int)
        near, none, far = picture[100, 45], picture[100, 180], picture[100, 315]
        assert near[2] > near[0] + 50
        assert far[0] > far[2] + 50
        assert min(none[:3]) > 230

    def test_surface_facing_the_light_is_brighter(self) -> None:
        from cfusion.report.figures import surface_picture

        camera = Pinhole(100.0, 100.0, 29.5, 19.5, 60, 40)
        columns = np.arange(60, dtype=np.float32)
        turned_left = np.tile(10 - 0.1 * columns, (40, 1)).astype(np.float32)  # nearer on the right
        turned_right = np.ascontiguousarray(turned_left[:, ::-1])
        bright, dark = (decoded(surface_picture(d, camera))[110, 180, 0] for d in (turned_left, turned_right))
        assert int(bright) > int(dark) + 50

    @pytest.mark.parametrize("value", [0.0, 1.0, np.nan, 1e-12, 1e12])
    def test_constant_maps_have_limits(self, value: float) -> None:
        from cfusion.report.figures import confidence_picture, robust_limits

        values = np.full((3, 4), value, np.float32)
        low, high = robust_limits(values)
        assert low < high
        assert confidence_picture(np.nan_to_num(values)).startswith(PNG)

    def test_exhibits_are_built_from_results(self, result: Result) -> None:
        from cfusion.report.exhibits import exhibits

        truth = np.full((4, 5), 1.5, np.float32)
        reference = View(truth, result.camera, Pose.identity())
        shown = list(exhibits([result], truth, reference))
        assert [exhibit.name for exhibit in shown] == ["truth", "l1"]
        assert [picture.label for picture in shown[1].pictures] == ["depth", "confidence", "error", "surface"]
        assert all(picture.png.startswith(PNG) for exhibit in shown for picture in exhibit.pictures)
        assert "1.0e-03" in shown[1].sentence


def test_every_score_has_one_column_that_says_what_it_means() -> None:
    """A metric is a field of Scores and a line of report.columns, and nothing else."""
    assert set(NAMES) <= set(COLUMNS)
    assert all(column.meaning for column in COLUMNS.values())
    assert set(score_row("auto", evaluate(np.ones((2, 2)), np.ones((2, 2))))) == {"name", *NAMES}
    assert COLUMNS["out3"].beside_the_paper.format == ".3f"
    assert COLUMNS["rmse"].beside_the_paper == COLUMNS["rmse"]


def test_confidence_is_drawn_as_it_is_and_unknown_where_it_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    monkeypatch.setattr(figures, "_picture", lambda values, colours, limits, label: drawn.append((values, limits)))
    figures.confidence_picture(np.array([[0, 0.5], [2, 4]], np.float32))
    ((values, limits),) = drawn
    np.testing.assert_array_equal(values, [[np.nan, 0.5], [2, 4]])
    assert limits[0] == 0
    assert 2 < limits[1] <= 4
