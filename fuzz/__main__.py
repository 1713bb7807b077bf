"""`python -m fuzz --seconds 600`: damaged data sets and odd calls; exit code 1 if one of them got through."""

import argparse
import sys

from fuzz.run import fuzz

parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
parser.add_argument("--seconds", type=float, default=600.0)
parser.add_argument("--seed", type=int, default=0, help="number of the first case; every case is all in its number")
parser.add_argument("--cases", type=int, default=1 << 60, help="at most")
arguments = parser.parse_args()
count, failures = fuzz(arguments.seconds, arguments.seed, arguments.cases)
for failure in failures[:50]:
    print(f"case {failure.seed}: {failure.what}")
print(f"{count} cases from {arguments.seed} on, {len(failures)} failures")
sys.exit(bool(failures))
