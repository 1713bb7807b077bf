"""Print what is installed, which backends can run, and with how many threads."""

import argparse
import os
from pathlib import Path

from cfusion.cli import talk

NAME, SUMMARY = "info", "versions, backends, threads and extras"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The amount of output."""
    talk.add_arguments(
        parser,
        quiet="what can run here only, no versions, no extras",
        verbose="also the folders of the package and its caches",
        json="print JSON instead of a table",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the information."""
    from cfusion import kernels
    from cfusion.cli import parts
    from cfusion.cli.extras import EXTRAS, for_this_install, missing
    from cfusion.io.versions import versions

    threads = parts.threads()
    backends = list(kernels.available())
    lacking = {name: missing(name) for name in EXTRAS}
    if arguments.json:
        talk.print_json({"versions": versions(), "backends": backends, "threads": threads, "missing": lacking})
        return 0
    for name, version in () if arguments.quiet else versions().items():
        print(f"{name:<10} {version or 'not installed'}")
    print(f"{'backends':<10} {', '.join(backends)}")
    print(f"{'threads':<10} {threads}")
    if arguments.verbose:
        print(f"{'package':<10} {Path(__file__).parents[1]}")
        print(f"{'kernels':<10} compiled once, kept in {os.environ.get('NUMBA_CACHE_DIR') or '__pycache__'}")
    for name, packages in () if arguments.quiet else lacking.items():
        hint = for_this_install(f"pip install 'cfusion[{name}]'")
        print(f"extra {name:<10} " + (f"missing {', '.join(packages)}: {hint}" if packages else "installed"))
    return 0
