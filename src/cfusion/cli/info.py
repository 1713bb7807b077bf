"""Say what is installed, which backends can run, and with how many threads."""

import argparse
import os
from importlib import metadata

NAME, SUMMARY = "info", "versions, backends, threads and extras"
EXTRAS = {
    "cpu": ("numba",),
    "synthetic": ("trimesh", "embreex"),
    "data": ("pillow", "openexr", "rasterio", "scipy"),
    "report": ("matplotlib",),
    "cli": ("rich",),
    "cuda": ("cupy-cuda12x",),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes none."""


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    from cfusion import kernels
    from cfusion.io.versions import versions

    for name, version in versions().items():
        print(f"{name:<10} {version or 'not installed'}")
    print(f"{'backends':<10} {', '.join(kernels.available())}")
    print(f"{'threads':<10} {os.environ.get('NUMBA_NUM_THREADS') or len(os.sched_getaffinity(0))}")
    for name, packages in EXTRAS.items():
        missing = [package for package in packages if not _installed(package)]
        state = "installed" if not missing else f"missing {', '.join(missing)}: pip install 'cfusion[{name}]'"
        print(f"extra {name:<10} {state}")
    return 0


def _installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True
