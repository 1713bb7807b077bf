"""What a store has of a plan, whole or not: of a run that was cut short, or that went on elsewhere."""

from __future__ import annotations

from cfusion.experiments.plan import Cell, Plan
from cfusion.experiments.store import Record, Store


def so_far(plan: Plan, store: Store) -> tuple[list[Record], str]:
    """The lines that the store has, and in words how many it has not.

    A row at a value is left out as long as a scene is missing: averages are over the same scenes, or not at all.
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
    """Which average a cell is part of."""
    return cell.part, cell.data, cell.row, cell.value
