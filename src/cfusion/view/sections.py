"""The parts of a page that are text and tables."""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from cfusion.report.columns import COLUMNS, SCORES
from cfusion.report.page import html_table
from cfusion.report.tables import Table
from cfusion.view import explain
from cfusion.view.content import Content
from cfusion.view.diagrams import gap_falling, reliability_diagram
from cfusion.view.document import explained, number
from cfusion.view.reliability import reliability
from cfusion.view.view_figures import ViewFigures

SHORT_UNITS = {
    "unit of baseline": "",
    "metre": "m",
    "millimetre": "mm",
    "centimetre": "cm",
    "foot": "ft",
    "kilometre": "km",
}
PARTS_OF_ENERGY = {"fidelity": "the observations", "prior": "the prior of the confidence"}
MOST_ODD = 6  # odd views described above the table


def short(unit: str) -> str:
    """The symbol of a unit; empty if it has none."""
    return SHORT_UNITS.get(unit, unit)


def in_brackets(unit: str) -> str:
    """` [m]`, for the heading of a column."""
    return f" [{short(unit)}]" if short(unit) else ""


def with_code(sentence: str) -> str:
    """A sentence as HTML, with text between backquotes as code."""
    words = [escape(part) for part in sentence.split("`")]
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(words))


def header(content: Content) -> str:
    """The title and the main figures."""
    notes = "".join(f"<p>{with_code(note)}</p>" for note in content.notes)
    tiles = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{explained(label, words)}</span></div>'
        for label, value, words in headline(content)
    )
    return f'<header><h1>{escape(content.title)}</h1>{notes}<div class="tiles">{tiles}</div></header>'


def headline(content: Content) -> list[tuple[str, str, str]]:
    """Label, value and explanation of each main figure."""
    result, unit = content.first, short(content.unit)
    known = np.isfinite(result.depth)
    rows, columns = content.shape
    found = [
        ("pixels", f"{columns} x {rows}", ""),
        ("method", str(result.method), method_in_words(content, str(result.method))),
    ]
    if content.views is not None:
        found.insert(0, ("views", str(len(content.names())), ""))
    provenance = getattr(result, "provenance", None)
    if provenance is not None:
        found.append(("observed", f"{100 * np.mean(np.asarray(provenance) > 0):.1f} %", explain.LAYERS["provenance"]))
    else:
        found.append(("known", f"{100 * known.mean():.1f} %", ""))
    sigma = getattr(result, "sigma", None)
    if sigma is not None and np.isfinite(sigma).any():
        found.append(("median sigma", f"{number(float(np.nanmedian(sigma)))} {unit}".strip(), explain.LAYERS["sigma"]))
    gap = getattr(result, "gap", math.nan)
    if math.isfinite(gap):
        found.append(("certified gap", f"{gap:.1e}", COLUMNS["gap"].meaning))
    if getattr(result, "seconds", 0):
        found.append(("time", f"{result.seconds:.2f} s", COLUMNS["seconds"].meaning))
    return found


def method_in_words(content: Content, method: str) -> str:
    """A sentence about a method."""
    return explain.OF_A_MOSAIC if content.heights and method == "auto" else explain.METHODS.get(method, "")


def rasters_section(records: Sequence[ViewFigures], unit: str) -> str:
    """The table of the rasters of a mosaic, with a verdict on odd ones."""
    if not records:
        return ""
    length = in_brackets(unit)
    titles = {"noise": "noise" + length, "bias": "offset" + length, "kept": "kept [%]", "shift": "shift [px]"}
    head = ["raster", *(explained(titles[key], explain.RASTER_COLUMNS[key]) for key in titles), ""]
    odd = _odd(records, "rasters")
    shown = html_table(head, [_figures(each, titles, escape(each.name)) for each in records], name="view-table")
    return f'<section id="views"><h2>Which raster is wrong?</h2><div id="odd">{odd}</div>{shown}</section>'


def views_section(records: Sequence[ViewFigures], reference: int | None, unit: str) -> str:
    """The table of views, with a verdict on odd ones; empty for a single view."""
    if not records or (len(records) == 1 and not records[0].verdict):
        return ""
    length = in_brackets(unit)
    titles = {"noise": "noise" + length, "bias": "bias" + length, "kept": "kept [%]", "shift": "shift [px]"}
    titles["effect"] = "without it" + length
    head = ["residuals", "view", *(explained(titles[key], explain.VIEW_COLUMNS[key]) for key in titles), ""]
    rows = []
    for place, each in enumerate(records):
        name = escape(each.name) + (" <small>reference</small>" if place == reference else "")
        thumbnail = f'<td><canvas class="thumbnail" data-view="{place}" width="96" height="72"></canvas></td>'
        rows.append([thumbnail, *_figures(each, titles, name)])
    key = "Red in a thumbnail: the view measured further than the fused surface; blue: nearer."
    shown = f"<p>{key}</p>{html_table(head, rows, name='view-table')}"
    return f'<section id="views"><h2>Which view is wrong?</h2><div id="odd">{_odd(records)}</div>{shown}</section>'


def _figures(view: ViewFigures, keys: Iterable[str], name: str) -> list[str]:
    """The cells of a view: its name (as HTML), some figures, its verdict."""
    mark = ' class="odd"' if view.verdict else ""
    values = [100 * view.kept if key == "kept" else getattr(view, key) for key in keys]
    words = f'<td class="verdict">{escape(view.verdict)}</td>'
    return [f"<th scope='row'{mark}>{name}</th>", *(f"<td>{number(value)}</td>" for value in values), words]


def _odd(records: Sequence[ViewFigures], what: str = "views") -> str:
    """A list of the views that stand out, and why."""
    odd = [each for each in records if each.verdict]
    if not odd:
        return f"<p>None of the {len(records)} {what} stands out.</p>"
    many = f"{len(odd)} of {len(records)} {what} stand out:" if len(odd) > 1 else f"One of {len(records)} stands out:"
    lines = "".join(f"<li><b>{escape(each.name)}</b>: {escape(each.verdict)}</li>" for each in odd[:MOST_ODD])
    more = f"<li>{len(odd) - MOST_ODD} more, in the table</li>" if len(odd) > MOST_ODD else ""
    return f"<p>{many}</p><ul>{lines}{more}</ul>"


def scores_section(content: Content) -> str:
    """Errors against the truth with explanations; the best of each column is marked."""
    if not content.scores:
        return ""
    scores = Table([*content.scores], SCORES)
    columns = scores.shown()
    head = [explained(column.title, column.meaning) for column in columns]
    rows = []
    for row in scores.rows:
        cells = []
        for column in columns:
            text = escape(scores.cell(row, column))
            if column.key == "name":
                cells.append(
                    f"<th scope='row'>{explained(str(row['name']), explain.METHODS.get(str(row['name'])))}</th>"
                )
            else:
                cells.append(f'<td class="best">{text}</td>' if scores.is_best(row, column) else f"<td>{text}</td>")
        rows.append(cells)
    return f'<section id="scores"><h2>How far from the truth</h2>{html_table(head, rows, name="score-table")}</section>'


def solve_section(content: Content) -> str:
    """How each result was found; the page shows that of the chosen result."""
    parts = "".join(
        f'<div class="exhibit" data-exhibit="{at}"{"" if at == 0 else " hidden"}>{_solved(content, result)}</div>'
        for at, result in enumerate(content.results)
    )
    return f'<section id="solve"><h2>How it was solved</h2>{parts}</section>'


def _solved(content: Content, result: Any) -> str:
    what = method_in_words(content, str(result.method))
    words = [f"<p><b>{escape(result.method)}</b>{escape(f': {what}' if what else '')}</p>"]
    words.append("".join(f"<p>{escape(sentence)}</p>" for sentence in sentences(result, heights=content.heights)))
    diagrams = gap_falling(content.traces.get(result.method, ()))
    sigma = getattr(result, "sigma", None)
    if content.truth is not None and sigma is not None:
        found = reliability(np.asarray(result.depth), np.asarray(sigma), content.truth)
        if found is not None:
            words.append(f'<p class="reliability">{escape(found.sentence)}</p>')
            diagrams += reliability_diagram(found, short(content.unit))
    choices = [
        [f"<th scope='row'>{explained(name, explain.CHOICES.get(name))}</th>", f"<td>{escape(_value(value))}</td>"]
        for name, value in getattr(result, "parameters", {}).items()
    ]
    words.append(f'<div class="diagrams">{diagrams}</div>' if diagrams else "")
    words.append(f"<details><summary>Parameters</summary>{html_table(['parameter', 'value'], choices)}</details>")
    return "".join(words)


def sentences(result: Any, *, heights: bool = False) -> list[str]:
    """One sentence each on the outcome, the distance to the optimum, and the choices."""
    matched = getattr(result, "method", "") in explain.MATCHERS  # no energy was solved
    found = [str(result.status.value)] if hasattr(result, "status") and not matched else []
    gap, energies = getattr(result, "gap", math.nan), getattr(result, "energies", {})
    if math.isfinite(gap):
        total, iterations = energies.get("total"), getattr(result, "iterations", None)
        energy = "The energy" if total is None else f"The energy {number(total, 5)}"
        after = "" if iterations is None else f", after {iterations} iterations of the last solve"
        found.append(f"{energy} is certified to be at most {100 * gap:.2g} % above its minimum{after}.")
    found += _energy_in_words(energies)
    chosen = getattr(result, "parameters", {})
    if getattr(result, "method", "") == "auto" and "alpha" in chosen:
        found += [_chosen_for_heights(chosen)] if heights else [_chosen(chosen), *_compared(chosen)]
    backend = getattr(result, "backend", "")
    if backend:
        found.append(f"Computed in {result.seconds:.2f} s by backend {backend}.")
    return found


def _energy_in_words(energies: Mapping[str, float]) -> list[str]:
    """The shares of the energy: the observations, and each order of the regulariser."""
    total = energies.get("total", math.nan)
    if not math.isfinite(total) or total <= 0:
        return []
    names = dict(PARTS_OF_ENERGY)
    names |= {name: f"order {name[6:]} of the regulariser" for name in energies if name.startswith("order_")}
    parts = [(names[name], value) for name, value in energies.items() if name in names and math.isfinite(value)]
    shares = [f"{100 * value / total:.1f} % {name}" for name, value in parts if value > 0]
    return [f"Of it, {', '.join(shares)}."] if shares else []


def _compared(chosen: Mapping[str, Any]) -> list[str]:
    """How much worse the neighbours of the chosen weights predicted held-out views."""
    found = []
    for smoother, words in ((True, "smoother"), (False, "rougher")):
        beside = [each for each in chosen.get("margins", ()) if (each[0] > 1) == smoother and each[0] != 1]
        if beside:
            factor, worse = min(beside, key=lambda each: abs(math.log(each[0])))
            how = f"{100 * worse:.2g} % worse" if worse > 0 else f"{-100 * worse:.2g} % better, which may be chance"
            found.append(f"at {factor:.2g} times these weights ({words}) {how}")
    return [f"Observations that were held out were predicted {', '.join(found)}."] if found else []


def _chosen(chosen: Mapping[str, Any]) -> str:
    """The choices that auto made."""
    alpha = ", ".join(number(float(each)) for each in chosen["alpha"])
    space = f"in {'inverse ' if chosen.get('inverse') else ''}depth"
    local = "weighing observations by the noise around them" if chosen.get("local") else "trusting all pixels alike"
    return f"By leaving observations out, auto chose the weights alpha = ({alpha}), {space}, {local}."


def _chosen_for_heights(chosen: Mapping[str, Any]) -> str:
    """The choices that a mosaic made."""
    alpha = ", ".join(number(float(each)) for each in chosen["alpha"])
    alike = all(float(each) == 1 for each in chosen.get("weights", ()))
    trust = "all rasters count alike" if alike else "rasters count by their noise"
    return f"By leaving rasters out, auto chose the weights alpha = ({alpha}); {trust}."


def _value(value: object) -> str:
    if isinstance(value, float):
        return number(value, 4)
    if isinstance(value, tuple | list):
        return "(" + ", ".join(_value(each) for each in value) + ")"
    return str(value)


def reproduction_section(content: Content, versions: Mapping[str, object], hashes: Mapping[str, str]) -> str:
    """The command, versions and hashes that reproduce the result."""
    rows = [
        [f"<th scope='row'>{escape(name)}</th>", f"<td>{escape(str(value))}</td>"] for name, value in versions.items()
    ]
    rows += [
        [f"<th scope='row'>{escape(name)}, SHA-256</th>", f"<td><code>{digest}</code></td>"]
        for name, digest in hashes.items()
    ]
    command = f"<pre><code>{escape(content.command)}</code></pre>" if content.command else ""
    source = f"<p>Input: <code>{escape(content.source)}</code></p>" if content.source else ""
    return f'<section id="again"><h2>Make it again</h2>{source}{command}{html_table(["what", "value"], rows)}</section>'
