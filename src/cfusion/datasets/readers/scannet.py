"""ScanNet-style export: depth/, color/, pose/, intrinsic/; millimetres, camera-to-world; lost frames have no pose."""

from dataclasses import dataclass
from pathlib import Path

from cfusion.arrays import Image
from cfusion.datasets.dataset import Dataset
from cfusion.datasets.reader_tools import frames, lost, named_view, pinhole, read_pose, require_some
from cfusion.errors import InputError
from cfusion.geometry import Pinhole, View
from cfusion.io.codecs.photo import beside, photo_size, read_photo, seen_by
from cfusion.io.codecs.png import Encoding, read_png
from cfusion.io.text_tables import numbered, read_matrix

COLOUR_FOLDERS = ("color", "rgb", "image")


@dataclass(frozen=True)
class Options:
    """Options of the format."""

    units_per_metre: float = 1000.0
    images: bool = True

    def __post_init__(self) -> None:
        if not self.units_per_metre > 0:
            raise InputError(f"units_per_metre is {self.units_per_metre}; give a positive number")


def recognises(path: Path) -> bool:
    """Folders depth, pose and intrinsic."""
    return all((path / name).is_dir() for name in ("depth", "pose", "intrinsic"))


def read(path: Path, options: Options | None = None) -> Dataset:
    """Depth maps that have a finite pose, ordered by number."""
    chosen = options or Options()
    intrinsics = read_matrix(path / "intrinsic" / "intrinsic_depth.txt", (4, 4), (3, 3))
    files = numbered(list((path / "depth").glob("*.png")))
    found = [(file, pose) for file in files if (pose := read_pose(path / "pose" / f"{file.stem}.txt")) is not None]
    require_some(len(found), path, "depth/*.png with a pose")

    def load(number: int) -> View:
        file, pose = found[number]
        depth = read_png(file, Encoding(1 / chosen.units_per_metre))
        camera = pinhole(intrinsics, (depth.shape[0], depth.shape[1]), path)
        image = _colour(path, file.stem, camera) if chosen.images else None
        return named_view(file, depth, camera, pose, image=image, name=file.stem)

    sentence = (
        f"ScanNet: counts / {chosen.units_per_metre:g}, 0 and 65535 = missing, camera-to-world, K of the depth camera, "
        f"colour resampled onto depth; {frames(len(found))}{lost(len(files) - len(found))}"
    )
    return Dataset.of_files((each[0] for each in found), load, sentence)


def _colour(path: Path, stem: str, camera: Pinhole) -> Image | None:
    """The colour image resampled for the depth camera: it has its own size and K."""
    photo = next((found for name in COLOUR_FOLDERS if (found := beside(path / name, stem)) is not None), None)
    own = path / "intrinsic" / "intrinsic_color.txt"
    if photo is None or not own.is_file():
        return read_photo(photo, camera.shape)
    shape = photo_size(photo)
    image = read_photo(photo, shape)
    return None if image is None else seen_by(image, pinhole(read_matrix(own, (4, 4), (3, 3)), shape, own), camera)
