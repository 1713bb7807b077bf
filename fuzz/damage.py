"""One damaged data set: which, where and how is all in the generator; and the reader that has to cope with it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cfusion.datasets import READERS, read
from cfusion.datasets.read_result import read_depth, settings_of_result
from cfusion.frontends.calibration import read_rig
from cfusion.geometry import View
from cfusion.io.codecs.kitti_poses import read_localization
from fuzz.data import Data, Files, Place
from fuzz.mutations import mutated, replaced

RECOGNISED = 0.2  # share of the cases whose format is not named
KIN = 0.5  # share of the cases that start from what the corpus has
REPLACED = 0.04  # share of the damage that is no damage of bytes
OPTIONS = {"kitti": {"disparity": "truth"}}


@dataclass(frozen=True)
class Damage:
    """A data set, which of its files are changed, and which become something else than files."""

    name: str
    changes: Files
    turned: tuple[tuple[str, int], ...]  # files that become folders, links, pipes: which, and how
    choice: float  # for the reader's own choices


def drawn(rng: np.random.Generator, data: dict[str, Data]) -> Damage:
    """Some damage."""
    name = list(data)[int(rng.integers(0, len(data)))]
    one = data[name]
    changes: Files = {}
    if one.kin and rng.random() < KIN:
        changes.update(one.kin[int(rng.integers(0, len(one.kin)))])
    turned, files = {}, list(one.sound)
    for _ in range(int(rng.integers(1, 3))):
        file = files[int(rng.integers(0, len(files)))]
        if rng.random() < REPLACED:
            changes[file] = None
            turned[file] = int(rng.integers(0, 5))
        else:
            before = changes.get(file)
            changes[file] = mutated(one.sound[file] if before is None else before, rng)
    gone = tuple((file, how) for file, how in turned.items() if changes[file] is None)
    return Damage(name, changes, gone, rng.random())


def run(damage: Damage, place: Place) -> int:
    """Read the damaged data set; the bytes of all maps it gave."""
    with place.changed(damage.name, damage.changes) as folder:
        for file, how in damage.turned:
            replaced(folder / file, how)
        return _read(damage, folder)


def _read(damage: Damage, folder: Path) -> int:
    match damage.name:
        case "matlab":
            for file in folder.iterdir():
                read_localization(file, 0)
            return 0
        case "calibrations":
            files = [path for path in sorted(folder.rglob("*")) if not path.is_dir()]
            read_rig(files[int(damage.choice * len(files))])
            return 0
        case "result":
            settings_of_result(folder)
            return int(read_depth(folder)[0].nbytes)
    format = (
        damage.name
        if damage.name in READERS
        else {"photos": "7-scenes", "colmap-binary": "colmap"}.get(damage.name, "bundle")
    )
    place = folder / "sequences" / "00" if format == "kitti-odometry" else folder
    recognised = damage.choice < RECOGNISED
    options = OPTIONS.get(format) if damage.choice > 0.6 else None
    return sum(size_of(view) for view in read(place, None if recognised else format, options))


def size_of(view: View) -> int:
    """Bytes of a view's maps."""
    return sum(each.nbytes for each in (view.depth, view.image, view.confidence) if each is not None)
