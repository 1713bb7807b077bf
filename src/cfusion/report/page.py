"""One HTML page that needs nothing else: a score table, then each method's pictures side by side."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from cfusion.report.tables import Table

STYLE = """
:root { color-scheme: light dark; --ink: #1c2126; --soft: #667078; --line: #e2e6e9; --paper: #ffffff;
  --card: #f7f8f9; --best: #0b6e4f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --soft: #98a2ab; --line: #2d343b;
  --paper: #14181c; --card: #1b2025; --best: #5fd3a8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.5rem 4rem; max-width: 86rem;
  background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.1rem; margin: 0; }
p { margin: .2rem 0; color: var(--soft); max-width: 60rem; }
.scroll { overflow-x: auto; margin: 1.5rem 0 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .3rem .75rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 600; }
td a { color: inherit; } tbody tr:hover { background: var(--card); }
.best { color: var(--best); font-weight: 700; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem 1.1rem;
  margin: 0 0 1.1rem; }
.pictures { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: .9rem; margin-top: .7rem; }
@media (max-width: 60rem) { .pictures { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
figure { margin: 0; } figcaption { color: var(--soft); font-size: .82rem; margin-bottom: .25rem; }
img { display: block; width: 100%; height: auto; border-radius: 4px; }
footer { color: var(--soft); font-size: .82rem; margin-top: 2rem; }
"""


@dataclass(frozen=True)
class Picture:
    """A PNG and what it shows."""

    label: str
    png: bytes


@dataclass(frozen=True)
class Exhibit:
    """What one method made of the data: a heading, a sentence, and pictures."""

    name: str
    sentence: str
    pictures: Sequence[Picture]


def page(title: str, introduction: Sequence[str], table: Table, exhibits: Sequence[Exhibit], footer: str) -> str:
    """The page as HTML; pictures are inside it, so that it can be mailed or opened without a network."""
    scores = _table(table, {exhibit.name for exhibit in exhibits})
    sections = "\n".join(_section(exhibit) for exhibit in exhibits)
    return document(title, introduction, f"{scores}\n{sections}", footer)


def document(title: str, introduction: Sequence[str], body: str, footer: str, more_style: str = "") -> str:
    """A whole HTML document around a body, in the style of these pages."""
    paragraphs = "\n".join(f"<p>{escape(text)}</p>" for text in introduction)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}{more_style}</style>
</head>
<body>
<h1>{escape(title)}</h1>
{paragraphs}
{body}
<footer>{escape(footer)}</footer>
</body>
</html>
"""


def _table(table: Table, linked: set[str]) -> str:
    columns = table.shown()
    head = "".join(f'<th scope="col">{escape(column.title)}</th>' for column in columns)
    rows = []
    for row in table.rows:
        cells = []
        for column in columns:
            text = escape(table.cell(row, column))
            if column.key == "name" and row.get("name") in linked:
                text = f'<a href="#{_anchor(text)}">{text}</a>'
            cells.append(f'<td class="best">{text}</td>' if table.is_best(row, column) else f"<td>{text}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    body = "\n".join(rows)
    return f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'


def _section(exhibit: Exhibit) -> str:
    figures = "\n".join(_figure(exhibit.name, picture) for picture in exhibit.pictures)
    return (
        f'<section id="{_anchor(escape(exhibit.name))}">\n<h2>{escape(exhibit.name)}</h2>\n'
        f'<p>{escape(exhibit.sentence)}</p>\n<div class="pictures">\n{figures}\n</div>\n</section>'
    )


def _figure(name: str, picture: Picture) -> str:
    data = base64.b64encode(picture.png).decode("ascii")
    label = escape(picture.label)
    return (
        f"<figure><figcaption>{label}</figcaption>"
        f'<img alt="{label} of {escape(name)}" src="data:image/png;base64,{data}"></figure>'
    )


def _anchor(escaped_name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in escaped_name)
