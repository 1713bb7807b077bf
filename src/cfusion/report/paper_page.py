"""A self-contained page: every experiment with its tables, figures and checks."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from cfusion.report.page import document
from cfusion.report.paper_checks import Exhibit

MORE_STYLE = """
td small { color: var(--soft); } td.better { color: var(--best); } td br { line-height: 1; }
section h3 { font-size: 1rem; margin: 1.2rem 0 .2rem; } section img { width: auto; max-width: 100%; }
nav a { color: inherit; margin-right: 1rem; } ul { color: var(--soft); max-width: 75rem; }
"""


@dataclass(frozen=True, eq=False)
class Chapter:
    """One experiment: description, exhibits, and notes about omissions."""

    name: str
    title: str
    about: str
    notes: Sequence[str]
    exhibits: Sequence[Exhibit]


def paper_page(title: str, introduction: Sequence[str], chapters: Sequence[Chapter], footer: str) -> str:
    """The page as HTML with embedded pictures."""
    links = "".join(f'<a href="#{escape(chapter.name)}">{escape(chapter.title)}</a>' for chapter in chapters)
    sections = "\n".join(_section(chapter) for chapter in chapters)
    return document(title, introduction, f"<nav>{links}</nav>\n{sections}", footer, MORE_STYLE)


def _section(chapter: Chapter) -> str:
    notes = "".join(f"<p><b>{escape(note)}</b></p>" for note in chapter.notes)
    shown = "\n".join(
        f"<h3>{escape(exhibit.name)}</h3>\n<p>{escape(exhibit.caption)}</p>\n{exhibit.html()}"
        for exhibit in chapter.exhibits
    )
    return (
        f'<section id="{escape(chapter.name)}">\n<h2>{escape(chapter.title)}</h2>\n<p>{escape(chapter.about)}</p>\n'
        f"{notes}\n{shown}\n</section>"
    )
