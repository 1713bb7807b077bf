"""Match a rectified stereo pair: disparity of the left image and a confidence for every pixel."""

import argparse
from pathlib import Path

NAME, SUMMARY = "stereo", "match a rectified stereo pair into a disparity map"
FORMATS = ("npy", "pfm", "png")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """LEFT RIGHT -o OUT, and how to match."""
    add = parser.add_argument
    add("left", type=Path, metavar="LEFT", help="left image, .png or .jpg, rectified")
    add("right", type=Path, metavar="RIGHT", help="right image, likewise")
    add("-o", "--output", type=Path, required=True, metavar="OUT", help="folder for disparity and confidence")
    add("--matcher", default="sgm", help="sgm (OpenCV, 8 paths) or elas (default: sgm)")
    add("--disparities", type=int, default=128, metavar="N", help="search 0 to N - 1 pixels (default: 128)")
    add("--write", default="npy,png", metavar="FORMATS", help="npy, pfm, png (256 per pixel, 0 = unknown)")
    add("--quiet", action="store_true", help="no summary")


def run(arguments: argparse.Namespace) -> int:
    """Check the way out first, then read, match, write."""
    import numpy as np

    from cfusion.cli import settings
    from cfusion.datasets.readers.kitti import write_disparity
    from cfusion.errors import FileError, InputError
    from cfusion.frontends.stereo import known_matcher, match
    from cfusion.io.atomic import filling, require_writable
    from cfusion.io.codecs.npy import write_npy
    from cfusion.io.codecs.pfm import write_pfm
    from cfusion.io.codecs.photo import photo_size, read_photo
    from cfusion.io.codecs.png import Encoding, write_png

    formats = settings.names(arguments.write)
    for name in formats:
        if name not in FORMATS:
            raise InputError(f"disparities cannot be written as {name!r}; known are: {', '.join(FORMATS)}")
    require_writable(arguments.output)
    known_matcher(arguments.matcher)  # a name that is not known is said before anything is read
    images = []
    for path in (arguments.left, arguments.right):
        if not path.is_file():
            raise FileError(f"{path} does not exist; give the two images of a rectified pair")
        image = read_photo(path, photo_size(path))
        assert image is not None
        images.append(image)
    found = match(images[0], images[1], arguments.matcher, arguments.disparities)
    known = np.isfinite(found.disparity)
    with filling(arguments.output) as draft:
        if "npy" in formats:
            write_npy(draft / "disparity.npy", found.disparity)
            write_npy(draft / "confidence.npy", found.confidence)
        if "pfm" in formats:
            write_pfm(draft / "disparity.pfm", found.disparity)
            write_pfm(draft / "confidence.pfm", found.confidence)
        if "png" in formats:
            write_disparity(draft / "disparity.png", found.disparity)
            write_png(draft / "confidence.png", np.where(known, found.confidence, np.nan), Encoding(scale=1 / 65535))
    if not arguments.quiet:
        print(f"{100 * known.mean():.1f} % of {known.shape[1]} x {known.shape[0]} pixels matched")
        print(f"written to {arguments.output}")
    return 0
