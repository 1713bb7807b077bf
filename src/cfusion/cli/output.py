"""Checks of the output: not inside the data, not over another command's result; and a result's origin."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from cfusion.errors import InputError

RESULT = "result.json"
USUAL = "npy,png,pfm,ply"  # formats of a result
CORRECTIONS: dict[str, object] = {  # options of `correction`, with their defaults
    "invert_poses": False,
    "axes": "opencv",
    "depth_scale": 1.0,
    "ray_depth": False,
    "shift_centre": 0.0,
    "align_scales": False,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The option that overrules a refusal."""
    parser.add_argument(
        "--force", action="store_true", help="continue although the data look wrong; overwrite files in OUT"
    )


def command_of(
    arguments: argparse.Namespace, formats: Sequence[str], parameters: Mapping[str, object]
) -> dict[str, object]:
    """The request: a second run with the same request may overwrite the first result."""
    from cfusion.io.to_json import to_json

    return {
        "input": str(arguments.bundle.resolve()),
        "format": arguments.format,
        "options": sorted(arguments.option),
        "method": arguments.method,
        "parameters": to_json(parameters),
        "reference": arguments.reference,
        "sequence": arguments.every is not None,
        "window": arguments.window,
        "bundle": [arguments.stereo_bundle, arguments.matcher, arguments.localisation],
        "written": list(formats),
        "mended": {name: getattr(arguments, name) for name in CORRECTIONS},
    }


def made_by(backend: str) -> dict[str, object]:
    """What else determines a result: versions of the code and libraries."""
    from cfusion.io.versions import code_fingerprint, versions

    return {"code": code_fingerprint(), "backend": backend, "versions": versions()}


def require_free(output: Path, source: Path, command: Mapping[str, object], *, force: bool) -> None:
    """Refuse to write into the data set, over another command's result, or a result into a sequence's folder."""
    if force:
        return
    folder = source if source.is_dir() else source.parent
    if output.exists() and folder.exists() and output.samefile(folder):
        raise InputError(f"-o {output} is the folder of the data; choose another, or pass --force")
    if not output.is_dir():
        return
    single, windows = output / RESULT, sorted(output.glob(f"[0-9]*/{RESULT}"))
    if not command["sequence"] and windows:
        raise InputError(f"{output} holds the results of a sequence; choose another folder, or pass --force")
    if command["sequence"] and single.exists():
        raise InputError(f"{output} holds a single result; choose another folder for a sequence, or pass --force")
    for file in windows or ([single] if single.exists() else []):
        _require_same(file, command)
    if not windows and not single.exists():
        require_no_others(output)


def require_same_input(output: Path, source: str, *, force: bool) -> None:
    """Refuse to overwrite a result of another input."""
    from cfusion.io.json_object import content_of

    file = output / RESULT
    content = None if force else content_of(file)  # None also of a damaged file: then there is nothing to lose
    if content is not None and content.get("input") != source:
        made_of = str(content.get("input"))[:60]
        raise InputError(f"{file} is of another input ({made_of!r}); choose another folder, or pass --force")


def _require_same(file: Path, command: Mapping[str, object]) -> None:
    from cfusion.io.json_object import content_of

    content = content_of(file)
    if content is None:
        return
    settings = content.get("settings")
    found = settings.get("command") if isinstance(settings, dict) else None
    if found == command:
        return
    asked = found if isinstance(found, dict) else {"method": content.get("method"), "input": content.get("input")}
    other = [key for key in command if asked.get(key) != command[key]]
    difference = f"{other[0]} {str(asked.get(other[0]))[:60]!r}" if other else "other settings"
    raise InputError(f"{file} is of another command ({difference}); choose another folder, or pass --force")


def require_no_others(output: Path, unless: str | None = None) -> None:
    """Refuse files named like those of a result, which no result.json lists, unless files of a pattern stand there."""
    if (output / RESULT).exists() or (unless is not None and any(output.glob(unless))):
        return
    from cfusion.datasets.write_result import OWN_FILES
    from cfusion.io.atomic import obsolete_in

    others = obsolete_in(output, OWN_FILES)
    if others:
        raise InputError(
            f"{output} holds {others[0].name}, which no result.json there lists; choose another folder, or pass --force"
        )
