"""Small SVG diagrams in the colours of the page: the gap over time, sigma against the actual error."""

import math
from collections.abc import Sequence
from html import escape

from cfusion.arrays import SMALL
from cfusion.view.content import Event
from cfusion.view.reliability import Reliability

WIDTH, HEIGHT = 420, 240
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 14, 40


def gap_falling(events: Sequence[Event]) -> str:
    """The reported duality gap over time; empty if none was reported."""
    known = [(event.seconds, event.gap) for event in events if math.isfinite(event.gap) and event.gap > 0]
    if len(known) < 2:
        return ""
    seconds, gaps = [each[0] for each in known], [math.log10(each[1]) for each in known]
    axes = _Axes((min(seconds), max(seconds)), (math.floor(min(gaps)), math.ceil(max(gaps))))
    ticks_y = [(power, f"1e{power:d}") for power in range(math.floor(min(gaps)), math.ceil(max(gaps)) + 1)]
    ticks_x = [(value, f"{value:.3g}") for value in (min(seconds), max(seconds))]
    points = " ".join(f"{axes.x(second):.1f},{axes.y(gap):.1f}" for second, gap in zip(seconds, gaps, strict=True))
    dots = "".join(
        f'<circle cx="{axes.x(s):.1f}" cy="{axes.y(g):.1f}" r="2.5"/>' for s, g in zip(seconds, gaps, strict=True)
    )
    drawn = f'<polyline class="curve" points="{points}"/>{dots}'
    return axes.svg("The certified gap falling with time", "certified gap over seconds", ticks_x, ticks_y, drawn)


def reliability_diagram(found: Reliability, unit: str) -> str:
    """Actual against predicted error per bin; on the diagonal sigma is right."""
    logs = [[math.log10(max(each, SMALL)) for each in values] for values in (found.predicted, found.actual)]
    low, high = min(map(min, logs)) - 0.08, max(map(max, logs)) + 0.08
    axes = _Axes((low, high), (low, high))
    ticks = _ticks(low, high)
    points = "".join(
        f'<circle cx="{axes.x(x):.1f}" cy="{axes.y(y):.1f}" r="4">'
        f"<title>sigma {10**x:.3g}, actual {10**y:.3g}</title></circle>"
        for x, y in zip(*logs, strict=True)
    )
    ends = [(f'x{end}="{axes.x(at):.1f}"', f'y{end}="{axes.y(at):.1f}"') for end, at in ((1, low), (2, high))]
    diagonal = f'<line class="ideal" {" ".join(each for pair in ends for each in pair)}/>'
    length = f" [{unit}]" if unit else ""
    label = f"actual error{length} against sigma{length}"
    return axes.svg("Actual error against sigma, bin by bin", label, ticks, ticks, diagonal + points)


class _Axes:
    """Maps values to positions in the picture."""

    def __init__(self, across: tuple[float, float], up: tuple[float, float]) -> None:
        self.across, self.up = across, up

    def x(self, value: float) -> float:
        low, high = self.across
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / ((high - low) or 1.0)

    def y(self, value: float) -> float:
        low, high = self.up
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / ((high - low) or 1.0)

    def svg(
        self,
        name: str,
        label: str,
        ticks_x: Sequence[tuple[float, str]],
        ticks_y: Sequence[tuple[float, str]],
        drawn: str,
    ) -> str:
        """The frame, ticks and label, with `drawn` inside."""
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        lines = "".join(
            f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{self.y(at):.1f}" y2="{self.y(at):.1f}"/>'
            f'<text x="{LEFT - 6}" y="{self.y(at) + 4:.1f}" text-anchor="end">{escape(text)}</text>'
            for at, text in ticks_y
        )
        below = "".join(
            f'<text x="{self.x(at):.1f}" y="{bottom + 16}" text-anchor="middle">{escape(text)}</text>'
            for at, text in ticks_x
        )
        return (
            f'<svg class="diagram" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(name)}">'
            f'{lines}{below}<text class="label" x="{LEFT}" y="{HEIGHT - 6}">{escape(label)}</text>{drawn}</svg>'
        )


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """1, 2 and 5 times every power of ten inside the range, at most six of them."""
    found = [
        (math.log10(factor) + power, f"{factor * 10.0**power:g}")
        for power in range(math.floor(low), math.ceil(high) + 1)
        for factor in (1, 2, 5)
        if low <= math.log10(factor) + power <= high
    ]
    every = max(1, math.ceil(len(found) / 6))
    return found[::every]
