"""Self-contained HTML pages: the frame of every page, and tables."""

from collections.abc import Sequence
from html import escape


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
