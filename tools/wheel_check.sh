#!/usr/bin/env bash
# Build the wheel and the sdist, install the wheel into an empty environment, run the demo and `reproduce` from there.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
place="$(mktemp -d)"
trap 'rm -rf "$place"' EXIT
python="${PYTHON:-python3}"
"$python" -m venv "$place/env"
"$place/env/bin/python" -m pip install --quiet --disable-pip-version-check build
"$place/env/bin/python" -m build --outdir "$place/dist" "$root" >/dev/null
# The wheel is built from the sdist. With NumPy alone, as `uvx cfusion demo` and `pipx run cfusion demo` install it:
"$python" -m venv "$place/bare"
"$place/bare/bin/python" -m pip install --quiet --disable-pip-version-check "$place"/dist/*.whl
cd "$place"
bare/bin/cfusion demo --size 48x36 --methods median -o bare-out
test -s bare-out/report.html
"$place/env/bin/python" -m pip install --quiet --disable-pip-version-check "$(echo "$place"/dist/*.whl)[cpu,synthetic,report]"
env/bin/cfusion demo --size 64x48 --methods auto,median -o demo-out
test -s demo-out/report.html
env/bin/cfusion reproduce noise --quick --jobs 1 -o reproduce-out --run-only
env/bin/cfusion info
echo 'the wheel works from an empty environment'
