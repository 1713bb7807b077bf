"""The optional extras of the package, and how to install one, from a clone as well as from an index."""

from pathlib import Path

# A test compares this with pyproject.toml.
EXTRAS = {
    "cpu": ("numba",),
    "synthetic": ("trimesh", "embreex"),
    "data": ("pillow", "OpenEXR", "rasterio"),
    "frontends": ("opencv-python-headless",),
    "mccnn": ("mccnn", "onnxruntime"),
    "report": ("matplotlib",),
    "cli": ("rich", "argcomplete"),
    "mesh": ("scikit-image", "trimesh"),
    "cluster": ("distributed",),
    "view": ("viser",),
    "rerun": ("rerun-sdk",),
    "xarray": ("xarray",),
    "cuda": ("cupy-cuda12x",),
}
NAMED = "'cfusion["  # how messages refer to an extra


def for_this_install(message: str) -> str:
    """A message about an extra, with a command that works here: a clone is installed from its own folder."""
    clone = Path(__file__).resolve().parents[3]
    return message.replace(NAMED, f"'{clone}[") if (clone / "pyproject.toml").is_file() else message


def missing(extra: str) -> list[str]:
    """The packages of an extra that are not installed."""
    from cfusion.io.versions import version_of  # late: importlib.metadata takes longer than a whole --help

    return [package for package in EXTRAS[extra] if version_of(package) is None]
