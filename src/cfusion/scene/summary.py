"""The summary table of a scene, one line per view: neighbours, density before and after, noise, gap, seconds."""

from __future__ import annotations

from collections.abc import Sequence

from cfusion.scene.record import Record

HEAD = ("view", "neighbours", "density", "fused", "noise", "gap", "seconds")


def table(records: Sequence[Record]) -> list[str]:
    """The lines of the table, ordered by view."""
    rows = [HEAD, *(_row(record) for record in sorted(records, key=lambda each: each.view))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = []
    for row in rows:
        first, *rest = (
            text.ljust(width) if place == 0 else text.rjust(width) for place, (text, width) in _placed(row, widths)
        )
        lines.append("  ".join([first, *rest]).rstrip())
    return lines


def _placed(row: Sequence[str], widths: Sequence[int]) -> enumerate[tuple[str, int]]:
    return enumerate(zip(row, widths, strict=True))


def _row(record: Record) -> tuple[str, ...]:
    if record.failure:
        return (record.name, str(len(record.neighbours)), "", "failed", "", "", "")
    return (
        record.name,
        str(len(record.neighbours) - len(record.left_out)),
        f"{100 * record.density_before:.1f} %",
        f"{100 * record.density_after:.1f} %",
        "-" if record.noise is None else f"{record.noise:.3g}",
        "-" if record.gap is None else f"{record.gap:.1e}",
        f"{record.seconds:.1f}",
    )


def graph_sentence(neighbours: Sequence[Sequence[int]], source: str) -> str:
    """How many neighbours the views have, and where these come from."""
    counts = sorted(len(each) for each in neighbours)
    middle = counts[len(counts) // 2]
    return f"neighbours by {source}: {counts[0]} to {counts[-1]} a view, {middle} in the middle"
