"""One self-contained HTML file that shows a result: 3-D, maps, a slider, its views, how it was solved."""

import hashlib
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from cfusion.arrays import DepthMap, is_whole
from cfusion.errors import InputError
from cfusion.geometry import Camera, Orthographic, Stack, View
from cfusion.io.arguments import path_of, views_of
from cfusion.io.atomic import filling
from cfusion.io.versions import versions
from cfusion.view import explain, sections
from cfusion.view.content import Content, Event
from cfusion.view.document import asset, document
from cfusion.view.layers import Coded, coded
from cfusion.view.maps import image_uri, page_layers
from cfusion.view.view_figures import ViewFigures


def write_page(
    path: str | PathLike[str],
    result: Any,
    *,
    views: Sequence[View] | Stack | None = None,
    reference: int | None = None,
    others: Sequence[Any] = (),
    truth: DepthMap | None = None,
    scores: Sequence[Mapping[str, float | int | str | None]] = (),
    traces: Mapping[str, Sequence[Event]] | None = None,
    title: str = "",
    unit: str | None = None,
    heights: bool = False,
    notes: Sequence[str] = (),
    source: str = "",
    command: str = "",
    figures: Sequence[ViewFigures] = (),
) -> Path:
    """Write the page of a result (`cfusion.Result`, or anything with `depth` and `method`) to one HTML file.

    `views` (or the `Stack`) and `reference` add the slider's input, the residuals and the table of views; `others` are
    results on the same grid to switch to; `truth` adds errors and the reliability diagram; `scores` are rows as from
    `report.tables.result_row`; `traces` are the events of each method's solve; `heights` means that the maps are
    heights, so that up is towards the viewer.

    Args:
        path: the file to write.
        result: its maps share one shape.
        views: the views that it was fused from.
        reference: index of the view it was fused into.
        others: results to switch to.
        truth: (H, W) in the unit of depth.
        scores: rows of a table.
        traces: by method.
        title: of the page.
        unit: of depth, in words (`metre`), or empty; None: that of the data set, else the metre.
        heights: whether up is towards the viewer.
        notes: sentences below the title; text between backquotes is set as code.
        source: where the data are from.
        command: the command that reproduces it.
        figures: figures of every view, if neither views nor their residuals are available.

    Examples:
        >>> import numpy as np
        >>> from cfusion import Stack, fuse_stack
        >>> from cfusion.view import write_page
        >>> stack = Stack(1 + np.random.default_rng(0).random((3, 40, 50)))
        >>> page = write_page("page.html", fuse_stack(stack, "median", backend="numpy"), views=stack, title="three")
        >>> "<title>three</title>" in page.read_text()
        True
    """
    target = path_of(path, "path")
    if not (hasattr(result, "depth") and hasattr(result, "method")):
        raise InputError(f"write_page needs a result second, not {type(result).__name__}; make one with fuse(views)")
    if views is not None:
        _require_views(views, reference)
    content = Content(
        title=title or "Fused depth",
        results=(result, *others),
        unit=getattr(views, "unit", "metre") if unit is None else unit,
        heights=heights,
        views=views,
        reference=reference,
        truth=None if truth is None else np.asarray(truth, np.float32),
        scores=scores,
        traces=traces or {},
        notes=notes,
        source=source,
        command=command,
        figures=figures,
    )
    with filling(target.parent) as draft:
        (draft / target.name).write_text(page(content), encoding="utf-8")
    return target


def _require_views(views: Sequence[View] | Stack, reference: int | None) -> None:
    """Refuse what are no views, and a reference that is none of them."""
    if isinstance(views, str | PathLike):
        raise InputError(f"write_page needs views, not a path; read it first: views=read({str(views)!r})")
    count = views.views if isinstance(views, Stack) else len(views_of(views, "write_page"))
    if reference is not None and not is_whole(reference, 0, count - 1):
        raise InputError(f"reference {reference} is not one of the {count} views; choose 0 to {count - 1}")


def page(content: Content) -> str:
    """The page as HTML."""
    residuals = content.residuals()
    records = content.view_records(residuals)
    usual = _usual_noise(records)
    image = image_uri(getattr(content.first, "image", None), content.stride)
    pixels = content.shape[0] * content.shape[1]
    layers = coded(page_layers(content, residuals, usual), pixels, taken=len(image or ""))
    body = "\n".join(
        (
            sections.header(content),
            asset("interactive.html"),
            sections.rasters_section(records, content.unit)
            if content.figures
            else sections.views_section(records, content.reference, content.unit),
            sections.solve_section(content),
            sections.scores_section(content),
            sections.reproduction_section(content, versions(), hashes(content)),
            '<div id="words" role="tooltip" hidden></div>',
        )
    )
    return document(content.title, body, _model(content, layers, usual, image), layers)


def hashes(content: Content) -> dict[str, str]:
    """SHA-256 of the inputs and of the results."""
    found = {}
    if isinstance(content.views, Stack):
        found["input depths"] = _digest(list(content.views.depths))
    elif content.views is not None:
        found["input depths"] = _digest([view.depth for view in content.views])
    found["fused height" if content.heights else "fused depth"] = _digest([content.first.depth])
    return found


def _digest(maps: Sequence[Any]) -> str:
    digest = hashlib.sha256()
    for each in maps:
        digest.update(np.ascontiguousarray(np.asarray(each, dtype="<f4")).tobytes())
    return digest.hexdigest()


def _usual_noise(records: Sequence[Any]) -> float:
    known = [each.noise for each in records if np.isfinite(each.noise) and each.noise > 0]
    return float(np.median(known)) if known else 0.0


def _model(content: Content, layers: Sequence[Coded], usual_noise: float, image: str | None) -> dict[str, object]:
    """Everything that the script needs besides the maps."""
    return {
        "width": -(-content.shape[1] // content.stride),
        "height": -(-content.shape[0] // content.stride),
        "stride": content.stride,
        "unit": sections.short(content.unit),
        "heights": content.heights,
        "camera": _camera(content.camera, content.stride),
        "exhibits": [
            {"name": str(result.method), "words": sections.method_in_words(content, str(result.method))}
            for result in content.results
        ],
        "layers": {layer.key: {"id": f"layer-{layer.twin}", **layer.description} for layer in layers},
        "image": image,
        "views": content.names(),
        "reference": content.reference,
        "noise": usual_noise,
        "words": explain.LAYERS | (explain.HEIGHTS if content.heights else {}),
    }


def _camera(camera: Camera | None, stride: int) -> dict[str, object]:
    if camera is None:
        return {"kind": "none"}
    if isinstance(camera, Orthographic):
        size = camera.pixel_size * stride
        return {"kind": "orthographic", "pixel": size, "cx": camera.cx / stride, "cy": camera.cy / stride}
    sizes = {"fx": camera.fx / stride, "fy": camera.fy / stride}
    return {"kind": "pinhole", **sizes, "cx": camera.cx / stride, "cy": camera.cy / stride}
