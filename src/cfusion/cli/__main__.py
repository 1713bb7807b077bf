"""So that `python -m cfusion.cli` is the command too."""

import sys

from cfusion.cli.main import main

sys.exit(main())
