"""The corpus: damage is kept where it makes the readers run lines that nothing before it did."""

import sys
import tempfile
import time
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from cfusion.errors import CFusionError
from fuzz.damage import drawn, run
from fuzz.data import Data, Files, Place, load_data, write_kin

WATCHED = ("cfusion/io/", "cfusion/datasets/", "cfusion/geometry/", "cfusion/frontends/calibration")
ROOM = 6 << 10  # bytes of a seed's kin
LARGEST = 2 << 10  # bytes of one


class Tracer:
    """The lines of the readers that were run."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.lines: set[tuple[CodeType, int]] = set()
        self.watched: dict[CodeType, bool] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Python's hook for calls; only watched code is traced on."""
        code = frame.f_code
        known = self.watched.get(code)
        if known is None:
            known = self.watched[code] = any(part in code.co_filename for part in WATCHED)
        return self._line if known else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        self.lines.add((frame.f_code, frame.f_lineno))
        return self._line


def grow(seconds: float, seed: int) -> None:
    """Look for new lines for so long, then store what found them."""
    tracer, began, case = Tracer(), time.monotonic(), seed
    with tempfile.TemporaryDirectory() as folder:
        data = {name: Data(name, each.sound) for name, each in load_data(Path(folder) / "seeds").items()}
        place = Place(Path(folder) / "case", data)
        kept: dict[str, list[Files]] = {name: [] for name in data}
        while time.monotonic() - began < seconds:
            rng = np.random.default_rng(case)
            case += 1
            damage = drawn(rng, data)
            before = len(tracer.lines)
            sys.settrace(tracer)
            try:
                run(damage, place)
            except CFusionError:
                pass
            finally:
                sys.settrace(None)
            if len(tracer.lines) > before and not damage.turned and _fits(kept[damage.name], damage.changes):
                kept[damage.name].append(damage.changes)
                data[damage.name] = Data(damage.name, data[damage.name].sound, tuple(kept[damage.name]))
    sizes = {name: write_kin(name, kin) for name, kin in kept.items()}
    print(f"{case - seed} cases, {len(tracer.lines)} lines, {sum(map(len, kept.values()))} kept: {sizes}")


def _fits(kin: list[Files], changes: Files) -> bool:
    """Whether there is room for one more."""
    size = sum(len(content or b"") for content in changes.values())
    return size <= LARGEST and size + sum(len(c or b"") for each in kin for c in each.values()) <= ROOM
