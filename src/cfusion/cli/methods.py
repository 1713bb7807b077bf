"""List the methods by name, with a summary of each."""

import argparse

from cfusion.cli import talk

NAME, SUMMARY = "methods", "list the methods"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The amount of output."""
    talk.add_arguments(
        parser, quiet="names only", verbose="with the parameters of each", json="print JSON instead of a table"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the table."""
    from cfusion.methods import METHODS

    if arguments.json:
        talk.print_json({name: method.summary for name, method in METHODS.items()})
        return 0
    if arguments.quiet:
        print("\n".join(METHODS))
        return 0
    width = max(len(name) for name in METHODS)
    for name, method in METHODS.items():
        print(f"{name:<{width}}  {method.summary}")
        if arguments.verbose:
            given = ", ".join(f"{parameter} = {value}" for parameter, value in method.parameters().items())
            print(f"{'':<{width}}    {given or 'no parameters'}")
    return 0
