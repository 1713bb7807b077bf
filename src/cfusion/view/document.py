"""The page as HTML: text, tables and diagrams are made here, maps and 3-D are drawn by its script."""

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources

from cfusion.report.page import html_page
from cfusion.view.layers import Coded

SCRIPTS = ("decode.js", "colours.js", "state.js", "surface.js", "maps.js", "compare.js", "panels.js", "main.js")
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def document(title: str, body: str, model: Mapping[str, object], layers: Sequence[Coded]) -> str:
    """The whole page; its policy forbids it any access to a network."""
    arrays = "\n".join(
        f'<script type="text/plain" id="layer-{at}">{layer.text}</script>'
        for at, layer in enumerate(layers)
        if layer.twin == at
    )
    scripts = "\n".join(asset(name) for name in SCRIPTS)
    content = f"""{body}
<script type="application/json" id="model">{as_json(model)}</script>
{arrays}
<script>
"use strict";
{scripts}
</script>"""
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    return html_page(title, asset("page.css"), content, head=policy)


@cache
def asset(name: str) -> str:
    """A style sheet or script of the page."""
    return (resources.files("cfusion.view") / "assets" / name).read_text(encoding="utf-8")


def as_json(value: object) -> str:
    """JSON that cannot end the script element that contains it, whatever its strings."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def explained(label: str, words: str | None) -> str:
    """A label with an explanation that appears when it is pointed at or focused."""
    if not words:
        return escape(label)
    return f'<abbr tabindex="0" data-words="{escape(words)}">{escape(label)}</abbr>'


def number(value: float | None, digits: int = 3) -> str:
    """A number as text."""
    if value is None or not math.isfinite(value):
        return "-"
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{digits}g}" if abs(value) < 100 else f"{value:.0f}"
