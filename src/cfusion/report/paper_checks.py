"""Expected results of an experiment, and whether they were obtained."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

from cfusion.report.page import html_table
from cfusion.report.tables import Table


class Exhibit(Protocol):
    """A table or figure: files to keep, a part of a page, and text for a terminal."""

    @property
    def name(self) -> str: ...
    @property
    def caption(self) -> str: ...
    @property
    def verdicts(self) -> "tuple[Verdict, ...]": ...
    def text(self) -> str: ...
    def files(self) -> dict[str, bytes]: ...
    def html(self) -> str: ...


@dataclass(frozen=True)
class Verdict:
    """An expected result, whether it was obtained, and the numbers."""

    says: str
    holds: bool
    details: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The verdict with its numbers, in one line."""
        return self.headline() + (f": {'; '.join(self.details)}" if self.details else "")

    def headline(self) -> str:
        """The verdict without its numbers."""
        return f"{'holds' if self.holds else 'FAILS'}: {self.says}"


def as_items(verdicts: Sequence[Verdict]) -> str:
    """A list in HTML, with the numbers below each verdict."""
    items = [escape(verdict.headline()) + _listed([escape(each) for each in verdict.details]) for verdict in verdicts]
    return _listed(items)


def as_bullets(verdicts: Sequence[Verdict]) -> str:
    """A list in Markdown, with the numbers below each verdict."""
    return "\n".join(
        line
        for verdict in verdicts
        for line in (f"- {verdict.headline()}", *(f"  - {detail}" for detail in verdict.details))
    )


def _listed(items: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>" if items else ""


@dataclass(frozen=True)
class Plain:
    """A table without published numbers, such as a check."""

    name: str
    caption: str
    table: Table
    verdicts: tuple[Verdict, ...] = ()

    def text(self) -> str:
        """The table for a terminal."""
        return self.table.text()

    def files(self) -> dict[str, bytes]:
        """The table in Markdown."""
        return {f"{self.name}.md": f"{self.table.markdown()}\n\n{as_bullets(self.verdicts)}".encode()}

    def html(self) -> str:
        """The table in HTML."""
        columns = self.table.shown()
        rows = [[f"<td>{escape(self.table.cell(row, column))}</td>" for column in columns] for row in self.table.rows]
        return html_table([escape(column.title) for column in columns], rows) + as_items(self.verdicts)
