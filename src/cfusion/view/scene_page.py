"""The page of one view of a scene, made from the scene's output and its data set."""

from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cfusion.datasets.check import Correction
from cfusion.datasets.check.remap import Remap
from cfusion.errors import CFusionError, FileError
from cfusion.io.json_object import JsonObject
from cfusion.scene.job import FOLDER, MARK, read_corrected
from cfusion.view.page import write_page


def scene_of(output: Path) -> tuple[Any, str, str]:
    """The opened data set of a scene, its path, and the scene's method."""
    mark: dict[str, Any] = JsonObject.of_file(output / FOLDER / MARK).content
    data, format, options = mark.get("data"), mark.get("format"), mark.get("options", {})
    if not isinstance(data, str) or not isinstance(format, str) or not isinstance(options, dict):
        raise FileError(f"{output / FOLDER / MARK} does not name the scene's data; run `cfusion scene` again")
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    try:
        correction = Correction(**mark.get("correction", {}))
        scales = tuple(Remap(**each) for each in mark.get("scales", ()))
    except (TypeError, ValueError):
        raise FileError(f"{output / FOLDER / MARK} is damaged; run `cfusion scene` again") from None
    return read_corrected(data, format, given, correction, scales), data, str(mark.get("method", "auto"))


def write_view_page(output: Path, view: int, target: Path, *, dataset: Any = None, command: str = "") -> Path:
    """Write the page of a view: its maps, and the neighbours that it was fused with."""
    from cfusion.scene.fused_view import read_fused
    from cfusion.scene.record import folder_of, require_record
    from cfusion.view.frames import scene_layers

    found, data, method = scene_of(output)
    opened = found if dataset is None else dataset
    folder = folder_of(output / FOLDER, view)
    record, fused, layers = require_record(folder), read_fused(output / FOLDER, view), scene_layers(folder)
    views = [opened[record.view]]
    for number in record.neighbours:
        with suppress(CFusionError):  # it could not be read during fusion either
            views.append(opened[number])
    shown = SimpleNamespace(
        depth=fused.depth,
        sigma=fused.sigma,
        camera=fused.camera,
        pose=fused.pose,
        image=views[0].image,
        method=method,
        gap=float("nan") if record.gap is None else record.gap,
        seconds=record.seconds,
        backend=record.backend,
        **layers,
    )
    if record.status:
        shown.status = SimpleNamespace(value=record.status)
    note = (
        f"View {view} of a scene, fused from itself and {len(views) - 1} others. `cfusion view {output}` shows all of "
        "them in 3-D."
    )
    return write_page(
        target,
        shown,
        views=views,
        reference=0,
        title=f"{Path(data).name}: {record.name}",
        notes=[note],
        unit=found.unit,
        source=data,
        command=command,
    )
