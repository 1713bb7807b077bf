"""Cameras in bundle.json and result.json."""

from dataclasses import asdict

from cfusion.errors import FileError
from cfusion.geometry import BrownConrady, Camera, Orthographic, Pinhole
from cfusion.io.json_object import JsonObject

TYPES: dict[type, str] = {Pinhole: "pinhole", BrownConrady: "brown-conrady", Orthographic: "orthographic"}
DISTORTION = ("k1", "k2", "p1", "p2", "k3")


def camera_to_json(camera: Camera) -> dict[str, object]:
    """The type and the fields of a camera."""
    return {"type": TYPES[type(camera)]} | asdict(camera)


def camera_from_json(entry: JsonObject) -> Camera:
    """The camera that `camera_to_json` wrote."""
    kind = entry.get("type", str)
    match kind:
        case "pinhole":
            entry.refuse_unknown("type", "fx", "fy", "cx", "cy", "width", "height")
            focal = entry.number("fx"), entry.number("fy")
            return Pinhole(*focal, *_centre(entry), *_size(entry))
        case "brown-conrady":
            entry.refuse_unknown("type", "fx", "fy", "cx", "cy", "width", "height", *DISTORTION)
            focal = entry.number("fx"), entry.number("fy")
            bend = (entry.number(name) if name in entry else 0.0 for name in DISTORTION)
            return BrownConrady(*focal, *_centre(entry), *_size(entry), *bend)
        case "orthographic":
            entry.refuse_unknown("type", "pixel_size", "cx", "cy", "width", "height")
            return Orthographic(entry.number("pixel_size"), *_centre(entry), *_size(entry))
    raise FileError(f"{entry.where}.type is {kind!r}; a camera is one of: {', '.join(TYPES.values())}")


def _centre(entry: JsonObject) -> tuple[float, float]:
    return entry.number("cx"), entry.number("cy")


def _size(entry: JsonObject) -> tuple[int, int]:
    return entry.get("width", int), entry.get("height", int)
