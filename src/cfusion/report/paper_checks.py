"""Expected results of an experiment, and whether they were obtained."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from cfusion.report.page import html_table
from cfusion.report.paper_axes import picture
from cfusion.report.tables import Table


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
class Exhibit:
    """A table or figure, by default a picture alone: files to keep, a part of a page, and text for a terminal."""

    name: str
    caption: str
    verdicts: tuple[Verdict, ...] = field(default=(), kw_only=True)

    def png(self) -> bytes:
        """The picture."""
        raise NotImplementedError

    def text(self) -> str:
        """Numbers for a terminal."""
        return ""

    def files(self) -> dict[str, bytes]:
        """The picture, or the numbers in several formats."""
        return {f"{self.name}.png": self.png()}

    def html(self) -> str:
        """The picture, and whether it is as expected."""
        return picture(self.caption, self.png()) + as_items(self.verdicts)


@dataclass(frozen=True)
class Plain(Exhibit):
    """A table without published numbers, such as a check."""

    table: Table

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
