"""The amount of output of a command: --quiet, --verbose, --json, the same for all that report."""

import argparse

QUIET, VERBOSE, JSON = "no progress, no summary", "more about how it went", "print the summary as JSON"


def add_arguments(
    parser: argparse.ArgumentParser, *, quiet: str = QUIET, verbose: str = VERBOSE, json: str = JSON
) -> None:
    """Add the three flags, with their meaning for this command."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quiet", action="store_true", help=quiet)
    how.add_argument("--verbose", action="store_true", help=verbose)
    parser.add_argument("--json", action="store_true", help=json)


def print_json(content: object) -> None:
    """Print one JSON object on a line, for other programs."""
    import json

    from cfusion.io.to_json import to_json

    print(json.dumps(to_json(content)))
