"""A self-contained page: every experiment with its tables, figures and checks."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources

from cfusion.report.page import html_page
from cfusion.report.paper_checks import Exhibit


@dataclass(frozen=True)
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
    paragraphs = "\n".join(f"<p>{escape(text)}</p>" for text in introduction)
    body = f"<h1>{escape(title)}</h1>\n{paragraphs}\n<nav>{links}</nav>\n{sections}\n<footer>{escape(footer)}</footer>"
    return html_page(title, (resources.files("cfusion.report") / "paper.css").read_text(encoding="utf-8"), body)


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
