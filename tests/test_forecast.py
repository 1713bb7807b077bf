"""The time left, on machines whose work is counted instead of timed: right within a factor of two from a quarter on."""

from collections.abc import Iterator

import pytest

from cfusion.cli import parts
from cfusion.cli.forecast import Forecast, Part
from cfusion.forecast import Step
from cfusion.rasters.effort import (
    AN_ITERATION,
    CERTIFICATES,
    CERTIFYING,
    COMPARING,
    FINISHING,
    FITS,
    LAYING,
    LONGER,
    OF_A_FIT,
    READING,
    TRIAL,
    WRITING,
    Effort,
)

Done = tuple[str, float, float]  # stage, how far it is then, the seconds of a usual machine since the event before


def mosaic(effort: Effort, fits: int, iterations: int, certificates: int) -> Iterator[Done]:
    """The events of a mosaic whose sample took so many fits and iterations, and the whole so many certificates."""
    sample, whole = AN_ITERATION * effort.sample, AN_ITERATION * effort.whole
    yield "laying", 0.0, 0.0
    yield "choosing", 0.0, sample * LAYING * effort.rasters
    for fit in range(1, fits + 1):
        yield "choosing", effort.choosing(fit), sample * OF_A_FIT
    yield "reading", 0.0, sample * (TRIAL + 2 * OF_A_FIT)
    yield "iterating", 0.0, whole * READING
    done, goal = 0, iterations
    for number in range(certificates):
        while done < goal:
            count = min(64, goal - done)
            done += count
            yield "iterating", effort.iterating(done, goal, number), AN_ITERATION * effort.in_passes * count
        yield "certifying", effort.iterating(done, goal, number + 0.99), whole * CERTIFYING
        goal = int(1.25 * goal)
    yield "writing", 0.0, 0.0
    yield "writing", effort.writing(1.0, 0), whole * WRITING
    for raster in range(1, effort.rasters + 1):
        yield "comparing", effort.writing(1.0, raster), sample * COMPARING
    yield "comparing", 1.0, whole * FINISHING


@pytest.mark.parametrize("pace", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("fits", [7, 11, 14])
@pytest.mark.parametrize(
    ("side", "iterations", "certificates"),
    [(0.5, 300, 2), (1.5, 200, 1), (1.5, 900, 2), (10.0, 100, 1), (10.0, 900, 2)],
)
def test_the_end_of_a_mosaic_is_foreseen(
    pace: float, fits: int, side: float, iterations: int, certificates: int
) -> None:
    """Once the sample has told how many iterations there will be."""
    effort = Effort(4, min(side**2, 0.39), side**2, 1.3 * side**2)
    events = list(mosaic(effort, fits, iterations, certificates))
    total = pace * sum(seconds for _, _, seconds in events)
    forecast, now, before = Forecast("mosaic", parts.of_mosaic(page=False)), 0.0, 0.0
    for stage, done, seconds in events:
        now += pace * seconds
        if stage in ("choosing", "reading") and done == 0:
            ahead = effort.ahead() if stage == "choosing" else effort.ahead(iterations)
            forecast.plan(parts.of_mosaic(ahead, page=False), "mosaic")
        forecast.update(Step(stage, done), now)
        fraction = forecast.fraction(now)
        assert before <= fraction < 1
        before = fraction
        told, left, really_left = stage not in ("laying", "choosing"), forecast.left(now), total - now
        if told and total / 4 <= now < 0.999 * total and abs(left - really_left) > 1:
            assert 0.5 <= left / really_left <= 2
    assert before > 0.9


class TestEffort:
    """The parts of a mosaic, by what they cost."""

    EFFORT = Effort(3, 0.4, 9.0, 12.0, hands=2)

    def test_ahead_is_the_sum_of_what_is_done(self) -> None:
        ahead = dict(self.EFFORT.ahead(400))
        assert ahead["laying",] == pytest.approx(AN_ITERATION * 0.4 * LAYING * 3)
        assert ahead["choosing",] == pytest.approx(AN_ITERATION * 0.4 * (FITS * OF_A_FIT + TRIAL))
        assert ahead["reading",] == pytest.approx(AN_ITERATION * 9 * READING / 2)
        assert ahead["iterating", "certifying"] == pytest.approx(
            AN_ITERATION * (12 * LONGER * 400 + CERTIFICATES * 9 * CERTIFYING) / 2
        )
        assert ahead["writing", "comparing"] == pytest.approx(
            AN_ITERATION * (9 * (WRITING + FINISHING) + 3 * 0.4 * COMPARING)
        )

    def test_choices_never_seem_done_before_the_last_solve(self) -> None:
        shares = [self.EFFORT.choosing(fits) for fits in range(40)]
        assert shares == sorted(shares)
        assert shares[0] == 0
        assert shares[FITS // 2] == pytest.approx((FITS // 2) * OF_A_FIT / (FITS * OF_A_FIT + TRIAL))
        assert shares[-1] < FITS * OF_A_FIT / (FITS * OF_A_FIT + TRIAL)

    def test_iterations_and_certificates_are_counted_together(self) -> None:
        first = (12 * 100 + 9 * CERTIFYING * 0.5) / (12 * LONGER * 200 + 9 * CERTIFYING * CERTIFICATES)
        assert self.EFFORT.iterating(100, 200, 0.5) == pytest.approx(first)
        later = (12 * 200 + 9 * CERTIFYING) / (12 * 250 + 9 * CERTIFYING * 2)
        assert self.EFFORT.iterating(200, 250, 1) == pytest.approx(later)

    def test_at_the_end_rasters_are_compared(self) -> None:
        assert self.EFFORT.writing(0.0, 0) == 0
        whole = 9 * (WRITING + FINISHING) + 3 * 0.4 * COMPARING
        assert self.EFFORT.writing(1.0, 3) == pytest.approx(1 - 9 * FINISHING / whole)
        assert self.EFFORT.writing(1.0, 0) == pytest.approx(9 * WRITING / whole)


def test_between_two_events_a_part_goes_on_at_its_pace_for_half_of_its_rest() -> None:
    forecast = Forecast("", [Part("a", 10.0), Part("b", 10.0)])
    forecast.update(Step("a", 0.0), 0.0)
    assert forecast._inside(3.0) == 0.0  # no pace is known yet
    forecast.update(Step("a", 0.4), 4.0)
    for now, share in ((4.0, 0.4), (5.0, 0.5), (6.9, 0.69), (7.1, 0.7), (50.0, 0.7)):
        assert forecast._inside(now) == pytest.approx(share)
    forecast.update(Step("a", 1.0), 10.0)
    assert 0.9 < forecast._inside(10.0) == forecast._inside(99.0) < 1  # the end is told by what follows


def test_a_task_is_timed_from_the_end_of_the_one_before() -> None:
    """The first from the start of its part; of the second, nothing was heard before its own first event."""
    forecast, solving = Forecast("l1", [Part("fusing", 20.0)]), Step("depth", 0.01, gap=1.0)
    forecast.update(Step("fusing 1", 0.0), 2.0)
    forecast.update(Step("fusing 1", 0.0, inside=solving, share=0.5), 5.0)
    assert forecast.solve is not None
    assert forecast.solve[0] == forecast.began == 0.0
    forecast.update(Step("fusing 1", 0.5), 10.0)
    forecast.update(Step("fusing 2", 0.5, inside=solving, share=0.5), 13.0)
    assert forecast.solve[0] == 10.0
