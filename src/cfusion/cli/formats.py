"""List the formats that can be read, how they are recognised, their options, and what can be written."""

import argparse

from cfusion.cli import talk

NAME, SUMMARY = "formats", "list the formats of data sets"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The amount of output."""
    parser.add_argument("--options", action="store_true", help="with the options of each, for --option NAME=VALUE")
    talk.add_arguments(
        parser, quiet="names only", verbose="the same as --options", json="print JSON instead of a table"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the table."""
    from cfusion.datasets import READERS
    from cfusion.datasets.options import described
    from cfusion.datasets.write_back import LAYOUTS
    from cfusion.datasets.write_views import WRITERS

    if arguments.json:
        talk.print_json(
            {
                name: {
                    "recognised by": reader.summary,
                    "written": reader.writes,
                    "options": list(described(reader.options)),
                    "written back by scene": LAYOUTS[name].new if name in LAYOUTS else None,
                }
                for name, reader in READERS.items()
            }
        )
        return 0
    if arguments.quiet:
        print("\n".join(READERS))
        return 0
    width = max(len(name) for name in READERS)
    widest = max(len(reader.summary) for reader in READERS.values())
    print(f"{'format':<{width}}  {'recognised by':<{widest}}  written")
    for name, reader in READERS.items():
        print(f"{name:<{width}}  {reader.summary:<{widest}}  {reader.writes or '-'}")
        if name in LAYOUTS:
            print(f"{'':<{width}}    `cfusion scene` writes back: {LAYOUTS[name].new}; other files stay the same")
        for option in described(reader.options) if arguments.options or arguments.verbose else ():
            print(f"{'':<{width}}    {option}")
    print(f"\n`cfusion scene --write FORMAT` converts any of them to: {', '.join(WRITERS)}")
    print("conventions of each: docs/formats.md; to test a data set: cfusion check DATA")
    return 0
