"""Values given on the command line: `--set name=value`, sizes, cameras."""

import argparse
import ast
from collections.abc import Sequence

from cfusion.errors import InputError

TRUTH = {"true": True, "false": False}
MOST_PIXELS = 2**26  # of a rendered scene, of which several dozen maps are in memory


def add_reading(parser: argparse.ArgumentParser) -> None:
    """How the data are read."""
    words = "an option of the format; see `cfusion formats --options`; repeatable"
    parser.add_argument("--format", help="format of the input (default: recognised)")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help=words)


def parameters(settings: Sequence[str], flag: str = "--set") -> dict[str, object]:
    """`name=value` pairs as parameters of a method: numbers, tuples and words."""
    found: dict[str, object] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.isidentifier():
            raise InputError(f"{flag} {setting!r} is not name=value (e.g. {flag} lam=0.5)")
        if name in found:
            raise InputError(f"{flag} gives {name!r} twice; give it once")
        found[name] = _value(value)
    return found


def size(text: str) -> tuple[int, int]:
    """`320x240` as (width, height)."""
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and 0 < len(part) < 8 for part in parts):
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not a size such as 320x240")
    width, height = int(parts[0]), int(parts[1])
    if 0 in (width, height):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 320x240")
    if width * height > MOST_PIXELS:
        raise argparse.ArgumentTypeError(f"{text!r} is {width * height} pixels; choose 1 to {MOST_PIXELS}")
    return width, height


def numbers(text: str) -> tuple[float, ...]:
    """`576,576,320,240` as numbers."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 576,576,320,240") from None


def names(text: str) -> tuple[str, ...]:
    """`npy,ply` as names."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _value(text: str) -> object:
    if text.lower() in TRUTH:
        return TRUTH[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
