"""List the methods, by name, with one line on each."""

import argparse

NAME, SUMMARY = "methods", "list the methods"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes one."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """Print the table."""
    import json

    from cfusion.methods import METHODS

    if arguments.json:
        print(json.dumps({name: method.summary for name, method in METHODS.items()}))
        return 0
    width = max(len(name) for name in METHODS)
    for name, method in METHODS.items():
        print(f"{name:<{width}}  {method.summary}")
    return 0
