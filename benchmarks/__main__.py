"""Run every benchmark that needs no GPU: python -m benchmarks [name ...]."""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = ("iterations", "tiles", "scaling", "accuracy", "peers")


def main() -> None:
    chosen = sys.argv[1:] or NAMES
    for name in chosen:
        print(f"\n== {name}", flush=True)
        import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
