"""The stored results of a plan that is incomplete or was run elsewhere."""

from cfusion.experiments.plan import Cell, Plan
from cfusion.experiments.store import Record, Store


def so_far(plan: Plan, store: Store) -> tuple[list[Record], str]:
    """The stored lines, and a note about the missing ones.

    A row at a value is omitted while a scene is missing: averages are always over the same scenes.
    """
    records = {job: store.read(job.key()) for job in plan.jobs()}
    short = {_average_of(cell) for cell in plan.cells if records[cell.job] is None}
    lines = [
        cell.place() | record
        for cell in plan.cells
        if (record := records[cell.job]) is not None and _average_of(cell) not in short
    ]
    there = sum(record is not None for record in records.values())
    note = f"So far {there} of {len(records)} results; rows and values with a scene missing are left out."
    return lines, note if short else ""


def _average_of(cell: Cell) -> tuple[object, ...]:
    """The average that a cell is part of."""
    return cell.part, cell.data, cell.row, cell.value
