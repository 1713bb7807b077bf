"""`python -m fuzz --seconds 600`: damaged data sets, odd calls and commands; exit code 1 if one of them got through.

`python -m fuzz --grow` looks for damage that reaches lines no other does, and keeps it in fuzz/corpus.
"""

import argparse
import sys
import time

from fuzz.grow import grow
from fuzz.run import fuzz

EVERY = 60.0  # seconds between two lines of progress
SHOWN = 50

parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
parser.add_argument("--seconds", type=float, default=600.0)
parser.add_argument("--seed", type=int, default=0, help="number of the first case; every case is all in its number")
parser.add_argument("--cases", type=int, default=1 << 60, help="at most")
parser.add_argument("--grow", action="store_true", help="guided by coverage: write fuzz/corpus anew")
arguments = parser.parse_args()
if arguments.grow:
    grow(arguments.seconds, arguments.seed)
    sys.exit(0)
count, told, began, failures = 0, time.monotonic(), time.monotonic(), []
for count, found in fuzz(arguments.seconds, arguments.seed, arguments.cases):
    for failure in found[:SHOWN]:
        print(f"case {failure.seed}: {failure.what}", flush=True)
    failures += found
    if time.monotonic() - told > EVERY:
        told = time.monotonic()
        print(f"{count} cases, {count / (told - began):.0f} a second, {len(failures)} failures", flush=True)
print(f"{count} cases from {arguments.seed} on, {len(failures)} failures")
sys.exit(bool(failures))
