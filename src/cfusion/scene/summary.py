"""The summary table of a scene, one line per view: neighbours, density before and after, noise, gap, seconds."""

from collections.abc import Sequence

from cfusion.io.text_tables import aligned
from cfusion.scene.record import Record

HEAD = ("view", "neighbours", "density", "fused", "noise", "gap", "seconds")


def table(records: Sequence[Record]) -> list[str]:
    """The lines of the table, ordered by view."""
    return aligned([HEAD, *(_row(record) for record in sorted(records, key=lambda each: each.view))])


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
