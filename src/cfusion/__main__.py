"""Allows `python -m cfusion`, as the command `cfusion`."""

import sys

from cfusion.cli.main import main

sys.exit(main())
