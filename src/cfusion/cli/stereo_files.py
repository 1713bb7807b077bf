"""The files of a matched pair."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cfusion.frontends.stereo import Matching


def write_disparities(folder: Path, found: "Matching", formats: Sequence[str], *, alone: bool) -> None:
    """Write disparity.*, and confidence.* and sigma.* (in pixels) unless these are written with a depth."""
    import numpy as np

    from cfusion.datasets.kitti_bundle import write_disparity
    from cfusion.io.atomic import filling
    from cfusion.io.codecs.npy import write_npy
    from cfusion.io.codecs.pfm import write_pfm
    from cfusion.io.codecs.png import LARGEST_COUNT, Encoding, write_png

    maps = {"disparity": found.disparity}
    if alone:
        maps |= {"confidence": found.confidence, "sigma": found.sigma}
    with filling(folder) as draft:
        for name, values in maps.items():
            if "npy" in formats:
                write_npy(draft / f"{name}.npy", values)
            if "pfm" in formats:
                write_pfm(draft / f"{name}.pfm", values)
        if "png" in formats:
            write_disparity(draft / "disparity.png", found.disparity)
        if "png" in formats and alone:
            trust = np.where(np.isfinite(found.disparity), found.confidence, np.nan)
            write_png(draft / "confidence.png", trust, Encoding(scale=1 / LARGEST_COUNT))
