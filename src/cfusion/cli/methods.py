"""List the methods, by name, with one line on each."""

import argparse

NAME, SUMMARY = "methods", "list the methods"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes none."""


def run(arguments: argparse.Namespace) -> int:
    """Print the table."""
    from cfusion.methods import METHODS

    width = max(len(name) for name in METHODS)
    for name, method in METHODS.items():
        print(f"{name:<{width}}  {method.summary}")
    return 0
