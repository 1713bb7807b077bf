"""Say what is installed, which backends can run, and with how many threads."""

import argparse
import os

NAME, SUMMARY = "info", "versions, backends, threads and extras"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes one."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    import json

    from cfusion import kernels
    from cfusion.cli.extras import EXTRAS, for_this_place, missing
    from cfusion.io.versions import versions

    threads = int(os.environ.get("NUMBA_NUM_THREADS") or len(os.sched_getaffinity(0)))
    backends = list(kernels.available())
    lacking = {name: missing(name) for name in EXTRAS}
    if arguments.json:
        print(json.dumps({"versions": versions(), "backends": backends, "threads": threads, "missing": lacking}))
        return 0
    for name, version in versions().items():
        print(f"{name:<10} {version or 'not installed'}")
    print(f"{'backends':<10} {', '.join(backends)}")
    print(f"{'threads':<10} {threads}")
    for name, packages in lacking.items():
        hint = for_this_place(f"pip install 'cfusion[{name}]'")
        print(f"extra {name:<10} " + (f"missing {', '.join(packages)}: {hint}" if packages else "installed"))
    return 0
