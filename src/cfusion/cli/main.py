"""The command `cfusion`, and the only place where errors become one line."""

import argparse
import errno
import io
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from cfusion import __version__
from cfusion.cli import check, demo, evaluate, formats, fuse, info, methods, mosaic, reproduce, scene, stereo, view
from cfusion.cli.examples import epilog
from cfusion.cli.extras import for_this_install
from cfusion.cli.talk import shown
from cfusion.errors import CFusionError, suggestion

MISTAKE, INTERRUPTED, TERMINATED = 2, 130, 143  # exit codes
COMMANDS = (demo, fuse, scene, mosaic, stereo, view, evaluate, reproduce, check, methods, formats, info)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    parser = build_parser()
    _complete(parser)
    words = sys.argv[1:] if arguments is None else list(arguments)
    _require_command(parser, words)
    chosen = parser.parse_args(words)
    if chosen.run is None:
        parser.print_help()
        return 0
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal may lack the letters of a path; they are escaped there
        sys.stdout.reconfigure(errors="backslashreplace")
    before = signal.signal(signal.SIGTERM, _leave)
    warnings.showwarning = _show_warning
    try:
        code: int = chosen.run(chosen)
        if sys.stdout is not None:  # None if closed by the caller
            sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of a pipe has left
        _silence()
        return 1
    except (CFusionError, MemoryError, KeyboardInterrupt, OSError) as error:
        if chosen.debug:
            raise
        print(f"cfusion: {_one_line(error)}", file=sys.stderr)
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else MISTAKE
    finally:
        signal.signal(signal.SIGTERM, before)


def _one_line(error: BaseException) -> str:
    """The error as one line."""
    if isinstance(error, CFusionError):
        return for_this_install(shown(error))
    if isinstance(error, KeyboardInterrupt):
        return f"interrupted; {str(error) or 'nothing was written'}"
    if not isinstance(error, OSError):
        return "there is not enough memory; give fewer or smaller maps"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):  # standard output on a full disk
        _silence()
    about = "cannot write" if error.filename is None else f"cannot use {error.filename!r}"
    return shown(f"{about}: {error.strerror or error}")


class Parser(argparse.ArgumentParser):
    """A parser whose messages escape what was typed, so that it cannot control the terminal."""

    def error(self, message: str) -> NoReturn:
        """Print one line after the usage and exit with code 2."""
        super().error(shown(message))


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; it imports nothing heavy, so that --help is fast."""
    parser = Parser(prog="cfusion", description="Fuse depth maps into one, with confidence.")
    parser.add_argument("--version", action="version", version=f"cfusion {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.set_defaults(run=None)
    shared = Parser(add_help=False)
    shared.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        added = commands.add_parser(
            command.NAME,
            parents=[shared],
            help=command.SUMMARY,
            description=command.__doc__,
            epilog=epilog(command.NAME),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(added)
        added.set_defaults(run=command.run)
    return parser


def _complete(parser: argparse.ArgumentParser) -> None:
    """Answer shell completion, activated by `eval "$(register-python-argcomplete cfusion)"`."""
    if "_ARGCOMPLETE" not in os.environ:
        return
    try:
        from argcomplete import autocomplete
    except ImportError:
        return
    autocomplete(parser)


def _require_command(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Refuse an unknown command and suggest a similar one."""
    if "" in words:  # as a path it would mean the working directory
        parser.error("one of the arguments is empty; is a variable of the shell not set?")
    names = [command.NAME for command in COMMANDS]
    word = next((word for word in words if not word.startswith("-")), None)
    if word is None or word in names:
        return
    parser.error(f"there is no command '{shown(word[:60])}'; {suggestion(word, names)}")


def _silence() -> None:
    """Redirect stdout, so that Python does not report the broken pipe again on exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_warning(message: Warning | str, category: type[Warning], *place: object, **more: object) -> None:
    print(f"cfusion: {shown(message)}", file=sys.stderr)


def _leave(number: int, frame: FrameType | None) -> None:
    """Exit through every `finally`, so that drafts are removed."""
    sys.exit(TERMINATED)
