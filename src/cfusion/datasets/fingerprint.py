"""Hashes of a result's inputs and outputs, by which a later run detects changes."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from cfusion.geometry import View


def view_fingerprint(view: View) -> bytes:
    """Hash of everything that fusion reads of a view: maps, camera and pose, whatever their files."""
    digest = sha256()
    for array in (view.depth, view.image, view.confidence, view.pose.rotation, view.pose.translation):
        kind = "-" if array is None else f"{array.shape}{array.dtype.str}"
        digest.update(f"{kind};".encode())
        if array is not None:
            digest.update(np.ascontiguousarray(array).data)
    digest.update(f"{type(view.camera).__name__}{asdict(view.camera)}".encode())
    return digest.digest()


def file_fingerprint(file: Path) -> dict[str, object]:
    """Size and hash of a file."""
    data = file.read_bytes()
    return {"bytes": len(data), "sha256": sha256(data).hexdigest()}


@dataclass(frozen=True)
class Contents:
    """Contents of a data set's frames: a hash per frame, and the largest depth."""

    hashes: tuple[bytes, ...]
    farthest: float  # 0 if no depth is known

    def of(self, frames: Sequence[int]) -> str:
        """One hash of some frames, in the given order."""
        return sha256(b"".join(self.hashes[frame] for frame in frames)).hexdigest()


def contents(views: Sequence[View], progress: Callable[[float], None] = lambda done: None) -> Contents:
    """Read every frame once; `progress` is called with the share that was read."""
    hashes, farthest = [], 0.0
    for number, view in enumerate(views):
        hashes.append(view_fingerprint(view))
        with np.errstate(all="ignore"):
            farthest = max(farthest, float(np.nanmax(view.depth, initial=0.0)))
        progress((number + 1) / len(views))
    return Contents(tuple(hashes), farthest)
