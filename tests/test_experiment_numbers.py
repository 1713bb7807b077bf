"""Checks of experiments, boxes of the scale space and the forecast of a run, by exact values."""

from types import SimpleNamespace

import numpy as np
import pytest

from cfusion.errors import InputError
from cfusion.experiments.boxes import Box, Regions, draw
from cfusion.experiments.checks import champion_verdict, verdict
from cfusion.experiments.plan import Level, plan
from cfusion.experiments.runner import Eta
from cfusion.report.columns import Column
from cfusion.report.paper_tables import Comparison, Line, Pair

NAN = float("nan")


def check(rule: str, factor: float, rows: tuple[str, ...] = ("a",)) -> SimpleNamespace:
    return SimpleNamespace(says="it is so", rule=rule, factor=factor, rows=rows, columns=("x",))


def compared(ours: float | None, published: float | None) -> Comparison:
    lines = (Line("a", (Pair(ours, published),), {}), Line("b", (Pair(9.0, 2.0),), {}))
    return Comparison("t", "", ("g",), (Column("x", "X"),), lines)


class TestChecks:
    @pytest.mark.parametrize(
        ("rule", "factor", "ours", "holds"),
        [
            ("within", 0.25, 5.0, True),
            ("within", 0.1, 4.41, False),
            ("within", 0.1, 3.59, False),
            ("at_most", 1.1, 4.4, True),
            ("at_most", 1.1, 4.41, False),
            ("at_most", 1.1, 0.1, True),
            ("of_best", 1.1, 2.2, True),
            ("of_best", 1.1, 2.21, False),
        ],
    )
    def test_rules(self, rule: str, factor: float, ours: float, holds: bool) -> None:
        assert verdict(check(rule, factor), compared(ours, 4.0)).holds is holds  # type: ignore[arg-type]

    def test_what_was_not_run_fails_nothing(self) -> None:
        assert verdict(check("within", 0.0), compared(None, 4.0)).holds  # type: ignore[arg-type]
        assert verdict(check("within", 0.0), compared(5.0, None)).holds  # type: ignore[arg-type]
        assert verdict(check("within", 0.0, ("c",)), compared(5.0, 4.0)).holds  # type: ignore[arg-type]

    def test_numbers_are_told(self) -> None:
        assert verdict(check("within", 0.0), compared(5.0, 4.0)).details == ("a g X: 5, 1.25 x 4",)  # type: ignore[arg-type]
        assert verdict(check("of_best", 9.0), compared(5.0, 4.0)).details == ("a g X: 5, 2.50 x 2",)  # type: ignore[arg-type]
        assert verdict(check("within", 9.0), compared(5.0, 4.0)).details == ()  # type: ignore[arg-type]

    def test_a_champion_loses_by_more_than_a_thousandth(self) -> None:
        part = SimpleNamespace(columns=("x",), over="noise")
        series = {"us": {"x": [1.0, 1.0005, 1.1, NAN]}, "they": {"x": [2.0, 1.0, 1.0, NAN]}}
        found = champion_verdict("us", part, (1.0, 2.0, 3.0, 4.0), series)  # type: ignore[arg-type]
        assert not found.holds
        assert found.details == ("noise = 3, x: they 1 against 1.1, 10.0 % more", "noise = 4, x: us has no score")
        fine = champion_verdict("us", part, (1.0, 2.0), {"us": {"x": [1.0, 1.0005]}, "they": {"x": [2.0, 1.0]}})  # type: ignore[arg-type]
        assert fine.holds


class TestBoxes:
    def test_the_middle_half_tells_what_is_left(self) -> None:
        box = Box(8, 2, 4, 2.0)
        depth = draw((20, 20), 5.0, (box,))
        assert int((depth == 7.0).sum()) == 64
        assert depth[2, 4] == depth[9, 11] == 7.0
        assert depth[10, 4] == depth[2, 12] == 5.0
        assert box.retained(depth, 5.0) == 1.0
        depth[4:8, 6:10] = np.linspace(5.0, 7.0, 16).reshape(4, 4)
        for elsewhere in (-99.0, 99.0):  # whatever lies around it, on any side
            around = np.full((20, 20), elsewhere)
            around[4:8, 6:10] = depth[4:8, 6:10]
            assert box.retained(around, 5.0) == 0.5

    def test_the_square_survives_above_its_cheeger_constant(self) -> None:
        least = (2 + np.sqrt(np.pi)) / 10
        assert Box(10, 0, 0, 1.0).should_survive(least + 1e-9)
        assert not Box(10, 0, 0, 1.0).should_survive(least)

    @pytest.mark.parametrize("wrong", [(0, 0, 0, 1.0), (1, -1, 0, 1.0), (1, 0, -1, 1.0), (1, 0, 0, 0.0)])
    def test_what_is_no_box(self, wrong: tuple[int, int, int, float]) -> None:
        with pytest.raises(InputError, match="a box needs"):
            Box(*wrong)

    def test_boxes_fit_into_the_image(self) -> None:
        for shape in ((8, 12), (12, 8)):
            last = shape[0] - 4, shape[1] - 4
            assert draw(shape, 1.0, (Box(4, *last, 1.0),)).shape == shape
            for row, column in ((last[0] + 1, last[1]), (last[0], last[1] + 1)):
                with pytest.raises(InputError, match="does not fit"):
                    draw(shape, 1.0, (Box(4, row, column, 1.0),))

    def test_a_confidence_by_regions(self) -> None:
        regions = Regions(2, 0.5, 0.1)
        assert [regions.at(box) for box in (1, 2, 3)] == [0.1, 0.5, 0.1]
        for wrong in ((0, 0.5, 0.1), (1, 0.0, 0.1), (1, 0.5, 0.0)):
            with pytest.raises(InputError, match="positive values"):
                Regions(*wrong)


def test_jobs_cost_what_the_same_method_cost_before() -> None:
    slow, quick, new = (SimpleNamespace(method=name) for name in ("slow", "quick", "new"))
    eta = Eta([slow, slow, quick, quick, new])  # type: ignore[list-item]
    assert eta.after(slow, 8.0) == pytest.approx(8 / (8 + 8 + 2 * 8 + 8))  # others as the average so far
    assert eta.after(quick, 2.0) == pytest.approx(10 / (10 + 8 + 2 + 5))
    assert eta.after(quick, 2.0) == pytest.approx(12 / (12 + 8 + 4))
    eta.after(new, 1.0)
    assert eta.after(slow, 8.0) == 1.0


def test_sweeps_are_run_when_everything_is() -> None:
    """A part marked full is left out of the tables, and nothing of a level is missing that is at hand."""
    from cfusion.experiments import load

    spec = load("noise")
    marked = {part.name for part in spec.parts if part.full}
    levels = (Level.tables, Level.full, Level.quick)
    tables, full, quick = ({cell.part for cell in plan(spec, level, "cpu").cells} for level in levels)
    assert not tables & marked
    assert full >= tables
    assert full - tables <= marked
    assert quick <= set(spec.quick.parts)
    assert full & marked or not marked
