"""Self-contained HTML pages: the frame of every page, tables, and the style of the paper's page."""

from collections.abc import Sequence
from html import escape

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
figure { margin: 0; }
img { display: block; width: 100%; height: auto; border-radius: 4px; }
footer { color: var(--soft); font-size: .82rem; margin-top: 2rem; }
"""


def document(title: str, introduction: Sequence[str], body: str, footer: str, more_style: str = "") -> str:
    """A whole HTML document around a body, in the style of these pages."""
    paragraphs = "\n".join(f"<p>{escape(text)}</p>" for text in introduction)
    content = f"<h1>{escape(title)}</h1>\n{paragraphs}\n{body}\n<footer>{escape(footer)}</footer>"
    return html_page(title, STYLE + more_style, content)


def html_page(title: str, style: str, body: str, head: str = "") -> str:
    """A whole HTML document; `head` are further elements of its head."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{head}
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, name: str = "") -> str:
    """A table: headings as HTML, and rows of cells (`<td>1</td>`)."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    lines = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    identity = f' id="{name}"' if name else ""
    return f'<div class="scroll"><table{identity}><thead><tr>{top}</tr></thead><tbody>\n{lines}\n</tbody></table></div>'
