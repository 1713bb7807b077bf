"""Cameras in bundle.json and result.json."""

from dataclasses import asdict

from cfusion.errors import FileError
from cfusion.geometry import BrownConrady, Camera, Orthographic, Pinhole
from cfusion.io.json_object import JsonObject

TYPES: dict[type[Camera], str] = {Pinhole: "pinhole", BrownConrady: "brown-conrady", Orthographic: "orthographic"}


def camera_to_json(camera: Camera) -> dict[str, object]:
    """The type and the fields of a camera."""
    return {"type": TYPES[type(camera)]} | asdict(camera)


def camera_from_json(entry: JsonObject) -> Camera:
    """The camera that `camera_to_json` wrote."""
    name = entry.get("type", str)
    kind = next((each for each, called in TYPES.items() if called == name), None)
    if kind is None:
        raise FileError(f"{entry.where}.type is {name!r}; a camera is one of: {', '.join(TYPES.values())}")
    return entry.built(kind, "type")
