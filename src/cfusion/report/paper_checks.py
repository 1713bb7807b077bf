"""What had to come out of an experiment, and whether it did."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

from cfusion.report.tables import Column, Table


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
    """Something that had to come out, whether it did, and the numbers."""

    says: str
    holds: bool
    details: tuple[str, ...] = ()

    def sentence(self) -> str:
        """In one line."""
        details = f": {'; '.join(self.details)}" if self.details else ""
        return f"{'holds' if self.holds else 'FAILS'}: {self.says}{details}"


def as_items(verdicts: Sequence[Verdict]) -> str:
    """As a list of a page."""
    items = "".join(f"<li>{escape(verdict.sentence())}</li>" for verdict in verdicts)
    return f"<ul>{items}</ul>" if items else ""


@dataclass(frozen=True)
class Plain:
    """A table without published numbers, such as a check."""

    name: str
    caption: str
    table: Table
    verdicts: tuple[Verdict, ...] = ()

    def text(self) -> str:
        """For a terminal."""
        return self.table.text()

    def files(self) -> dict[str, bytes]:
        """As Markdown."""
        lines = [self.table.markdown(), "", *(f"- {verdict.sentence()}" for verdict in self.verdicts)]
        return {f"{self.name}.md": "\n".join(lines).encode()}

    def html(self) -> str:
        """As cells."""
        columns: Sequence[Column] = self.table.shown()
        head = "".join(f"<th>{escape(column.title)}</th>" for column in columns)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(self.table.cell(row, column))}</td>" for column in columns) + "</tr>"
            for row in self.table.rows
        )
        return (
            f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
            f"{as_items(self.verdicts)}"
        )
