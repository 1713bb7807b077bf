"""The command `cfusion`, and the one place where our errors become one line."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from cfusion import __version__
from cfusion.cli import check, demo, evaluate, formats, fuse, info, methods, mosaic, reproduce, scene, stereo
from cfusion.errors import CFusionError

MISTAKE, INTERRUPTED, TERMINATED = 2, 130, 143  # exit codes
COMMANDS = (demo, fuse, scene, mosaic, stereo, evaluate, reproduce, check, methods, formats, info)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    parser = build_parser()
    chosen = parser.parse_args(arguments)
    if chosen.run is None:
        parser.print_help()
        return 0
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        code: int = chosen.run(chosen)
        sys.stdout.flush()
        return code
    except CFusionError as error:
        if chosen.debug:
            raise
        print(f"cfusion: {error}", file=sys.stderr)
        return MISTAKE
    except KeyboardInterrupt as interruption:
        if chosen.debug:
            raise
        print(f"cfusion: interrupted; {str(interruption) or 'nothing was written'}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has left; Python would complain again on exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    finally:
        signal.signal(signal.SIGTERM, before)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; it imports nothing heavy, so that --help is quick."""
    parser = argparse.ArgumentParser(prog="cfusion", description="Fuse depth maps into one, with confidence.")
    parser.add_argument("--version", action="version", version=f"cfusion {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.set_defaults(run=None)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        added = commands.add_parser(command.NAME, parents=[shared], help=command.SUMMARY, description=command.__doc__)
        command.add_arguments(added)
        added.set_defaults(run=command.run)
    return parser


def _leave(number: int, frame: FrameType | None) -> None:
    """Leave through every `finally`, so that drafts are removed on the way out."""
    sys.exit(TERMINATED)
