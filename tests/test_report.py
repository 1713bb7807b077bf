import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from cfusion import Pinhole
from cfusion.metrics import NAMES, evaluate
from cfusion.report import figures, paper_figures
from cfusion.report.columns import COLUMNS, Column
from cfusion.report.paper_axes import Margins, sheet, style
from cfusion.report.paper_checks import Plain, Verdict, as_items
from cfusion.report.paper_figures import Sweep, Traces
from cfusion.report.paper_maps import Frame, Panel, Panels, shaded
from cfusion.report.paper_page import Chapter, paper_page
from cfusion.report.paper_tables import Comparison, Line, Pair
from cfusion.report.tables import Table, score_row

ROWS = [
    {"name": "median", "rmse": 0.5, "density": 89.0, "gap": float("nan"), "iterations": None},
    {"name": "auto", "rmse": 0.02504, "density": 90.0, "gap": 1e-3, "iterations": 120},
]


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
    shown = Plain("check", "It <converged> & stopped.", Table(ROWS), verdicts=(Verdict("it holds", True),))
    html = paper_page("A <title>", ["First & last."], [Chapter("one", "One", "about", ["a note"], [shown])], "cfusion")
    links = Links()
    links.feed(html)
    assert links.open == []
    assert links.sources == ["#one"]
    assert {target[1:] for target in links.targets if target.startswith("#")} <= links.anchors
    assert not re.search("http|@import|url\\(|<script|<converged>", html)
    assert "&lt;converged&gt; &amp; stopped" in html
    assert "prefers-color-scheme: dark" in html


@pytest.mark.parametrize("value", [0.0, 1.0, np.nan, 1e-12, 1e12])
def test_constant_maps_have_limits(value: float) -> None:
    low, high = figures.robust_limits(np.full((3, 4), value, np.float32))
    assert low < high


def test_limits_are_the_first_and_last_percent_of_what_is_known() -> None:
    values = np.append(np.arange(101.0), [np.nan, np.inf])
    assert figures.robust_limits(values) == (1.0, 99.0)
    assert figures.robust_limits(np.full(5, 2.0)) == (2.0 - 2e-3, 2.0 + 2e-3)
    assert figures.robust_limits(np.zeros(5)) == (-1.0, 1.0)
    assert figures.robust_limits(np.full(5, np.nan)) == (0.0, 1.0)


def test_a_figure_shows_what_is_known_and_a_margin() -> None:
    truth = np.full((100, 50), np.nan, np.float32)
    truth[10:20, 1:40] = 1
    frame = Frame.around(truth, Pinhole(9.0, 9.0, 25.0, 50.0, 50, 100))
    assert (frame.rows, frame.columns) == (slice(6, 24), slice(0, 42))
    assert (frame.camera.cx, frame.camera.cy, frame.camera.shape) == (25.0, 44.0, (18, 42))
    assert frame.of(truth).shape == (18, 42)
    nothing = Frame.around(np.full((4, 5), np.nan, np.float32), Pinhole(9.0, 9.0, 2.0, 2.0, 5, 4))
    assert (nothing.rows, nothing.columns) == (slice(0, 4), slice(0, 5))


class TestBesideThePaper:
    """Two data sets, two columns, three methods of which one looked at the truth."""

    TABLE = Comparison(
        "t",
        "caption",
        ("a", "b"),
        (Column("x", "X_1", ".2f", "lowest"), Column("y", "Y [%]", ".1f", "highest")),
        (
            Line("one", (Pair(1.004, 1.1), Pair(50.0, 49.0), Pair(3.0), Pair(None, 2.0)), {"z": 0.125}),
            Line("t<o", (Pair(1.001, 1.0), Pair(40.0, 49.0), Pair(2.0), Pair(float("nan"))), {}),
            Line("best", (Pair(0.5), Pair(99.0), Pair(1.0), Pair(90.0)), {}, labelled=True),
        ),
        verdicts=(Verdict("it holds", True, ("1 < 2",)), Verdict("it fails", False)),
    )

    def test_the_best_is_judged_as_written_among_contestants(self) -> None:
        table = self.TABLE
        assert [table.best(place) for place in range(4)] == [1.001, 50.0, 2.0, None]
        told = [[table.is_best(line, place) for place in range(4)] for line in table.lines]
        assert told == [[True, True, False, False], [True, False, True, False], [False] * 4]

    def test_markdown(self) -> None:
        assert self.TABLE.markdown().splitlines() == [
            "| method | a X_1 | a Y [%] | b X_1 | b Y [%] |",
            "| --- | ---: | ---: | ---: | ---: |",
            "| one | **1.00** (1.10) | **50.0** (49.0) | 3.00 | - (2.0) |",
            "| t<o | **1.00** (1.00) | 40.0 (49.0) | **2.00** | - |",
            "| best | 0.50 | 99.0 | 1.00 | 90.0 |",
        ]

    def test_latex(self) -> None:
        lines = self.TABLE.latex().splitlines()
        assert lines[0] == r"\begin{tabular}{lrrrrrrrr}"
        assert r"\multicolumn{2}{c}{a X\_1} & \multicolumn{2}{c}{a Y [\%]}" in lines[2]
        assert lines[3].count("ours & paper") == 4
        assert lines[4].startswith(r"one & \textbf{1.00} & \textcolor{gray}{1.10} & \textbf{50.0}")

    def test_csv_has_every_digit(self) -> None:
        lines = self.TABLE.csv().splitlines()
        assert lines[0] == "method,a x,a x published,a y,a y published,b x,b x published,b y,b y published,z"
        assert lines[1] == "one,1.004,1.1,50.0,49.0,3.0,,,2.0,0.125"

    def test_a_page_says_which_are_better(self) -> None:
        html = self.TABLE.html()
        assert '<td class="better"><b>1.00</b><br><small>1.10</small></td>' in html
        assert '<td class="worse"><b>1.00</b><br><small>1.00</small></td>' in html  # 1.001 against 1.0
        assert '<td class="better"><b>50.0</b>' in html
        assert '<td class="worse">40.0' in html
        assert "<td>t&lt;o</td>" in html
        assert '<td class="worse">-<br><small>2.0</small></td>' in html

    def test_what_equals_the_paper_is_no_worse(self) -> None:
        same = replace(self.TABLE, lines=(Line("same", (Pair(1.0, 1.0), Pair(50.0, 50.0)) * 2, {}),)).html()
        assert (same.count('class="better"'), same.count('class="worse"')) == (4, 0)

    def test_a_terminal_gets_ours_alone(self) -> None:
        lines = self.TABLE.text().splitlines()
        assert lines[2].split() == ["one", "1.00", "50.0", "3.00", "-"]
        assert "*" in lines[4]

    def test_one_group_needs_no_name(self) -> None:
        alone = Comparison("t", "", ("a",), self.TABLE.columns[:1], (Line("m", (Pair(1.0),), {}),))
        assert alone.markdown().startswith("| method | X_1 |")
        assert alone.csv().startswith("method,x,x published")

    def test_files_and_verdicts(self) -> None:
        files = self.TABLE.files()
        assert sorted(files) == ["t.csv", "t.md", "t.tex"]
        assert files["t.md"].decode().endswith("- holds: it holds\n  - 1 < 2\n- FAILS: it fails")
        assert [each.sentence() for each in self.TABLE.verdicts] == ["holds: it holds: 1 < 2", "FAILS: it fails"]
        assert as_items(self.TABLE.verdicts) == (
            "<ul><li>holds: it holds<ul><li>1 &lt; 2</li></ul></li><li>FAILS: it fails</li></ul>"
        )
        assert as_items(()) == ""

    def test_ratios(self) -> None:
        assert [pair.ratio for pair in (Pair(2.0, 4.0), Pair(None, 4.0), Pair(2.0), Pair(2.0, 0.0))] == [
            0.5,
            None,
            None,
            None,
        ]


def test_every_score_has_one_column_that_says_what_it_means() -> None:
    """A metric is a field of Scores and a line of report.columns, and nothing else."""
    assert set(NAMES) <= set(COLUMNS)
    assert all(column.meaning for column in COLUMNS.values())
    assert set(score_row("auto", evaluate(np.ones((2, 2)), np.ones((2, 2))))) == {"name", *NAMES}
    assert COLUMNS["out3"].beside_the_paper.format == ".3f"
    assert COLUMNS["rmse"].beside_the_paper == COLUMNS["rmse"]


class TestFigures:
    SWEEP = Sweep(
        "s",
        "caption",
        "noise",
        (0.5, 1.0),
        (Column("x", "X", ".2f", "lowest"),),
        {"a": {"x": [1.0, 2.0]}, "auto": {"x": [0.5, 3.0]}},
        verdicts=(Verdict("it holds", True),),
    )
    TRACES = Traces(
        "t",
        "caption",
        {
            "one": {"iterations": [0, 10], "seconds": [0.0, 1.5], "energy": [10.0, 2.0], "gap": [1.0, 1e-3]},
            "two": {"iterations": [0, 20], "seconds": [0.0, 0.5], "energy": [8.0, 4.0], "gap": [0.5, 1e-2]},
        },
    )

    def test_a_sweep_in_numbers(self) -> None:
        lines = self.SWEEP.csv().splitlines()
        assert lines == ["method,noise,x", "a,0.5,1.0", "a,1.0,2.0", "auto,0.5,0.5", "auto,1.0,3.0"]
        lines = self.SWEEP.text().splitlines()
        assert lines[0].split() == ["X", "at", "noise", "=", "0.5", "1"]
        assert lines[2].split() == ["a", "1.00", "2.00*"]
        assert lines[3].split() == ["auto", "0.50*", "3.00"]

    def test_energies_above_the_lowest(self) -> None:
        assert self.TRACES.lowest() == 2.0
        assert self.TRACES.excess("one").tolist() == [1.0, 0.0]
        assert self.TRACES.excess("two").tolist() == [0.75, 0.25]
        flat = Traces("t", "", {"one": {"energy": [3.0, 3.0]}})
        assert flat.excess("one").tolist() == [0.0, 0.0]
        assert self.TRACES.text().splitlines()[2].split() == ["one", "10", "1.50", "2*", "1.0e-03"]

    def test_the_table_of_traces_has_their_last_points(self) -> None:
        trace = {"iterations": [0, 10, 30], "seconds": [0.0, 1.0, 4.5], "energy": [9.0, 5.0, 3.0], "gap": [1, 0.5, 0.1]}
        assert Traces("t", "", {"one": trace}).text().splitlines()[2].split() == ["one", "30", "4.50", "3", "1.0e-01"]

    def test_files(self) -> None:
        pytest.importorskip("matplotlib")
        assert sorted(self.SWEEP.files()) == ["s.csv", "s.md", "s.png"]
        assert sorted(self.TRACES.files()) == ["t.md", "t.png"]
        assert "holds: it holds" in self.SWEEP.html()
        assert 'alt="caption"' in self.TRACES.html()

    def test_what_is_plotted_against_what(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Energy above, gap below; iterations at the left, seconds at the right; what is zero has no logarithm."""
        pytest.importorskip("matplotlib")
        drawn: list[Any] = []
        monkeypatch.setattr(paper_figures, "png_of", lambda figure: drawn.append(figure) or b"")
        self.TRACES.png()
        self.SWEEP.png()
        traces, sweep = (figure.axes for figure in drawn)
        assert [axes.get_xlabel() for axes in traces] == ["iterations", "seconds"] * 2
        assert [axes.get_ylabel() for axes in traces] == ["excess energy"] * 2 + ["certified gap"] * 2
        assert [axes.xaxis.get_transform().linthresh for axes in traces] == [10, 0.01] * 2
        lines = [[line.get_xydata().tolist() for line in axes.lines] for axes in (traces[0], traces[3])]
        np.testing.assert_equal(lines[0], [[[0, 1.0], [10, np.nan]], [[0, 0.75], [20, 0.25]]])
        np.testing.assert_equal(lines[1], [[[0.0, 1.0], [1.5, 1e-3]], [[0.0, 0.5], [0.5, 1e-2]]])
        assert [line.get_xydata().tolist() for line in sweep[0].lines] == [[[0.5, 1], [1, 2]], [[0.5, 0.5], [1, 3]]]
        assert (sweep[0].get_xlabel(), sweep[0].get_ylabel()) == ("noise", "X")
        assert {axes.get_yscale() for axes in (*traces, *sweep)} == {"log"}
        legends = [[text.get_text() for text in axes.get_legend().texts] for axes in (traces[1], sweep[-1])]
        assert legends == [["one", "two"], ["a", "auto"]]

    def test_axes_of_the_size_asked_for(self) -> None:
        pytest.importorskip("matplotlib")
        figure, axes = sheet(2, 3, (2.0, 1.0), Margins(0.5, 0.25, 0.125, 0.375, 0.1, 0.2))
        width, height = figure.get_size_inches()
        assert (width, height) == pytest.approx((0.5 + 6 + 0.2 + 0.25, 0.375 + 2 + 0.2 + 0.125))
        places = [axis.get_position().bounds for axis in axes]
        assert len(places) == 6
        first, last = np.array(places[0]), np.array(places[5])
        assert first * [width, height, width, height] == pytest.approx([0.5, 0.375 + 1.2, 2.0, 1.0])  # above
        assert last * [width, height, width, height] == pytest.approx([0.5 + 4.2, 0.375, 2.0, 1.0])

    def test_ours_is_thick_and_keeps_its_colour(self) -> None:
        assert style(0, "auto") == style(7, "auto")
        assert style(0, "auto")["linewidth"] == 2 * style(0, "l1")["linewidth"]
        assert style(0, "l1")["color"] == style(10, "l1")["color"] != style(1, "l1")["color"]
        assert all(style(k, "l1")["color"] != style(0, "auto")["color"] for k in range(30))

    def test_the_light_comes_over_the_left_shoulder(self) -> None:
        camera = Pinhole(100.0, 100.0, 29.5, 19.5, 60, 40)
        columns = np.arange(60, dtype=np.float32)
        left = np.tile(10 - 0.1 * columns, (40, 1)).astype(np.float32)
        bright, dark = (shaded(each, camera)[20, 30] for each in (left, np.ascontiguousarray(left[:, ::-1])))
        assert bright > dark + 0.2
        assert dark >= 0.12
        steep = [np.tile(10 - slope * columns, (40, 1)).astype(np.float32) for slope in np.linspace(0, 0.2, 9)]
        assert 0.8 < max(shaded(each, camera)[20, 30] for each in steep) <= 1  # nearly facing the light

    def test_panels_in_rows_of_four_or_as_laid_out(self) -> None:
        panels = tuple(Panel(str(k), np.zeros((2, 2), np.float32)) for k in range(5))
        assert Panels("p", "", panels, ()).places() == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
        assert Panels("p", "", panels, (2, 3)).places() == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
