"""The output of commands: how much of it (--quiet, --verbose, --json), JSON, and text for a terminal."""

import argparse

LONGEST = 600  # characters of a message
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


def shown(text: object) -> str:
    """One line with control characters as escapes (`\\x1b`); a long text loses its middle."""
    line = "".join(letter if letter.isprintable() else _escaped(letter) for letter in str(text))
    if len(line) <= LONGEST:
        return line
    return f"{line[: LONGEST // 2]} ... {line[-LONGEST // 2 :]}"


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape", "backslashreplace").decode("ascii")
