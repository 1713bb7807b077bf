"""Allows `python -m cfusion.cli`."""

import sys

from cfusion.cli.main import main

sys.exit(main())
